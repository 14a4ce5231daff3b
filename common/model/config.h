#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/description.h"
#include "common/status.h"

namespace janus {

// config.json's text as a description, for every family we know: as published on the hub and as
// transformers 5 writes it. InvalidArgument names the field, its value and what is wanted: an
// unknown architecture (with those supported), quantization_config, another rope than the plain
// one, sizes that cannot be. A checkpoint that does not say its dtype is taken as Float32, which
// holds every value of the others.
Result<ModelDescription> ParseModelConfig(std::string_view json);

// The text of `<model_dir>/config.json`. NotFound: the folder or the file is missing.
Result<std::string> ReadModelConfig(const std::string& model_dir);

// ParseModelConfig of `<model_dir>/config.json`; messages begin with the file.
// NotFound: the folder or the file is missing. Reads one file.
Result<ModelDescription> LoadModelConfig(const std::string& model_dir);

// What the checkpoint says of generation; every field may be absent.
struct GenerationDefaults {
  std::vector<int> eos_tokens;  // each ends an answer
  std::optional<int> bos_token;
  std::optional<bool> do_sample;
  std::optional<double> temperature;  // 0..100
  std::optional<int> top_k;           // 0: all
  std::optional<double> top_p;        // 0..1
};

// generation_config.json's text. InvalidArgument names the field; ids must be below `vocab`.
Result<GenerationDefaults> ParseGenerationConfig(std::string_view json, int vocab);

// `<model_dir>/generation_config.json` if there is one; eos and bos that it does not give come from
// config.json. Reads two files.
Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir, int vocab);

}  // namespace janus
