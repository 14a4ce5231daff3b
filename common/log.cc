#include "common/log.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace janus {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const auto seconds = static_cast<time_t>(ms / 1000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[40];
  const size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(ms % 1000));
  return text;
}

}  // namespace

std::string FormatField(const LogField& field) {
  const bool plain =
      !field.value.empty() && field.value.find_first_of(" \"\\\n\t=") == std::string::npos;
  return " " + field.key + "=" + (plain ? field.value : Quoted(field.value));
}

Logger Logger::With(std::initializer_list<LogField> fields) const {
  Logger with = *this;
  for (const LogField& field : fields) with.subject_ += FormatField(field);
  return with;
}

void Logger::Write(LogLevel level, std::string_view message,
                   std::initializer_list<LogField> fields) const {
  if (level < least_) return;
  std::string line =
      Timestamp() + " " + std::string(Name(level)) + " message=" + Quoted(message) + subject_;
  for (const LogField& field : fields) line += FormatField(field);
  line += '\n';
  // One write, so that lines of several threads and processes do not mix. A log that cannot be
  // written has nowhere to say so.
  [[maybe_unused]] const ssize_t written = write(fd_, line.data(), line.size());
}

}  // namespace janus
