#pragma once

#include <string>

#include "common/status.h"
#include "operator/local/environment.h"

namespace janus::control {

// A folder for one run's Unix sockets: below $XDG_RUNTIME_DIR, or the temporary folder when there
// is none or its path is too long; mode 0700, so that file permissions guard the sockets. Gone with
// the object; what a killed run left is removed by the next one's Create, which knows it by its
// lock, that nobody holds any more. Of a dead run only sockets, links and the lock are removed,
// never what somebody else has put there. Thread-compatible.
class RunFolder {
 public:
  // FailedPrecondition: no folder can be made, or every path would pass kMaxSocketPath.
  static Result<RunFolder> Create(const Environment& environment);
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }

  // A socket's path has 107 bytes at most (sun_path); we keep to fewer.
  static constexpr size_t kMaxSocketPath = 100;
  // The longest name that a socket in the folder may have.
  static constexpr size_t kMaxSocketName = 24;

 private:
  RunFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_ = -1;  // held as long as the run lives
};

// Takes `<folder>/lock` for this process, or says who holds it. The lock ends with the process.
// AlreadyExists: "<what> is already running as process <pid>".
class FolderLock {
 public:
  static Result<FolderLock> Take(const std::string& folder, const std::string& what);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace janus::control
