#include "common/utf8.h"

#include <cstdint>

namespace janus {

size_t FindBrokenUtf8(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = byte(i);
    size_t length = 1;
    // The range of the second byte; further ones are 80..BF.
    uint8_t low = 0x80, high = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
      length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
      length = 3;
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
      length = 4;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    } else if (first >= 0x80) {
      return i;
    }
    for (size_t j = 1; j < length; ++j) {
      if (byte(i + j) < low || byte(i + j) > high) return i;
      low = 0x80;
      high = 0xBF;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace janus
