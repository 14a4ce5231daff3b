// generation_config.json from a checkpoint: for any content the defaults are within their bounds.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "common/model/generation_defaults.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kVocab = 512;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = janus::ParseGenerationConfig(text, kVocab);
  if (!parsed.ok()) return 0;
  for (const int eos : parsed->eos_tokens) JANUS_CHECK(eos >= 0 && eos < kVocab, eos);
  if (parsed->top_k) JANUS_CHECK(*parsed->top_k >= 0);
  if (parsed->top_p) JANUS_CHECK(*parsed->top_p >= 0 && *parsed->top_p <= 1);
  if (parsed->temperature) JANUS_CHECK(*parsed->temperature >= 0 && *parsed->temperature <= 100);
  return 0;
}
