#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus {

inline constexpr int64_t kMostTextFileBytes = int64_t{256} << 20;

// A whole regular file (files of /proc among them) of at most `most_bytes`. Every message begins
// with the path. NotFound: there is none; PermissionDenied; InvalidArgument: a folder, a device,
// too large; Unavailable: the system's reason, as for a disk that fails.
Result<std::string> ReadFile(const std::string& path, int64_t most_bytes = kMostTextFileBytes);

// The same, of pipes too, as a shell's <(command) gives: waits for the writer's end.
Result<std::string> ReadFileOrPipe(const std::string& path, int64_t most_bytes);

}  // namespace janus
