// config.json and generation_config.json: an accepted description has possible sizes.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "common/model/config.h"
#include "common/model/generation_defaults.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const janus::Result<janus::ModelDescription> model = janus::ParseModelConfig(json);
  if (model.ok()) {
    JANUS_CHECK(model->vocab > 0 && model->hidden > 0 && model->layers > 0);
    JANUS_CHECK(model->moe.top_k >= 1 && model->moe.top_k <= model->moe.experts);
  }
  const auto defaults = janus::ParseGenerationConfig(json, 1000);
  if (defaults.ok()) {
    for (const int token : defaults->eos_tokens) JANUS_CHECK(token >= 0 && token < 1000, token);
  }
  return 0;
}
