#pragma once

#include <string>

namespace janus {

// printf into a string, without truncation.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

}  // namespace janus
