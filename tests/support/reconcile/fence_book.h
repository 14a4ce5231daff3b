#pragma once

#include <string>

#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

// What the workers of several operators remember together: the highest fence that each service has
// heard, in a file. A line per order: "service verb fence epoch members operator
// taken|refused".
// Thread-safe, and between processes.
class FenceBook {
 public:
  // `who`: the operator, one word. The file is made where it is not there.
  FenceBook(const std::string& file, std::string who);

  // False: a later leader was heard before.
  bool Take(const std::string& verb, const MemberOrder& order);

 private:
  const std::string file_;
  const std::string who_;
};

}  // namespace janus::control
