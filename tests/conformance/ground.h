#pragma once

#include <memory>
#include <string>

#include "operator/kube/object_api.h"

namespace janus::control {

// The API under test in a conformance run. The program that links the suite defines it.
struct Ground {
  virtual ~Ground() = default;
  virtual ObjectApi& api() = 0;
  // The same objects, with another field manager.
  virtual ObjectApi& other_api() = 0;
  // A namespace that exists and in which only the test writes.
  virtual std::string ns() const = 0;
};

// Called once per program. Aborts with the reason if there is no API.
std::unique_ptr<Ground> MakeGround();

}  // namespace janus::control
