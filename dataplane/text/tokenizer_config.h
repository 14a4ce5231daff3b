#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::text {

// The fields of tokenizer_config.json that are used.
struct TokenizerConfig {
  // bos_token, eos_token, pad_token, ...: every *_token that is a string or an added-token object.
  std::map<std::string, std::string> special_tokens;
  // By name; a single template is "default".
  std::map<std::string, std::string> chat_templates;
};

// Errors use `name` for the text. InvalidArgument: not JSON, a field of the wrong type.
Result<TokenizerConfig> ParseTokenizerConfig(std::string_view json, std::string_view name);

}  // namespace janus::text
