#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/fd.h"
#include "common/status.h"

namespace janus::dataplane {

// An open file, as it was when it was opened.
struct OpenedFile {
  std::string path;
  Fd fd;  // of the same inode for ever, whatever the path names later
  uint64_t bytes = 0;
  timespec modified = {};

  // NotFound: cannot be opened, with the path.
  static Result<OpenedFile> Open(const std::string& path);
  // FailedPrecondition: the file has been written to since, with the path and how one sees it.
  Status CheckUnchanged() const;
};

// A file of weights, mapped read-only until this is destroyed.
//
// Weights stay in the mapping, and are not copied: a copy would double the memory of a machine
// whose instances map the same pages, and would make every start slower. So a writer can change
// them under us. Three things prevent silent damage:
//
// - A file that is replaced by rename, or deleted, stays as it is: the mapping keeps the old inode.
// - A file that is overwritten in place has another time of modification. A user of weights
//   calls CheckMappedFiles from time to time, and ends at its error (worker/changed_files.h).
// - Reading behind the new end of a truncated file raises SIGBUS. A handler names the file on
//   stderr, and ends the process with status 1.
//
// A writer that restores size and time of modification is not noticed, nor is one through a network
// file system that hides both.
//
// Thread-compatible.
class MappedFile {
 public:
  // InvalidArgument: empty, or cannot be mapped. FailedPrecondition: written to since it was
  // opened. With the path.
  static Result<std::unique_ptr<MappedFile>> Map(OpenedFile file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const OpenedFile& file() const { return file_; }

 private:
  explicit MappedFile(OpenedFile file) : file_(std::move(file)) {}

  const OpenedFile file_;
  std::span<const std::byte> bytes_;
  int slot_ = -1;  // in the table of the signal handler; -1: the table was full
};

// CheckUnchanged of every mapped file of this process, a system call for each. Thread-safe.
Status CheckMappedFiles();

}  // namespace janus::dataplane
