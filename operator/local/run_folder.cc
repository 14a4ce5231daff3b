#include "operator/local/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

namespace janus::control {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "janus-run-";
constexpr std::string_view kLock = "/lock";
// First line of our lock file. A folder without it is not ours, whatever its name.
constexpr std::string_view kLockText = "janus run folder\n";

int OpenLock(const std::string& folder, int flags) {
  return open((folder + std::string(kLock)).c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool IsStale(const std::string& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid()) {
    return false;
  }
  const int fd = OpenLock(folder, 0);
  if (fd < 0) return false;
  char text[kLockText.size()];
  const bool ours = read(fd, text, sizeof text) == static_cast<ssize_t>(sizeof text) &&
                    std::string_view(text, sizeof text) == kLockText;
  const bool free = ours && flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return free;
}

// Removes what a run creates (its sockets, links to them, its lock), and the folder if it is then
// empty.
void RemoveRun(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> ours;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::file_type type = at->symlink_status(error).type();
    if (type == fs::file_type::socket || type == fs::file_type::symlink) ours.push_back(at->path());
  }
  ours.push_back(folder + std::string(kLock));
  for (const std::string& path : ours) unlink(path.c_str());
  rmdir(folder.c_str());
}

void RemoveStale(const std::string& base) {
  std::error_code error;
  std::vector<std::string> stale;
  for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with(kPrefix) && IsStale(at->path())) stale.push_back(at->path());
  }
  for (const std::string& folder : stale) RemoveRun(folder);
}

bool CanHold(const std::string& base) {
  const size_t longest = base.size() + 1 + kPrefix.size() + 6 + 1 + RunFolder::kMaxSocketName;
  return !base.empty() && longest <= RunFolder::kMaxSocketPath && access(base.c_str(), W_OK) == 0;
}

}  // namespace

Result<RunFolder> RunFolder::Create(const Environment& environment) {
  std::string tried;
  for (const std::string& base :
       {environment.runtime_dir, environment.temp_dir, std::string("/tmp")}) {
    if (!CanHold(base)) {
      if (!base.empty()) tried += " " + base;
      continue;
    }
    RemoveStale(base);
    std::string path = base + "/" + std::string(kPrefix) + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      tried += " " + base;
      continue;
    }
    const int fd = OpenLock(path, O_CREAT);
    // Locked before the text marks it as ours.
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 ||
        write(fd, kLockText.data(), kLockText.size()) != static_cast<ssize_t>(kLockText.size())) {
      const Status failed = FailedPrecondition(path + ": " + std::strerror(errno));
      if (fd >= 0) close(fd);
      RemoveRun(path);
      return failed;
    }
    return RunFolder(std::move(path), fd);
  }
  return FailedPrecondition("no folder for sockets (tried" + tried +
                            "): each cannot be written or has too long a path; set XDG_RUNTIME_DIR "
                            "to a short path that can be written");
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(other.lock_fd_) {
  other.path_.clear();
  other.lock_fd_ = -1;
}

RunFolder::~RunFolder() {
  if (!path_.empty()) {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  if (lock_fd_ >= 0) close(lock_fd_);
}

Result<FolderLock> FolderLock::Take(const std::string& folder, const std::string& what) {
  const int fd = OpenLock(folder, O_CREAT);
  if (fd < 0) return FailedPrecondition(folder + "/lock: " + std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char pid[32] = {};
    const ssize_t length = read(fd, pid, sizeof(pid) - 1);
    close(fd);
    return AlreadyExists(what + " is already running as process " +
                         (length > 0 ? std::string(pid, static_cast<size_t>(length)) : "?") +
                         "; stop it first, or give this one another name");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd, 0) != 0 || write(fd, pid.data(), pid.size()) < 0) {
    const Status failed = FailedPrecondition(folder + "/lock: " + std::strerror(errno));
    close(fd);
    return failed;
  }
  return FolderLock(fd);
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace janus::control
