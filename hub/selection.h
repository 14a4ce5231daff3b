#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "hub/listing.h"

namespace janus::hub {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";
inline constexpr std::string_view kOneWeightsFile = "model.safetensors";
inline constexpr size_t kMaxShards = 10'000;
// Of one file other than weights.
inline constexpr int64_t kMaxSmallFileBytes = int64_t{256} << 20;

// Whether a server reads this file besides the weights: configuration, tokenizer, chat template,
// the weights' index. There is no program and no pickle among them.
bool IsSmallFile(std::string_view name);

// The small files of a listing. NotFound: it has no config.json, or no weights in safetensors; the
// message names what it has instead. InvalidArgument: a file is too large to be one of them.
Result<std::vector<RemoteFile>> SmallFilesOf(const Listing& listing);

// The files that the index names for its tensors, sorted, each once. InvalidArgument: no index, a
// name that is not plain or does not end with .safetensors, or too many. Pure.
Result<std::vector<std::string>> ParseShardIndex(std::string_view json);

// The weights of a checkpoint's folder, which holds the small files: those that its index names,
// otherwise model.safetensors. Messages begin with the file. Reads one file.
Result<std::vector<std::string>> ReadShardNames(const std::string& folder);

// What a folder lacks to be served, by name: of config.json, a vocabulary and all weights. Empty:
// it is complete. A broken index counts as missing.
std::vector<std::string> MissingFiles(const std::string& folder);

}  // namespace janus::hub
