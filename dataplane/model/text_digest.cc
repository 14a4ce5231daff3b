#include "dataplane/model/text_digest.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "common/fingerprint.h"
#include "common/read_file.h"
#include "common/vocabulary_files.h"

namespace janus::dataplane {
namespace {

// Nothing: the file does not exist.
Result<std::optional<std::string>> ReadIfThere(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::optional<std::string>();
  JANUS_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  return std::optional<std::string>(std::move(text));
}

}  // namespace

Result<std::string> DigestText(const std::string& folder) {
  constexpr std::array<std::string_view, 3> kFiles = {
      "tokenizer_config.json", "chat_template.jinja", "generation_config.json"};
  Fingerprint digest;
  JANUS_ASSIGN_OR_RETURN(const std::optional<std::string> vocabulary,
                         ReadIfThere(folder + "/" + std::string(VocabularyFileOf(folder))));
  if (!vocabulary) return std::string();
  digest.Mix(uint64_t{1}).Mix(uint64_t{vocabulary->size()}).Mix(*vocabulary);
  for (const std::string_view name : kFiles) {
    JANUS_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                           ReadIfThere(folder + "/" + std::string(name)));
    digest.Mix(uint64_t{text.has_value()});
    if (text) digest.Mix(uint64_t{text->size()}).Mix(*text);
  }
  return digest.Hex();
}

}  // namespace janus::dataplane
