#include "common/format.h"

#include <cstdarg>
#include <cstdio>

namespace janus {

std::string Format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  // vsnprintf also writes the terminating 0, which the string has already.
  std::string out(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(out.data(), out.size() + 1, format, again);
  va_end(again);
  return out;
}

}  // namespace janus
