#include "common/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/fd.h"

namespace janus {
namespace {

Status SystemError(const std::string& path, int error) {
  std::string message = path + ": " + std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) return NotFound(std::move(message));
  if (error == EACCES || error == EPERM) return PermissionDenied(std::move(message));
  return Unavailable(std::move(message));
}

std::string SizeText(int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + " MiB";
  return std::to_string(bytes) + " bytes";
}

Result<std::string> Read(const std::string& path, int64_t most_bytes, bool pipes) {
  // A caller that expects a regular file must not block on a pipe without a writer. For regular
  // files NONBLOCK has no effect.
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | (pipes ? 0 : O_NONBLOCK)));
  if (!fd) return SystemError(path, errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return SystemError(path, errno);
  if (S_ISDIR(info.st_mode)) return InvalidArgument(path + ": is a folder; want a file");
  if (!S_ISREG(info.st_mode) && !pipes) return InvalidArgument(path + ": not a regular file");
  // The size is only a hint: files of /proc report 0, and a file may grow while it is read.
  std::string text;
  size_t filled = 0;
  const auto most = static_cast<size_t>(most_bytes);
  text.resize(std::min(most, static_cast<size_t>(std::max<off_t>(info.st_size, 4095))) + 1);
  for (;;) {
    const ssize_t got = read(fd.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
    if (filled > most) return InvalidArgument(path + ": larger than " + SizeText(most_bytes));
    if (filled == text.size()) text.resize(std::min(most + 1, 2 * text.size()));
  }
  text.resize(filled);
  if (IsGitLfsPointer(text)) return GitLfsPointer(path);
  return text;
}

}  // namespace

bool IsGitLfsPointer(std::string_view beginning) {
  return beginning.starts_with("version https://git-lfs.github.com/spec/");
}

Status GitLfsPointer(const std::string& path) {
  return InvalidArgument(path +
                         ": is a git-LFS pointer, not the file itself; fetch it: git lfs pull");
}

Result<std::string> ReadFile(const std::string& path, int64_t most_bytes) {
  return Read(path, most_bytes, false);
}

Result<std::string> ReadFileOrPipe(const std::string& path, int64_t most_bytes) {
  return Read(path, most_bytes, true);
}

}  // namespace janus
