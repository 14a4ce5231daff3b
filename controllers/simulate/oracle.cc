#include "controllers/simulate/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "controllers/scaling/cheapest.h"
#include "controllers/simulate/separated_policies.h"
#include "controllers/simulate/steady.h"

namespace janus::controllers {
namespace {

// Follows a schedule: plan `choices[i]` is ready during the i-th interval.
class Schedule final : public SimulatedPolicy {
 public:
  Schedule(const std::vector<Wish>& plans, const std::vector<int>& choices, double interval_s,
           double start_s)
      : plans_(plans), choices_(choices), interval_s_(interval_s), start_s_(start_s) {}

  std::string_view name() const override { return "oracle"; }
  // Decisions are at multiples of it. An interval's begin is one of them, and so is the time of one
  // start before.
  double interval_s() const override { return kTick; }

  Beginning Begin(const Demand& /*first*/) override { return {plans_[choices_[0]]}; }

  Answer Decide(const Observation& seen) override {
    const double now = seen.world.time_seconds;
    const Wish& running = plans_[choices_[At(now)]];
    const Wish& next = plans_[choices_[At(now + start_s_)]];
    // A larger plan is requested one start ahead, a smaller one when its interval begins.
    const Configuration& a = running.how;
    const Configuration& b = next.how;
    const bool is_growing = b.m > a.m || b.n > a.n || b.pools > a.pools;
    if (is_growing) {
      return {next, "the plan of the next interval, ready when it begins"};
    }
    return {running, "the plan of this interval"};
  }

 private:
  static constexpr double kTick = 10;

  size_t At(double time) const {
    const double interval = std::floor(std::max(time, 0.0) / interval_s_ + 1e-9);
    return std::min(static_cast<size_t>(interval), choices_.size() - 1);
  }

  const std::vector<Wish>& plans_;
  const std::vector<int>& choices_;
  const double interval_s_;
  const double start_s_;
};

int GpusWhileChanging(const Wish& from, const Wish& to) {
  return std::max(from.how.AttentionGpus(), to.how.AttentionGpus()) +
         std::max(from.how.ExpertGpus(), to.how.ExpertGpus());
}

// The requests that a plan misses within `margin` intervals around each interval.
std::vector<std::vector<int64_t>> Around(const std::vector<std::vector<int64_t>>& missed,
                                         int margin) {
  std::vector<std::vector<int64_t>> around = missed;
  for (size_t p = 0; p < missed.size(); ++p) {
    const auto count = static_cast<int>(missed[p].size());
    for (int i = 0; i < count; ++i) {
      for (int j = std::max(i - margin, 0); j <= std::min(i + margin, count - 1); ++j) {
        around[p][i] = std::max(around[p][i], missed[p][j]);
      }
    }
  }
  return around;
}

// The requests that each plan would miss after losing a share of its GPUs: those of the best
// smaller plan that takes no more than the rest. A schedule of such plans has that reserve.
std::vector<std::vector<int64_t>> WithInHand(const std::vector<std::vector<int64_t>>& missed,
                                             const std::vector<Wish>& plans, double share) {
  if (share == 0) return missed;
  const auto is_within = [&](const Wish& less, const Wish& plan) {
    return less.how.AttentionGpus() <= plan.how.AttentionGpus() &&
           less.how.ExpertGpus() <= plan.how.ExpertGpus() &&
           less.Gpus() <= (1 - share) * plan.Gpus();
  };
  std::vector<std::vector<int64_t>> with;
  for (const Wish& plan : plans) {
    with.push_back(missed[0]);
    std::vector<int64_t>& least = with.back();
    bool is_first = true;
    for (size_t q = 0; q < plans.size(); ++q) {
      if (!is_within(plans[q], plan)) continue;
      for (size_t i = 0; i < least.size(); ++i) {
        least[i] = is_first ? missed[q][i] : std::min(least[i], missed[q][i]);
      }
      is_first = false;
    }
  }
  return with;
}

// How many requests may wait. A request that waits longer than the target for its first token
// misses it, and so do the requests behind it, until there is more capacity than load. The limit is
// the number that arrives in half of the target.
int64_t MostWaiting(std::span<const SimulatedRequest> requests, const SimulationOptions& options) {
  constexpr int64_t kLeast = 2000;
  if (options.level.ttft_seconds <= 0) return std::min(options.machinery.most_waiting, kLeast);
  int64_t count = 0;
  int64_t largest = 1;
  for (const SimulatedRequest& request : requests) {
    count += request.weight;
    largest = std::max<int64_t>(largest, request.weight);
  }
  const double rate = static_cast<double>(count) / std::max(requests.back().arrival, 1.0);
  const auto patient = static_cast<int64_t>(rate * options.level.ttft_seconds / 2);
  return std::min(options.machinery.most_waiting, std::max(patient, 4 * largest));
}

// Limits how many requests may wait, for the life of this object.
class Shedding {
 public:
  Shedding(ShapeBook* book, int64_t most_waiting)
      : book_(book), before_(book->SetMostWaiting(most_waiting)) {}
  ~Shedding() { book_->SetMostWaiting(before_); }
  Shedding(const Shedding&) = delete;
  Shedding& operator=(const Shedding&) = delete;

 private:
  ShapeBook* const book_;
  const int64_t before_;
};

// The schedule with the least sum of GPU seconds and `price` times missed requests.
std::vector<int> Cheapest(const std::vector<Wish>& plans,
                          const std::vector<std::vector<int64_t>>& missed, double interval_s,
                          double start_s, double price) {
  const size_t count = plans.size();
  const size_t intervals = missed[0].size();
  std::vector<double> cost(count);
  std::vector<std::vector<int>> from(intervals, std::vector<int>(count, 0));
  for (size_t i = 0; i < intervals; ++i) {
    std::vector<double> next(count, std::numeric_limits<double>::infinity());
    for (size_t to = 0; to < count; ++to) {
      const double here =
          plans[to].Gpus() * interval_s + price * static_cast<double>(missed[to][i]);
      if (i == 0) {
        next[to] = here;
        continue;
      }
      for (size_t before = 0; before < count; ++before) {
        const double starting =
            start_s * (GpusWhileChanging(plans[before], plans[to]) - plans[before].Gpus());
        const double total = cost[before] + starting + here;
        if (total < next[to]) {
          next[to] = total;
          from[i][to] = static_cast<int>(before);
        }
      }
    }
    cost = next;
  }
  std::vector<int> choices(intervals);
  choices.back() = static_cast<int>(std::ranges::min_element(cost) - cost.begin());
  for (size_t i = intervals; i-- > 1;) choices[i - 1] = from[i][choices[i]];
  return choices;
}

// GPU hours of a schedule until `end_s`, without instances that leave late: a lower bound.
double GpuHoursOf(const std::vector<Wish>& plans, const std::vector<int>& choices,
                  double interval_s, double start_s, double end_s) {
  double seconds = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const Wish& now = plans[choices[i]];
    seconds += now.Gpus() * std::min(interval_s, end_s - static_cast<double>(i) * interval_s);
    if (i == 0) continue;
    const Wish& before = plans[choices[i - 1]];
    seconds += start_s * (GpusWhileChanging(before, now) - before.Gpus());
  }
  return seconds / 3600;
}

}  // namespace

std::vector<Wish> PlansForLevels(const Predictor& predictor, const ScalingPolicy& scaling,
                                 std::span<const SimulatedRequest> requests, double window_s,
                                 int levels) {
  // Here demand is in output tokens per second, as windows differ in lengths as much as in rate.
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const Demand& demand : DemandByWindow(requests, window_s)) {
    least = std::min(least, demand.output_tokens_per_second);
    most = std::max(most, demand.output_tokens_per_second);
  }
  least = std::max(least / 2, most / 64);
  const Demand mean = DemandOf(requests, requests.back().arrival + 1);
  std::vector<Wish> plans;
  for (int i = 0; i < levels; ++i) {
    // Bursts within a window exceed its mean.
    const double tokens = least * std::pow(1.5 * most / least, levels > 1 ? i / (levels - 1.0) : 1);
    const Wish plan = CheapestSeparated(predictor, scaling,
                                        Scaled(mean, tokens / mean.output_tokens_per_second), 1)
                          .wish;
    if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
  }
  std::ranges::stable_sort(plans, {}, [](const Wish& plan) { return plan.Gpus(); });
  return plans;
}

Result<SimulationRun> SimulateOracle(std::span<const SimulatedRequest> requests, ShapeBook* truth,
                                     const std::vector<Wish>& plans,
                                     const SimulationOptions& options, const OracleOptions& oracle,
                                     const ProgressFunction& progress) {
  if (requests.empty()) return InvalidArgument("simulate: there are no requests");
  if (plans.empty()) return FailedPrecondition("simulate: the oracle has no plan to choose from");
  const auto intervals = static_cast<size_t>(requests.back().arrival / oracle.interval_s) + 1;
  // An overload must not affect the intervals that follow it, in a plan or in a schedule.
  const Shedding shedding(truth, MostWaiting(requests, options));
  SimulationOptions by_interval = options;
  by_interval.window_s = oracle.interval_s;
  std::vector<std::vector<int64_t>> missed;
  double best = 0;
  size_t best_plan = 0;
  for (size_t p = 0; p < plans.size(); ++p) {
    const auto always = MakeFixed("always", {plans[p]});
    JANUS_ASSIGN_OR_RETURN(const SimulationRun run,
                           Simulate(requests, truth, always.get(), by_interval, {}));
    missed.emplace_back(intervals, 0);
    for (size_t i = 0; i < std::min(intervals, run.windows.size()); ++i) {
      missed.back()[i] = run.windows[i].arrived - run.windows[i].attained;
    }
    if (run.totals.Attainment() > best) {
      best = run.totals.Attainment();
      best_plan = p;
    }
    if (progress) progress(0.8 * static_cast<double>(p + 1) / static_cast<double>(plans.size()));
  }
  if (best < oracle.attainment) {
    char text[160];
    std::snprintf(text, sizeof(text),
                  "simulate: the oracle's best plan, %s all the time, attains %.2f %%, less than "
                  "%.2f %%; allow more GPUs or weaken the target",
                  plans[best_plan].Name().c_str(), best * 100, oracle.attainment * 100);
    return FailedPrecondition(text);
  }
  std::optional<SimulationRun> cheapest;
  // Work that one interval leaves undone falls into the next; runs of a single plan do not show
  // this. Plans must therefore be sufficient for `around` neighbouring intervals, or with fewer
  // GPUs than they have.
  struct Care {
    int around = 0;
    double in_hand = 0;  // share of its GPUs
  };
  constexpr std::array<Care, 12> kCares = {{{0, 0},
                                            {1, 0},
                                            {2, 0},
                                            {0, 0.05},
                                            {1, 0.05},
                                            {0, 0.1},
                                            {1, 0.1},
                                            {0, 0.15},
                                            {1, 0.15},
                                            {0, 0.2},
                                            {1, 0.2},
                                            {2, 0.3}}};
  for (size_t c = 0; c < kCares.size(); ++c) {
    const std::vector<std::vector<int64_t>> around =
        WithInHand(Around(missed, kCares[c].around), plans, kCares[c].in_hand);
    // The logarithm of the price of a missed request in GPU seconds: from nothing to more than a
    // day of all GPUs.
    double low = std::log(1e-3);
    double high = std::log(1e7);
    for (int i = 0; i < oracle.prices; ++i) {
      // The highest price comes first: a schedule that attains the goal.
      const double price = i == 0 ? high : (low + high) / 2;
      const std::vector<int> choices =
          Cheapest(plans, around, oracle.interval_s, options.machinery.start_s, std::exp(price));
      // A schedule that takes more than the cheapest so far is not run; only a lower price helps.
      if (cheapest && GpuHoursOf(plans, choices, oracle.interval_s, options.machinery.start_s,
                                 requests.back().arrival) >= cheapest->totals.gpu_hours) {
        if (i > 0) high = price;
        continue;
      }
      Schedule schedule(plans, choices, oracle.interval_s, options.machinery.start_s);
      JANUS_ASSIGN_OR_RETURN(SimulationRun run, Simulate(requests, truth, &schedule, options, {}));
      const bool is_enough = run.totals.Attainment() >= oracle.attainment;
      if (i > 0) (is_enough ? high : low) = price;
      if (is_enough && (!cheapest || run.totals.gpu_hours < cheapest->totals.gpu_hours)) {
        cheapest = std::move(run);
      }
      if (progress) {
        progress(0.8 + 0.2 * (static_cast<double>(c) + (i + 1.0) / oracle.prices) / kCares.size());
      }
      if (i == 0 && !is_enough) break;
    }
  }
  if (cheapest) return std::move(*cheapest);
  // If every change costs attainment: the cheapest plan that attains the goal when it runs all the
  // time.
  for (const Wish& plan : plans) {
    const auto always = MakeFixed("oracle", {plan});
    JANUS_ASSIGN_OR_RETURN(SimulationRun run, Simulate(requests, truth, always.get(), options, {}));
    if (run.totals.Attainment() < oracle.attainment) continue;
    return run;
  }
  return Internal("simulate: no schedule of the oracle attains what one of its plans does");
}

}  // namespace janus::controllers
