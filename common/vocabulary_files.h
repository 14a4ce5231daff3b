#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace janus {

// The file with the tokens of a checkpoint folder: one of these, the first that exists. Kimi-K2
// publishes the second, in the format of tiktoken, with special tokens in tokenizer_config.json.
inline constexpr std::string_view kTokenizerJson = "tokenizer.json";
inline constexpr std::string_view kTiktokenModel = "tiktoken.model";

// Which of them `folder` has; kTokenizerJson if it has neither.
inline std::string_view VocabularyFileOf(const std::string& folder) {
  const auto has = [&](std::string_view name) {
    std::error_code error;
    return std::filesystem::exists(folder + "/" + std::string(name), error);
  };
  return !has(kTokenizerJson) && has(kTiktokenModel) ? kTiktokenModel : kTokenizerJson;
}

}  // namespace janus
