#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::gateway {

// Content-Encoding of a request's body.
enum class ContentCoding : uint8_t { kIdentity, kGzip, kDeflate, kZstd };

// What Accept-Encoding says in a 415.
inline constexpr std::string_view kAcceptedCodings = "gzip, deflate, zstd";

// Nothing: a coding that is not taken, or several. `name` may be empty, which is identity.
std::optional<ContentCoding> ParseContentCoding(std::string_view name);

// The body decoded. InvalidArgument: it is not in this coding, is cut short, or goes on behind its
// end. ResourceExhausted: it decodes to more than `most` bytes; at most so many are held. Pure.
Result<std::string> Decode(ContentCoding coding, std::string_view body, size_t most);

}  // namespace janus::gateway
