#pragma once

#include <deque>
#include <map>
#include <vector>

#include "controllers/scaling/predictor.h"
#include "controllers/scaling/world.h"
#include "controllers/simulate/fleet.h"

namespace janus::controllers {

// What an operator could measure of a simulated fleet, nothing of the future: the World that a
// scaling decision sees, and what policies over whole-model instances look at.
struct Observation {
  // Of copies of the whole model roles count their GPUs as attention, `current` has one copy's as m
  // and as many pools as copies are ready, and no step is told.
  World world;
  Demand demand;  // what arrived in the last minutes, without what waits
  struct Instance {
    double kv_share = 0;      // of its room for keys, 0..1
    double queued = 0;        // requests that find no room
    double step_seconds = 0;  // mean since the last look
  };
  std::vector<Instance> instances;  // ready whole-model instances
  int starting = 0;
  Wish wished;  // what is asked for already
};

// Arrivals lately, in buckets, so that a look costs the same at any rate. Confined to one thread.
class RecentArrivals {
 public:
  void Add(const SimulatedRequest& request);
  // Rates of the last `seconds`, of at most kLongest_s.
  ArrivalWindow Over(double now, double seconds);
  // Of all that is remembered: variance over squared mean of prompt lengths, and the share of
  // prompt tokens that were computed before.
  double PromptSquaredVariation() const;
  double CachedShare() const;

  static constexpr double kLongest_s = 300;

 private:
  static constexpr double kBucket_s = 5;
  struct Bucket {
    double begin = 0;
    double requests = 0;
    double prompt = 0;
    double prompt_squares = 0;
    double cached = 0;
  };
  void Roll(double now);

  std::deque<Bucket> buckets_ = {Bucket{}};
};

// Looks at a fleet before every decision. Confined to one thread.
class Observer {
 public:
  // `truth`: the times that workers measure. `scaling`: how demand is reckoned from a world.
  Observer(const ShapeBook* truth, const Machinery& machinery, const ScalingPolicy& scaling);

  void OnArrival(const SimulatedRequest& request) { arrivals_.Add(request); }
  Observation Look(const Fleet& fleet, Recorder& recorder, const Wish& wished, double now);

 private:
  void LookAtUnits(const Fleet& fleet, double now, Observation& seen);
  void LookAtService(const Fleet& fleet, double now, World& world);
  void LookAtCopies(const Fleet& fleet, double now, World& world);
  StepSample Measure(const Configuration& how, const Unit::Counters& before,
                     const Unit::Counters& after, double now) const;

  const ShapeBook* truth_;
  const Machinery machinery_;
  const ScalingPolicy scaling_;
  RecentArrivals arrivals_;
  std::map<int, Unit::Counters> counters_;  // by member, at the last look
  double output_tokens_ = 0;                // of finished requests, smoothed
  double last_look_ = 0;
  Configuration seen_how_;  // at the last look
  bool grew_m_ = false;     // with the last commit
  bool grew_n_ = false;
  int copies_ = 0;         // ready, at the last look
  double grew_at_ = -1e9;  // when there were more of them
};

}  // namespace janus::controllers
