#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::control {

// Kubernetes' resource.Quantity: a decimal number with an optional suffix (n u m k M G T P E, Ki Mi
// Gi Ti Pi Ei) or exponent. The unit depends on the field: bytes, bytes per second, cores or
// counts.
struct Quantity {
  int64_t value = 0;  // whole units, rounded up, and capped at 2^63 - 1, as Kubernetes does
  int64_t milli = 0;  // thousandths, rounded up; the largest int64 on overflow
  std::string text;   // as written

  friend bool operator==(const Quantity& a, const Quantity& b) {
    return a.value == b.value && a.milli == b.milli;
  }
};

// That many units, in usual notation. Not negative.
Quantity UnitsOf(int64_t value);

// InvalidArgument: not a quantity, a negative sign, or more than 19 digits.
Result<Quantity> ParseQuantity(std::string_view text);

// A size in bytes for people: "1.5 GB", "730 MB", "12 kB"; decimal units, at most three digits.
std::string FormatBytes(int64_t bytes);

}  // namespace janus::control
