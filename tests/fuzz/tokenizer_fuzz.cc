// tokenizer.json: one that loads encodes and decodes without ids beyond its limit.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "dataplane/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = janus::text::Tokenizer::FromJson(json, "fuzz.json");
  if (!tokenizer.ok()) return 0;
  for (const std::string_view text : {"", "Hello, world. 12 34", "\xc3\xa4\xf0\x9f\x98\x80 <s>"}) {
    const auto ids = (*tokenizer)->Encode(text, true);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) JANUS_CHECK(id >= 0 && id < (*tokenizer)->id_limit(), id);
    (void)(*tokenizer)->Decode(*ids, false);
  }
  return 0;
}
