#include "common/base64.h"

#include <cstdint>

namespace janus {
namespace {

// 0..63, or -1.
int ValueOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

}  // namespace

Result<std::string> DecodeBase64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int characters = 0;  // in the current group of four, including '='
  int padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    const int value = c == '=' ? 0 : ValueOf(c);
    if (value < 0 || (padding > 0 && c != '=')) return InvalidArgument("is not base64");
    padding += c == '=' ? 1 : 0;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (++characters < 4) continue;
    for (int byte = 0; byte < 3; ++byte) {
      out += static_cast<char>(bits >> (16 - 8 * byte) & 0xFF);
    }
    characters = 0;
    bits = 0;
  }
  if (characters != 0 || padding > 2) return InvalidArgument("is not base64");
  out.resize(out.size() - static_cast<size_t>(padding));
  return out;
}

std::string EncodeBase64(std::string_view bytes) {
  constexpr std::string_view kCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = at; i < at + 3; ++i) {
      bits = bits << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      const bool is_there = at + i <= bytes.size();
      out += is_there ? kCharacters[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

}  // namespace janus
