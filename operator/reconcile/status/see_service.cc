#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "operator/api/topology_enums.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/reconcile/pools/pools.h"
#include "operator/reconcile/rollout/old_side.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/reconcile/scaling/tick.h"
#include "operator/reconcile/spec/held_spec.h"
#include "operator/reconcile/spec/read_spec.h"
#include "operator/reconcile/status/pool_facts.h"
#include "operator/reconcile/status/report.h"
#include "operator/reconcile/status/words.h"

namespace janus::control {
namespace {

// Why the server refuses a Deployment's pods, in the server's words.
std::string WhyNotMade(const Node& deployment) {
  const Node* const conditions = FindAt(deployment, {"status", "conditions"});
  if (conditions == nullptr) return "";
  for (const Node& one : conditions->items) {
    if (TextAt(one, {"type"}) != "ReplicaFailure" || TextAt(one, {"status"}) != "True") continue;
    return "no more pods can be created: " + std::string(TextAt(one, {"message"}));
  }
  return "";
}

// Adds a cause with the same reason, so that users see all problems at once.
void AlsoSay(const Cause& cause, Cause& said) {
  if (!said) {
    said = cause;
  } else if (said.reason == cause.reason && said.message.find(cause.message) == std::string::npos) {
    said.message += "; " + cause.message;
  }
}

class Seeing {
 public:
  // `others`: the pools beside this one, whose measurements are wanted too.
  Seeing(const PoolReport& pool, const ReconcilerOptions& options,
         std::span<const PoolReport> others, const std::vector<Refusal>& refused)
      : number_(pool.number),
        seen_(*pool.seen),
        options_(options),
        decision_(*pool.decision),
        desired_(decision_.rollout.desired),
        sides_(decision_.rollout.sides),
        front_(sides_.front),
        others_(others),
        refused_(refused) {}

  StatusFacts Run() {
    out_.generation = desired_.service.metadata.generation;
    out_.now = seen_.wall;
    out_.attention = SeeRole(Role::kAttention);
    out_.experts = SeeRole(Role::kExperts);
    SeeSpec();
    SeeRefusals();
    SeePlan();
    SeeScaling();
    SeeGateways();
    // A sleeping service without pods gets the operator's current image when it wakes.
    const bool sleeps = !desired_.wants_pods() && front_.is_empty();
    if (!sleeps || desired_.invalid) out_.pinned = desired_.pinned;
    SeeTopology();
    if (sides_.old) {
      for (const PodSeen& pod : sides_.old->AllPods()) out_.old_gpus += pod.held_gpus();
    }
    SeeMembers();
    return std::move(out_);
  }

 private:
  RoleStatus SeeRole(Role role) {
    const RoleDesired& desired = desired_.Of(role);
    RoleStatus out;
    out.role = role;
    out.desired = desired.wanted.instances;
    out.standby = desired_.wants_pods() ? desired.wanted.standby : 0;
    out.last_pod_id = LastPodId(seen_.tree, role);
    out.is_external = IsExternal(SpecOf(desired_.service, role));
    for (const AutoscalerSeen& one : seen_.autoscalers) {
      if (one.role == role && !out.is_external) out.ignored = one.name;
    }
    out.limit = out.is_external ? LimitOf(role) : desired.limit;
    out.selector = std::string(kServiceLabel) + "=" + desired_.service.metadata.name + "," +
                   std::string(kRoleLabel) + "=" + std::string(ToString(role)) + "," +
                   std::string(kMemberLabel) + "=true";
    failed_.clear();
    for (const PodSeen& pod : front_.pods[role == Role::kExperts]) {
      SeePod(pod, desired.wanted, out);
    }
    if (!failed_.empty()) out.awaited = failed_;
    if (decision_.awaits_certificate[role == Role::kExperts] && out.awaited.empty()) {
      out.awaited = "pods wait for a certificate (see Progressing)";
    }
    const std::string making =
        "create Pod " + RoleObjectName(desired_.service.metadata.name, role) + "-";
    for (const Refusal& refusal : refused_) {
      if (refusal.kind != RefusalKind::kCapacity) continue;
      if (!refusal.cause.message.starts_with(making)) continue;
      out.no_room = {refusal.cause.reason, RefusalWords(refusal)};
    }
    if (desired_.wants_pods() && front_.committed() != nullptr) {
      std::set<std::string> pods;
      for (const TopologyInstance& one : front_.committed()->instances) {
        if (one.role != role) continue;
        ++out.committed;
        pods.insert(one.pod_uid);
      }
      out.committed_pods = static_cast<int>(pods.size());
    }
    return out;
  }

  void SeePod(const PodSeen& pod, const RoleWanted& wanted, RoleStatus& out) {
    const bool is_committed = front_.committed_pods.contains(pod.uid);
    const bool is_new = pod.revision == wanted.revision;
    out.draining += pod.is_leaving;
    out.gpus += pod.held_gpus();
    out.pods += pod.is_live();
    out.updated += pod.is_live() && is_new;
    const bool is_ready = pod.is_live() && pod.is_ready && is_committed;
    out.ready += is_ready;
    if (is_ready) out.ready_instances += ServingInstances(front_, pod);
    out.idle += pod.is_live() && pod.containers_ready && !is_committed;
    const bool is_current = is_new || !wanted.rolls || wanted.revision.empty();
    (is_current ? out.current : out.outdated) += ServingOf(pod);
    const std::string name = "pod " + pod.name + ": ";
    if (pod.is_live() && !pod.crash_loop.empty()) out.crashing = name + pod.crash_loop;
    if (pod.is_live() && !pod.unplaceable.empty()) out.unplaceable = NoNodeWords(pod);
    if (pod.is_live() && !pod.not_starting.empty()) out.not_starting = NotStartingWords(pod);
    // Why one has failed says more than that its successor is not ready. A pod that this process
    // has just deleted for that is still there, marked as leaving.
    if (pod.has_ended && (!pod.is_leaving || !pod.ended_because.empty())) {
      failed_ = name + WhyEnded(pod);
    }
    if (pod.is_live() && !pod.containers_ready) out.awaited = NotReadyWords(pod);
  }

  // Whether the instance of the pod hangs: it answers neither its readiness probe nor the operator.
  // Each alone may fail while the instance serves.
  bool Hangs(const InstanceId& instance, const PodSeen& pod) const {
    const WatchSeen& watch = front_.epochs().watch;
    return pod.is_live() && pod.has_started && !pod.containers_ready &&
           (watch.is_overdue || watch.silent_since.contains(instance));
  }

  // The first member of the committed epoch that hangs, in words; empty: none.
  std::string HungMember(const TopologyRecord& committed) const {
    for (const std::vector<PodSeen>& pods : front_.pods) {
      for (const PodSeen& pod : pods) {
        for (const TopologyInstance& one : committed.instances) {
          if (one.pod_uid == pod.uid && Hangs(IdOf(one), pod)) return HangsWords(pod);
        }
      }
    }
    return "";
  }

  // How many instances of the pod are alive and in the committed epoch.
  int ServingOf(const PodSeen& pod) const {
    const TopologyRecord* const committed = front_.committed();
    if (committed == nullptr) return 0;
    return static_cast<int>(
        std::ranges::count_if(committed->instances, [&](const TopologyInstance& one) {
          return one.pod_uid == pod.uid && seen_.alive.contains(IdOf(one)) &&
                 !Hangs(IdOf(one), pod);
        }));
  }

  // Why a role in mode External differs from its scaler's count.
  Cause LimitOf(Role role) const {
    const RoleDesired& desired = desired_.Of(role);
    const std::string name =
        kRoleScalers.kind + " " + RoleObjectName(desired_.service.metadata.name, role);
    for (const Refusal& refusal : refused_) {
      if (refusal.cause.reason == "AdoptRefused" && refusal.cause.message.starts_with(name + " ")) {
        return refusal.cause;
      }
    }
    // It keeps the count that fits.
    if (desired_.capacity && desired.wanted.instances != desired.external_count &&
        desired_.wants_pods()) {
      return desired_.capacity;
    }
    return desired.limit;
  }

  void SeeSpec() {
    out_.asleep = desired_.acts() ? WhyAsleep(desired_.service) : "";
    out_.invalid = desired_.invalid;
    out_.capacity = desired_.capacity;
    // Without its model the first pods are not awaited yet.
    const bool is_first = desired_.fetching && !desired_.held_back;
    out_.awaited = decision_.awaited && !is_first ? decision_.awaited : desired_.awaited;
    out_.release = options_.release;
    out_.rival = seen_.rival;
    out_.replacing = decision_.replacing;
    out_.held_back = desired_.held_back;
    out_.fetching = desired_.fetching;
    out_.progress = desired_.progress;
    if (auto fetched = FetchedFor(seen_.tree, desired_.service)) {
      out_.model_repo = desired_.service.spec.model.source.hugging_face->repo;
      out_.fetched = *std::move(fetched);
    }
    out_.predecessor_serves = decision_.old_serves;
    out_.is_paused = desired_.acts() && desired_.service.spec.paused;
    out_.has_waiting_edits = out_.is_paused && HasWaitingEdits(seen_, front_);
    out_.is_plain_text =
        options_.defaults.certificates && !UsesTls(desired_.service, options_.defaults);
  }

  void SeeRefusals() {
    for (const Refusal& refusal : refused_) {
      // Report only the first lack of resources: both roles lack the same.
      if (refusal.kind == RefusalKind::kCapacity) {
        if (!out_.capacity) out_.capacity = {refusal.cause.reason, RefusalWords(refusal)};
      } else {
        AlsoSay(refusal.cause, refusal.kind == RefusalKind::kInvalid ? out_.invalid : out_.refused);
      }
    }
    if (!out_.invalid) out_.invalid = desired_.held_tls;
    if (!out_.refused) out_.refused = decision_.certified.refused;
  }

  void SeePlan() {
    const MoEService& service = desired_.service;
    if (desired_.planned) {
      out_.plan = desired_.planned->plan;
      if (UsesTls(service, options_.defaults)) out_.plan->effective.tls = Tls::kAuto;
      out_.model_digest = desired_.planned->model_digest;
    }
  }

  void SeeScaling() {
    const MoEServiceSpec& spec = desired_.service.spec;
    const ScalingMemory& memory = seen_.remembered.scaling;
    ScalingStatus& out = out_.scaling;
    out.is_scaled = IsScaled(spec);
    if (out.is_scaled) {
      out.last = memory.last ? memory.last : LastDecisionOf(seen_.tree);
      out.history = memory.last ? memory.history : HistoryOf(seen_.tree);
    }
    out.has_target = spec.slo.tpot.has_value();
    if (!out.has_target) return;
    out.is_judged = memory.looks.last_time_seconds.has_value();
    out.share_wanted = ShareOf(spec.slo.tpot->percentile);
    // A request has to keep both targets, so the looser percentile is what can be asked of it.
    if (spec.slo.ttft)
      out.share_wanted = std::min(out.share_wanted, ShareOf(spec.slo.ttft->percentile));
    for (const EndedThen& one : memory.ended) {
      out.ended += one.requests;
      out.attained += one.attained;
    }
  }

  void SeeGateways() {
    const std::string& service = desired_.service.metadata.name;
    out_.gateway_replicas =
        desired_.service.spec.gateway.replicas.value_or(options_.defaults.gateway_replicas);
    out_.gateways_wanted = out_.gateway_replicas;
    std::string unmade;
    const ChildSeen* const there = seen_.Child(kDeployments, GatewayName(service));
    if (there != nullptr && IsControlledBy(there->object, seen_.uid())) {
      out_.gateways_available =
          static_cast<int>(IntegerAt(there->object, {"status", "availableReplicas"}).value_or(0));
      unmade = WhyNotMade(there->object);
    }
    out_.no_endpoint = WhyNoService(service);
    out_.endpoint = EndpointOf(service);
    if (out_.gateways_available >= out_.gateways_wanted) return;
    // Gateways find the workers through this Service.
    const Cause no_members = WhyNoService(UsesPools(desired_.service.spec) ? PoolName(service, 1)
                                                                           : MembersName(service));
    out_.gateway_trouble = no_members ? no_members.message : WhyNoGateway();
    if (out_.gateway_trouble.empty()) out_.gateway_trouble = std::move(unmade);
  }

  // The URL of the gateways' Service as pods of the cluster reach it; empty: there is none.
  std::string EndpointOf(const std::string& service) const {
    if (options_.ground != Ground::kCluster) return "";
    const ChildSeen* const there = seen_.Child(kServices, service);
    if (there == nullptr || !IsControlledBy(there->object, seen_.uid())) return "";
    const int port = desired_.service.spec.gateway.service.port;
    return "http://" + service + "." + seen_.key().namespace_ + ".svc" +
           (port == 80 ? "" : ":" + std::to_string(port)) + "/v1";
  }

  // The first gateway by name that does not start.
  std::string WhyNoGateway() const {
    std::string out;
    for (const GatewayPodSeen& pod : seen_.gateway_pods) {
      if (pod.is_leaving || pod.why_not_running.empty()) continue;
      if (out.empty() || pod.why_not_running < out) out = pod.why_not_running;
    }
    return out;
  }

  // Why the service has no Service of that name: it cannot be created, or has another owner. Empty
  // while it is being created, since other objects are missing then too.
  Cause WhyNoService(const std::string& name) const {
    const ChildSeen* const there = seen_.Child(kServices, name);
    if (there != nullptr && IsControlledBy(there->object, seen_.uid())) return {};
    const std::string what = kServices.kind + " " + name;
    for (const Refusal& one : refused_) {
      const std::string& message = one.cause.message;
      if (message.starts_with(what + " ") || message.starts_with("create " + what + ":")) {
        const bool says_why = one.kind != RefusalKind::kInvalid && one.cause;
        return {says_why ? one.cause.reason : "GatewayNotReady", RefusalWords(one)};
      }
    }
    return {};
  }

  void SeeTopology() {
    if (!front_.is_readable()) return;
    TopologyStatus& topology = out_.topology;
    topology.name = front_.topology->name();
    topology.reason = front_.epochs().under_way.reason;
    topology.message = front_.epochs().under_way.message;
    const TopologyRecord* const committed = front_.committed();
    if (committed == nullptr) return;
    topology.epoch = committed->epoch;
    topology.is_told = ServesCommitted(front_) || IsHandedOver();
    topology.has_lost = AliveOf(*committed, seen_.alive).size() < committed->instances.size();
    topology.lost = front_.epochs().WhyLost(committed->epoch);
    if (topology.lost.empty()) topology.lost = HungMember(*committed);
    for (const TopologyInstance& one : committed->instances) {
      ++(one.role == Role::kAttention ? topology.m : topology.n);
    }
    topology.mode = ToString(committed->mode);
    topology.gate = ToString<janus::GateSide>(committed->gate);
    topology.mode_why = decision_.exchange_why;
    const Node* const was = TopologyBefore();
    if (topology.mode_why.empty() && was != nullptr) {
      topology.mode_why = TextAt(*was, {"exchangeReason"});
    }
    topology.micro_batches = committed->micro_batches;
    topology.placement_hash = committed->sha256.value_or("").substr(0, 16);
  }

  // The answers of members of the committed epoch. While this process has none, it keeps what an
  // earlier process reported.
  void SeeMembers() {
    if (out_.topology.epoch == 0) return;
    const WatchSeen& watch = front_.epochs().watch;
    out_.answers = watch.answers;
    out_.unanswered = watch.why_unanswered;
    for (const Condition& said : ReadConditions(seen_.tree)) {
      if (said.type != "MetricsAvailable" || out_.answers != MemberAnswers::kUnknown) continue;
      if (said.status == ConditionStatus::kTrue) out_.answers = MemberAnswers::kAll;
      if (said.status != ConditionStatus::kFalse) continue;
      out_.answers = MemberAnswers::kNotAll;
      out_.unanswered = said.message;
    }
    const Node* const was = TopologyBefore();
    const bool is_same = was != nullptr && IntegerAt(*was, {"epoch"}) == out_.topology.epoch;
    out_.topology.imbalance_permille = HeldNumber(
        is_same ? IntegerAt(*was, {"imbalancePermille"}) : std::nullopt, watch.imbalance_permille);
    out_.is_void = watch.is_void;
    std::optional<int64_t> tokens = watch.tokens_per_second;
    LatencyCounts tpot = watch.tpot.Unpack(), ttft = watch.ttft.Unpack();
    for (const PoolReport& other : others_) {
      const Side& side = other.decision->rollout.sides.front;
      const WatchSeen& its = side.epochs().watch;
      if (side.committed() == nullptr || its.epoch != side.committed()->epoch) continue;
      out_.is_void |= its.is_void;
      if (its.tokens_per_second) tokens = tokens.value_or(0) + *its.tokens_per_second;
      tpot += its.tpot.Unpack();
      ttft += its.ttft.Unpack();
      if (its.answers != MemberAnswers::kNotAll || out_.answers == MemberAnswers::kNotAll) continue;
      out_.answers = MemberAnswers::kNotAll;
      out_.unanswered = "pool " + std::to_string(other.number) + ": " + its.why_unanswered;
    }
    out_.tokens_per_second = HeldNumber(Was({"status", "slo", "tokensPerSecond"}), tokens);
    const SloSpec& slo = desired_.service.spec.slo;
    out_.tpot_microseconds = Measured(slo.tpot, tpot, "tpotMicroseconds");
    out_.ttft_microseconds = Measured(slo.ttft, ttft, "ttftMicroseconds");
    // A service that has never generated a token has no rate.
    if (out_.tokens_per_second == 0 && !Was({"status", "slo", "tokensPerSecond"})) {
      out_.tokens_per_second.reset();
    }
  }

  // Gateways hold what is asked while members go from one epoch to the next. This takes tens of
  // milliseconds, so a pool that served goes on to serve; otherwise every resize would be a
  // moment of not being Ready.
  bool IsHandedOver() const { return !front_.epochs().progress.tell_failed && HasServed(); }

  // By the status. With several pools TopologyReady is False while any of them starts.
  bool HasServed() const {
    if (FindAt(seen_.tree, {"status", "pools"}) != nullptr) {
      const Node* const pool = PoolBefore();
      return pool != nullptr && TextAt(*pool, {"state"}) == "Serving";
    }
    const std::vector<Condition> said = ReadConditions(seen_.tree);
    return std::ranges::any_of(said, [](const Condition& one) {
      return one.type == "TopologyReady" && one.status == ConditionStatus::kTrue;
    });
  }

  // What the status says of the pool's topology so far; null: nothing.
  const Node* TopologyBefore() const {
    return number_ == 1 ? FindAt(seen_.tree, {"status", "topology"}) : PoolBefore();
  }

  // Its item of the status' pools; null: there is none.
  const Node* PoolBefore() const {
    const Node* const pools = FindAt(seen_.tree, {"status", "pools"});
    if (pools == nullptr) return nullptr;
    for (const Node& one : pools->items) {
      if (IntegerAt(one, {"number"}) == number_) return &one;
    }
    return nullptr;
  }

  std::optional<int64_t> Was(FieldPath path) const { return IntegerAt(seen_.tree, path); }

  std::optional<int64_t> Measured(const std::optional<LatencyTarget>& target,
                                  const LatencyCounts& counts, std::string_view field) const {
    if (!target) return std::nullopt;
    std::optional<int64_t> is;
    if (const auto seconds = counts.Percentile(ShareOf(target->percentile))) {
      is = std::llround(seconds->count() * 1e6);
    }
    return HeldNumber(Was({"status", "slo", field}), is);
  }

  const int number_;  // of the pool
  const ServiceObserved& seen_;
  const ReconcilerOptions& options_;
  const Decision& decision_;
  const Desired& desired_;
  const Sides& sides_;
  const Side& front_;
  const std::span<const PoolReport> others_;
  const std::vector<Refusal>& refused_;
  std::string failed_;  // of a role: which pod has failed, and why
  StatusFacts out_;
};

}  // namespace

StatusFacts SeeService(const ReconcilerOptions& options, const std::vector<PoolReport>& pools,
                       const std::vector<Refusal>& refused) {
  const std::span<const PoolReport> others = std::span(pools).subspan(1);
  const PoolReport& first = pools.front();
  StatusFacts out = Seeing(first, options, others, refused).Run();
  const bool has_several = DesiredPools(first.seen->tree) > 1 || !others.empty();
  if (!UsesPools(first.decision->rollout.desired.service.spec) && !has_several) return out;
  // Those whose counts are in the sums.
  out.desired_pools = static_cast<int>(
      std::ranges::count_if(pools, [](const PoolReport& pool) { return !pool.drains; }));
  // The first pool's own state, beside the sums.
  out.pools.push_back({first.number, false, PodsOf(out), out.topology, out.awaited});
  for (const PoolReport& other : others) {
    AddPool(Seeing(other, options, {}, refused).Run(), other.number, other.drains, out);
  }
  return out;
}

}  // namespace janus::control
