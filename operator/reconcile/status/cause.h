#pragma once

#include <string>

namespace janus::control {

// Why something is so: the reason and the message of a condition or of an Event. The reason is one
// CamelCase word for programs (docs/conditions.md lists all of them), the message a sentence for
// people. Empty: it is not so.
struct Cause {
  std::string reason = {};
  std::string message = {};
  explicit operator bool() const { return !reason.empty(); }
  friend bool operator==(const Cause&, const Cause&) = default;
};

}  // namespace janus::control
