#include "controllers/simulate/separated_policies.h"

#include <utility>

#include "controllers/scaling/cheapest.h"
#include "controllers/scaling/decide.h"

namespace janus::controllers {
namespace {

class Decided final : public SimulatedPolicy {
 public:
  Decided(std::string_view name, const Predictor* predictor, const ScalingPolicy& scaling)
      : name_(name), predictor_(predictor), scaling_(scaling) {}

  std::string_view name() const override { return name_; }
  double interval_s() const override { return scaling_.interval_seconds; }
  Wish Begin(const Demand& first) override {
    return CheapestSeparated(*predictor_, scaling_, first, scaling_.aim);
  }

  Answer Decide(const Observation& seen) override {
    Outcome outcome =
        controllers::Decide(*predictor_, scaling_, seen.world, std::exchange(memory_, {}));
    memory_ = std::move(outcome.memory);
    const Decision& decision = outcome.decision;
    if (decision.verb == Verb::kHold) return {};
    Wish wish;
    wish.how = decision.target.how;
    return {wish, std::string(ToString(decision.reason)) + ": " + decision.text};
  }

 private:
  const std::string_view name_;
  const Predictor* predictor_;
  const ScalingPolicy scaling_;
  Memory memory_;
};

class Fixed final : public SimulatedPolicy {
 public:
  Fixed(std::string_view name, const Wish& wish) : name_(name), wish_(wish) {}

  std::string_view name() const override { return name_; }
  double interval_s() const override { return 3600; }
  Wish Begin(const Demand& /*first*/) override { return wish_; }
  Answer Decide(const Observation& /*seen*/) override { return {}; }

 private:
  const std::string_view name_;
  const Wish wish_;
};

}  // namespace

std::unique_ptr<SimulatedPolicy> MakeDecided(std::string_view name, const Predictor* predictor,
                                             const ScalingPolicy& scaling) {
  return std::make_unique<Decided>(name, predictor, scaling);
}

std::unique_ptr<SimulatedPolicy> MakeFixed(std::string_view name, const Wish& wish) {
  return std::make_unique<Fixed>(name, wish);
}

Wish CheapestSeparated(const Predictor& predictor, const ScalingPolicy& scaling,
                       const Demand& demand, double share) {
  const CountBounds bounds = BoundsOf(predictor, scaling);
  const Corrections none;
  const Wanted wanted = {predictor, scaling, demand, share, none, 1};
  const Counts least = {bounds.min_m, bounds.min_n};
  std::optional<Counts> found = Cheapest(wanted, bounds, least);
  if (!found) {
    const std::optional<Partial> part = CheapestForMost(wanted, bounds, least);
    found = part ? part->counts : Counts{bounds.max_m, bounds.max_n};
  }
  const Counts counts = *found;
  Wish wish;
  wish.how = predictor.Steady(counts.m, counts.n, demand, scaling).how;
  return wish;
}

Wish CheapestForBusiest(const Predictor& predictor, const ScalingPolicy& scaling,
                        std::span<const Demand> demands, double share) {
  Wish most;
  most.how.m = most.how.n = 0;
  for (const Demand& demand : demands) {
    const Wish wish = CheapestSeparated(predictor, scaling, demand, share);
    if (wish.Gpus() > most.Gpus()) most = wish;
  }
  return most;
}

}  // namespace janus::controllers
