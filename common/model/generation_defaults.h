#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus {

// A checkpoint's defaults for generation; every field may be absent.
struct GenerationDefaults {
  std::vector<int> eos_tokens;  // each ends an answer; ascending, each once
  std::optional<int> bos_token;
  std::optional<bool> do_sample;
  std::optional<double> temperature;  // 0..100
  std::optional<int> top_k;           // 0: all
  std::optional<double> top_p;        // 0..1
  // Ignored fields with unusable values, each as "eos_token_id is 512: ...". Published checkpoints
  // have such fields, and are served without harm.
  std::vector<std::string> left_out;
};

// Parses generation_config.json; ids that are not below `vocab` are ignored. InvalidArgument: it is
// not a JSON object.
Result<GenerationDefaults> ParseGenerationConfig(std::string_view json, int vocab);

// Reads `<model_dir>/generation_config.json`, if it exists, and config.json, with its text_config.
// End tokens of all count, because published checkpoints name some in each. Reads two files.
Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir, int vocab);

// Adds an end token; no effect if it is known.
void AddEos(int token, GenerationDefaults* defaults);

}  // namespace janus
