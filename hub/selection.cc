#include "hub/selection.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "common/read_file.h"
#include "common/vocabulary_files.h"
#include "hub/names.h"

namespace janus::hub {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kWeightsEnding = ".safetensors";

constexpr std::array<std::string_view, 12> kSmallFiles = {
    kConfigFile,
    "generation_config.json",
    kIndexFile,
    kTokenizerJson,
    kTiktokenModel,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
};

bool Exists(const std::string& folder, std::string_view name) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder + "/" + std::string(name), error);
}

// The formats of weights that a listing has, for the message that it has no safetensors.
std::string OtherWeights(const Listing& listing) {
  constexpr std::array<std::string_view, 6> kEndings = {".bin",  ".pt",   ".pth",
                                                        ".gguf", ".ckpt", ".h5"};
  std::set<std::string> found;
  for (const RemoteFile& file : listing.files) {
    for (const std::string_view ending : kEndings) {
      if (file.name.ends_with(ending)) found.insert(std::string(ending));
    }
  }
  std::string out;
  for (const std::string& ending : found) out += (out.empty() ? "" : ", ") + ("*" + ending);
  return out.empty() ? "no weights" : "only " + out;
}

}  // namespace

bool IsSmallFile(std::string_view name) {
  return std::ranges::find(kSmallFiles, name) != kSmallFiles.end();
}

Result<std::vector<RemoteFile>> SmallFilesOf(const Listing& listing) {
  if (listing.Find(kConfigFile) == nullptr) {
    return NotFound("has no config.json at its top; want a model in the format of transformers");
  }
  if (listing.Find(kIndexFile) == nullptr && listing.Find(kOneWeightsFile) == nullptr) {
    return NotFound("has " + OtherWeights(listing) +
                    "; only safetensors are served (model.safetensors, or shards with " +
                    std::string(kIndexFile) + "); choose a model or a revision that has them");
  }
  std::vector<RemoteFile> out;
  for (const RemoteFile& file : listing.files) {
    if (!IsSmallFile(file.name)) continue;
    if (file.size > kMaxSmallFileBytes) {
      return InvalidArgument(file.name + " has " + std::to_string(file.size) +
                             " bytes, more than any real one");
    }
    out.push_back(file);
  }
  return out;
}

Result<std::vector<std::string>> ParseShardIndex(std::string_view json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || map == root.end() || !map->is_object()) {
    return InvalidArgument("is no index: want an object with 'weight_map'");
  }
  std::set<std::string> names;
  for (const Json& value : *map) {
    std::string name = value.is_string() ? value.get<std::string>() : "";
    if (!IsPlainFileName(name) || !name.ends_with(kWeightsEnding)) {
      return InvalidArgument("names a file of weights that is no plain name with " +
                             std::string(kWeightsEnding));
    }
    names.insert(std::move(name));
    if (names.size() > kMaxShards) return InvalidArgument("names too many files");
  }
  if (names.empty()) return InvalidArgument("names no file of weights");
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::vector<std::string>> ReadShardNames(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kIndexFile);
  Result<std::string> text = ReadFile(path, kMaxSmallFileBytes);
  if (text.status().code() == StatusCode::kNotFound) {
    return std::vector<std::string>{std::string(kOneWeightsFile)};
  }
  JANUS_RETURN_IF_ERROR(text.status());
  Result<std::vector<std::string>> names = ParseShardIndex(*text);
  if (!names.ok()) return std::move(names).status().Annotate(path);
  return names;
}

std::vector<std::string> MissingFiles(const std::string& folder) {
  std::vector<std::string> wanted{std::string(kConfigFile), std::string(VocabularyFileOf(folder))};
  Result<std::vector<std::string>> shards = ReadShardNames(folder);
  if (shards.ok()) {
    wanted.insert(wanted.end(), shards->begin(), shards->end());
  } else {
    wanted.emplace_back(kIndexFile);
  }
  std::erase_if(wanted, [&](const std::string& name) {
    return Exists(folder, name) && (shards.ok() || name != kIndexFile);
  });
  return wanted;
}

}  // namespace janus::hub
