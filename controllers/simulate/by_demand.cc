// Policies that divide the demand by the capacity of an instance.

#include <algorithm>
#include <cmath>
#include <limits>

#include "controllers/simulate/copies.h"
#include "controllers/simulate/stabilizer.h"
#include "controllers/simulate/steady.h"

namespace janus::controllers {
namespace {

double AimedStep(const WholeInputs& inputs) {
  return inputs.strictness * inputs.aim * inputs.tpot_seconds;
}

class ByDemand final : public Copies {
 public:
  explicit ByDemand(const WholeInputs& inputs)
      : Copies(inputs, "ceil", inputs.interval_s), down_(300) {}

  Answer Decide(const Observation& seen) override {
    const int wanted = CopiesFor(inputs_, seen.demand);
    const auto copies = static_cast<int>(down_.Largest(seen.world.time_seconds, wanted));
    return {Of(copies),
            Say("%.1f requests/s need %.0f instances", seen.demand.requests_per_second, wanted)};
  }

 private:
  Stabilizer down_;
};

class FloorAndStep final : public Copies {
 public:
  explicit FloorAndStep(const WholeInputs& inputs) : Copies(inputs, "dynamo", 5) {}

  Answer Decide(const Observation& seen) override {
    constexpr double kFloorPeriod_s = 180;
    constexpr double kSensitivity = 0.8;
    const double now = seen.world.time_seconds;
    if (now >= next_floor_) {
      next_floor_ = now + kFloorPeriod_s;
      floor_ = CopiesFor(inputs_, seen.demand);
    }
    int copies = seen.wished.units;
    std::string why =
        Say("floor %.0f for %.1f requests/s", floor_, seen.demand.requests_per_second);
    const double target = inputs_.strictness * inputs_.tpot_seconds;
    // Measurements count only after the last action is complete.
    if (seen.starting == 0 && static_cast<int>(seen.instances.size()) == seen.wished.units) {
      const auto count = static_cast<double>(seen.instances.size());
      const bool all_above = std::ranges::all_of(
          seen.instances, [&](const auto& i) { return i.step_seconds > target; });
      // The other instances take over its load: count / (count - 1) of theirs.
      const bool all_below = count > 1 && std::ranges::all_of(seen.instances, [&](const auto& i) {
                               return i.step_seconds * count / (count - 1) < kSensitivity * target;
                             });
      if (all_above) ++copies;
      if (all_below && copies > floor_) --copies;
      why += all_above ? ", all above the target" : all_below ? ", all below 80 % of it" : "";
    }
    return {Of(std::max(copies, floor_)), why};
  }

 private:
  double next_floor_ = 0;
  int floor_ = 1;
};

class Sizes final : public SimulatedPolicy {
 public:
  Sizes(const WholeInputs& inputs, std::vector<int> sizes)
      : inputs_(inputs), sizes_(std::move(sizes)), busiest_(kPeriod_s) {}

  std::string_view name() const override { return "sglang"; }
  double interval_s() const override { return 300; }
  Beginning Begin(const Demand& first) override { return {Smallest(first)}; }

  Answer Decide(const Observation& seen) override {
    const double rate = busiest_.Largest(seen.world.time_seconds, seen.demand.requests_per_second);
    if (seen.world.time_seconds < next_) return {};
    next_ = seen.world.time_seconds + kPeriod_s;
    Demand demand = seen.demand;
    demand.requests_per_second = rate;
    demand.prompt_tokens_per_second *= rate / std::max(seen.demand.requests_per_second, 1e-9);
    demand.output_tokens_per_second *= rate / std::max(seen.demand.requests_per_second, 1e-9);
    return {Smallest(demand), Say("busiest 5 min of 30: %.1f requests/s, mean context %.0f", rate,
                                  seen.demand.context)};
  }

 private:
  static constexpr double kPeriod_s = 1800;

  Wish Smallest(const Demand& demand) const {
    WholeInputs inputs = inputs_;
    int copies = 1;
    for (const int gpus : sizes_) {
      inputs.how = {gpus};
      copies = CopiesFor(inputs, demand);
      if (copies == 1) break;
    }
    return Wish::Copies(copies, inputs.how);
  }

  const WholeInputs inputs_;
  const std::vector<int> sizes_;
  Stabilizer busiest_;
  double next_ = kPeriod_s;
};

}  // namespace

int CopiesFor(const WholeInputs& inputs, const Demand& demand) {
  if (demand.requests_per_second <= 0) return 1;
  const double capacity = CapacityOf(inputs.book->Whole(inputs.how), demand, AimedStep(inputs));
  const int most = inputs.MostCopies();
  if (capacity * most <= demand.requests_per_second) return most;
  return std::max(static_cast<int>(std::ceil(demand.requests_per_second / capacity)), 1);
}

std::optional<WholeConfiguration> CheapestWhole(WholeInputs inputs, std::span<const Demand> demands,
                                                std::span<const WholeConfiguration> ways) {
  std::optional<WholeConfiguration> best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const WholeConfiguration& how : ways) {
    inputs.how = how;
    if (CapacityOf(inputs.book->Whole(how), demands.front(), AimedStep(inputs)) <= 0) continue;
    int64_t sum = 0;
    for (const Demand& demand : demands) sum += int64_t{CopiesFor(inputs, demand)} * how.gpus;
    if (sum >= least) continue;
    best = how;
    least = sum;
  }
  return best;
}

std::unique_ptr<SimulatedPolicy> MakeWholeByDemand(const WholeInputs& inputs) {
  return std::make_unique<ByDemand>(inputs);
}

std::unique_ptr<SimulatedPolicy> MakeFloorAndStep(const WholeInputs& inputs) {
  return std::make_unique<FloorAndStep>(inputs);
}

std::unique_ptr<SimulatedPolicy> MakeWholeSizes(const WholeInputs& inputs, std::vector<int> sizes) {
  return std::make_unique<Sizes>(inputs, std::move(sizes));
}

}  // namespace janus::controllers
