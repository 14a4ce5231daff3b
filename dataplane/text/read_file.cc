#include "dataplane/text/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace janus::text {

namespace {

constexpr off_t kMaxBytes = off_t{256} << 20;

Status SystemError(const std::string& path, int error) {
  const std::string message = path + ": " + std::strerror(error);
  return error == ENOENT || error == ENOTDIR ? NotFound(message) : Unavailable(message);
}

struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
};

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.descriptor < 0) return SystemError(path, errno);
  struct stat info {};
  if (fstat(file.descriptor, &info) != 0) return SystemError(path, errno);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": not a regular file");
  if (info.st_size > kMaxBytes) return InvalidArgument(path + ": larger than 256 MiB");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = read(file.descriptor, text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  return text;
}

}  // namespace janus::text
