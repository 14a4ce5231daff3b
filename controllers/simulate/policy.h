#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controllers/simulate/observer.h"

namespace janus::controllers {

// A policy that decides how much to run. Deterministic; may keep state. Confined to one thread.
class SimulatedPolicy {
 public:
  struct Beginning {
    Wish wish;
    std::string why = "to begin with";
    std::string_view lacks = {};  // a reason as in Answer::hold, if even this misses the targets
  };
  struct Answer {
    std::optional<Wish> wish;  // nullopt: change nothing
    std::string why;
    // Without a wish: the reason for it. The name must never be freed. Empty: no reason.
    std::string_view hold = {};
  };

  virtual ~SimulatedPolicy() = default;
  virtual std::string_view name() const = 0;
  // Seconds between decisions.
  virtual double interval_s() const = 0;
  // The plan that is ready when the first request comes. `first`: demand of the first minutes.
  virtual Beginning Begin(const Demand& first) = 0;
  virtual Answer Decide(const Observation& seen) = 0;
};

}  // namespace janus::controllers
