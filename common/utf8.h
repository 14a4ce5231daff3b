#pragma once

#include <cstddef>
#include <string_view>

namespace janus {

// The position of the first byte that is not part of well-formed UTF-8 (RFC 3629: no overlong form,
// no surrogate, nothing above U+10FFFF); npos: all is well-formed. Pure.
size_t FindBrokenUtf8(std::string_view text);

}  // namespace janus
