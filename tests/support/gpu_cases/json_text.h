#pragma once

#include <string>
#include <string_view>

namespace janus {

// A JSON string with its quotes; control characters become blanks.
inline std::string JsonText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + '"';
}

}  // namespace janus
