#pragma once

#include <string>
#include <string_view>

namespace janus {

// As a string of JSON, quotes included; what no line can hold is a blank.
inline std::string JsonText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + '"';
}

}  // namespace janus
