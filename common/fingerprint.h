#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace janus {

// A 64-bit FNV-1a hash (Fowler, Noll, Vo 1991) of the mixed values and their order. It protects
// against mistakes, not against attacks. Confined.
class Fingerprint {
 public:
  Fingerprint& Mix(std::string_view text) {
    for (const char c : text) {
      hash_ ^= static_cast<unsigned char>(c);
      hash_ *= 0x100000001b3ULL;
    }
    return *this;
  }
  // As 8 bytes, so that neighbouring values cannot be confused.
  Fingerprint& Mix(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ ^= number >> shift & 0xff;
      hash_ *= 0x100000001b3ULL;
    }
    return *this;
  }

  uint64_t value() const { return hash_; }
  std::string Hex() const { return Hex(hash_); }
  static std::string Hex(uint64_t value) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
  }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace janus
