#include "common/log.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/utf8.h"

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

// A JSON string (RFC 8259). Invalid UTF-8 becomes U+FFFD, because readers do not accept it.
std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t good = std::min(FindBrokenUtf8(text), text.size());
    for (const char c : text.substr(0, good)) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned char>(c));
        out += escaped;
      } else {
        out += c;
      }
    }
    if (good == text.size()) break;
    out += "\\ufffd";
    text.remove_prefix(good + 1);
  }
  return out + '"';
}

std::string TextField(const LogField& field) {
  const bool plain =
      !field.value.empty() && field.value.find_first_of(" \"\\\n\t=") == std::string::npos;
  return " " + field.key + "=" + (plain ? field.value : Quoted(field.value));
}

std::string JsonField(const LogField& field) {
  // JSON has no infinity.
  const bool bare =
      field.is_number && field.value.find_first_not_of("-0123456789.") == std::string::npos;
  return "," + JsonString(field.key) + ":" + (bare ? field.value : JsonString(field.value));
}

std::string Field(LogFormat format, const LogField& field) {
  return format == LogFormat::kJson ? JsonField(field) : TextField(field);
}

}  // namespace

Logger Logger::With(std::initializer_list<LogField> fields) const {
  Logger with = *this;
  for (const LogField& field : fields) with.subject_ += Field(format_, field);
  return with;
}

void Logger::Write(LogLevel level, std::string_view message,
                   std::initializer_list<LogField> fields) const {
  if (level < least_) return;
  const bool is_json = format_ == LogFormat::kJson;
  std::string line =
      is_json ? "{\"time\":\"" + Timestamp() + "\",\"level\":\"" + std::string(Name(level)) +
                    "\",\"message\":" + JsonString(message)
              : Timestamp() + " " + std::string(Name(level)) + " message=" + Quoted(message);
  line += subject_;
  for (const LogField& field : fields) line += Field(format_, field);
  line += is_json ? "}\n" : "\n";
  // One write, so that lines of several threads and processes do not mix. If it fails, there is no
  // place to report that.
  [[maybe_unused]] const ssize_t written = write(fd_, line.data(), line.size());
}

}  // namespace janus
