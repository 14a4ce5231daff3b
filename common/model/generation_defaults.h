#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus {

// What a checkpoint says of generation; every field may be absent.
struct GenerationDefaults {
  std::vector<int> eos_tokens;  // each ends an answer; ascending, each once
  std::optional<int> bos_token;
  std::optional<bool> do_sample;
  std::optional<double> temperature;  // 0..100
  std::optional<int> top_k;           // 0: all
  std::optional<double> top_p;        // 0..1
  // Fields whose values mean nothing here and were left out, each as "eos_token_id is 512: ...":
  // published checkpoints have such, and are served without harm.
  std::vector<std::string> left_out;
};

// generation_config.json's text; ids must be below `vocab` or are left out. InvalidArgument: it is
// not a JSON object.
Result<GenerationDefaults> ParseGenerationConfig(std::string_view json, int vocab);

// Of `<model_dir>/generation_config.json`, if there is one, and config.json, whose ends are ends
// too: published checkpoints name some in the one and some in the other. Reads two files.
Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir, int vocab);

// One more end. Nothing happens if it is known.
void AddEos(int token, GenerationDefaults* defaults);

}  // namespace janus
