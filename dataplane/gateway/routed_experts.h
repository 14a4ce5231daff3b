#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace janus::gateway {

// Collects the experts of an answer's positions. They arrive in pieces, and perhaps again from
// another instance. Thread-compatible.
class RoutedExperts {
 public:
  // While the text is written, it exists three times: with the choice, in the JSON, as bytes.
  static constexpr int64_t kBytesOfId = sizeof(uint16_t) + 3 * 16 / 3;

  // `first`: position of the first ids; `width`: ids of a position.
  RoutedExperts(int64_t first, int64_t width) : first_(first), width_(width) {}

  // Takes the ids of positions from `from` on, and returns the bytes that they add to the memory
  // held, with those of their text. Internal: the instance left positions out.
  Result<int64_t> Put(int64_t from, std::span<const uint16_t> ids);

  // The ids of the positions up to `end`, in SGLang's form: base64 of little-endian int32; -1 in
  // layers without experts. Internal: some have not arrived.
  Result<std::string> TextTo(int64_t end) const;

 private:
  const int64_t first_;
  const int64_t width_;
  std::vector<uint16_t> ids_;
};

}  // namespace janus::gateway
