#pragma once

#include <memory>
#include <string>

#include "operator/kube/object_api.h"

namespace janus::control {

// What a conformance run stands on: whoever links the suite says what it is held against.
struct Ground {
  virtual ~Ground() = default;
  virtual ObjectApi& api() = 0;
  // The same objects, for a field manager of another name.
  virtual ObjectApi& other_api() = 0;
  // Is there, and nobody else writes into it.
  virtual std::string ns() const = 0;
};

// Once per program. Aborts with the reason where there is none.
std::unique_ptr<Ground> MakeGround();

}  // namespace janus::control
