#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus {

// A digest of a checkpoint: its config.json, and for every safetensors file its length, its header
// (names, types, shapes) and 64 bytes at each of 64 places spread over its data. So members with
// different checkpoints, even a fine-tune of all weights, notice that before they serve. It does
// not prove that all bytes are equal: a change of a few tensors may escape it. Reads some kilobytes
// per file and maps nothing. NotFound, Unavailable: as for any file, with its path.
Result<uint64_t> DigestCheckpoint(const std::string& folder, const std::string& config_text);

// The same for a snapshot of `commit` in a hub's cache, whose files were compared with the commit's
// digests when they were fetched. It depends on config.json and the commit alone, so workers with
// different files of weights agree. Empty `commit`: DigestCheckpoint.
Result<uint64_t> DigestModel(const std::string& folder, const std::string& config_text,
                             const std::string& commit);

}  // namespace janus
