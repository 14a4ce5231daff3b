#include "controllers/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "controllers/simulate/steady.h"

namespace janus::controllers {
namespace {

class Simulation {
 public:
  Simulation(std::span<const SimulatedRequest> requests, ShapeBook* truth, SimulatedPolicy* policy,
             const SimulationOptions& options)
      : requests_(requests),
        truth_(truth),
        policy_(policy),
        options_(options),
        recorder_(options.level, options.window_s, options.scaling.tpot.percentile),
        observer_(truth, options.machinery, options.scaling) {}

  Result<SimulationRun> Run(const ProgressFunction& progress) {
    const SimulatedPolicy::Beginning begin = policy_->Begin(FirstMinutes());
    wished_ = begin.wish;
    JANUS_RETURN_IF_ERROR(Check(wished_));
    Fleet fleet(truth_, options_.machinery, &recorder_, wished_);
    run_.policy = policy_->name();
    Note(fleet, 0, begin.why);
    CountHold(0, begin.lacks, begin.why);
    double decision = policy_->interval_s();
    double window_end = options_.window_s;
    size_t next_report = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      const SimulatedRequest& request = requests_[i];
      for (; decision <= request.arrival; decision += policy_->interval_s()) {
        fleet.AdvanceTo(decision);
        JANUS_RETURN_IF_ERROR(Decide(fleet, decision));
      }
      fleet.AdvanceTo(request.arrival);
      if (request.arrival >= window_end) {
        recorder_.OnGpus(request.arrival, fleet.Gpus());  // closes earlier windows
        window_end = (std::floor(request.arrival / options_.window_s) + 1) * options_.window_s;
      }
      recorder_.OnArrival(request);
      observer_.OnArrival(request);
      fleet.Arrive(request);
      if (i >= next_report) {
        next_report = i + requests_.size() / 200 + 1;
        if (options_.should_stop && options_.should_stop()) {
          return Cancelled("simulate: stopped before its end");
        }
        if (progress) progress(static_cast<double>(i) / static_cast<double>(requests_.size()));
      }
    }
    const double last_arrival = requests_.back().arrival;
    recorder_.OnGpus(last_arrival, fleet.Gpus());
    recorder_.EndBilling();
    double now = last_arrival;
    while (!fleet.IsEmpty()) fleet.AdvanceTo(now += 60);
    std::ranges::stable_sort(run_.holds, std::ranges::greater(), &HoldRecord::count);
    run_.totals = recorder_.Sum();
    run_.totals.preempted = fleet.preempted();
    run_.end_s = now;
    run_.windows = recorder_.TakeWindows(last_arrival);
    return std::move(run_);
  }

 private:
  Demand FirstMinutes() const {
    const double seconds = std::min(RecentArrivals::kLongest_s, requests_.back().arrival + 1);
    const auto end = std::ranges::upper_bound(requests_, seconds, {}, &SimulatedRequest::arrival);
    return DemandOf({requests_.begin(), std::max(end, requests_.begin() + 1)}, seconds);
  }

  Status Check(const Wish& wish) const {
    const UnitShape& shape =
        wish.is_separate ? truth_->Separate(wish.how) : truth_->Whole(wish.whole);
    if (shape.kv_tokens > 0 && (wish.is_separate || wish.units > 0)) return OkStatus();
    return FailedPrecondition("simulate: " + std::string(policy_->name()) + " asks for " +
                              wish.Name() + ", which cannot hold " + truth_->setting().model.name +
                              "; use devices with more memory or more GPUs");
  }

  void NoteGpus(const Fleet& fleet, double now) {
    const int gpus = fleet.Gpus();
    if (run_.gpus.empty() || run_.gpus.back().second != gpus) run_.gpus.emplace_back(now, gpus);
  }

  void Note(const Fleet& fleet, double now, const std::string& why) {
    run_.decisions.push_back({now, wished_.Name(), why, wished_.Gpus()});
    run_.wishes.push_back(wished_);
    NoteGpus(fleet, now);
  }

  void CountHold(double now, std::string_view reason, const std::string& why) {
    if (reason.empty()) return;
    auto hold = std::ranges::find(run_.holds, reason, &HoldRecord::reason);
    if (hold == run_.holds.end()) {
      hold = run_.holds.insert(hold, {std::string(reason), 0, now, why});
    }
    ++hold->count;
  }

  Status Decide(Fleet& fleet, double now) {
    const SimulatedPolicy::Answer answer =
        policy_->Decide(observer_.Look(fleet, recorder_, wished_, now));
    if (answer.wish && *answer.wish != wished_) {
      JANUS_RETURN_IF_ERROR(Check(*answer.wish));
      wished_ = *answer.wish;
      fleet.Apply(wished_, now);
      Note(fleet, now, answer.why);
    }
    if (!answer.wish) CountHold(now, answer.hold, answer.why);
    NoteGpus(fleet, now);
    return OkStatus();
  }

  const std::span<const SimulatedRequest> requests_;
  ShapeBook* truth_;
  SimulatedPolicy* policy_;
  const SimulationOptions& options_;
  Recorder recorder_;
  Observer observer_;
  SimulationRun run_;
  Wish wished_;
};

}  // namespace

Result<SimulationRun> Simulate(std::span<const SimulatedRequest> requests, ShapeBook* truth,
                               SimulatedPolicy* policy, const SimulationOptions& options,
                               const ProgressFunction& progress) {
  if (requests.empty()) return InvalidArgument("simulate: there are no requests");
  return Simulation(requests, truth, policy, options).Run(progress);
}

}  // namespace janus::controllers
