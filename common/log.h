#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace janus {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// kText: `TIME LEVEL message="..." key=value ...`. kJson: one object per line, with time, level,
// message and the fields.
enum class LogFormat : uint8_t { kText, kJson };

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  LogField(std::string_view k, T v) : key(k), value(std::to_string(v)), is_number(true) {}
  std::string key;
  std::string value;
  bool is_number = false;
};

// Writes one line per call: time (RFC 3339, UTC), level, a constant message, then fields. Error:
// someone must act. Warning: it recovers, but look. Info: a change of state. Debug: for developers.
// Do not log per token. Copies share the sink. Thread-safe: one system call writes a line.
class Logger {
 public:
  // Writes to file descriptor `fd` (not owned).
  explicit Logger(int fd = 2, LogLevel least = LogLevel::kInfo, LogFormat format = LogFormat::kText)
      : fd_(fd), least_(least), format_(format) {}

  // Returns a logger that adds `fields` to its lines.
  Logger With(std::initializer_list<LogField> fields) const;

  void Debug(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Write(LogLevel::kDebug, message, fields);
  }
  void Info(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Write(LogLevel::kInfo, message, fields);
  }
  void Warning(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Write(LogLevel::kWarning, message, fields);
  }
  void Error(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Write(LogLevel::kError, message, fields);
  }

 private:
  void Write(LogLevel level, std::string_view message,
             std::initializer_list<LogField> fields) const;

  int fd_;
  LogLevel least_;
  LogFormat format_;
  std::string subject_;  // the fields of With(), as text
};

}  // namespace janus
