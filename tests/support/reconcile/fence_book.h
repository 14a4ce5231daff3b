#pragma once

#include <string>

#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

// The highest fence of each service that the workers of several operators have seen, in a file. One
// line per call: "service verb fence epoch members operator
// taken|refused". Thread-safe, also between processes.
class FenceBook {
 public:
  // `who`: name of the operator, one word. Creates the file if it does not exist.
  FenceBook(const std::string& file, std::string who);

  // False: a call of a later leader came before.
  bool Take(const std::string& verb, const MemberOrder& order);

 private:
  const std::string file_;
  const std::string who_;
};

}  // namespace janus::control
