#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::control {

// The log of a process. When it reaches max_bytes, the file becomes <path>.1 and a new one starts,
// so it uses at most twice max_bytes. Confined to one thread.
class LogFile {
 public:
  // Starts a new file; the log of an earlier run becomes <path>.1.
  static Result<LogFile> Create(const std::string& path, int64_t max_bytes);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;

  // If the disk is full, lines are lost without a message.
  void Append(std::string_view bytes);

  const std::string& path() const { return path_; }

 private:
  LogFile(std::string path, int64_t max_bytes, int fd)
      : path_(std::move(path)), max_bytes_(max_bytes), fd_(fd) {}

  std::string path_;
  int64_t max_bytes_;
  int64_t size_ = 0;
  int fd_;
};

// Finds the line of a process's output that explains its end: the last error line or sanitizer
// report; otherwise the last warning; otherwise the last line that is not in log format (from a
// library, or before the program starts logging). It ignores info and debug lines and separator
// lines. Lines are cut at 512 bytes. Confined to one thread.
class LastWords {
 public:
  void Append(std::string_view bytes);
  std::string Line() const;
  // The address from the first line `ready <address>` or `<program> ready <address>`; empty: none
  // yet.
  const std::string& ready() const { return ready_; }

 private:
  void EndLine();

  std::string partial_;
  std::string last_;
  std::string last_warning_;
  std::string last_error_;
  std::string ready_;
};

}  // namespace janus::control
