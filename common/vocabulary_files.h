#pragma once

#include <string_view>

namespace janus {

// The file with the tokens of a checkpoint folder: one of these, the first that exists. Kimi-K2
// publishes the second, in the format of tiktoken, with special tokens in tokenizer_config.json.
inline constexpr std::string_view kTokenizerJson = "tokenizer.json";
inline constexpr std::string_view kTiktokenModel = "tiktoken.model";

}  // namespace janus
