#include "operator/reconcile/scaling/tick.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "controllers/scaling/arrivals.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/pools/statistics.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/scaling/late_results.h"
#include "operator/scaling/policy_of.h"
#include "operator/scaling/predictors.h"
#include "operator/scaling/setting_of.h"

namespace janus::control {
namespace {

using controllers::Verb;

// World's clock.
double SecondsOf(MonotonicTime time) {
  return Seconds(time.time_since_epoch()).count();
}

// The field of the spec that stands behind a limit of the decision.
std::string FieldOf(controllers::Limit limit) {
  using controllers::Limit;
  switch (limit) {
    case Limit::kNone:
    case Limit::kCapacity:
      return "";
    case Limit::kMin:
      return "spec.roles.*.scaling.minReplicas";
    case Limit::kMax:
      return "spec.roles.*.scaling.maxReplicas";
    case Limit::kMaxGpus:
      return "spec.scaling.maxGPUs";
    case Limit::kRatio:
      return "spec.ratio";
    case Limit::kRate:
      return "spec.roles.*.scaling.behavior";
  }
  return "";
}

std::optional<int64_t> Microseconds(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return std::nullopt;
  constexpr double kMost = 2147483647;  // of the status field
  return static_cast<int64_t>(std::min(std::round(seconds * 1e6), kMost));
}

class Ticking {
 public:
  Ticking(const ServiceObserved& seen, const ReconcilerOptions& options,
          const std::vector<const Rollout*>& pools, int wanted)
      : seen_(seen),
        options_(options),
        pools_(pools),
        wanted_pools_(wanted),
        rollout_(*pools.front()),
        desired_(rollout_.desired),
        front_(rollout_.sides.front),
        spec_(desired_.service.spec),
        next_(seen.remembered.scaling) {
    spec_.roles.attention.scaling = desired_.scaling_of_spec[0];
    spec_.roles.experts.scaling = desired_.scaling_of_spec[1];
    spec_.pipeline.micro_batches = desired_.micro_batches_of_spec;
  }

  ScalingTick Run() {
    next_.decided = seen_.now;
    next_.hold.reset();
    WatchPods();
    NoteEnded({});
    Decide();
    return {std::move(next_), At(seen_.now, Seconds(spec_.scaling.interval_seconds)),
            std::move(record_)};
  }

 private:
  InstanceCounts Wanted() const {
    return {wanted_pools_ * desired_.Of(Role::kAttention).wanted.instances,
            wanted_pools_ * desired_.Of(Role::kExperts).wanted.instances, wanted_pools_};
  }

  // When pods came, and when they began to serve: what a start takes.
  void WatchPods() {
    std::map<std::string, MonotonicTime> starting, serving;
    for (const Rollout* pool : pools_) WatchPodsOf(pool->sides.front, starting, serving);
    next_.starting = std::move(starting);
    next_.serving = std::move(serving);
  }

  void WatchPodsOf(const Side& front, std::map<std::string, MonotonicTime>& starting,
                   std::map<std::string, MonotonicTime>& serving) {
    std::array<bool, 2> is_full{};  // as many serve as are wanted, so a ready pod is on standby
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const std::vector<PodSeen>& pods = front.pods[role == Role::kExperts];
      int serve = 0;
      for (const PodSeen& pod : pods) serve += ServingInstances(front, pod);
      is_full[role == Role::kExperts] = serve >= desired_.Of(role).wanted.instances;
    }
    for (const PodSeen& pod : front.AllPods()) {
      if (!pod.is_live()) continue;
      if (IsServing(front, pod)) {
        const auto before = seen_.remembered.scaling.serving.find(pod.uid);
        serving[pod.uid] =
            before == seen_.remembered.scaling.serving.end() ? seen_.now : before->second;
      } else if (is_full[pod.role == Role::kExperts] && pod.containers_ready) {
        starting[pod.uid] = seen_.now;
      } else {
        const auto before = seen_.remembered.scaling.starting.find(pod.uid);
        starting[pod.uid] = before == seen_.remembered.scaling.starting.end()
                                ? At(seen_.now, pod.created - seen_.wall)
                                : before->second;
      }
    }
  }

  void NoteEnded(const controllers::Ended& ended) {
    std::erase_if(next_.ended,
                  [&](const EndedThen& one) { return one.time + kAttainmentWindow < seen_.now; });
    if (ended.requests <= 0) return;
    next_.ended.push_back({seen_.now, ended.requests, std::min(ended.attained, ended.requests)});
  }

  controllers::RoleState StateOf(Role role) const {
    controllers::RoleState out;
    int live = 0;
    for (const Rollout* pool : pools_) CountPods(pool->sides.front, role, live, out);
    for (const PodSeen& pod : seen_.pods) {
      const bool drains = pod.pool > wanted_pools_ && !pod.has_ended && !pod.is_lost;
      if (drains && pod.role == role) out.draining += pod.instances;
    }
    const RoleWanted& wanted = desired_.Of(role).wanted;
    const int standby = wanted_pools_ * wanted.standby * std::min(wanted.per_pod, wanted.instances);
    out.starting = std::max(wanted_pools_ * wanted.instances, live - standby) - out.ready;
    out.starting = std::max(out.starting, 0);
    return out;
  }

  void CountPods(const Side& front, Role role, int& live, controllers::RoleState& out) const {
    const ScalingMemory& before = seen_.remembered.scaling;
    for (const PodSeen& pod : front.pods[role == Role::kExperts]) {
      if (!pod.is_live()) {
        if (!pod.has_ended && !pod.is_lost) out.draining += pod.instances;
        continue;
      }
      live += pod.instances;
      if (!IsServing(front, pod)) continue;
      out.ready += ServingInstances(front, pod);
      const MonotonicTime since = next_.serving.at(pod.uid);
      out.youngest_ready_seconds =
          std::min(out.youngest_ready_seconds, Seconds(seen_.now - since).count());
      const auto started = before.starting.find(pod.uid);
      if (started != before.starting.end() && since == seen_.now) {
        out.start_seconds.push_back(Seconds(seen_.now - started->second).count());
      }
    }
  }

  controllers::Configuration CurrentOf(const TopologyRecord& committed, int m, int n) const {
    controllers::Configuration out;
    // The mean of the pools, rounded down when one of them lacks an instance.
    out.pools = serving_pools_;
    out.m = m / serving_pools_;
    out.n = n / serving_pools_;
    out.micro_batches = std::max(committed.micro_batches, 1);
    out.mode = committed.mode;
    out.gate = committed.gate;
    out.sum = committed.sum;
    out.slots = desired_.planned->plan.slots_per_instance;
    return out;
  }

  // Counts that were asked for and do not all serve. A role that comes and one that goes count
  // alike.
  std::optional<controllers::InFlight> InFlightOf(const InstanceCounts& ready) {
    const InstanceCounts wanted = Wanted();
    if (wanted.attention == ready.attention && wanted.experts == ready.experts &&
        wanted.pools == serving_pools_) {
      next_.wanted_since.reset();
      return std::nullopt;
    }
    if (!next_.wanted_since) next_.wanted_since = seen_.now;
    return controllers::InFlight{wanted.attention / wanted.pools, wanted.experts / wanted.pools,
                                 SecondsOf(*next_.wanted_since), wanted.pools};
  }

  void Hold(std::string reason, std::string message) {
    if (!IsScaled(spec_)) return;
    DecisionRecord record;
    record.from = record.to = Wanted();
    record.reason = std::move(reason);
    record.message = std::move(message);
    Note(std::move(record));
    next_.hold = next_.last;
  }

  void Decide() {
    const TopologyRecord* const committed = front_.committed();
    if (committed == nullptr) return;
    if (!desired_.planned) {
      return Hold("NoMetrics",
                  "the needs of the model are not known: " +
                      (desired_.awaited ? desired_.awaited.message : desired_.capacity.message));
    }
    if (!Hear()) return;
    const janus::Result<controllers::ScalingPolicy> policy = PolicyOf(spec_, LimitsOfPolicy());
    if (!policy.ok()) return Hold("InvalidPolicy", policy.status().message());
    const controllers::Look look = LookAt(*committed);
    // Each answer counts once, and so does each request that ended.
    if (next_.looked == answered_) {
      return Hold("NoMetrics",
                  "the members have not reported their counters since the last decision");
    }
    next_.looked = answered_;
    const bool was_late = WasLate(*statistics_);
    const bool is_first = !next_.looks.last_time_seconds;
    const controllers::ObserveOptions options{policy->tpot, policy->ttft,
                                              controllers::ArrivalWindows(*policy)};
    const janus::Result<controllers::World> world =
        controllers::WorldFrom(look, options, next_.looks);
    if (!world.ok()) {
      // Rates need two looks. Until then the decision of the process before stands.
      if (is_first && LastDecisionOf(seen_.tree)) return;
      const bool is_bad = world.status().code() == StatusCode::kInvalidArgument;
      return Hold(is_bad ? "BadStatistics" : "NoMetrics", world.status().message());
    }
    NoteEnded(world->ended);
    if (!IsScaled(spec_)) return;
    // More instances on the same machine would be later still.
    if (was_late) {
      return Hold("EmulationLate",
                  "since the last decision more than 10 % of the results came later than the "
                  "emulated device would have them, so the measured times are those of this "
                  "machine; " +
                      RemedyOfLateResults(spec_.timed ? spec_.timed->device() : TimedDevice()));
    }
    const RunningService service = {spec_,
                                    *desired_.planned,
                                    *policy,
                                    seen_.profiles,
                                    options_.ground,
                                    PodCount(look.attention.ready, serving_pools_),
                                    PodCount(look.experts.ready, serving_pools_),
                                    StoodFor()};
    const janus::Result<PredictorInputs> inputs = InputsOf(service);
    if (!inputs.ok()) return HoldFor(inputs.status());
    const janus::Result<PredictionBasis> basis = BasisOf(service);
    if (!basis.ok()) return HoldFor(basis.status());
    const janus::Result<controllers::Predictor> predictor = next_.predictors.Get(*inputs);
    if (!predictor.ok()) return HoldFor(predictor.status());
    if (!next_.basis) next_.basis = *basis;
    ForgetLearned(*next_.basis, *basis, next_.decide);
    if (!HasSameFactors(*next_.basis, *basis)) next_.basis = *basis;
    const bool begins = next_.decide.last_time_seconds < 0;
    controllers::Outcome outcome =
        controllers::Decide(*predictor, *policy, *world, std::move(next_.decide));
    next_.decide = std::move(outcome.memory);
    Take(outcome.decision, *world);
    record_ = TickRecord{
        seen_.wall,
        begins,
        std::make_shared<const RecordedSetting>(RecordedSetting{*policy, *inputs, *next_.basis}),
        *world,
        std::move(outcome.decision),
        *next_.last};
  }

  // What the members of all pools that serve have reported. False: one has not, and the decision
  // holds.
  bool Hear() {
    std::vector<std::shared_ptr<const Statistics>> reports;
    for (size_t i = 0; i < pools_.size(); ++i) {
      const Side& front = pools_[i]->sides.front;
      const TopologyRecord* const committed = front.committed();
      if (committed == nullptr) continue;  // it is starting
      const WatchSeen& watch = front.epochs().watch;
      if (watch.statistics == nullptr || watch.epoch != committed->epoch) {
        const std::string of = pools_.size() > 1 ? " of pool " + std::to_string(i + 1) : "";
        Hold("NoMetrics", "the members of epoch " + std::to_string(committed->epoch) + of +
                              " have not reported their counters yet");
        return false;
      }
      // All have reported since the oldest answer.
      answered_ = reports.empty() ? watch.answered : std::min(answered_, watch.answered);
      reports.push_back(watch.statistics);
    }
    serving_pools_ = static_cast<int>(reports.size());
    statistics_ = reports.size() == 1 ? reports.front()
                                      : std::make_shared<const Statistics>(JoinPools(reports));
    return true;
  }

  // Predictions for timed devices are those of the named model on the named device.
  std::optional<StandsFor> StoodFor() const {
    if (!spec_.timed) return std::nullopt;
    return StandsFor{spec_.timed->hardware, spec_.timed->model,
                     static_cast<double>(spec_.timed->scale),
                     static_cast<double>(spec_.timed->time_scale)};
  }

  // What a prediction lacks.
  void HoldFor(const Status& status) {
    const bool is_awaited = status.code() == StatusCode::kUnavailable;
    Hold(is_awaited ? "NoMetrics" : "NoProfile", status.message());
  }

  // Of timed devices: whether more than a tenth of the results came late since the last look. A run
  // is void much sooner (IsVoid), but its decisions still make sense.
  bool WasLate(const Statistics& statistics) {
    uint64_t waits = 0, overruns = 0;
    for (const InstanceStatistics& one : statistics.instances) {
      waits += one.timed_waits;
      overruns += one.timed_overruns;
    }
    const uint64_t waits_before = std::exchange(next_.timed_waits, waits);
    const uint64_t overruns_before = std::exchange(next_.timed_overruns, overruns);
    // Totals fall when a member leaves.
    return waits > waits_before && overruns > overruns_before &&
           10 * (overruns - overruns_before) > waits - waits_before;
  }

  controllers::Look LookAt(const TopologyRecord& committed) {
    controllers::Look look;
    look.time_seconds = SecondsOf(answered_);
    look.statistics = *statistics_;
    look.attention = StateOf(Role::kAttention);
    look.experts = StateOf(Role::kExperts);
    look.current = CurrentOf(committed, look.attention.ready, look.experts.ready);
    look.in_flight = InFlightOf({look.attention.ready, look.experts.ready});
    look.is_paused = spec_.paused;
    look.is_rolling_out = rollout_.sides.old.has_value() || HasOtherRevisions();
    return look;
  }

  PolicyLimits LimitsOfPolicy() const {
    PolicyLimits out;
    const auto external = [&](Role role) -> std::optional<int> {
      if (!IsExternal(SpecOf(desired_.service, role))) return std::nullopt;
      // In pods; External packs exactly.
      return desired_.Of(role).wanted.pods();
    };
    out.external_attention = external(Role::kAttention);
    out.external_experts = external(Role::kExperts);
    // Instances of one machine share its cores.
    if (options_.ground == Ground::kMachine && !spec_.timed) {
      for (const auto* device :
           {&desired_.planned->devices.attention, &desired_.planned->devices.experts}) {
        if (!*device || !(*device)->cpu) continue;
        out.most_instances = std::max(out.most_instances, (*device)->cpu->threads);
      }
    }
    return out;
  }

  // The field behind a limit, or in words what limits where no field is set.
  std::string LimitOf(controllers::Limit limit) const {
    using controllers::Limit;
    const auto has = [&](std::optional<int32_t> RoleScaling::*bound) {
      return std::ranges::any_of(desired_.scaling_of_spec, [&](const auto& role) {
        return role && ((*role).*bound).has_value();
      });
    };
    if (limit == Limit::kMin && !has(&RoleScaling::min_replicas)) {
      return "the fewest instances that hold the model";
    }
    if (limit == Limit::kMax && !has(&RoleScaling::max_replicas)) {
      return "the most instances that a service of this version may have";
    }
    if (limit == Limit::kMaxGpus && !spec_.scaling.max_gpus) return "the cores of this machine";
    return FieldOf(limit);
  }

  bool HasOtherRevisions() const {
    for (const Rollout* pool : pools_) {
      for (const PodSeen& pod : pool->sides.front.AllPods()) {
        if (pod.is_live() && pod.revision != desired_.Of(pod.role).wanted.revision) return true;
      }
    }
    return false;
  }

  // What was decided becomes what is wanted.
  void Take(const controllers::Decision& decision, const controllers::World& world) {
    DecisionRecord record;
    record.from = record.to = Wanted();
    record.reason = std::string(ToString(decision.reason));
    record.message = decision.text;
    record.limited_by = LimitOf(decision.limited_by);
    record.observed_tpot_microseconds = Microseconds(world.observed.tpot_seconds.value_or(0));
    const controllers::Prediction& predicted =
        decision.verb == Verb::kScale ? decision.chosen : decision.current;
    record.predicted_tpot_microseconds = Microseconds(predicted.tpot_seconds);
    record.cost = predicted.cost;
    if (decision.verb != Verb::kHold) {
      record.to = {decision.target.how.m * decision.target.how.pools,
                   decision.target.how.n * decision.target.how.pools, decision.target.how.pools};
      const bool is_more =
          record.to.attention > record.from.attention || record.to.experts > record.from.experts;
      record.action =
          is_more ? DecisionRecord::Action::kScaleUp : DecisionRecord::Action::kScaleDown;
      next_.wanted = record.to;
      next_.wanted_since = seen_.now;
      if (decision.verb == Verb::kScale) Split(decision, world, record);
    } else if (next_.decide.pending.empty() && decision.target.how.micro_batches > 0) {
      // Also the number that runs: another one may be on its way, and wanted no more.
      if (Split(decision, world, record)) {
        record.action = DecisionRecord::Action::kSplit;
        record.predicted_tpot_microseconds = Microseconds(decision.chosen.tpot_seconds);
      }
    }
    Note(std::move(record));
  }

  // Takes the decision's number of micro-batches. True: it is another one than was wanted before,
  // and the decision chose it: a number that the spec says is the user's.
  bool Split(const controllers::Decision& decision, const controllers::World& world,
             DecisionRecord& record) {
    const int before =
        next_.micro_batches > 0 ? next_.micro_batches : std::max(world.current.micro_batches, 1);
    const int wanted = next_.micro_batches = decision.target.how.micro_batches;
    if (wanted == before || spec_.pipeline.micro_batches > 0) return false;
    if (record.message.find("micro-batches: ") == std::string::npos) {
      record.message +=
          "; micro-batches: " + std::to_string(wanted) + " instead of " + std::to_string(before);
    }
    return true;
  }

  void Note(DecisionRecord record) {
    record.time = seen_.wall;
    if (!next_.last) {
      next_.last = LastDecisionOf(seen_.tree);
      next_.history = HistoryOf(seen_.tree);
    }
    if (next_.last && next_.last->action != DecisionRecord::Action::kHold) {
      next_.history.insert(next_.history.begin(), *next_.last);
      if (next_.history.size() > kMostHistory) next_.history.resize(kMostHistory);
    }
    next_.last = std::move(record);
  }

  const ServiceObserved& seen_;
  const ReconcilerOptions& options_;
  const std::vector<const Rollout*>& pools_;
  const int wanted_pools_;
  int serving_pools_ = 1;                         // those with a committed epoch
  std::shared_ptr<const Statistics> statistics_;  // of all these
  MonotonicTime answered_;                        // the oldest answer among them
  const Rollout& rollout_;                        // of the first pool
  const Desired& desired_;
  const Side& front_;
  MoEServiceSpec spec_;  // as the user wrote it: `desired` has counts filled in
  ScalingMemory next_;
  std::optional<TickRecord> record_;
};

}  // namespace

bool IsScaled(const MoEServiceSpec& spec) {
  return spec.roles.attention.is_slo() || spec.roles.experts.is_slo();
}

ScalingTick Tick(const ServiceObserved& seen, const ReconcilerOptions& options,
                 const std::vector<const Rollout*>& pools, int wanted) {
  const Desired& desired = pools.front()->desired;
  const MoEServiceSpec& spec = desired.service.spec;
  if (!desired.acts() || desired.is_held || !spec.slo.tpot || !desired.wants_pods()) {
    if (!seen.remembered.scaling.hold) return {};
    ScalingMemory next = seen.remembered.scaling;
    next.hold.reset();
    return {std::move(next), std::nullopt, std::nullopt};
  }
  const Seconds interval(spec.scaling.interval_seconds);
  const std::optional<MonotonicTime>& decided = seen.remembered.scaling.decided;
  // Most rounds end here, before the memory and the spec are copied.
  if (decided && seen.now < At(*decided, interval))
    return {std::nullopt, At(*decided, interval), std::nullopt};
  return Ticking(seen, options, pools, wanted).Run();
}

}  // namespace janus::control
