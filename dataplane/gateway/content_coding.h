#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::gateway {

// Content-Encoding of a request's body.
enum class ContentCoding : uint8_t { kIdentity, kGzip, kDeflate, kZstd };

// The value of Accept-Encoding in a 415.
inline constexpr std::string_view kAcceptedCodings = "gzip, deflate, zstd";

// Nothing: an unknown coding, or several. An empty `name` is identity.
std::optional<ContentCoding> ParseContentCoding(std::string_view name);

// Decodes the body. InvalidArgument: it is not in this coding, is cut short, or has bytes behind
// its end. ResourceExhausted: it decodes to more than `most` bytes; never holds more than that.
// Pure.
Result<std::string> Decode(ContentCoding coding, std::string_view body, size_t most);

}  // namespace janus::gateway
