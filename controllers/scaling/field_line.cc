#include "controllers/scaling/field_line.h"

#include <cctype>

namespace janus::controllers {
namespace {

bool StandsForItself(unsigned char byte) {
  return std::isalnum(byte) != 0 || byte == '-' || byte == '_' || byte == '.' || byte == '/' ||
         byte == ':';
}

}  // namespace

std::string EscapeWord(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (StandsForItself(byte)) {
      out += letter;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "%%%02X", byte);
      out += escaped;
    }
  }
  return out;
}

std::optional<std::string> UnescapeWord(std::string_view word) {
  std::string out;
  for (size_t at = 0; at < word.size(); ++at) {
    if (word[at] != '%') {
      if (!StandsForItself(static_cast<unsigned char>(word[at]))) return std::nullopt;
      out += word[at];
      continue;
    }
    unsigned byte = 0;
    const char* const begin = word.data() + at + 1;
    if (at + 2 >= word.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
    if (error != std::errc() || end != begin + 2) return std::nullopt;
    out += static_cast<char>(byte);
    at += 2;
  }
  return out;
}

}  // namespace janus::controllers
