#pragma once

#include <cstddef>
#include <string_view>

namespace janus {

// The place of the first byte that is no part of well-formed UTF-8 (RFC 3629: no overlong form, no
// surrogate, nothing above U+10FFFF), npos where there is none. Pure.
size_t FindBrokenUtf8(std::string_view text);

}  // namespace janus
