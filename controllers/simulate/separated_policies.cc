#include "controllers/simulate/separated_policies.h"

#include <cstdio>
#include <utility>

#include "controllers/scaling/cheapest.h"
#include "controllers/scaling/impossible.h"

namespace janus::controllers {
namespace {

SimulatedPolicy::Beginning BeginWith(const SeparatedChoice& choice) {
  SimulatedPolicy::Beginning begin = {choice.wish};
  if (choice.reason == Reason::kSatisfied) return begin;
  begin.lacks = ToString(choice.reason);
  begin.why += ", " + std::string(begin.lacks) + ": " + choice.text;
  return begin;
}

Wish WishOf(const Predictor& predictor, const Configuration& how) {
  if (const WholeConfiguration* whole = predictor.Whole()) return Wish::Copies(how.pools, *whole);
  return Wish::Separate(how);
}

class Decided final : public SimulatedPolicy {
 public:
  Decided(std::string_view name, const Predictor* predictor, const ScalingPolicy& scaling,
          std::optional<Counts> first)
      : name_(name), predictor_(predictor), scaling_(scaling), first_(first) {}

  std::string_view name() const override { return name_; }
  double interval_s() const override { return scaling_.interval_seconds; }
  Beginning Begin(const Demand& first) override {
    if (first_) return {WishOf(*predictor_, predictor_->Steady(*first_, first, scaling_).how)};
    return BeginWith(CheapestSeparated(*predictor_, scaling_, first, scaling_.aim));
  }

  Answer Decide(const Observation& seen) override {
    Outcome outcome =
        controllers::Decide(*predictor_, scaling_, seen.world, std::exchange(memory_, {}));
    memory_ = std::move(outcome.memory);
    Decision& decision = outcome.decision;
    if (decision.verb == Verb::kHold) {
      const bool splits_otherwise = memory_.pending.empty() && decision.target.how.micro_batches !=
                                                                   seen.world.current.micro_batches;
      if (!splits_otherwise) {
        return {std::nullopt, std::move(decision.text), ToString(decision.reason)};
      }
    }
    return {WishOf(*predictor_, decision.target.how),
            std::string(ToString(decision.reason)) + ": " + decision.text,
            {}};
  }

 private:
  const std::string_view name_;
  const Predictor* predictor_;
  const ScalingPolicy scaling_;
  const std::optional<Counts> first_;
  Memory memory_;
};

class Fixed final : public SimulatedPolicy {
 public:
  Fixed(std::string_view name, const SeparatedChoice& choice) : name_(name), choice_(choice) {}

  std::string_view name() const override { return name_; }
  double interval_s() const override { return 3600; }
  Beginning Begin(const Demand& /*first*/) override { return BeginWith(choice_); }
  Answer Decide(const Observation& /*seen*/) override { return {}; }

 private:
  const std::string_view name_;
  const SeparatedChoice choice_;
};

// Chooses for a demand that no allowed counts carry completely.
SeparatedChoice ChooseForPart(const Wanted& wanted, const CountBounds& bounds, Counts* counts) {
  SeparatedChoice choice;
  if (const auto part = CheapestForMost(wanted, bounds, {bounds.min_m, bounds.min_n})) {
    *counts = part->counts;
    choice.reason = Reason::kAtMax;
    char text[96];
    std::snprintf(text, sizeof(text), "at most %.0f %% of the load is carried within the bounds",
                  part->carried * 100);
    choice.text = text;
  } else if (auto impossible = WhyImpossible(wanted, bounds)) {
    *counts = impossible->nearest;
    choice.reason = Reason::kImpossibleSlo;
    choice.text = std::move(impossible->text);
  } else {
    *counts = LargestAllowed(bounds, wanted.predictor).value();
    choice.reason = Reason::kAtMax;
    choice.text = "less than 2 % of the load is carried within the bounds";
  }
  return choice;
}

}  // namespace

std::unique_ptr<SimulatedPolicy> MakeDecided(std::string_view name, const Predictor* predictor,
                                             const ScalingPolicy& scaling,
                                             std::optional<Counts> first) {
  return std::make_unique<Decided>(name, predictor, scaling, first);
}

std::unique_ptr<SimulatedPolicy> MakeFixed(std::string_view name, const SeparatedChoice& choice) {
  return std::make_unique<Fixed>(name, choice);
}

SeparatedChoice CheapestSeparated(const Predictor& predictor, const ScalingPolicy& scaling,
                                  const Demand& demand, double share) {
  const CountBounds bounds = BoundsOf(predictor, scaling);
  const Corrections none;
  const Wanted wanted = {predictor, scaling, demand, share, none, 1};
  SeparatedChoice choice;
  Counts counts;
  if (const auto found = Cheapest(wanted, bounds, {bounds.min_m, bounds.min_n})) {
    counts = *found;
  } else {
    choice = ChooseForPart(wanted, bounds, &counts);
  }
  choice.wish = WishOf(predictor, predictor.Steady(counts, demand, scaling).how);
  return choice;
}

SeparatedChoice CheapestForBusiest(const Predictor& predictor, const ScalingPolicy& scaling,
                                   std::span<const Demand> demands, double share) {
  SeparatedChoice most;
  most.wish.how.m = most.wish.how.n = 0;  // less than any other
  for (const Demand& demand : demands) {
    SeparatedChoice choice = CheapestSeparated(predictor, scaling, demand, share);
    if (choice.wish.Gpus() > most.wish.Gpus()) most = std::move(choice);
  }
  return most;
}

}  // namespace janus::controllers
