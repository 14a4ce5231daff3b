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

// The scaling decision of a service: the attention controller and the expert controller of JANUS
// 3.4 as one joint decision, because the two modules share one latency target (docs/scaling.md has
// one worked out by hand). Called once per interval. Pure: no clock, no I/O, nothing global; the
// same predictor, policy, world and memory give the same outcome.

// What a decision remembers for the next one; a value that goes in and comes out. A new service, or
// an operator that lost it, begins with an empty one and is only slower to scale down. Bounded.
struct Memory {
  struct Sample {
    double time_seconds = 0;
    Demand demand;
    double load = 0;       // output tokens per second that arrive: the demand without what waits
    double keys = 0;       // held, over the seconds of a step
    double level = 0;      // mean of the loads until then
    double key_level = 0;  // mean of the keys until then
    friend bool operator==(const Sample&, const Sample&) = default;
  };
  struct Change {  // an action's effect on the instances of each role, all pools together
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
  // What could not be placed: no more instances of that role, all pools together, are asked for
  // until then.
  struct Withdrawn {
    int most_m = 0;  // 0: attention did not lack any
    int most_n = 0;
    double until_seconds = 0;
    double backoff_seconds = 0;
    friend bool operator==(const Withdrawn&, const Withdrawn&) = default;
  };
  struct Forecast {
    double level = 0;            // requests per second
    double trend = 0;            // of it, per second
    std::vector<double> season;  // requests per second by bin; 0: not seen yet
    int bin = -1;                // the one being summed up
    double bin_sum = 0;
    double bin_samples = 0;
    friend bool operator==(const Forecast&, const Forecast&) = default;
  };

  double last_time_seconds = -1;  // of the last decision; -1: none
  double first_time_seconds = -1;
  // Oldest first, as far back as the longest stabilization window, a level and a start.
  std::vector<Sample> samples;
  std::vector<Change> changes;  // oldest first, as far back as the longest rule's period
  // Asked for and not fulfilled, oldest first; each adds to the one before. At most kMostPending: a
  // load that goes on rising while instances load is answered before they are there.
  std::vector<Pending> pending;
  static constexpr size_t kMostPending = 2;
  std::optional<Withdrawn> withdrawn;
  double withdrawn_at_seconds = -1;  // the last withdrawal: what was asked for before it is over
  double last_change_seconds = -1;   // when the last action was fulfilled or given up
  Forecast forecast;
  double output_tokens = 0;           // last known mean
  std::vector<double> start_seconds;  // the latest starts, oldest first
  std::vector<double> tails;          // observed over predicted TPOT at the percentile, latest last
  BurstHistory bursts;                // of the load, over its level a start before
  BurstHistory key_bursts;            // of the keys
  double behind = 1;                  // requests that come over those that end, while some wait
  ErrorBudget budget;                 // what requests attained, and what is kept in hand for it
  bool is_at_limit = false;           // nothing allowed carried more of the last demand
  OnlineState online;

  friend bool operator==(const Memory&, const Memory&) = default;
};

enum class Verb {
  kHold,      // leave things as they are
  kScale,     // go to `target`
  kWithdraw,  // give up the action in flight: `target` is what is ready now
};

// Why. One table in docs/scaling.md says for each what it means and what to do.
enum class Reason {
  // of kScale
  kSloViolated,  // observed or predicted above the target at the present demand
  kSloAtRisk,    // predicted above the target once instances asked for now would be ready
  kMemoryShort,  // keys and values, or sequences, do not fit
  kOutOfBounds,  // fewer or more instances than the policy allows, or not whole pods
  kCheaper,      // fewer or cheaper GPUs keep the targets
  // of kWithdraw
  kUnplaceable,     // not fulfilled in time
  kNoLongerNeeded,  // late, and what is ready carries the load
  // of kHold
  kSatisfied,             // the targets are kept and nothing cheaper keeps them
  kStabilizing,           // fewer would do, but not yet for the whole window
  kScalingInProgress,     // an action is in flight, and the load asks for no more than it brings
  kRateLimited,           // the behavior's rules leave no change in this period
  kInsufficientCapacity,  // what is wanted was withdrawn lately and waits for its backoff
  kAtMax,                 // more would be needed than max, maxGPUs or the ratio allow
  kAtMin,                 // fewer would do, but min or the ratio forbid it
  kImpossibleSlo,         // no configuration keeps the target even for a single sequence
  kNoMetrics,             // no arrivals, no lengths known yet
  kBadStatistics,         // a number that is none; the text names it
  kInvalidPolicy,         // the text says what Validate says
  kRollout,
  kPaused,
  kAdvisory,  // would act; `advised` says how
};

enum class Limit { kNone, kMin, kMax, kMaxGpus, kRatio, kRate, kCapacity };

std::string_view ToString(Verb verb);
std::string_view ToString(Reason reason);
std::string_view ToString(Limit limit);

// What to run: pools, m, n, micro-batches and exchange in `how`; slots per layer of an expert
// instance. Of copies of the whole model: m GPUs each, as many as there are pools.
struct Target {
  Configuration how;
  int slots = 0;

  friend bool operator==(const Target&, const Target&) = default;
};

// A configuration that was weighed.
struct Candidate {
  Prediction prediction;
  std::string lost_by;  // empty for the chosen one
};

struct Decision {
  Verb verb = Verb::kHold;
  Reason reason = Reason::kSatisfied;
  std::string text;  // one sentence with the numbers
  Limit limited_by = Limit::kNone;
  Target target;                      // of kHold: what is asked for already or runs
  std::optional<Target> advised;      // reason kAdvisory
  Demand demand;                      // what it was decided for
  Prediction current;                 // what runs now, under that demand
  Prediction chosen;                  // what `target` gives under that demand; of kScale
  std::vector<Candidate> candidates;  // at most kMostCandidates, the chosen one first
  double start_seconds = 0;           // after which an instance asked for now is expected
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
