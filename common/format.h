#pragma once

#include <string>

namespace janus {

// printf into a string, whole.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

}  // namespace janus
