#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::control {

// A process's log: appended to, and begun anew when it reaches its bound; the one before is kept as
// <path>.1, so that two bounds are the most the disk gives. Confined to one thread.
class LogFile {
 public:
  // Begins a new file; what an earlier run wrote becomes <path>.1.
  static Result<LogFile> Create(const std::string& path, int64_t max_bytes);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;

  // A full disk loses lines; there is nowhere to say so.
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

// Picks the line of a process's output that says why it ended: the last one of level error or that
// a sanitizer reports, else the last warning, else the last line that is no log line (a message of
// a library, or of the program before it logs). A log line of level info or debug is none, nor is a
// line that only rules off. Lines longer than 512 bytes are cut. Confined to one thread.
class LastWords {
 public:
  void Append(std::string_view bytes);
  std::string Line() const;
  // The address of the first line `ready <address>` or `<program> ready <address>`; else empty.
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
