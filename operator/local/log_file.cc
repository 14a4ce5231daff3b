#include "operator/local/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "operator/local/exhausted.h"

namespace janus::control {
namespace {

constexpr size_t kMaxLine = 512;
// Levels in the format of common/log.h.
constexpr std::string_view kError = " error message=";
constexpr std::string_view kWarning = " warning message=";
constexpr std::string_view kInfo = " info message=";
constexpr std::string_view kDebug = " debug message=";
// "==12==ERROR: AddressSanitizer: ...", "SUMMARY: ThreadSanitizer: ..."
constexpr std::string_view kSanitizer = "Sanitizer: ";

// The address if the line is "ready <address>" or "<program> ready <address>"; else nothing.
std::string_view ReadyAddress(std::string_view line) {
  constexpr std::string_view kReady = "ready ";
  if (!line.starts_with(kReady)) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return {};
    line.remove_prefix(space + 1);
    if (!line.starts_with(kReady)) return {};
  }
  line.remove_prefix(kReady.size());
  return line.find(' ') == std::string_view::npos ? line : std::string_view();
}

int Begin(const std::string& path) {
  std::rename(path.c_str(), (path + ".1").c_str());  // fails if there was no old log
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

}  // namespace

Result<LogFile> LogFile::Create(const std::string& path, int64_t max_bytes) {
  const int fd = Begin(path);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return Exhausted(path, errno);
  if (fd < 0) return FailedPrecondition(path + ": " + std::strerror(errno));
  return LogFile(path, max_bytes, fd);
}

LogFile::LogFile(LogFile&& other) noexcept
    : path_(std::move(other.path_)),
      max_bytes_(other.max_bytes_),
      size_(other.size_),
      fd_(other.fd_) {
  other.fd_ = -1;
}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

void LogFile::Append(std::string_view bytes) {
  if (size_ > 0 && size_ + static_cast<int64_t>(bytes.size()) > max_bytes_) {
    close(fd_);
    fd_ = Begin(path_);
    size_ = 0;
  }
  if (fd_ < 0) return;
  const ssize_t written = write(fd_, bytes.data(), bytes.size());
  if (written > 0) size_ += written;
}

void LastWords::Append(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      EndLine();
    } else if (partial_.size() < kMaxLine) {
      partial_ += c;
    }
  }
}

void LastWords::EndLine() {
  const auto has = [this](std::string_view what) {
    return partial_.find(what) != std::string::npos;
  };
  const bool is_ready = !ReadyAddress(partial_).empty();
  if (is_ready && ready_.empty()) ready_ = ReadyAddress(partial_);
  if (has(kError) || has(kSanitizer)) {
    last_error_ = std::move(partial_);
  } else if (has(kWarning)) {
    last_warning_ = std::move(partial_);
  } else if (!is_ready && !has(kInfo) && !has(kDebug) &&
             partial_.find_first_not_of("=- \t\r") != std::string::npos) {
    last_ = std::move(partial_);
  }
  partial_.clear();
}

std::string LastWords::Line() const {
  // An incomplete last line is treated like a line.
  LastWords whole = *this;
  whole.EndLine();
  if (!whole.last_error_.empty()) return whole.last_error_;
  return whole.last_warning_.empty() ? whole.last_ : whole.last_warning_;
}

}  // namespace janus::control
