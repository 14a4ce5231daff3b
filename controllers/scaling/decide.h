#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/scaling/budget.h"
#include "controllers/scaling/burst.h"
#include "controllers/scaling/policy.h"
#include "controllers/scaling/predictor.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// The scaling decision of a service. JANUS 3.4 has an attention controller and an expert
// controller; here they make one joint decision, as both modules share one latency target
// (docs/scaling.md has a worked example). Called once per interval. Pure: no clock, no I/O, no
// globals. The same predictor, policy, world and memory give the same outcome.

// What a decision remembers for the next one. It is passed in and returned by value. A new service,
// or an operator that lost it, starts with an empty one; the only effect is a slower scale-down.
// Bounded size.
struct Memory {
  struct Sample {
    double time_seconds = 0;
    Demand demand;
    double load = 0;       // output tokens per second that arrive, without those that wait
    double over_life = 0;  // the load that TPOTs follow: a mean over the life of a request
    double keys = 0;       // of decoding sequences, over the seconds of a step
    double level = 0;      // mean of the loads up to this one
    double key_level = 0;  // mean of the keys up to this one
    friend bool operator==(const Sample&, const Sample&) = default;
  };
  struct Change {  // an action's effect on each role, over all pools
    double time_seconds = 0;
    int attention = 0;  // added; negative: removed
    int experts = 0;
    friend bool operator==(const Change&, const Change&) = default;
  };
  struct Pending {
    Counts from;
    Counts to;
    double since_seconds = 0;
    friend bool operator==(const Pending&, const Pending&) = default;
  };
  // Capacity that could not be placed. Until the backoff ends, no more instances of the role are
  // asked for, over all pools.
  struct Withdrawn {
    int most_m = 0;  // 0: enough attention instances were placed
    int most_n = 0;
    double until_seconds = 0;
    double backoff_seconds = 0;
    friend bool operator==(const Withdrawn&, const Withdrawn&) = default;
  };
  struct Forecast {
    double level = 0;            // requests per second
    double trend = 0;            // change of the level, per second
    std::vector<double> season;  // requests per second by bin; 0: not seen yet
    int bin = -1;                // the current bin; its sum is not complete
    double bin_sum = 0;
    double bin_samples = 0;
    friend bool operator==(const Forecast&, const Forecast&) = default;
  };

  double last_time_seconds = -1;  // of the last decision; -1: there was no decision yet
  double first_time_seconds = -1;
  // Oldest first. Covers the longest of: the stabilization windows, a level, a start.
  std::vector<Sample> samples;
  std::vector<Change> changes;  // oldest first; covers the longest period of a rule
  // Actions that are not fulfilled, oldest first; each adds to the one before. At most
  // kMostPending. A second action answers a load that keeps rising while instances start.
  std::vector<Pending> pending;
  static constexpr size_t kMostPending = 2;
  std::optional<Withdrawn> withdrawn;
  double withdrawn_at_seconds = -1;  // time of the last withdrawal: earlier actions are over
  double last_change_seconds = -1;   // when the last action was fulfilled or withdrawn
  double last_split_seconds = -1;    // when no fewer micro-batches than run were best
  int split = 0;                     // micro-batches that a hold asks for, until they run; 0: none
  Forecast forecast;
  double output_tokens = 0;           // last known mean
  std::vector<double> start_seconds;  // the latest starts, oldest first
  std::vector<double> tails;          // observed over predicted TPOT at the percentile, oldest
                                      // first
  BurstHistory bursts;                // of the load, over the level around it
  BurstHistory key_bursts;            // the same for the keys
  double behind = 1;                  // arrivals over completions while requests wait; 1 to 2
  ErrorBudget budget;                 // attainment, and the reserve that it leads to
  bool is_at_limit = false;           // no allowed counts carried more of the last demand
  OnlineState online;

  friend bool operator==(const Memory&, const Memory&) = default;
};

enum class Verb {
  kHold,      // change nothing
  kScale,     // change to `target`
  kWithdraw,  // give up the pending action: `target` is what is ready now
};

// The reason. A table in docs/conditions.md explains each and says what to do.
enum class Reason {
  // of kScale
  kSloViolated,  // predicted above the target under the current demand, with what misses taught
  kSloAtRisk,    // predicted above the target by the time new instances would be ready
  kMemoryShort,  // keys and values, or sequences, do not fit
  kOutOfBounds,  // too few or too many instances for the policy, or partial pods
  kCheaper,      // fewer or cheaper GPUs keep the targets
  // of kWithdraw
  kUnplaceable,     // not fulfilled in time
  kNoLongerNeeded,  // late, and the ready instances carry the load
  // of kHold
  kSatisfied,             // the targets are kept, and nothing cheaper would keep them
  kStabilizing,           // fewer would be enough, but not yet for the whole window
  kScalingInProgress,     // an action is pending and brings enough for the load
  kRateLimited,           // the behavior's rules leave no change in this period
  kInsufficientCapacity,  // the wanted counts were withdrawn recently; the backoff is not over
  kAtMax,                 // more is needed than max, maxGPUs or the ratio allow
  kAtMin,                 // fewer would be enough, but min or the ratio forbids it
  kModelError,            // a target is missed that the model keeps, with all it may learn
  kImpossibleSlo,         // no configuration keeps the target, even for a single sequence
  kNoMetrics,             // no arrivals or lengths are known yet
  kBadStatistics,         // a number is invalid; the text names it
  kInvalidPolicy,         // the text is Validate's
  kRollout,
  kPaused,
  kAdvisory,  // it would act; `advised` says how
};

enum class Limit { kNone, kMin, kMax, kMaxGpus, kRatio, kRate, kCapacity };

std::string_view ToString(Verb verb);
std::string_view ToString(Reason reason);
std::string_view ToString(Limit limit);

// What to run: pools, m, n, micro-batches and exchange in `how`, and slots per layer of an expert
// instance. For copies of the whole model: each copy is a pool with m GPUs.
struct Target {
  Configuration how;
  int slots = 0;

  friend bool operator==(const Target&, const Target&) = default;
};

// A configuration that was considered.
struct Candidate {
  Prediction prediction;
  std::string lost_by;  // empty for the chosen one
};

struct Decision {
  Verb verb = Verb::kHold;
  Reason reason = Reason::kSatisfied;
  std::string text;  // one sentence with the numbers
  Limit limited_by = Limit::kNone;
  Target target;                      // of kHold: the pending or the current counts
  std::optional<Target> advised;      // set if the reason is kAdvisory
  Demand demand;                      // the demand of the decision
  Prediction current;                 // the current counts and micro-batches, under the present one
  Prediction chosen;                  // `target` under the demand; of kScale, and of a hold whose
                                      // target has other micro-batches than run
  std::vector<Candidate> candidates;  // at most kMostCandidates, the chosen one first
  double start_seconds = 0;           // expected time until an instance asked for now is ready
  Corrections corrections;
  OnlineError error;
};
inline constexpr size_t kMostCandidates = 12;

struct Outcome {
  Decision decision;
  Memory memory;
};

Outcome Decide(const Predictor& predictor, const ScalingPolicy& policy, const World& world,
               Memory memory);

}  // namespace janus::controllers
