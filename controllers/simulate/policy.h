#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controllers/simulate/observer.h"

namespace janus::controllers {

// A way to decide how much to run. Deterministic; remembers what it likes. Confined to one thread.
class SimulatedPolicy {
 public:
  struct Beginning {
    Wish wish;
    std::string why = "to begin with";
    std::string_view lacks = {};  // as Answer::hold, where not even this keeps the targets
  };
  struct Answer {
    std::optional<Wish> wish;  // nullopt: leave things as they are
    std::string why;
    // Without a wish: what it is held for, by a name that is never freed; empty: no reason was
    // given.
    std::string_view hold = {};
  };

  virtual ~SimulatedPolicy() = default;
  virtual std::string_view name() const = 0;
  // Seconds between decisions.
  virtual double interval_s() const = 0;
  // What runs when the first request comes, ready; `first` is the demand of the first minutes.
  virtual Beginning Begin(const Demand& first) = 0;
  virtual Answer Decide(const Observation& seen) = 0;
};

}  // namespace janus::controllers
