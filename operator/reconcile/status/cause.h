#pragma once

#include <string>

namespace janus::control {

// Why something is the case: reason and message of a condition or Event. The reason is one
// CamelCase word for programs (listed in docs/conditions.md), the message a sentence for people.
// Empty: it is not the case.
struct Cause {
  std::string reason = {};
  std::string message = {};
  explicit operator bool() const { return !reason.empty(); }
  friend bool operator==(const Cause&, const Cause&) = default;
};

}  // namespace janus::control
