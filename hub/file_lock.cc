#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

namespace janus::hub {
namespace {

// The kernel does not tell when a flock is released to one that may also be stopped, so it is tried
// again at this interval.
constexpr std::chrono::milliseconds kInterval{50};

// Whether the descriptor is still of the file that has this path. Another program may remove the
// file when it releases its lock.
bool IsOf(int fd, const std::string& path) {
  struct stat mine {};
  struct stat there {};
  return fstat(fd, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

}  // namespace

Result<FileLock> FileLock::Take(const std::string& path, FunctionRef<void()> waits,
                                const std::stop_token& stop) {
  std::mutex mu;
  std::condition_variable_any never;
  for (bool has_waited = false;;) {
    Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd) {
      return FailedPrecondition(path + ": " + std::strerror(errno) +
                                "; set HF_HUB_CACHE to a folder that can be written");
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (IsOf(fd.get(), path)) return FileLock(std::move(fd));
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return FailedPrecondition(path + ": cannot be locked: " + std::strerror(errno));
    }
    if (!std::exchange(has_waited, true)) waits();
    std::unique_lock lock(mu);
    never.wait_for(lock, stop, kInterval, [] { return false; });
    if (stop.stop_requested()) return Cancelled("stopped");
  }
}

}  // namespace janus::hub
