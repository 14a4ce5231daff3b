#pragma once

#include <string>

#include "common/status.h"
#include "operator/local/environment.h"

namespace janus::control {

// A folder for the Unix sockets of one run: below $XDG_RUNTIME_DIR, or below the temporary folder
// if that is unset or too long. Mode 0700, so only this user reaches the sockets. The destructor
// removes it. Create also removes the folders of killed runs, which it recognizes by their released
// lock. There it deletes only sockets, links and the lock, never other files. Thread-compatible.
class RunFolder {
 public:
  // FailedPrecondition: no folder can be made, or its paths would exceed kMaxSocketPath.
  static Result<RunFolder> Create(const Environment& environment);
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }

  // The kernel's limit for a socket path is 107 bytes (sun_path); ours is lower.
  static constexpr size_t kMaxSocketPath = 100;
  // The longest name that a socket in the folder may have.
  static constexpr size_t kMaxSocketName = 24;

 private:
  RunFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_ = -1;  // held for the whole run
};

// Locks `<folder>/lock` for this process; the lock ends with the process. AlreadyExists: "<what> is
// already running as process <pid>".
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
