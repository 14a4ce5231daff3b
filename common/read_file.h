#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus {

inline constexpr int64_t kMostTextFileBytes = int64_t{256} << 20;

// Reads a whole regular file (including files of /proc) of at most `most_bytes`. Every message
// begins with the path. NotFound: the file does not exist. PermissionDenied. InvalidArgument: a
// folder, a device, too large, a git-LFS pointer. Unavailable: the system's reason, such as a disk
// error.
Result<std::string> ReadFile(const std::string& path, int64_t most_bytes = kMostTextFileBytes);

// The same, but also reads pipes, such as a shell's <(command): waits until the writer closes.
Result<std::string> ReadFileOrPipe(const std::string& path, int64_t most_bytes);

// Whether a file with this beginning is a git-LFS pointer, that is, the real file was not fetched.
bool IsGitLfsPointer(std::string_view beginning);
// An InvalidArgument that reports this for `path`, and tells what to do.
Status GitLfsPointer(const std::string& path);

}  // namespace janus
