#pragma once

#include <sstream>
#include <string>

namespace janus {

// Prints file, line, the broken condition and the values, then aborts. A restart is cheap and
// tested; continuing with a broken invariant is not.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& values);

template <class... Values>
std::string CheckValues(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return out.str();
}

}  // namespace janus

// For our own invariants only; outside data gets a Status.
#define JANUS_CHECK(condition, ...)                                                            \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::janus::CheckFailed(__FILE__, __LINE__, #condition, ::janus::CheckValues(__VA_ARGS__)); \
  } while (false)
