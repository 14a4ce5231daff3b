#include "controllers/scaling/decide.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/format.h"
#include "common/prompt_share.h"
#include "controllers/halving.h"
#include "controllers/scaling/cheapest.h"
#include "controllers/scaling/demand.h"
#include "controllers/scaling/impossible.h"
#include "controllers/scaling/log.h"
#include "controllers/scaling/rates.h"

namespace janus::controllers {
namespace {

constexpr size_t kMostStarts = 16;
constexpr size_t kMostTails = 8;
// With fewer requests a percentile is noise.
constexpr double kFewestRequests = 20;
// The most requests that can end between two decisions. Above this, a counter is broken.
constexpr double kMostEnded = 1e12;
// The most by which observed latencies may raise the predicted percentile over the model's.
constexpr double kMostTail = 1.5;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <class T>
void PushBounded(std::vector<T>& values, T value, size_t most) {
  if (values.size() >= most) values.erase(values.begin());
  values.push_back(std::move(value));
}

double LongestWindow(const RolePolicy& a, const RolePolicy& b, Behavior RolePolicy::*direction) {
  return std::max((a.*direction).stabilization_seconds, (b.*direction).stabilization_seconds);
}

double LongestPeriod(const ScalingPolicy& policy) {
  int longest = 0;
  for (const RolePolicy* role : {&policy.attention, &policy.experts}) {
    for (const Behavior* behavior : {&role->up, &role->down}) {
      for (const RateRule& rule : behavior->rules) longest = std::max(longest, rule.period_seconds);
    }
  }
  return longest;
}

// A TPOT is infinite where requests come faster than they end.
std::string Milliseconds(double seconds) {
  return std::isfinite(seconds) ? Format("%.1f ms", seconds * 1e3) : "without bound";
}

Counts CountsOf(const RoleState& attention, const RoleState& experts, int pools) {
  const int count = std::max(pools, 1);
  return {attention.ready / count, experts.ready / count, count};
}

// Whether a role has fewer instances in `b` than in `a`, over all pools.
bool Lacks(const Counts& b, const Counts& a) {
  return b.Attention() < a.Attention() || b.Experts() < a.Experts();
}

class Decider {
 public:
  Decider(const Predictor& predictor, const ScalingPolicy& policy, const World& world,
          Memory memory)
      : predictor_(predictor),
        policy_(policy),
        world_(world),
        memory_(std::move(memory)),
        current_(CountsOf(world.attention, world.experts, world.current.pools)),
        base_(current_) {}

  Outcome Run() {
    decision_.target = {world_.current, 0};
    if (!CannotDecide()) {
      Observe();
      if (!IsHeld() && !IsInFlight()) {
        Weigh();
        SplitSteps();
      }
    }
    if (decision_.verb == Verb::kHold && memory_.split > 0) {
      decision_.target.how.micro_batches = memory_.split;
    }
    if (decision_.verb == Verb::kHold && !memory_.pending.empty() && !decision_.advised) {
      decision_.target = TargetOf(memory_.pending.back().to);
    }
    decision_.corrections = memory_.online.corrections;
    decision_.error = ErrorOf(memory_.online);
    return {std::move(decision_), std::move(memory_)};
  }

 private:
  bool Hold(Reason reason, std::string text, Limit limit = Limit::kNone) {
    decision_.verb = Verb::kHold;
    decision_.reason = reason;
    decision_.text = std::move(text);
    decision_.limited_by = limit;
    return true;
  }

  // Checks for inputs that allow no decision.
  bool CannotDecide() {
    if (const Status status = Validate(policy_); !status.ok()) {
      return Hold(Reason::kInvalidPolicy, status.message());
    }
    if (std::string unsound = UnsoundNumberOf(world_); !unsound.empty()) {
      return Hold(Reason::kBadStatistics, unsound + "; want a number of at least 0");
    }
    if (world_.ended.attained > world_.ended.requests || world_.ended.requests > kMostEnded) {
      return Hold(Reason::kBadStatistics,
                  Format("ended_attained is %.0f of %.0f ended_requests; want no more than ended, "
                         "and these no more than %.0g",
                         world_.ended.attained, world_.ended.requests, kMostEnded));
    }
    if (world_.time_seconds < memory_.last_time_seconds) {
      return Hold(Reason::kBadStatistics,
                  Format("the time is %.3f s, before the last decision's %.3f s",
                         world_.time_seconds, memory_.last_time_seconds));
    }
    if (current_.m > predictor_.options().max_attention ||
        current_.n > predictor_.options().max_experts) {
      return Hold(
          Reason::kBadStatistics,
          NameOf(current_) + " is ready, more than the predictor was built for (" +
              NameOf({predictor_.options().max_attention, predictor_.options().max_experts}) + ")");
    }
    if (predictor_.Whole() != nullptr && current_.m > 0 &&
        (current_.m != predictor_.Whole()->gpus || current_.n != 0)) {
      return Hold(Reason::kBadStatistics,
                  Format("copies of %d GPUs and %d expert instances are ready, the predictor knows "
                         "copies of %d GPUs",
                         current_.m, current_.n, predictor_.Whole()->gpus));
    }
    const CountBounds bounds = BoundsOf(predictor_, policy_);
    if (bounds.max_pools < 1 || bounds.min_m > bounds.max_m || bounds.min_n > bounds.max_n) {
      return Hold(Reason::kInvalidPolicy,
                  Format("no whole pods lie between the bounds: attention %d to %d, experts %d to "
                         "%d (%d hold the model)",
                         bounds.min_m, bounds.max_m, bounds.min_n, bounds.max_n,
                         predictor_.FewestExperts()));
    }
    if (world_.arrivals.empty()) {
      return Hold(Reason::kNoMetrics, "no arrivals were reported; nothing is known of the load");
    }
    return false;
  }

  bool IsServing() const { return IsModelIn(current_); }

  double OnClock(double seconds) const { return seconds * policy_.times_faster; }

  // Learns from the world once: a second call for the same time changes nothing.
  void Observe() {
    const double now = world_.time_seconds;
    const bool is_new = now > memory_.last_time_seconds;
    // Without those that wait: a queue that is worked off would look like a load that falls.
    const double arriving = world_.arrivals.front().requests_per_second;
    if (is_new && world_.lengths.output_tokens > 0) {
      memory_.output_tokens = world_.lengths.output_tokens;
    }
    UntilReady until;
    until.start_seconds = StartSeconds();
    until.served_per_second = ServedPerSecond();
    now_ = WithBacklog(WhenReady(until), until);
    const auto reached = std::ranges::find(memory_.pending, current_, &Memory::Pending::to);
    if (reached != memory_.pending.end()) {
      memory_.pending.erase(memory_.pending.begin(), reached + 1);
      memory_.last_change_seconds = now;
    }
    if (is_new) {
      for (const RoleState* role : {&world_.attention, &world_.experts}) {
        for (const double start : role->start_seconds) {
          PushBounded(memory_.start_seconds, start, kMostStarts);
        }
      }
      memory_.forecast = controllers::Observe(
          std::move(memory_.forecast), policy_.forecast, OnClock(now),
          memory_.last_time_seconds < 0 ? -1 : OnClock(now - memory_.last_time_seconds), arriving);
      const double window =
          std::max(LongestWindow(policy_.attention, policy_.experts, &RolePolicy::down),
                   LongestWindow(policy_.attention, policy_.experts, &RolePolicy::up));
      RememberLoad(world_, now_, policy_, StartSeconds(), window, memory_);
      std::erase_if(memory_.changes, [&](const Memory::Change& c) {
        return c.time_seconds < now - LongestPeriod(policy_);
      });
      if (memory_.first_time_seconds < 0) memory_.first_time_seconds = now;
      LearnHowFarBehind();
      if (policy_.is_learning) LearnStep();
      if (policy_.is_budgeted) LearnBudget();
      memory_.last_time_seconds = now;
    }
    aim_ = AimOf(memory_.budget, policy_);
    start_seconds_ = StartSeconds();
    decision_.start_seconds = start_seconds_;
    LearnTail(is_new);
    const double growth = GrowthWithin(memory_.forecast, policy_.forecast, OnClock(now), arriving,
                                       OnClock(start_seconds_));
    until = {start_seconds_, growth, until.served_per_second};
    arriving_ahead_ = WhenReady(until);
    ahead_ = WithBacklog(arriving_ahead_, until);
    const double window = LongestWindow(policy_.attention, policy_.experts, &RolePolicy::up);
    least_ = LeastSince(memory_.samples, now - window, now_);
    // The least of a window is expected to rise as the present load is.
    if (window > 0 && now_.output_tokens_per_second > 0) {
      ahead_ = Times(least_, ahead_.output_tokens_per_second / now_.output_tokens_per_second);
    }
    arriving_ahead_.least_running = 0;
    arriving_ahead_ = WithRoom(arriving_ahead_, now);
    peak_ = PeakSince(memory_.samples, now - DownWindow(), now_);
    peak_ = WithRoom(PeakSince({{now, ahead_}}, now, peak_), now - DownWindow());
    ahead_ = WithRoom(ahead_, now);
    ahead_ = Times(ahead_, memory_.behind);
    decision_.demand = now_;
    if (IsServing()) decision_.current = Steady(current_, now_, SplitThatRuns());
  }

  // A service may do far less than the model predicts, for example if sequences that lost their
  // keys are computed again and again. Requests then wait although the service should carry them.
  // The ratio of arrivals to served requests since the last decision becomes a factor on the
  // demand, at most 2. Served are requests that ended, and those by which more run than before:
  // with longer outputs, fewer end than arrive for a while. While a change is under way, the last
  // ratio stays; if no request waits, it is 1. It is also 1 if there are more arrivals than the
  // model says are carried: the model does not err then, and the demand has all of them already.
  // Where this service computes prompts, the ratio counts even so: it shows a sudden rise before
  // the mean of the arrivals does.
  void LearnHowFarBehind() {
    constexpr double kMostBehind = 2;
    const double elapsed = world_.time_seconds - memory_.last_time_seconds;
    if (BacklogOf(world_, policy_) <= 0) {
      memory_.behind = 1;
      return;
    }
    const bool is_as_it_is =
        memory_.pending.empty() && !world_.in_flight && memory_.last_time_seconds >= 0 &&
        world_.time_seconds - memory_.last_change_seconds >= policy_.warm_up_seconds + elapsed;
    if (!is_as_it_is || world_.ended.requests < kFewestRequests) return;
    if (Life() > 0 && !Keeps(current_, ArrivingDemand(world_, memory_.output_tokens), 1)) {
      memory_.behind = 1;
      return;
    }
    const double come = world_.arrivals.front().requests_per_second * elapsed;
    const double served = world_.ended.requests + world_.now.running - RanBefore();
    memory_.behind = served > 0 ? std::clamp(come / served, 1.0, kMostBehind) : kMostBehind;
  }

  // Sequences that ran at the decision before this one.
  double RanBefore() const {
    const size_t known = memory_.samples.size();
    return known < 2 ? world_.now.running : memory_.samples[known - 2].demand.least_running;
  }

  static Demand Times(const Demand& demand, double factor) {
    Demand more = Scaled(demand, factor);
    more.least_running = demand.least_running;
    return more;
  }

  double Life() const { return LifeSeconds(world_, policy_, memory_.output_tokens); }

  // Requests per second that the ready instances serve while others wait. By the sequences that
  // run; if their life is not known, by the model, and then at most four times the arrivals.
  double ServedPerSecond() const {
    const Demand arriving = ArrivingDemand(world_, memory_.output_tokens);
    if (BacklogOf(world_, policy_) <= 0) return arriving.requests_per_second;
    if (Life() > 0) return EndingPerSecond(world_, memory_.output_tokens);
    if (!IsServing()) return arriving.requests_per_second;
    constexpr double kMost = 4;
    constexpr int kHalvings = 7;
    const double most = Keeps(current_, arriving, 1) ? kMost : 1;
    return arriving.requests_per_second * Halve({0, most}, kHalvings, [&](double share) {
                                            Demand part = Scaled(arriving, share);
                                            part.least_running = 0;
                                            return !Keeps(current_, part, 1);
                                          }).low;
  }

  // Rather too long than too short: three of four starts are faster.
  double StartSeconds() const {
    if (memory_.start_seconds.empty()) return policy_.start_seconds;
    std::vector<double> starts = memory_.start_seconds;
    std::ranges::sort(starts);
    return starts[starts.size() * 3 / 4];
  }

  Demand WhenReady(const UntilReady& until) const {
    return controllers::WhenReady(world_, policy_, memory_.output_tokens, until);
  }

  Demand WithBacklog(const Demand& when_ready, const UntilReady& until) const {
    return controllers::WithBacklog(when_ready, world_, policy_, memory_.output_tokens, until);
  }

  Demand WithRoom(const Demand& demand, double since_seconds) const {
    return controllers::WithRoom(demand, since_seconds, memory_, memory_.budget, policy_);
  }

  double DownWindow() const {
    return LongestWindow(policy_.attention, policy_.experts, &RolePolicy::down);
  }

  // Latencies of requests that ran before the last change, or on instances that were warming up, do
  // not describe the current service.
  bool IsSettled() const {
    const double request = memory_.output_tokens *
                           std::min(world_.observed.tpot_seconds.value_or(policy_.tpot.seconds),
                                    4 * policy_.tpot.seconds);
    const double settle = policy_.warm_up_seconds + 1.5 * request;
    return memory_.pending.empty() && !world_.in_flight &&
           (memory_.last_change_seconds < 0 ||
            world_.time_seconds - memory_.last_change_seconds >= settle) &&
           world_.attention.youngest_ready_seconds >= settle &&
           world_.experts.youngest_ready_seconds >= settle;
  }

  void LearnStep() {
    if (!world_.step || !IsServing() || predictor_.Whole() != nullptr) return;
    StepSample sample = *world_.step;
    sample.is_warm = sample.is_warm &&
                     world_.attention.youngest_ready_seconds >= policy_.warm_up_seconds &&
                     world_.experts.youngest_ready_seconds >= policy_.warm_up_seconds;
    const Configuration how = HowItRuns();
    Corrections terms = memory_.online.corrections;
    terms.step = 1;
    memory_.online = Learn(std::move(memory_.online), sample, predictor_.Step(how, sample.load),
                           predictor_.Step(how, sample.load, terms).step, policy_.online);
  }

  // The configuration that the world's step was measured with.
  Configuration HowItRuns() const {
    Configuration how = world_.current;
    how.m = current_.m;
    how.n = current_.n;
    how.micro_batches = std::max(how.micro_batches, 1);
    return how;
  }

  // For the predictor; 0, any, where what runs is no choice (any more).
  int SplitThatRuns() const {
    const int runs = HowItRuns().micro_batches;
    const PredictorOptions& options = predictor_.options();
    const bool is_choice = runs >= options.min_micro_batches && runs <= options.max_micro_batches;
    return is_choice ? runs : 0;
  }

  // Attainment counts only if decisions are followed. If no more instances may be asked for, misses
  // do not show how large the reserve should be.
  void LearnBudget() {
    if (policy_.is_advisory || world_.is_paused || world_.is_rolling_out) return;
    const double elapsed =
        memory_.last_time_seconds < 0 ? 0 : world_.time_seconds - memory_.last_time_seconds;
    memory_.budget = After(memory_.budget, world_.ended, elapsed, policy_, !memory_.is_at_limit);
  }

  // The observed TPOT at the percentile, over the predicted one for the current load and the
  // micro-batches that run: their middle of some intervals. One interval that misses its target may
  // be chance, and what it added would be taken away in the next.
  void LearnTail(bool is_new) {
    if (!policy_.is_learning || !IsServing()) return;
    const bool is_known = world_.observed.tpot_seconds && *world_.observed.tpot_seconds > 0 &&
                          world_.observed.tpot_requests >= kFewestRequests && IsSettled();
    if (is_known && is_new) {
      // Bursts within the interval are not an error of the model, even with a reserve for them.
      const Demand with_room =
          controllers::WithRoom(now_, world_.time_seconds, memory_, {}, policy_);
      const Prediction predicted = predictor_.Steady(
          current_, with_room, policy_, memory_.online.corrections, 1, SplitThatRuns());
      // While prompts wait, workers fill each step up to a share of the target, however many
      // instances there are.
      const double filled = ComputesPrompts(world_) ? kPromptShareOfTpot * policy_.tpot.seconds : 0;
      const double over = *world_.observed.tpot_seconds / std::max(predicted.tpot_seconds, filled);
      PushBounded(memory_.tails, std::clamp(over, 1.0, kMostTail), kMostTails);
    }
    if (memory_.tails.size() >= 3) tail_ = Median(memory_.tails);
  }

  bool IsHeld() {
    if (world_.is_paused) return Hold(Reason::kPaused, "the service is paused");
    if (world_.is_rolling_out) {
      return Hold(Reason::kRollout, "a rollout is in progress; counts stay until it ends");
    }
    return false;
  }

  // Handles an action that is not fulfilled yet: wait, withdraw it or, if the load needs more than
  // it brings, ask for more (false: base_ is then the count that is on its way).
  bool IsInFlight() {
    const double now = world_.time_seconds;
    Counts asked;
    double since = 0;
    if (!memory_.pending.empty()) {
      asked = memory_.pending.back().to;
      since = memory_.pending.front().since_seconds;
    } else if (world_.in_flight) {
      asked = {world_.in_flight->m, world_.in_flight->n, world_.in_flight->pools};
      since = world_.in_flight->since_seconds;
      if (asked == current_) return false;
      if (since <= memory_.withdrawn_at_seconds) {
        return Hold(Reason::kInsufficientCapacity,
                    NameOf(asked) + " was withdrawn; waiting until it is given up",
                    Limit::kCapacity);
      }
    } else {
      return false;
    }
    const double elapsed = now - since;
    const bool adds = Lacks(current_, asked);
    if (elapsed > policy_.pending_timeout_seconds) {
      Withdraw(Reason::kUnplaceable,
               Format("%s was not ready after %.0f s; %s is", NameOf(asked).c_str(), elapsed,
                      NameOf(current_).c_str()));
      RememberCapacity(asked);
      return true;
    }
    if (adds && elapsed > 2 * start_seconds_ && IsServing() && Keeps(current_, peak_, aim_)) {
      Withdraw(Reason::kNoLongerNeeded,
               Format("%s is late by %.0f s and %s carries the load", NameOf(asked).c_str(),
                      elapsed - start_seconds_, NameOf(current_).c_str()));
      return true;
    }
    const bool may_add = !memory_.pending.empty() &&
                         memory_.pending.size() < Memory::kMostPending &&
                         now > memory_.pending.back().since_seconds;
    // The pending action already counts the waiting requests; only a further rise of the load
    // matters.
    if (may_add && IsServing() && !Keeps(asked, arriving_ahead_, 1)) {
      base_ = asked;
      ahead_ = arriving_ahead_;
      return false;
    }
    return Hold(Reason::kScalingInProgress,
                Format("%s was asked for %.0f s ago, %s is ready", NameOf(asked).c_str(), elapsed,
                       NameOf(current_).c_str()));
  }

  void Withdraw(Reason reason, std::string text) {
    decision_.verb = Verb::kWithdraw;
    decision_.reason = reason;
    decision_.text = std::move(text);
    decision_.target = TargetOf(current_);
    memory_.pending.clear();
    memory_.withdrawn_at_seconds = world_.time_seconds;
    memory_.last_change_seconds = world_.time_seconds;
  }

  void RememberCapacity(Counts asked) {
    Memory::Withdrawn lacking;
    const auto most = [](int wanted, int ready) { return wanted > ready ? std::max(ready, 1) : 0; };
    lacking.most_m = most(asked.Attention(), current_.Attention());
    lacking.most_n = most(asked.Experts(), current_.Experts());
    // The same capacity is missing again: wait twice as long.
    const bool again = memory_.withdrawn && memory_.withdrawn->most_m == lacking.most_m &&
                       memory_.withdrawn->most_n == lacking.most_n;
    lacking.backoff_seconds =
        again ? std::min(2 * memory_.withdrawn->backoff_seconds, 16 * policy_.backoff_seconds)
              : policy_.backoff_seconds;
    lacking.until_seconds = world_.time_seconds + lacking.backoff_seconds;
    memory_.withdrawn = lacking;
  }

  bool Keeps(Counts c, const Demand& demand, double share) const {
    return predictor_.Keeps(c, demand, policy_, share, memory_.online.corrections, tail_);
  }
  Prediction Steady(Counts c, const Demand& demand, int split = 0) const {
    return predictor_.Steady(c, demand, policy_, memory_.online.corrections, tail_, split);
  }
  std::string NameOf(const Counts& c) const { return controllers::NameOf(predictor_, c); }
  bool IsModelIn(const Counts& c) const { return c.m >= 1 && c.n >= predictor_.FewestExperts(); }
  Target TargetOf(Counts c) const {
    Target target;
    target.how = world_.current;
    if (IsModelIn(c)) target.how = Steady(c, decision_.demand).how;
    target.how.m = c.m;
    target.how.n = c.n;
    target.how.pools = c.pools;
    if (c.n >= 1) target.slots = predictor_.SlotsPerExpert(c.n);
    return target;
  }
  double CostOf(Counts c) const { return predictor_.CostOf(c); }
  // By more than what sums of prices are rounded by.
  bool IsCheaper(Counts a, Counts b) const { return CostOf(a) < CostOf(b) * (1 - 1e-9); }

  // The counts that may be asked for now: the policy's bounds, without disabled directions and
  // without counts that could not be placed recently.
  CountBounds BoundsNow(bool* is_capped) const {
    CountBounds b = BoundsOf(predictor_, policy_);
    const auto narrow = [](const RolePolicy& role, int ready, int step, int& low, int& high) {
      const int up = (ready + step - 1) / step * step;
      const int down = ready / step * step;
      if (role.down.select == SelectRule::kDisabled) low = std::clamp(up, low, high);
      if (role.up.select == SelectRule::kDisabled) high = std::clamp(down, low, high);
    };
    narrow(policy_.attention, base_.Attention(), b.step_m, b.min_m, b.max_m);
    if (b.max_n > 0) narrow(policy_.experts, base_.Experts(), b.step_n, b.min_n, b.max_n);
    *is_capped = false;
    if (memory_.withdrawn && world_.time_seconds < memory_.withdrawn->until_seconds) {
      const auto cap = [&](int most, int step, int low, int& high) {
        if (most == 0 || most >= high) return;
        high = std::max(most / step * step, low);
        *is_capped = true;
      };
      cap(memory_.withdrawn->most_m, b.step_m, b.min_m, b.max_m);
      cap(memory_.withdrawn->most_n, b.step_n, b.min_n, b.max_n);
    }
    return b;
  }

  Limit UpperLimit(const CountBounds& b, bool is_capped) const {
    if (is_capped) return Limit::kCapacity;
    if (b.max_gpus > 0 && b.max_gpus < predictor_.GpusOf(b.max_m, b.max_n)) return Limit::kMaxGpus;
    if (b.ratio_min || b.ratio_max) return Limit::kRatio;
    return Limit::kMax;
  }

  static Reason HoldOf(Limit limit) {
    if (limit == Limit::kCapacity) return Reason::kInsufficientCapacity;
    return Reason::kAtMax;
  }

  // While a target is in danger, no role shrinks. The current counts fit one load, and the next is
  // not known. A role that turns out too large shrinks later, when that is cheaper.
  CountBounds BoundsToGrow(CountBounds bounds) const {
    bounds.min_m = std::clamp(base_.Attention(), bounds.min_m, bounds.max_m);
    bounds.min_n = std::clamp(base_.Experts(), bounds.min_n, bounds.max_n);
    return bounds;
  }

  void Weigh() {
    bool is_capped = false;
    const CountBounds all = BoundsNow(&is_capped);
    const bool is_adding = base_ != current_;
    const bool is_violated = !IsServing() || !Keeps(base_, least_, 1);
    const auto cheapest = [&](const Demand& demand, const CountBounds& bounds) {
      return Cheapest({predictor_, policy_, demand, aim_, memory_.online.corrections, tail_},
                      bounds, base_);
    };
    const CountBounds grown = BoundsToGrow(all);
    double leave_at = LeaveAt(memory_.budget, policy_);
    std::optional<Counts> best;
    if (aim_ < policy_.aim) best = cheapest(ahead_, grown);
    if (aim_ < policy_.aim && !best) {
      // No step is short enough for so low an aim, or no allowed counts carry so much. An aim that
      // cannot be reached is not used.
      aim_ = policy_.aim;
      leave_at = 1;
    }
    const bool is_at_risk = is_adding || is_violated || !Keeps(base_, ahead_, leave_at);
    const CountBounds asked = BoundsOf(predictor_, policy_);
    const bool is_outside = !IsAllowed(asked, predictor_, base_);
    const CountBounds& bounds = is_at_risk && !is_outside && IsServing() ? grown : all;
    const Demand& demand = is_at_risk ? ahead_ : peak_;
    decision_.demand = demand;
    if (!best || !is_at_risk || &bounds != &grown) best = cheapest(demand, bounds);
    memory_.is_at_limit = false;
    const Reason reason = ReasonOf(is_violated, is_at_risk, is_outside);
    if (!best && !is_at_risk && !is_outside) {
      if (HoldsForModelError()) return;
      Hold(Reason::kSatisfied,
           Format("%s keeps the targets with less to spare than a move would ask for",
                  NameOf(base_).c_str()));
      return;
    }
    if (!best) {
      const Wanted wanted = {
          predictor_, policy_, decision_.demand, aim_, memory_.online.corrections, tail_};
      const std::optional<Partial> part = CheapestForMost(wanted, bounds, base_);
      best = part         ? part->counts
             : is_outside ? NearestAllowed(bounds, predictor_, base_)
                          : std::nullopt;
      memory_.is_at_limit = !best || (!is_outside && !IsCheaper(base_, *best));
      if (!best) {
        HoldWithoutAny(wanted, UpperLimit(bounds, is_capped));
        return;
      }
      const Limit limit = UpperLimit(bounds, is_capped);
      if (!is_outside && !IsCheaper(base_, *best)) {
        Hold(HoldOf(limit),
             Format("%s is not enough; at most %.0f %% of the load is carried within the bounds",
                    NameOf(base_).c_str(), part ? 100 * part->carried : 0),
             limit);
        return;
      }
      decision_.limited_by = limit;
    } else if (!is_at_risk && !is_outside) {
      if (HoldsForModelError()) return;
      if (!IsCheaper(*best, base_)) {
        HoldWhatIsKept(bounds);
        return;
      }
      if (const double waiting = BacklogOf(world_, policy_); waiting > 0) {
        Hold(Reason::kStabilizing,
             Format("%s would do, but %.0f requests wait that the arrivals do not explain",
                    NameOf(*best).c_str(), waiting));
        return;
      }
      const double known = world_.time_seconds - memory_.first_time_seconds;
      if (known < DownWindow()) {
        Hold(Reason::kStabilizing,
             Format("%s would do, but the load is known for %.0f of %.0f s only",
                    NameOf(*best).c_str(), known, DownWindow()));
        return;
      }
      const double learns = LearnsLengthsFor(world_, policy_, memory_.output_tokens);
      if (known < learns) {
        Hold(Reason::kStabilizing,
             Format("%s would do, but in %.0f of %.0f s mostly short requests may have ended, and "
                    "the load may be larger than it seems",
                    NameOf(*best).c_str(), known, learns));
        return;
      }
    }
    Move(*best, bounds, reason, is_outside);
  }

  Reason ReasonOf(bool is_violated, bool is_at_risk, bool is_outside) const {
    if (is_at_risk) {
      if (!IsServing()) return Reason::kOutOfBounds;
      const Prediction then = Steady(base_, is_violated ? least_ : ahead_);
      // If sequences only accumulate because a step is too long, memory is not what is missing.
      if (!std::isfinite(then.tpot_seconds)) return Reason::kSloViolated;
      if (then.kv_share > 1 || then.batch_share > 1) return Reason::kMemoryShort;
      return is_violated ? Reason::kSloViolated : Reason::kSloAtRisk;
    }
    return is_outside ? Reason::kOutOfBounds : Reason::kCheaper;
  }

  // What is learned is bounded (OnlineOptions). A device beyond the bound misses a target that the
  // model keeps, and then neither bounds nor loads are the reason.
  bool HoldsForModelError() {
    const Corrections& learned = memory_.online.corrections;
    if (learned.step < policy_.online.highest || !IsStepLongerThanLearned()) return false;
    const std::optional<double> measured = MeasuredTpot();
    const double predicted = decision_.current.tpot_seconds;
    if (!measured || *measured <= std::max(policy_.tpot.seconds, predicted)) return false;
    // More instances would not prevent the misses, so the reserve does not grow by them.
    memory_.is_at_limit = true;
    return Hold(
        Reason::kModelError,
        Format(
            "TPOT is %.1f ms (target %.1f), but the model predicts %.1f for %s, although it "
            "learned that attention takes %.2f, experts %.2f, exchange %.2f and a whole step "
            "%.2f times as long, and more is not believed: the devices, or the hosts around them, "
            "are slower than their HardwareProfile says",
            *measured * 1e3, policy_.tpot.seconds * 1e3, predicted * 1e3, NameOf(current_).c_str(),
            learned.attention, learned.experts, learned.exchange, learned.step));
  }

  // What is learned is of the past and of all loads. It explains a miss of now only if the steps of
  // now are longer too, at their own load; a burst of requests has no such steps.
  bool IsStepLongerThanLearned() const {
    constexpr double kLonger = 1.1;
    if (!world_.step || !world_.step->is_warm) return false;
    const StepTimes believed =
        predictor_.Step(HowItRuns(), world_.step->load, memory_.online.corrections);
    return world_.step->seconds.step > kLonger * believed.step;
  }

  // Of requests that ended or, if these are too few, of steps. Nothing: not of the service as it
  // is.
  std::optional<double> MeasuredTpot() const {
    if (!IsServing() || !IsSettled()) return std::nullopt;
    if (world_.observed.tpot_seconds && world_.observed.tpot_requests >= kFewestRequests) {
      return world_.observed.tpot_seconds;
    }
    if (world_.step && world_.step->is_warm && world_.step->steps >= policy_.online.fewest_steps) {
      return world_.step->seconds.step;
    }
    return std::nullopt;
  }

  // A move sets the number of micro-batches for the most that is expected. While the counts stay,
  // it follows the present load if the TPOT is longer by a tenth or misses the target otherwise:
  // under a small load each micro-batch reads nearly all weights again. More of them come without
  // delay; fewer only once the scale-down window had no use for more, and if they would keep the
  // target at its peak too.
  void SplitSteps() {
    constexpr double kLonger = 1.1;
    const int asked = std::exchange(memory_.split, 0);
    const bool stays = decision_.verb == Verb::kHold && memory_.pending.empty() && IsServing();
    if (!stays || policy_.is_advisory || predictor_.Whole() != nullptr) return;
    const int runs = HowItRuns().micro_batches;
    const Prediction best = Steady(current_, now_);
    const int wanted = best.how.micro_batches;
    if (wanted >= runs) memory_.last_split_seconds = world_.time_seconds;
    if (wanted == runs) return;
    if (wanted != asked) {
      const double takes = Steady(current_, now_, runs).tpot_seconds;
      if (takes < kLonger * best.tpot_seconds && takes <= policy_.tpot.seconds) return;
      const bool is_new = memory_.last_split_seconds >= 0 &&
                          world_.time_seconds - memory_.last_split_seconds < DownWindow();
      if (wanted < runs && (is_new || !IsSettled() || !KeepsPeakWith(wanted, runs))) return;
      // What runs may be no choice any more: then it has no prediction.
      if (std::isfinite(takes)) {
        decision_.text +=
            Format("; micro-batches: %d (TPOT %s) instead of %d (%s)", wanted,
                   Milliseconds(best.tpot_seconds).c_str(), runs, Milliseconds(takes).c_str());
      }
    }
    memory_.split = wanted;
    decision_.chosen = best;
  }

  // A burst may come and go between two decisions. Counts at their limit may keep no peak: then
  // what serves it better than what runs is enough.
  bool KeepsPeakWith(int micro_batches, int runs) const {
    const double takes = Steady(current_, peak_, micro_batches).tpot_seconds;
    return takes <= aim_ * policy_.tpot.seconds ||
           takes <= Steady(current_, peak_, runs).tpot_seconds;
  }

  // No cheaper counts carry the window's peak. Would the current load fit on one pod less?
  void HoldWhatIsKept(const CountBounds& bounds) {
    if (current_.Attention() == bounds.min_m && current_.Experts() == bounds.min_n) {
      Hold(Reason::kAtMin, NameOf(current_) + " is the least that is allowed or holds the model",
           Limit::kMin);
      return;
    }
    for (const Counts& less : {Counts{current_.m - bounds.step_m, current_.n, current_.pools},
                               Counts{current_.m, current_.n - bounds.step_n, current_.pools},
                               Counts{current_.m, current_.n, current_.pools - 1}}) {
      if (less.m < 1 || !IsAllowed(bounds, predictor_, less)) continue;
      if (!Keeps(less, ahead_, aim_)) continue;
      Hold(Reason::kStabilizing, Format("%s would do now, but not for the most of the last %.0f s",
                                        NameOf(less).c_str(), DownWindow()));
      return;
    }
    Hold(Reason::kSatisfied,
         Format("%s keeps the targets (TPOT %s of %.1f ms) and nothing cheaper does%s",
                NameOf(current_).c_str(), Milliseconds(Steady(current_, now_).tpot_seconds).c_str(),
                policy_.tpot.seconds * 1e3, InHand().c_str()));
  }

  // Not even 1/64 of the load is carried: a single sequence is too slow with any allowed counts, or
  // the load is too large for the counts that may be asked for now.
  void HoldWithoutAny(const Wanted& wanted, Limit limit) {
    if (std::optional<Impossible> why = WhyImpossible(wanted, BoundsOf(predictor_, policy_))) {
      Hold(Reason::kImpossibleSlo, std::move(why->text));
      return;
    }
    Hold(
        HoldOf(limit),
        NameOf(current_) + " is not enough; less than 2 % of the load is carried within the bounds",
        limit);
  }

  // How far the rates allow each role to change in this period, over all pools.
  struct Ranges {
    CountRange m;
    CountRange n;

    bool Has(const Counts& c) const {
      return c.Attention() >= m.low && c.Attention() <= m.high && c.Experts() >= n.low &&
             c.Experts() <= n.high;
    }
  };
  Ranges RangesNow() const {
    std::vector<CountChange> attention;
    std::vector<CountChange> experts;
    for (const Memory::Change& change : memory_.changes) {
      attention.push_back({change.time_seconds, change.attention});
      experts.push_back({change.time_seconds, change.experts});
    }
    const double now = world_.time_seconds;
    return {AllowedNow(policy_.attention, base_.Attention(), attention, now),
            AllowedNow(policy_.experts, base_.Experts(), experts, now)};
  }

  // The part of a move that the rates allow. With the same number of pools, role by role; otherwise
  // the counts that carry most within the rates.
  Counts Towards(const Counts& wanted, const CountBounds& bounds, const Ranges& ranges) const {
    if (wanted.pools == base_.pools) {
      const int pools = base_.pools;
      return {std::clamp(wanted.m, ranges.m.low / pools, ranges.m.high / pools),
              std::clamp(wanted.n, ranges.n.low / pools, ranges.n.high / pools), pools};
    }
    CountBounds within = bounds;
    within.min_m = std::max(bounds.min_m, ranges.m.low);
    within.max_m = std::min(bounds.max_m, ranges.m.high);
    within.min_n = std::max(bounds.min_n, ranges.n.low);
    within.max_n = std::min(bounds.max_n, ranges.n.high);
    const std::optional<Partial> part = CheapestForMost(
        {predictor_, policy_, decision_.demand, aim_, memory_.online.corrections, tail_}, within,
        base_);
    return part ? part->counts : base_;
  }

  // Moves towards `wanted` as far as the rates allow in this period.
  void Move(Counts wanted, const CountBounds& bounds, Reason reason, bool is_outside) {
    const double now = world_.time_seconds;
    const Ranges ranges = RangesNow();
    // The first counts of a service have no rate.
    Counts next = !IsServing() || ranges.Has(wanted) ? wanted : Towards(wanted, bounds, ranges);
    if (next != wanted) {
      decision_.limited_by = Limit::kRate;
      // Half of a move must not be worse than no move: instances are added first.
      if (!is_outside && !Keeps(next, decision_.demand, aim_) && Lacks(next, base_)) {
        next = next.pools == base_.pools
                   ? Counts{std::max(next.m, base_.m), std::max(next.n, base_.n), base_.pools}
                   : base_;
        if (policy_.max_gpus > 0 && predictor_.GpusOf(next) > policy_.max_gpus) next = base_;
      }
    }
    if (next == base_) {
      if (wanted == base_) {
        Hold(base_ == current_ ? Reason::kSatisfied : Reason::kScalingInProgress,
             NameOf(base_) + " is what is wanted");
      } else {
        Hold(Reason::kRateLimited,
             NameOf(wanted) + " is wanted, but the behavior's rules leave no change now",
             Limit::kRate);
      }
      return;
    }
    decision_.reason = reason;
    decision_.chosen = Steady(next, decision_.demand);
    decision_.text = Explain(next, reason);
    List(next);
    if (policy_.is_advisory) {
      decision_.advised = TargetOf(next);
      Hold(Reason::kAdvisory, "would go to " + NameOf(next) + ": " + decision_.text,
           decision_.limited_by);
      return;
    }
    decision_.verb = Verb::kScale;
    decision_.target = TargetOf(next);
    memory_.pending.push_back({base_, next, now});
    memory_.changes.push_back(
        {now, next.Attention() - base_.Attention(), next.Experts() - base_.Experts()});
  }

  // Describes the reserve, and the aim that the error budget makes of the policy's.
  std::string InHand() const {
    const Demand& demand = decision_.demand;
    std::string text;
    if (demand.burst > 1 || demand.key_burst > 1) {
      text = Format(" with room for %.2f times %.0f tokens/s and %.2f times their keys",
                    demand.burst, demand.output_tokens_per_second, demand.key_burst);
    }
    if (memory_.budget.caution != 0) {
      text += Format(", aiming at %.0f %% of the targets (caution %+.2f)", 100 * aim_,
                     memory_.budget.caution);
    }
    return text;
  }

  std::string Explain(Counts next, Reason reason) const {
    const Prediction& after = decision_.chosen;
    if (!IsServing()) {
      return NameOf(next) + " is the cheapest that is allowed and carries the load";
    }
    const Prediction before = Steady(base_, decision_.demand);
    return Format(
        "%s%s: TPOT at the percentile %s (target %.1f ms) becomes %s%s, memory %.0f %% "
        "becomes %.0f %%, cost %.4g becomes %.4g (%s)",
        NameOf(next).c_str(), InHand().c_str(), Milliseconds(before.tpot_seconds).c_str(),
        policy_.tpot.seconds * 1e3, Milliseconds(after.tpot_seconds).c_str(),
        OfFirstToken(before, after).c_str(), before.kv_share * 100, after.kv_share * 100,
        before.cost, after.cost, std::string(ToString(reason)).c_str());
  }

  // Where the first token is what comes too late.
  std::string OfFirstToken(const Prediction& before, const Prediction& after) const {
    if (!policy_.ttft || before.ttft_seconds <= policy_.ttft->seconds) return "";
    return Format(", first token %s (target %.1f ms) becomes %s",
                  Milliseconds(before.ttft_seconds).c_str(), policy_.ttft->seconds * 1e3,
                  Milliseconds(after.ttft_seconds).c_str());
  }

  // Lists the chosen counts, the current ones and their neighbours, each with the reason why it
  // lost.
  void List(Counts chosen) {
    std::vector<Counts> all = {chosen};
    const int dm = policy_.attention.instances_per_pod;
    const int dn = policy_.experts.instances_per_pod;
    const auto add = [&](Counts c) {
      const PredictorOptions& o = predictor_.options();
      if (!IsModelIn(c) || c.pools < 1 || c.m > o.max_attention || c.n > o.max_experts) return;
      if (all.size() < kMostCandidates && std::ranges::find(all, c) == all.end()) all.push_back(c);
    };
    add(current_);
    for (const int k : {1, -1, 2, -2}) {
      add({base_.m + k * dm, base_.n, base_.pools});
      add({base_.m, base_.n + k * dn, base_.pools});
      add({base_.m, base_.n, base_.pools + k});
    }
    add({chosen.m - dm, chosen.n, chosen.pools});
    add({chosen.m, chosen.n - dn, chosen.pools});
    const CountBounds bounds = BoundsOf(predictor_, policy_);
    for (const Counts c : all) {
      Candidate candidate = {Steady(c, decision_.demand), ""};
      if (c != chosen) candidate.lost_by = WhyNot(c, chosen, bounds, candidate.prediction);
      decision_.candidates.push_back(std::move(candidate));
    }
  }

  std::string WhyNot(Counts c, Counts chosen, const CountBounds& bounds,
                     const Prediction& prediction) const {
    if (!IsAllowed(bounds, predictor_, c)) return "not allowed by the bounds";
    if (!Keeps(c, decision_.demand, aim_)) {
      if (!std::isfinite(prediction.tpot_seconds)) return "requests come faster than it ends them";
      if (!std::isfinite(prediction.pressure)) return "its steps leave no time for prompts";
      return Format("at %.0f %% of a target or limit; a change may reach %.0f %%",
                    prediction.pressure * 100, aim_ * 100);
    }
    if (IsCheaper(chosen, c)) {
      return Format("costs %.4g, the chosen %.4g", CostOf(c), CostOf(chosen));
    }
    return "starts or stops more instances, or is reached later";
  }

  const Predictor& predictor_;
  const ScalingPolicy& policy_;
  const World& world_;
  Memory memory_;
  Counts current_;  // ready
  Counts base_;     // start of a move: the ready counts, or those on their way
  Decision decision_;
  Demand now_;    // as measured, of sequences that run one start from now
  Demand least_;  // the smallest over the scale-up window
  Demand ahead_;  // that, when new instances would be ready, with the requests waiting then
  Demand arriving_ahead_;  // and without them
  Demand peak_;            // the largest over the scale-down window, and ahead
  double start_seconds_ = 0;
  double aim_ = 0;
  double tail_ = 1;
};

}  // namespace

std::string_view ToString(Verb verb) {
  switch (verb) {
    case Verb::kHold:
      return "Hold";
    case Verb::kScale:
      return "Scale";
    case Verb::kWithdraw:
      return "Withdraw";
  }
  return "?";
}

std::string_view ToString(Reason reason) {
  switch (reason) {
    case Reason::kSloViolated:
      return "SLOViolated";
    case Reason::kSloAtRisk:
      return "SLOAtRisk";
    case Reason::kMemoryShort:
      return "MemoryShort";
    case Reason::kOutOfBounds:
      return "OutOfBounds";
    case Reason::kCheaper:
      return "Cheaper";
    case Reason::kUnplaceable:
      return "Unplaceable";
    case Reason::kNoLongerNeeded:
      return "NoLongerNeeded";
    case Reason::kSatisfied:
      return "Satisfied";
    case Reason::kStabilizing:
      return "Stabilizing";
    case Reason::kScalingInProgress:
      return "ScalingInProgress";
    case Reason::kRateLimited:
      return "RateLimited";
    case Reason::kInsufficientCapacity:
      return "InsufficientCapacity";
    case Reason::kAtMax:
      return "AtMax";
    case Reason::kAtMin:
      return "AtMin";
    case Reason::kModelError:
      return "ModelError";
    case Reason::kImpossibleSlo:
      return "ImpossibleSLO";
    case Reason::kNoMetrics:
      return "NoMetrics";
    case Reason::kBadStatistics:
      return "BadStatistics";
    case Reason::kInvalidPolicy:
      return "InvalidPolicy";
    case Reason::kRollout:
      return "Rollout";
    case Reason::kPaused:
      return "Paused";
    case Reason::kAdvisory:
      return "Advisory";
  }
  return "?";
}

std::string_view ToString(Limit limit) {
  switch (limit) {
    case Limit::kNone:
      return "None";
    case Limit::kMin:
      return "Min";
    case Limit::kMax:
      return "Max";
    case Limit::kMaxGpus:
      return "MaxGPUs";
    case Limit::kRatio:
      return "Ratio";
    case Limit::kRate:
      return "Rate";
    case Limit::kCapacity:
      return "Capacity";
  }
  return "?";
}

Outcome Decide(const Predictor& predictor, const ScalingPolicy& policy, const World& world,
               Memory memory) {
  return Decider(predictor, policy, world, std::move(memory)).Run();
}

}  // namespace janus::controllers
