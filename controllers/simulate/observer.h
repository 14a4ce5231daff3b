#pragma once

#include <deque>
#include <map>
#include <vector>

#include "controllers/scaling/predictor.h"
#include "controllers/scaling/world.h"
#include "controllers/simulate/fleet.h"

namespace janus::controllers {

// What an operator could measure of a simulated fleet, without knowing the future: the World for a
// scaling decision, and the inputs of policies over whole-model instances.
struct Observation {
  // For copies of the whole model: roles count GPUs as attention instances, `current` has one
  // copy's GPUs as m and the ready copies as pools, and there are no step times.
  World world;
  Demand demand;  // arrivals of the last minutes, without waiting requests
  struct Instance {
    double kv_share = 0;      // share of room for keys in use, 0..1
    double queued = 0;        // requests that find no room
    double step_seconds = 0;  // mean since the last observation
  };
  std::vector<Instance> instances;  // ready whole-model instances
  int starting = 0;
  Wish wished;  // what the policy has asked for already
};

// Recent arrivals in buckets, so that a query costs the same at any rate. Confined to one thread.
class RecentArrivals {
 public:
  void Add(const SimulatedRequest& request);
  // Rates over the last `seconds`, at most kLongest_s.
  ArrivalWindow Over(double now, double seconds);
  // Over all that is remembered: variance over squared mean of prompt lengths, and the share of
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

// Observes a fleet before every decision. Confined to one thread.
class Observer {
 public:
  // `truth`: the times that workers measure. `scaling`: how demand is computed from a world.
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
  std::map<int, Unit::Counters> counters_;  // by member, at the last observation
  double output_tokens_ = 0;                // of finished requests, smoothed
  double last_look_ = 0;
  Configuration seen_how_;  // at the last observation
  bool grew_m_ = false;     // with the last commit
  bool grew_n_ = false;
  int copies_ = 0;         // ready, at the last observation
  double grew_at_ = -1e9;  // when their number last grew
};

}  // namespace janus::controllers
