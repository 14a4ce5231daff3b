#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus {

// A digest of a checkpoint: its config.json, and of every safetensors file its length, its header
// (names, types, shapes) and 64 bytes at each of 64 places spread over its data. So two members
// with different checkpoints, a fine-tune of all weights included, tell before they serve; it is no
// proof that every byte is equal, and a change of a few tensors may escape it. Reads some kilobytes
// per file and maps nothing. NotFound, Unavailable: as for any file, with its path.
Result<uint64_t> DigestCheckpoint(const std::string& folder, const std::string& config_text);

}  // namespace janus
