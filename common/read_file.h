#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus {

inline constexpr int64_t kMostTextFileBytes = int64_t{256} << 20;

// A whole regular file (files of /proc among them) of at most `most_bytes`. Every message begins
// with the path. NotFound: there is none; PermissionDenied; InvalidArgument: a folder, a device,
// too large, a git-LFS pointer; Unavailable: the system's reason, as for a disk that fails.
Result<std::string> ReadFile(const std::string& path, int64_t most_bytes = kMostTextFileBytes);

// The same, of pipes too, as a shell's <(command) gives: waits for the writer's end.
Result<std::string> ReadFileOrPipe(const std::string& path, int64_t most_bytes);

// Whether a file that begins so is what git leaves where the file itself was not fetched.
bool IsGitLfsPointer(std::string_view beginning);
// InvalidArgument that says so of `path`, and what to do.
Status GitLfsPointer(const std::string& path);

}  // namespace janus
