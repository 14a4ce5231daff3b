#pragma once

#include <optional>
#include <vector>

#include "common/status.h"
#include "controllers/fit/online.h"

namespace janus::controllers {

// What the user asks of scaling: the MoEService fields that a decision reads, with the API's
// defaults. Counts are instances.

struct LatencyTarget {
  double seconds = 0;
  double percentile = 0.95;  // of requests, in (0, 1)

  friend bool operator==(const LatencyTarget&, const LatencyTarget&) = default;
};

// Rates and windows as in autoscaling/v2's behavior. Within any period, a rule allows a change of
// `value` pods, or of that percentage of the instances at the period's start (rounded up).
struct RateRule {
  enum class Unit { kPods, kPercent };
  Unit unit = Unit::kPods;
  int value = 0;  // > 0
  int period_seconds = 15;

  friend bool operator==(const RateRule&, const RateRule&) = default;
};
enum class SelectRule {
  kMax,
  kMin,
  kDisabled
};  // of several rules; disabled: this direction is
    // forbidden
struct Behavior {
  double stabilization_seconds = 0;
  SelectRule select = SelectRule::kMax;
  std::vector<RateRule> rules;  // empty: no limit

  friend bool operator==(const Behavior&, const Behavior&) = default;
};

// Up: at once, and as far as the model says. A decision follows the load, not a ratio; a rule that
// limits a ratio's error would only delay it. Down: to the largest demand of 300 s, as in
// autoscaling/v2.
Behavior DefaultScaleUp();
Behavior DefaultScaleDown();

struct RolePolicy {
  int min = 1;
  int max = 128;
  int instances_per_pod = 1;  // the granule: counts are multiples of it
  Behavior up = DefaultScaleUp();
  Behavior down = DefaultScaleDown();

  friend bool operator==(const RolePolicy&, const RolePolicy&) = default;
};

// experts : attention, as integers.
struct Ratio {
  int experts = 0;
  int attention = 0;

  friend bool operator==(const Ratio&, const Ratio&) = default;
};

enum class ForecastKind { kNone, kEwma, kSeasonal };
struct ForecastPolicy {
  ForecastKind kind = ForecastKind::kNone;
  double season_seconds = 86400;
  int bins = 144;  // of a season

  friend bool operator==(const ForecastPolicy&, const ForecastPolicy&) = default;
};

struct ScalingPolicy {
  LatencyTarget tpot;
  std::optional<LatencyTarget> ttft;
  RolePolicy attention;
  RolePolicy experts;
  std::optional<Ratio> ratio_min;
  std::optional<Ratio> ratio_max;
  int max_gpus = 0;   // 0: no limit
  int min_pools = 1;  // copies of mAnE side by side
  int max_pools = 1;
  ForecastPolicy forecast;
  bool is_advisory = false;               // decide and report, but change nothing
  int max_batch_per_attention = 256;      // sequences of one instance
  double interval_seconds = 15;           // between decisions
  double pending_timeout_seconds = 1200;  // an action not fulfilled by then is withdrawn
  double backoff_seconds = 600;           // wait before the next try; doubles with every withdrawal
  double start_seconds = 120;             // of an instance, until starts were observed
  double warm_up_seconds = 30;            // a ready instance's first steps are not measured
  // A new configuration must be predicted to keep this share of every target. The current one is
  // left only above the whole target. The gap is the hysteresis.
  double aim = 0.85;
  // The most room for bursts before new instances are ready, as a factor on the load's level; 1: no
  // room.
  double most_burst = 4;
  // Adjust aim and room until as many requests attain as the targets ask for, if World::ended says
  // how many do. False: keep both.
  bool is_budgeted = true;
  // Time in which queued work must be done, if a start and the life of a request are not longer. A
  // shorter time would ask for instances that are idle afterwards.
  double recovery_seconds = 120;
  // How many times faster the service's clock is than a real one (timed devices). What no field
  // above says is divided by it: the windows of levels, bursts, forecasts and the error budget.
  double times_faster = 1;
  bool is_learning = true;  // online re-estimation
  OnlineOptions online;

  friend bool operator==(const ScalingPolicy&, const ScalingPolicy&) = default;
};

// InvalidArgument names the field, its value and what is wanted.
Status Validate(const ScalingPolicy& policy);

}  // namespace janus::controllers
