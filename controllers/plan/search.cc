#include "controllers/plan/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "common/pools.h"
#include "controllers/plan/largest_batch.h"
#include "controllers/plan/terms.h"
#include "controllers/plan/why_none.h"

namespace janus::controllers {
namespace {

constexpr size_t kRunnersUp = 5;

// Over all pools.
double CostOf(const Setting& setting, const Configuration& how) {
  return how.AttentionGpus() * setting.attention.hardware.price +
         how.ExpertGpus() * setting.experts.hardware.price;
}

// Whether m and n are whole pods.
bool IsInWholePods(const PlanSpace& space, const Configuration& how) {
  return !space.fills_pods ||
         (how.m % space.instances_per_pod == 0 && how.n % space.instances_per_pod == 0);
}

template <class T>
bool IsPinnedElsewhere(const std::optional<T>& pin, const T& value) {
  return pin && *pin != value;
}

// An exchange that the space allows.
struct Way {
  ExchangeMode mode = ExchangeMode::kDirect;
  GateSide gate = GateSide::kExperts;
  SumRule sum = SumRule::kContributions;
  WireFormat wire = WireFormat::kBf16;
};
std::vector<Way> WaysOf(const Setting& setting, const PlanSpace& space) {
  const PlanPins& pins = space.pins;
  std::vector<Way> ways;
  for (const auto& [mode, gate] : kExchangesTried) {
    for (const SumRule sum : {SumRule::kContributions, SumRule::kFixedPoint}) {
      for (const WireFormat wire : {WireFormat::kBf16, WireFormat::kFp8}) {
        if (sum == SumRule::kFixedPoint && !space.tries_fixed_point && !pins.sum) continue;
        if (wire == WireFormat::kFp8 && !space.tries_fp8 && !pins.wire) continue;
        if (IsPinnedElsewhere(pins.mode, mode) || IsPinnedElsewhere(pins.gate, gate)) continue;
        if (IsPinnedElsewhere(pins.sum, sum) || IsPinnedElsewhere(pins.wire, wire)) continue;
        Configuration how;
        how.mode = mode;
        how.gate = gate;
        how.sum = sum;
        how.wire = wire;
        if (!space.is_served_only || IsServed(setting, how))
          ways.push_back({mode, gate, sum, wire});
      }
    }
  }
  return ways;
}

// The share of the goal for each pool.
PlanGoal OfEachPool(PlanGoal goal, int pools) {
  goal.batch /= pools;
  goal.traffic.requests_per_second /= pools;
  return goal;
}

// A plan without Detail (its times and memory), which only returned plans need.
Plan Outline(const Setting& setting, const Configuration& how, double batch, double tpot_seconds) {
  Plan plan;
  plan.how = how;
  plan.batch = batch;
  plan.tpot_seconds = tpot_seconds;
  plan.tokens_per_second = batch / tpot_seconds;
  plan.cost = CostOf(setting, how);
  plan.gpus = how.Gpus();
  return plan;
}

void Detail(const Setting& setting, Plan& plan) {
  plan.times = TimesOfLayer(setting, plan.how, plan.batch / plan.how.pools);
  plan.memory = MemoryOf(setting, plan.how, plan.batch / plan.how.pools);
}

// Sequences of a pool that memory and the batch limit allow; 0: the weights do not fit.
double MostSequences(const Setting& setting, const PlanSpace& space, const Configuration& how) {
  const MemoryUse none = MemoryOf(setting, how, 0);
  if (!none.fits_attention || !none.fits_experts) return 0;
  const MemoryUse one = MemoryOf(setting, how, 1);
  const auto room = [&](const DeviceCosts& device, double weights, double with_one) {
    return (setting.memory_share * device.hardware.memory_bytes - weights) / (with_one - weights);
  };
  return std::floor(std::min({room(setting.attention, none.attention_bytes, one.attention_bytes),
                              room(setting.experts, none.expert_bytes, one.expert_bytes),
                              static_cast<double>(space.max_batch_per_attention) * how.m}));
}

// Whether the space allows the configuration, for any load.
bool IsInSpace(const Setting& setting, const PlanSpace& space, const Configuration& how) {
  if (space.is_survivable && !IsSurvivable(setting, space, how)) return false;
  return IsInWholePods(space, how);
}

// EvaluatePlan without Detail.
std::optional<Plan> Judge(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                          const Configuration& how) {
  if (!IsInSpace(setting, space, how)) return std::nullopt;
  const double most = MostSequences(setting, space, how);
  const auto seconds = [&](double batch) { return TimePerOutputToken(setting, how, batch); };
  const double asked = goal.batch / how.pools;
  if (asked > most) return std::nullopt;
  const double batch = asked > 0 ? asked : LargestBatch(most, goal.tpot_seconds, seconds);
  if (batch == 0) return std::nullopt;
  const double tpot = seconds(batch);
  if (tpot > goal.tpot_seconds) return std::nullopt;
  return Outline(setting, how, batch * how.pools, tpot);
}

class Searcher {
 public:
  Searcher(const Setting& setting, const PlanGoal& goal, const PlanSpace& space)
      : setting_(setting), goal_(goal), space_(space), ways_(WaysOf(setting, space)) {}

  Result<PlanAnswer> Run() {
    for (const int tp_e : Widths(space_.pins.tp_experts)) {
      // Latents cannot be split.
      const int most = setting_.model.IsLatent() ? 1 : space_.max_tensor_parallel;
      for (const int tp_a : Widths(space_.pins.tp_attention)) {
        if (tp_a > most) continue;
        Configuration how;
        how.sum_bits = space_.sum_bits;
        how.tp_attention = tp_a;
        how.tp_experts = tp_e;
        if (goal_.HasLoad()) {
          TryPools(how);
        } else {
          how.pools = space_.pins.pools.value_or(1);
          TryAllForThroughput(how);
        }
      }
    }
    if (plans_.empty() && !missed_.empty()) {
      return WhyNoFirstToken(goal_, Soonest(missed_), Wholes());
    }
    if (plans_.empty()) return WhyNoPlan(setting_, goal_, space_, Wholes());
    PlanAnswer answer;
    answer.tried = tried_;
    Rank(answer);
    answer.wholes = Wholes();
    answer.is_separation_worthwhile =
        answer.wholes.empty() || !IsBetter(goal_, answer.wholes[0], answer.plans[0]);
    return answer;
  }

 private:
  std::vector<int> Widths(const std::optional<int>& pin) const {
    if (pin) return {*pin};
    std::vector<int> widths;
    for (int tp = 1; tp <= (space_.is_served_only ? 1 : space_.max_tensor_parallel); tp *= 2) {
      widths.push_back(tp);
    }
    return widths;
  }

  // m and n must be multiples of this.
  int Granule() const { return space_.fills_pods ? space_.instances_per_pod : 1; }

  // The largest m and n of a pool.
  int MostAttention(const Configuration& how) const {
    return space_.max_attention_gpus / how.pools / how.tp_attention;
  }
  int MostExperts(const Configuration& how) const {
    return space_.max_expert_gpus / how.pools / how.tp_experts;
  }

  int FewestExperts(Configuration how) const {
    for (how.n = Granule(); how.n <= MostExperts(how); how.n += Granule()) {
      const double rows = std::max(goal_.batch / how.pools, 1.0);
      if (!MemoryOf(setting_, how, rows).fits_experts) continue;
      if (!space_.is_survivable || IsSurvivable(setting_, space_, how)) return how.n;
    }
    return 0;
  }

  // Tries pools of equal size, for every number of pools that may be cheapest.
  void TryPools(Configuration how) {
    if (space_.pins.pools) {
      how.pools = *space_.pins.pools;
      TryAllForLoad(how);
      return;
    }
    const int most =
        space_.is_served_only ? std::min(kMostPools, space_.max_pools) : space_.max_pools;
    // A batch that fills several pools of the best size needs about that many. Trying fewer and
    // larger pools first would take seconds.
    constexpr double kAlwaysAsOne = 8192;
    int first = 1;
    if (goal_.batch > kAlwaysAsOne && most > 1) first = PoolsOfTheBestSize(how, most);
    for (how.pools = std::max(first - 1, 1); how.pools <= most; ++how.pools) {
      Configuration least = how;
      least.n = FewestExperts(how);
      if (least.n == 0 || CostOf(setting_, least) > least_cost_) break;
      if (how.pools > first + 2 && !std::isinf(least_cost_)) break;
      TryAllForLoad(how);
    }
  }

  // How many pools with most tokens per cost carry the batch.
  int PoolsOfTheBestSize(Configuration how, int most) const {
    PlanGoal most_throughput = goal_;
    most_throughput.batch = 0;
    most_throughput.traffic = {};
    most_throughput.ttft_seconds = 0;
    Searcher of_one(setting_, most_throughput, space_);
    of_one.TryAllForThroughput(how);
    double best_rate = 0;
    double batch = goal_.batch;
    for (const Plan& plan : of_one.plans_) {
      if (plan.tokens_per_second / plan.cost <= best_rate) continue;
      best_rate = plan.tokens_per_second / plan.cost;
      batch = plan.batch;
    }
    return std::clamp(static_cast<int>(std::ceil(goal_.batch / batch)), 1, most);
  }

  void TryAllForLoad(const Configuration& how) {
    const bool is_judged_by_first_token = goal_.batch == 0 || goal_.HasTraffic();
    is_judged_by_first_token ? TryAllForFirstToken(how) : TryAllForBatch(how);
  }

  bool IsPinnedAway(const Configuration& how) const {
    return IsPinnedElsewhere(space_.pins.attention, how.m) ||
           IsPinnedElsewhere(space_.pins.experts, how.n);
  }

  // The fewest attention instances that a pool needs for its sequences.
  int FewestAttention(const Configuration& how) const {
    const double sequences = goal_.batch / how.pools / space_.max_batch_per_attention;
    return std::max(static_cast<int>(std::ceil(sequences / Granule())), 1) * Granule();
  }

  // Tries m from the cheapest up, and stops when a plan would cost more than the best.
  void TryAllForBatch(Configuration how) {
    const int fewest = FewestExperts(how);
    if (fewest == 0) return;
    for (how.n = fewest; how.n <= MostExperts(how); how.n += Granule()) {
      how.m = FewestAttention(how);
      if (CostOf(setting_, how) >
          least_cost_ + kMargin * Granule() * setting_.experts.hardware.price)
        break;
      for (; how.m <= MostAttention(how); how.m += Granule()) {
        if (CostOf(setting_, how) > MostCost()) break;
        if (IsPinnedAway(how)) continue;
        if (TryInner(how)) break;  // more attention instances only cost more
      }
    }
  }

  // The highest cost of a runner-up with one more attention instance.
  double MostCost() const {
    return least_cost_ + kMargin * Granule() * setting_.attention.hardware.price;
  }

  // The same for traffic, with a goal for first tokens. Some numbers of experts cannot keep this
  // goal with any number of attention instances. Until a plan is found, experts are added in
  // growing strides; then the numbers that were skipped are tried.
  void TryAllForFirstToken(Configuration how) {
    const int fewest = FewestExperts(how);
    if (fewest == 0) return;
    int last = fewest - Granule();
    for (int n = fewest; n <= MostExperts(how);) {
      how.n = n;
      how.m = Granule();
      if (CostOf(setting_, how) >
          least_cost_ + kMargin * Granule() * setting_.experts.hardware.price)
        break;
      if (TryFewestAttention(how)) {
        for (how.n = last + Granule(); how.n < n; how.n += Granule()) TryFewestAttention(how);
      }
      last = n;
      const bool is_pinned = space_.pins.experts.has_value();
      n += std::isinf(least_cost_) && !is_pinned ? std::max(n / 8 / Granule(), 1) * Granule()
                                                 : Granule();
    }
  }

  // Finds the fewest attention instances for which first tokens come in time. More instances
  // shorten the queue but leave each a smaller share of a step's prompt rows. If that makes first
  // tokens later, even more instances do not help.
  bool TryFewestAttention(Configuration how) {
    constexpr int kPatience = 3;
    double before = HUGE_VAL;
    int later = 0;
    for (how.m = FewestAttention(how); how.m <= MostAttention(how); how.m += Granule()) {
      if (CostOf(setting_, how) > MostCost()) return false;
      if (IsPinnedAway(how)) continue;
      const size_t known = missed_.size();
      if (TryInner(how)) return true;
      if (missed_.size() == known) continue;
      const double seconds = missed_.back().first_token->seconds;
      later = std::isfinite(seconds) && seconds > before ? later + 1 : 0;
      if (later == kPatience) return false;
      before = seconds;
    }
    return false;
  }

  // Tries m and n on coarse grids, then the neighbours of the best until none is better.
  void TryAllForThroughput(Configuration how) {
    const int fewest = FewestExperts(how);
    if (fewest == 0) return;
    const int most_n =
        std::min(MostExperts(how), std::max(8 * fewest, space_.pins.experts.value_or(0)));
    const int most_m = MostAttention(how);
    std::optional<Plan> best;
    walk_rate_ = 0;
    const auto consider = [&](int m, int n) {
      if (m < 1 || n < fewest || m > most_m || n > most_n) return false;
      how.m = m;
      how.n = n;
      if (IsPinnedAway(how)) return false;
      if (!TryInner(how) || (best && !IsBetter(goal_, plans_.back(), *best))) return false;
      best = plans_.back();
      walk_rate_ = best->tokens_per_second / best->cost;
      return true;
    };
    const int granule = Granule();
    const auto grid = [granule](const std::optional<int>& pin, int first, int most, double times) {
      std::vector<int> points;
      if (pin) return std::vector<int>{*pin};
      for (int of = first; of <= most;) {
        points.push_back(of);
        const int grown = static_cast<int>(static_cast<double>(of) / granule * times) * granule;
        of = std::max(of + granule, grown);
      }
      return points;
    };
    for (const int n : grid(space_.pins.experts, fewest, most_n, 1.6)) {
      for (const int m : grid(space_.pins.attention, granule, most_m, 1.5)) consider(m, n);
    }
    for (bool improved = best.has_value(); improved;) {
      const Configuration at = best->how;
      improved = false;
      for (const auto& [dm, dn] : {std::pair(1, 0), {-1, 0}, {0, 1}, {0, -1}}) {
        improved |= consider(at.m + dm * granule, at.n + dn * granule);
      }
    }
  }

  // Tries all micro-batch counts and modes for one m and n, and keeps the best. Returns whether one
  // keeps the goal.
  bool TryInner(Configuration how) {
    if (!IsWithinGpus(how)) return false;
    std::optional<Plan> best;
    std::optional<Plan> missed;  // the best of those that miss the first token
    const PlanGoal each = OfEachPool(goal_, how.pools);
    if (goal_.batch == 0 && goal_.HasTraffic()) {
      best = QuickestForTraffic(how, each);
      if (best && MissesFirstToken(*best)) missed = std::exchange(best, std::nullopt);
    } else {
      for (how.micro_batches = 1; how.micro_batches <= space_.max_micro_batches;
           ++how.micro_batches) {
        if (IsPinnedElsewhere(space_.pins.micro_batches, how.micro_batches)) continue;
        how.slots = QuickestSlots(setting_, each, space_, how);
        for (const Way& way : ways_) {
          how.mode = way.mode;
          how.gate = way.gate;
          how.sum = way.sum;
          how.wire = way.wire;
          ++tried_;
          if (CannotReach(how, best)) continue;
          if (!best && missed && CannotBeSooner(how, *missed)) continue;
          std::optional<Plan> plan = Judge(setting_, goal_, space_, how);
          if (!plan || (best && !IsBetter(goal_, *plan, *best))) continue;
          if (MissesFirstToken(*plan)) {
            if (!missed || IsSooner(*plan, *missed)) missed = std::move(plan);
            continue;
          }
          best = std::move(plan);
        }
      }
    }
    if (!best && missed) missed_.push_back(std::move(*missed));
    if (!best) return false;
    least_cost_ = std::min(least_cost_, best->cost);
    const double rate = best->tokens_per_second / best->cost;
    rates_.insert(std::ranges::lower_bound(rates_, rate, std::greater<>()), rate);
    if (rates_.size() > kRunnersUp + 1) rates_.pop_back();
    plans_.push_back(std::move(*best));
    return true;
  }

  // For one m and n, the exchange with the shortest step for the load that arrives within the TPOT
  // target. The plan's TPOT is the one at which load and step agree. nullopt: it exceeds the
  // target, or memory is short.
  std::optional<Plan> QuickestForTraffic(Configuration how, const PlanGoal& each) {
    const Traffic& traffic = each.traffic;
    const double target = goal_.tpot_seconds;
    const double arriving = traffic.requests_per_second * target;
    const StepLoad load = {arriving * traffic.output_tokens, setting_.context,
                           arriving * traffic.prompt_tokens, traffic.prompt_tokens / 2};
    PlanGoal rows = each;
    rows.batch = std::max(load.decode_rows, 1.0);
    std::optional<Configuration> quickest;
    double least = target;
    for (how.micro_batches = 1; how.micro_batches <= space_.max_micro_batches;
         ++how.micro_batches) {
      if (IsPinnedElsewhere(space_.pins.micro_batches, how.micro_batches)) continue;
      how.slots = QuickestSlots(setting_, rows, space_, how);
      if (!IsInSpace(setting_, space_, how)) continue;
      for (const Way& way : ways_) {
        how.mode = way.mode;
        how.gate = way.gate;
        how.sum = way.sum;
        how.wire = way.wire;
        ++tried_;
        const double step = TimesOfStep(setting_, how, load).step;
        if (step > least) continue;
        least = step;
        quickest = how;
      }
    }
    if (!quickest) return std::nullopt;
    const double most = MostSequences(setting_, space_, *quickest);
    if (most < 1) return std::nullopt;
    const FirstToken token = FirstTokenOf(goal_, StepperOf(setting_, *quickest, most * how.pools));
    if (std::isinf(token.seconds)) return std::nullopt;
    Plan plan = Outline(setting_, *quickest, token.decoding, token.tpot_seconds);
    plan.first_token = token;
    return plan;
  }

  bool IsWithinGpus(const Configuration& how) const {
    return space_.max_gpus == 0 || how.Gpus() <= space_.max_gpus;
  }

  // Fills in the first token if the traffic is known. A plan that does not carry the traffic misses
  // it, too.
  bool MissesFirstToken(Plan& plan) const {
    if (!goal_.HasTraffic()) return false;
    if (!plan.first_token) {
      plan.first_token = FirstTokenOf(goal_, StepperOf(setting_, plan.how, plan.batch));
    }
    plan.lost_by = WhyMissed(goal_, *plan.first_token);
    return !plan.lost_by.empty();
  }

  // For the same number of instances, more prompt rows in a step mean earlier first tokens.
  bool CannotBeSooner(const Configuration& how, const Plan& missed) const {
    return goal_.batch > 0 && !MayHaveRoom(goal_, StepperOf(setting_, how, goal_.batch),
                                           missed.first_token->prompt_rows + 1);
  }

  static bool IsSooner(const Plan& a, const Plan& b) {
    return a.first_token->seconds < b.first_token->seconds;
  }

  static const Plan& Soonest(const std::vector<Plan>& plans) {
    return *std::ranges::min_element(plans, &Searcher::IsSooner);
  }

  // Tokens per second grow with the batch: the largest batch that fits in memory is an upper bound.
  // Returns whether even that cannot beat `best` on the same GPUs, or the best and a runner-up of
  // the search.
  bool CannotReach(const Configuration& how, const std::optional<Plan>& best) const {
    if (goal_.HasLoad()) return false;
    const double runner_up = rates_.size() > kRunnersUp ? rates_[kRunnersUp] : 0;
    const double least = std::max(best ? best->tokens_per_second : 0,
                                  std::min(runner_up, walk_rate_) * CostOf(setting_, how));
    if (least == 0) return false;
    const double most = MostSequences(setting_, space_, how);
    return most < 1 || most / TimePerOutputToken(setting_, how, most) < least;
  }

  void Rank(PlanAnswer& answer) {
    std::ranges::stable_sort(plans_,
                             [&](const Plan& a, const Plan& b) { return IsBetter(goal_, a, b); });
    const Plan& best = plans_[0];
    std::vector<Plan> chosen;
    for (const Plan& plan : plans_) {
      if (chosen.size() > kRunnersUp) break;
      // The grids and the walk to neighbours may visit a configuration twice.
      if (!chosen.empty() && chosen.back().how == plan.how) continue;
      chosen.push_back(plan);
      if (goal_.HasTraffic() && !chosen.back().first_token) {
        chosen.back().first_token = FirstTokenOf(goal_, StepperOf(setting_, plan.how, plan.batch));
      }
      if (&plan == &best) continue;
      chosen.back().lost_by = WhyLost(goal_, plan, best);
    }
    answer.plans = RuledOut(best);
    answer.plans.insert(answer.plans.begin(), chosen[0]);
    answer.plans.insert(answer.plans.end(), chosen.begin() + 1, chosen.end());
    for (Plan& plan : answer.plans) Detail(setting_, plan);
  }

  // Plans that would have been chosen before `best` without the goal for first tokens.
  std::vector<Plan> RuledOut(const Plan& best) {
    std::erase_if(missed_, [&](const Plan& plan) { return !IsBetter(goal_, plan, best); });
    std::ranges::stable_sort(missed_,
                             [&](const Plan& a, const Plan& b) { return IsBetter(goal_, a, b); });
    const auto is_same = [](const Plan& a, const Plan& b) { return a.how == b.how; };
    const auto again = std::ranges::unique(missed_, is_same);
    missed_.erase(again.begin(), again.end());
    if (missed_.size() > kMostRuledOut)
      missed_.erase(missed_.begin() + kMostRuledOut, missed_.end());
    for (Plan& plan : missed_) plan.is_ruled_out = true;
    return std::move(missed_);
  }

  std::vector<WholePlan> Wholes() const {
    const bool is_one_device = setting_.attention.hardware.name == setting_.experts.hardware.name;
    Setting on = setting_;
    on.experts = setting_.attention;
    const auto most = [&](int gpus) {
      return space_.max_gpus > 0 ? std::min(gpus, space_.max_gpus) : gpus;
    };
    std::vector<WholePlan> wholes = SearchWholes(
        on, goal_, space_,
        most(space_.max_attention_gpus + (is_one_device ? space_.max_expert_gpus : 0)));
    if (is_one_device) return wholes;
    on.attention = on.experts = setting_.experts;
    const std::vector<WholePlan> others =
        SearchWholes(on, goal_, space_, most(space_.max_expert_gpus));
    wholes.insert(wholes.end(), others.begin(), others.end());
    std::ranges::stable_sort(
        wholes, [&](const WholePlan& a, const WholePlan& b) { return IsBetter(goal_, a, b); });
    for (WholePlan& plan : wholes) plan.lost_by = WhyLost(goal_, plan, wholes[0]);
    if (!wholes.empty()) wholes[0].lost_by.clear();
    return wholes;
  }

  static constexpr double kMargin = 3;  // a runner-up may cost this many instances more

  const Setting& setting_;
  const PlanGoal& goal_;
  const PlanSpace& space_;
  const std::vector<Way> ways_;
  std::vector<Plan> plans_;
  std::vector<Plan> missed_;   // for each m, n and tp without a plan in time: the soonest
  std::vector<double> rates_;  // tokens per second and cost of the best so far, descending
  double walk_rate_ = 0;       // the same for the best of the current tensor-parallel degrees
  double least_cost_ = HUGE_VAL;
  int64_t tried_ = 0;
};

Status CheckTraffic(const PlanGoal& goal) {
  const auto check = [](const char* what, double value, double least) {
    if (std::isfinite(value) && value >= least) return OkStatus();
    return InvalidArgument("plan: " + std::string(what) + " is " + std::to_string(value) +
                           "; want at least " + std::to_string(static_cast<int>(least)));
  };
  const Traffic& traffic = goal.traffic;
  JANUS_RETURN_IF_ERROR(check("the rate of requests", traffic.requests_per_second, 0));
  if (traffic.requests_per_second > 0) {
    JANUS_RETURN_IF_ERROR(check("a prompt's mean length", traffic.prompt_tokens, 1));
    JANUS_RETURN_IF_ERROR(check("an output's mean length", traffic.output_tokens, 1));
  }
  if (goal.ttft_seconds == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(check("the target of first tokens", goal.ttft_seconds, 0));
  if (!(goal.ttft_percentile > 0 && goal.ttft_percentile < 1)) {
    return InvalidArgument("plan: the percentile of first tokens is " +
                           std::to_string(goal.ttft_percentile) + "; want one between 0 and 1");
  }
  if (traffic.requests_per_second == 0) {
    return InvalidArgument(
        "plan: first tokens depend on the traffic; want the rate of requests and their lengths");
  }
  return OkStatus();
}

}  // namespace

std::optional<Plan> EvaluatePlan(const Setting& setting, const PlanGoal& goal,
                                 const PlanSpace& space, const Configuration& how) {
  std::optional<Plan> plan = Judge(setting, goal, space, how);
  if (plan) Detail(setting, *plan);
  return plan;
}

bool IsSurvivable(const Setting& setting, const PlanSpace& space, const Configuration& how) {
  const int left = how.n - std::min(space.instances_per_pod, how.n);
  return left > 0 && left * SlotsOf(setting, how) >= setting.model.experts;
}

int QuickestSlots(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                  Configuration how) {
  const double rows =
      goal.batch > 0 ? goal.batch : static_cast<double>(space.max_batch_per_attention) * how.m;
  const int holders =
      space.is_survivable ? how.n - std::min(space.instances_per_pod, how.n - 1) : how.n;
  const int fewest =
      static_cast<int>(std::ceil(static_cast<double>(setting.model.experts) / holders));
  const int room = SlotsPerInstance(setting, how);
  int quickest = fewest;
  double least = HUGE_VAL;
  for (const double times : {1.0, 1.25, 1.5, 2.0}) {
    how.slots = std::min(static_cast<int>(std::ceil(fewest * times)), std::max(room, fewest));
    if (!MemoryOf(setting, how, rows).fits_experts) break;
    const double seconds =
        ExpertKernelSeconds(setting, how, how.slots, rows / how.micro_batches, nullptr);
    if (seconds >= least) continue;
    least = seconds;
    quickest = how.slots;
  }
  return quickest;
}

Stepper StepperOf(const Setting& setting, const Configuration& how, double batch) {
  return {[&setting, how](StepLoad load) {
            load.decode_rows /= how.pools;
            load.prompt_rows /= how.pools;
            return TimesOfStep(setting, how, load).step;
          },
          setting.context, batch, static_cast<double>(how.pools) * how.m};
}

Setting OnDeviceOf(const Setting& setting, const WholePlan& plan) {
  Setting on = setting;
  if (plan.device == setting.attention.hardware.name) {
    on.experts = setting.attention;
  } else {
    on.attention = setting.experts;
  }
  return on;
}

Result<PlanAnswer> SearchPlans(const Setting& setting, const PlanGoal& goal,
                               const PlanSpace& space) {
  if (!std::isfinite(goal.tpot_seconds) || goal.tpot_seconds <= 0) {
    return InvalidArgument("plan: the TPOT target is " + std::to_string(goal.tpot_seconds) +
                           " s; want a positive number");
  }
  if (!std::isfinite(goal.batch) || goal.batch < 0) {
    return InvalidArgument("plan: the batch is " + std::to_string(goal.batch) +
                           "; want sequences, or 0 for as many as the target allows");
  }
  if (!std::isfinite(setting.context) || setting.context < 1) {
    return InvalidArgument("plan: the context is " + std::to_string(setting.context) +
                           " keys; want at least 1");
  }
  JANUS_RETURN_IF_ERROR(Validate(setting.attention.hardware));
  JANUS_RETURN_IF_ERROR(Validate(setting.experts.hardware));
  JANUS_RETURN_IF_ERROR(CheckTraffic(goal));
  if (space.max_attention_gpus < 1 || space.max_expert_gpus < 1) {
    return InvalidArgument("plan: want at least one GPU for attention and one for experts");
  }
  if (space.max_gpus < 0 || space.max_gpus == 1) {
    return InvalidArgument("plan: at most " + std::to_string(space.max_gpus) +
                           " GPUs are allowed; want 2 or more, or 0 for no limit");
  }
  if (space.max_pools < 1 || WaysOf(setting, space).empty()) {
    return InvalidArgument(
        "plan: want at least one pool, and at least one allowed way to exchange rows");
  }
  if (space.instances_per_pod < 1 || space.max_micro_batches < 1 || space.max_tensor_parallel < 1 ||
      space.max_batch_per_attention < 1) {
    return InvalidArgument(
        "plan: want at least one instance in a pod, one micro-batch, one GPU in an instance and "
        "one sequence in an instance");
  }
  return Searcher(setting, goal, space).Run();
}

}  // namespace janus::controllers
