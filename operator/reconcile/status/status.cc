#include "operator/reconcile/status/status.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "common/format.h"
#include "operator/api/enums.h"
#include "operator/api/topology_enums.h"
#include "operator/kube/object.h"
#include "operator/reconcile/claim/claim.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/scaling/late_results.h"

namespace janus::control {
namespace {

using enum ConditionStatus;

constexpr size_t kLongestPoolMessage = 512;  // of the field

struct Judgement {
  ConditionStatus status;
  Cause cause;
};

std::string Count(int is, int of, std::string_view what) {
  return std::to_string(is) + " of " + std::to_string(of) + " " + std::string(what);
}

Judgement OfRole(const RoleStatus& role, const StatusFacts& seen) {
  if (!seen.asleep.empty()) return {kTrue, {"Suspended", seen.asleep}};
  if (seen.invalid && role.desired == 0) {
    return {kFalse, {seen.invalid.reason, "the wanted count is unknown: " + seen.invalid.message}};
  }
  std::string count = Count(role.current, role.desired, "instances serve");
  if (role.current >= role.desired && role.committed == role.desired) {
    if (role.standby > 0) {
      count += "; " + Count(std::min(role.idle, role.standby), role.standby, "standby pods") +
               (role.standby == 1 ? " is ready" : " are ready");
    }
    return {kTrue, {"AsWanted", count}};
  }
  if (!role.crashing.empty()) return {kFalse, {"CrashLooping", role.crashing}};
  if (!role.unplaceable.empty()) return {kFalse, {"InsufficientCapacity", role.unplaceable}};
  if (!role.not_starting.empty()) return {kFalse, {"ContainerNotStarting", role.not_starting}};
  if (role.outdated > 0) {
    count += "; " + std::to_string(role.outdated) + " of an earlier revision " +
             (role.outdated == 1 ? "serves" : "serve") + " meanwhile";
  }
  if (role.no_room) return {kFalse, {role.no_room.reason, count + "; " + role.no_room.message}};
  return {kFalse, {"WaitingForPods", count + (role.awaited.empty() ? "" : "; " + role.awaited)}};
}

std::string Gateways(const StatusFacts& seen) {
  std::string out =
      Count(seen.gateways_available, seen.gateways_wanted, "gateway pods are available");
  return seen.gateway_trouble.empty() ? out : out + "; " + seen.gateway_trouble;
}

// Order of reasons for a service that has never served: an error first, then what it waits for,
// then that it does not serve.
int Weight(const Judgement& judgement) {
  return judgement.cause.reason == "NoTopology"       ? 0
         : judgement.cause.reason == "WaitingForPods" ? 1
                                                      : 2;
}

// What a reader of any figure must know of a service of timed devices; empty: it has none.
std::string Emulated(const StatusFacts& seen) {
  if (!seen.plan || !seen.plan->timed) return "";
  std::string out = "; emulated: " + janus::ToString(*seen.plan->timed);
  if (seen.is_void) {
    out +=
        "; void: more than 1 % of the results came later than the emulated device would have "
        "them, so " +
        RemedyOfLateResults(*seen.plan->timed);
  }
  return out;
}

bool Serves(const TopologyStatus& topology) {
  return topology.is_told && !topology.has_lost && topology.lost.empty();
}

// Of one pool.
Judgement OfEpoch(const TopologyStatus& topology, const Cause& waits_for, const StatusFacts& seen) {
  if (!seen.asleep.empty()) return {kTrue, {"Suspended", seen.asleep}};
  const std::string name = "epoch " + std::to_string(topology.epoch);
  if (topology.epoch > 0 && Serves(topology)) {
    std::string message = name + " serves: " + std::to_string(topology.m) + " attention and " +
                          std::to_string(topology.n) + " expert instances";
    if (!topology.message.empty()) message += "; " + topology.message;
    message += Emulated(seen);
    return {kTrue, {"Committed", std::move(message)}};
  }
  if (!topology.reason.empty()) return {kFalse, {topology.reason, topology.message}};
  if (!topology.lost.empty()) {
    const std::string awaited = waits_for ? "; " + waits_for.message : "";
    return {kFalse, {"EpochLost", topology.lost + awaited}};
  }
  if (waits_for) return {kFalse, waits_for};
  if (topology.has_lost) return {kFalse, {"MemberLost", "a member of " + name + " is gone"}};
  if (topology.epoch > 0) return {kFalse, {"Preparing", name + " is being sent to its members"}};
  return {kFalse, {"NoTopology", "no topology is committed yet"}};
}

// The first pool that does not serve, or all.
Judgement OfTopology(const StatusFacts& seen) {
  Judgement out = OfEpoch(seen.topology, seen.awaited, seen);
  if (!seen.asleep.empty() || seen.pools.size() < 2) return out;
  std::string all;
  for (const PoolStatus& pool : seen.pools) {
    if (pool.drains) continue;
    Judgement its = OfEpoch(pool.topology, pool.awaited, seen);
    its.cause.message = "pool " + std::to_string(pool.number) + ": " + its.cause.message;
    if (its.status != kTrue) return its;
    all += (all.empty() ? "" : "; ") + its.cause.message;
  }
  out.cause.message = std::move(all);
  return out;
}

bool ServesSomewhere(const StatusFacts& seen) {
  if (seen.predecessor_serves || (seen.topology.epoch > 0 && Serves(seen.topology))) return true;
  return std::ranges::any_of(seen.pools, [](const PoolStatus& pool) {
    return !pool.drains && pool.topology.epoch > 0 && Serves(pool.topology);
  });
}

// The pools that drain, in words; empty: none does.
std::string Draining(const StatusFacts& seen) {
  std::string out;
  for (const PoolStatus& pool : seen.pools) {
    if (!pool.drains || (pool.pods == 0 && pool.topology.epoch == 0)) continue;
    out += "; pool " + std::to_string(pool.number) + " drains: " + std::to_string(pool.pods) +
           (pool.pods == 1 ? " pod is left" : " pods are left");
  }
  return out;
}

Judgement OfEndpoint(const StatusFacts& seen) {
  if (!seen.asleep.empty()) return {kFalse, {"Suspended", seen.asleep}};
  // Without it, calls to the service's name reach nothing, or another program.
  if (seen.no_endpoint) return {kFalse, seen.no_endpoint};
  const bool serves = ServesSomewhere(seen);
  if (seen.topology.epoch == 0 && !serves) {
    return {kFalse, {"NoTopology", "no topology is committed yet"}};
  }
  if (seen.gateways_available == 0) {
    return {kFalse, {"GatewayNotReady", Gateways(seen)}};
  }
  if (!serves) {
    return {kFalse, {"TopologyNotReady", OfTopology(seen).cause.message}};
  }
  return {kTrue, {"Serving", Gateways(seen)}};
}

Judgement OfCapacity(const StatusFacts& seen) {
  if (seen.capacity) return {kFalse, seen.capacity};
  for (const RoleStatus* role : {&seen.attention, &seen.experts}) {
    if (!role->unplaceable.empty()) {
      return {kFalse,
              {"InsufficientCapacity",
               "role " + std::string(ToString(role->role)) + ": " + role->unplaceable}};
    }
  }
  return {kTrue, {"Sufficient", "nothing waits for room"}};
}

std::string WhilePaused(const StatusFacts& seen) {
  if (!seen.is_paused) return "";
  return seen.has_waiting_edits ? ", except for edits that wait while spec.paused is true"
                                : "; new edits wait while spec.paused is true";
}

Judgement OfProgress(const StatusFacts& seen, bool is_complete) {
  if (seen.invalid) return {kFalse, seen.invalid};
  if (seen.refused) return {kFalse, seen.refused};
  if (!seen.rival.empty()) {
    return {kFalse,
            {"AnotherOperator",
             "the operator of release " + seen.rival + " watches this service too. Release " +
                 seen.release + " keeps it, and " + seen.rival +
                 " writes nothing. Uninstall one of them, or give them different namespaces "
                 "(watchNamespaces or namespaced of the chart)"}};
  }
  if (seen.held_back.reason == "InsufficientCapacity") {
    return {kFalse, seen.held_back};
  }
  if (seen.fetching) {
    return {seen.fetching.reason == "FetchingModel" ? kTrue : kFalse, seen.fetching};
  }
  const std::string fails = seen.fails.empty() ? "" : "; retrying: " + seen.fails;
  if (is_complete)
    return {kTrue, {"Complete", "everything matches the spec" + WhilePaused(seen) + fails}};
  if (seen.progressed + kProgressDeadline <= seen.now) {
    return {kFalse,
            {"ProgressDeadlineExceeded",
             "nothing has moved for " + std::to_string(kProgressDeadline.count()) + " s" + fails}};
  }
  if (seen.replacing) return {kTrue, {seen.replacing.reason, seen.replacing.message + fails}};
  if (seen.awaited && seen.awaited.reason == "Recreating") {
    return {kTrue, {seen.awaited.reason, seen.awaited.message + fails}};
  }
  return {kTrue, {"Working", "changes are being made" + Draining(seen) + fails}};
}

// Reports a role that does not follow its source rather than one that does.
// Reasons of decisions for which counts cannot follow the load.
constexpr std::string_view kCannotScale[] = {
    "NoMetrics",  "NoProfile",     "BadStatistics", "InvalidPolicy",       "ImpossibleSLO",
    "ModelError", "EmulationLate", "Paused",        "InsufficientCapacity"};

Judgement OfDecisions(const StatusFacts& seen) {
  for (const RoleStatus* role : {&seen.attention, &seen.experts}) {
    if (role->limit && !IsBound(role->limit)) return {kFalse, role->limit};
  }
  if (!seen.scaling.last) {
    return {kUnknown, {"NotDecided", "the first decision follows when a topology serves"}};
  }
  const DecisionRecord& last = *seen.scaling.last;
  const bool cannot = std::find(std::begin(kCannotScale), std::end(kCannotScale), last.reason) !=
                      std::end(kCannotScale);
  return {cannot ? kFalse : kTrue, {last.reason, ToString(last.to) + ": " + last.message}};
}

// Fewer requests than this say nothing of a share.
constexpr double kFewestJudged = 10;

Judgement OfTargets(const StatusFacts& seen) {
  const ScalingStatus& scaling = seen.scaling;
  if (!scaling.has_target) {
    return {kUnknown, {"NoTarget", "spec.slo.tpot has no target to judge by"}};
  }
  if (!seen.asleep.empty()) return {kUnknown, {"NoTraffic", seen.asleep}};
  if (!scaling.is_judged) {
    return {kUnknown, {"NoMetrics", "no instance has reported its counters yet"}};
  }
  const std::string minutes = std::to_string(kAttainmentWindow.count()) + " minutes";
  if (scaling.ended < kFewestJudged) {
    return {
        kUnknown,
        {"NoTraffic", Format("%.0f requests have ended in the last ", scaling.ended) + minutes}};
  }
  const double share = scaling.attained / scaling.ended;
  std::string message =
      Format("%.1f %% of %.0f requests of the last ", 100 * share, scaling.ended) + minutes +
      Format(" kept the targets; %.0f %% should", 100 * scaling.share_wanted);
  const bool is_met = share >= scaling.share_wanted;
  return {is_met ? kTrue : kFalse, {is_met ? "Met" : "SLOViolated", std::move(message)}};
}

Judgement OfCounts(const StatusFacts& seen) {
  if (seen.scaling.is_scaled) return OfDecisions(seen);
  Judgement out{kTrue, {"Static", "counts are those of the spec"}};
  std::string followed;
  std::string bounds;
  for (const RoleStatus* role : {&seen.attention, &seen.experts}) {
    if (role->limit && !IsBound(role->limit)) {
      return {kFalse, role->limit};
    }
    if (!role->is_external) continue;
    followed += (followed.empty() ? "" : " and ") + std::string(ToString(role->role));
    if (!role->limit) continue;
    if (bounds.empty()) out.cause.reason = role->limit.reason;
    bounds += (bounds.empty() ? "" : "; ") + role->limit.message;
  }
  if (followed.empty()) return out;
  if (bounds.empty()) out.cause.reason = "External";
  out.cause.message =
      bounds.empty() ? "the MoERoleScaler sets the count of " + followed : std::move(bounds);
  return out;
}

Judgement OfScaling(const StatusFacts& seen) {
  Judgement out = OfCounts(seen);
  for (const RoleStatus* role : {&seen.attention, &seen.experts}) {
    if (role->ignored.empty()) continue;
    const std::string name(ToString(role->role));
    return {kFalse,
            {"AutoscalerIgnored",
             "HorizontalPodAutoscaler " + role->ignored +
                 " has no effect: it scales the MoERoleScaler of role " + name +
                 ", which exists only in mode External. Set spec.roles." + name +
                 ".scaling.mode: External, or delete it. Meanwhile: " + out.cause.message}};
  }
  return out;
}

Judgement OfMetrics(const StatusFacts& seen) {
  if (!seen.asleep.empty()) return {kUnknown, {"NotCollected", seen.asleep}};
  if (seen.topology.epoch == 0) {
    return {kUnknown, {"NotCollected", "no committed epoch, so no members to ask"}};
  }
  switch (seen.answers) {
    case EpochWatch::Answers::kAll:
      return {kTrue, {"Collected", "all members report every few seconds"}};
    case EpochWatch::Answers::kNotAll:
      return {kFalse, {"MembersSilent", seen.unanswered}};
    case EpochWatch::Answers::kUnknown:
      break;
  }
  return {kUnknown, {"NotCollected", "the members have not answered yet"}};
}

Node RoleTree(const RoleStatus& role) {
  return Object({{"name", Text(ToString(role.role))},
                 {"replicas", Node::Integer(role.pods)},
                 {"readyReplicas", Node::Integer(role.ready)},
                 {"updatedReplicas", Node::Integer(role.updated)},
                 {"drainingReplicas", Node::Integer(role.draining)},
                 {"desiredInstances", Node::Integer(role.desired)},
                 {"instances", Node::Integer(role.committed)},
                 {"readyInstances", Node::Integer(role.ready_instances)},
                 {"ready", Text(std::to_string(role.current) + "/" + std::to_string(role.desired))},
                 {"gpus", Node::Integer(role.gpus)},
                 {"selector", Text(role.selector)},
                 {"lastPodId", Node::Integer(role.last_pod_id)}});
}

std::string_view DtypeName(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return "BFloat16";
    case DType::kFloat16:
      return "Float16";
    default:
      return "Float32";
  }
}

std::string_view KvDtypeName(const ServicePlan& plan) {
  if (plan.effective.fp8_kv_cache) return "FP8";
  return plan.dtype == DType::kFloat32 ? "Float32" : "BFloat16";
}

Node EffectiveTree(const ServicePlan& plan, int gateway_replicas) {
  const Effective& effective = plan.effective;
  return Object({{"modelName", Text(effective.model_name)},
                 {"device", Text(ToString(effective.device))},
                 {"dtype", Text(DtypeName(plan.dtype))},
                 {"kvCacheDtype", Text(KvDtypeName(plan))},
                 {"maxModelLen", Node::Integer(plan.max_model_len)},
                 {"exchangeMode", Text(ToString<janus::ExchangeMode>(effective.mode))},
                 {"transport", Text(janus::ToString(effective.transport))},
                 {"gate", Text(ToString<janus::GateSide>(effective.gate))},
                 {"sum", Text(ToString<janus::SumRule>(effective.sum))},
                 {"scheduling", Text(janus::ToString(effective.scheduling))},
                 {"prefixCache", Text(ToString(effective.prefix_cache))},
                 {"placementPolicy", Text(ToString(effective.placement))},
                 {"tls", Text(effective.tls == Tls::kDisabled ? "Disabled" : "Enabled")},
                 {"microBatches", Node::Integer(effective.micro_batches)},
                 {"kvMemoryPercent", Node::Integer(effective.kv_memory_percent)},
                 {"slotsPerInstance", Node::Integer(plan.slots_per_instance)},
                 {"gatewayReplicas", Node::Integer(gateway_replicas)}});
}

// What the status says of a topology in both places, of the service and of a pool.
void AddExchange(const TopologyStatus& topology, Node& to) {
  if (!topology.gate.empty()) to.Add("gate", Text(topology.gate));
  if (!topology.mode_why.empty()) to.Add("exchangeReason", Text(topology.mode_why));
  if (topology.imbalance_permille) {
    to.Add("imbalancePermille", Node::Integer(*topology.imbalance_permille));
  }
}

Node TopologyTree(const TopologyStatus& topology) {
  Node out = Object({{"name", Text(topology.name)},
                     {"epoch", Node::Integer(topology.epoch)},
                     {"m", Node::Integer(topology.m)},
                     {"n", Node::Integer(topology.n)},
                     {"exchangeMode", Text(topology.mode)},
                     {"microBatches", Node::Integer(topology.micro_batches)},
                     {"placementHash", Text(topology.placement_hash)}});
  AddExchange(topology, out);
  return out;
}

std::string_view StateOf(const PoolStatus& pool) {
  if (pool.drains) return "Draining";
  if (pool.topology.epoch == 0) return "Starting";
  return Serves(pool.topology) ? "Serving" : "Lost";
}

// A pool that has drained has gone from the list.
Node PoolsTree(const StatusFacts& seen) {
  Node out = Node::List();
  for (const PoolStatus& pool : seen.pools) {
    Node one = Object({{"number", Node::Integer(pool.number)},
                       {"state", Text(StateOf(pool))},
                       {"topology", Text(pool.topology.name)},
                       {"epoch", Node::Integer(pool.topology.epoch)},
                       {"attention", Node::Integer(pool.topology.m)},
                       {"experts", Node::Integer(pool.topology.n)}});
    if (pool.topology.epoch > 0) {
      one.Add("exchangeMode", Text(pool.topology.mode));
      one.Add("placementHash", Text(pool.topology.placement_hash));
      AddExchange(pool.topology, one);
    }
    std::string why;
    if (!Serves(pool.topology)) {
      const Judgement its = OfEpoch(pool.topology, pool.awaited, seen);
      if (its.status != kTrue) why = its.cause.message.substr(0, kLongestPoolMessage);
    }
    if (!why.empty()) one.Add("message", Text(why));
    out.items.push_back(std::move(one));
  }
  return out;
}

void SetMeasured(const StatusFacts& seen, Node& service) {
  const Node* const was = FindAt(service, {"status", "slo"});
  Node slo = was == nullptr ? Node::Map() : *was;
  // Removes the value of a target that is gone.
  const auto set = [&](std::string_view field, std::optional<int64_t> value) {
    std::erase_if(slo.fields, [&](const NodeField& one) { return one.name == field; });
    if (value) slo.Add(field, Node::Integer(*value));
  };
  set("tpotMicroseconds", seen.tpot_microseconds);
  set("ttftMicroseconds", seen.ttft_microseconds);
  if (seen.tokens_per_second) set("tokensPerSecond", seen.tokens_per_second);
  std::optional<int64_t> attainment, window;
  if (seen.scaling.has_target && seen.scaling.ended > 0) {
    attainment = std::llround(1000 * seen.scaling.attained / seen.scaling.ended);
    window = std::chrono::seconds(kAttainmentWindow).count();
  }
  set("attainmentPermille", attainment);
  set("windowSeconds", window);
  if (was != nullptr || !slo.fields.empty()) SetAt(service, {"status", "slo"}, std::move(slo));
}

// Does nothing if the field is not there.
void RemoveField(FieldPath path, std::string_view field, Node& service) {
  const Node* const was = FindAt(service, path);
  if (was == nullptr || was->Find(field) == nullptr) return;
  Node next = *was;
  std::erase_if(next.fields, [&](const NodeField& one) { return one.name == field; });
  SetAt(service, path, std::move(next));
}

void SetDownload(const StatusFacts& seen, Node& service) {
  if (seen.progress) {
    const FetchProgress& is = *seen.progress;
    const int64_t percent = is.bytes_total == 0
                                ? 0
                                : static_cast<int64_t>(100 * static_cast<double>(is.bytes_done) /
                                                       static_cast<double>(is.bytes_total));
    SetAt(service, {"status", "model", "download"},
          Object({{"percent", Node::Integer(percent)},
                  {"bytes", Node::Integer(is.bytes_done)},
                  {"bytesTotal", Node::Integer(is.bytes_total)},
                  {"files", Node::Integer(is.files_done)},
                  {"filesTotal", Node::Integer(is.files_total)}}));
    return;
  }
  RemoveField({"status", "model"}, "download", service);
}

const Node* RoleOf(const Node& service, Role role) {
  const Node* roles = FindAt(service, {"status", "roles"});
  if (roles == nullptr) return nullptr;
  for (const Node& one : roles->items) {
    if (TextAt(one, {"name"}) == ToString(role)) return &one;
  }
  return nullptr;
}

// True if status, reason and generation of every condition are equal; a change is written at once.
bool SaysTheSame(const Node& before, const Node& after) {
  const std::vector<Condition> was = ReadConditions(before);
  const std::vector<Condition> is = ReadConditions(after);
  return std::equal(was.begin(), was.end(), is.begin(), is.end(),
                    [](const Condition& a, const Condition& b) {
                      return a.type == b.type && a.status == b.status && a.reason == b.reason &&
                             a.observed_generation == b.observed_generation;
                    });
}

// True if a condition that is not well has another message than before. Both have the same
// conditions. Measured conditions do not count: their messages have numbers that always change.
bool HasOtherWords(const Node& before, const Node& after) {
  const std::vector<Condition> was = ReadConditions(before);
  const std::vector<Condition> is = ReadConditions(after);
  return !std::equal(
      was.begin(), was.end(), is.begin(), is.end(), [](const Condition& a, const Condition& b) {
        const bool is_measured =
            b.type == "ScalingReady" || b.type == "SLOMet" || b.type == "MetricsAvailable";
        // Progressing is True while the operator retries what the message names.
        const bool is_well = b.status == kTrue && b.type != "Progressing";
        return is_measured || is_well || a.message == b.message;
      });
}

}  // namespace

std::vector<Condition> ConditionsOf(const StatusFacts& seen) {
  const Judgement attention = OfRole(seen.attention, seen);
  const Judgement experts = OfRole(seen.experts, seen);
  const Judgement topology = OfTopology(seen);
  const Judgement available = OfEndpoint(seen);
  const bool roles_ready =
      attention.status == kTrue && experts.status == kTrue && topology.status == kTrue;
  // A service that sleeps on purpose is complete, although it does not serve.
  const bool is_asleep = !seen.asleep.empty() && seen.attention.pods + seen.experts.pods == 0;
  const bool is_complete = roles_ready && !seen.invalid && !seen.replacing && !seen.held_back &&
                           (available.status == kTrue || is_asleep) && Draining(seen).empty();

  Judgement ready{kTrue, {"AsWanted", "the service is as wanted" + WhilePaused(seen)}};
  if (seen.is_plain_text) {
    ready.cause.message += "; its pods call each other in plain text, as security.tls is Disabled";
  }
  if (seen.held_back) ready = {kFalse, seen.held_back};
  if (seen.invalid) {
    ready = {kFalse, seen.invalid};
  } else {
    const Judgement* why = nullptr;
    for (const Judgement* part : {&available, &attention, &experts, &topology}) {
      if (part->status == kTrue) continue;
      const bool is_better = why == nullptr || (available.cause.reason == "NoTopology" &&
                                                Weight(*part) > Weight(*why));
      if (is_better) why = part;
    }
    if (why != nullptr) ready = *why;
  }
  Judgement stalled{kFalse, {"Reconciling", "the spec can be carried out"}};
  if (seen.invalid) stalled = {kTrue, seen.invalid};

  const std::pair<std::string_view, Judgement> judgements[] = {
      {"Ready", ready},
      {"Available", available},
      {"Progressing", OfProgress(seen, is_complete)},
      {"AttentionReady", attention},
      {"ExpertsReady", experts},
      {"TopologyReady", topology},
      {"ScalingReady", OfScaling(seen)},
      {"MetricsAvailable", OfMetrics(seen)},
      {"SLOMet", OfTargets(seen)},
      {"CapacityAvailable", OfCapacity(seen)},
      {"Stalled", stalled}};
  std::vector<Condition> out;
  for (const auto& [type, judgement] : judgements) {
    Condition one;
    one.type = type;
    one.status = judgement.status;
    one.reason = judgement.cause.reason;
    one.message = judgement.cause.message.substr(0, kLongestMessage);
    one.observed_generation = seen.generation;
    out.push_back(std::move(one));
  }
  return out;
}

bool IsBound(const Cause& limit) {
  return limit.reason == "AtMin" || limit.reason == "AtMax";
}

Node WithStatus(const Node& service, const StatusFacts& seen) {
  Node out = service;
  const auto set = [&](std::string_view field, Node value) {
    SetAt(out, {"status", field}, std::move(value));
  };
  set("observedGeneration", Node::Integer(seen.generation));
  if (!seen.release.empty()) SetClaim(out, {seen.release, ""});
  if (!seen.endpoint.empty()) set("endpoint", Text(seen.endpoint));
  set("conditions",
      WriteConditions(Transitioned(ReadConditions(service), ConditionsOf(seen), seen.now)));
  set("roles", ListOf({RoleTree(seen.attention), RoleTree(seen.experts)}));
  set("gpus", Node::Integer(seen.attention.gpus + seen.experts.gpus + seen.old_gpus));
  SetPinnedImage(out, seen.pinned);
  if (!seen.model_digest.empty()) {
    SetAt(out, {"status", "model", "digest"}, Text(seen.model_digest));
  }
  if (!seen.model_repo.empty()) {
    SetAt(out, {"status", "model", "repo"}, Text(seen.model_repo));
    SetAt(out, {"status", "model", "revision"}, Text(seen.fetched.commit));
    SetAt(out, {"status", "model", "bytes"}, Node::Integer(seen.fetched.bytes));
  }
  SetDownload(seen, out);
  if (seen.plan) set("effective", EffectiveTree(*seen.plan, seen.gateway_replicas));
  if (seen.topology.epoch > 0) set("topology", TopologyTree(seen.topology));
  if (seen.desired_pools > 0) {
    set("desiredPools", Node::Integer(seen.desired_pools));
    set("pools", PoolsTree(seen));
  } else {
    RemoveField({"status"}, "desiredPools", out);
    RemoveField({"status"}, "pools", out);
  }
  if (seen.scaling.last) {
    set("decision", DecisionTree(*seen.scaling.last));
    Node history = Node::List();
    for (const DecisionRecord& one : seen.scaling.history)
      history.items.push_back(DecisionTree(one));
    set("history", std::move(history));
  }
  SetMeasured(seen, out);
  return out;
}

std::optional<int64_t> HeldNumber(std::optional<int64_t> was, std::optional<int64_t> is) {
  if (!was || !is) return is ? is : was;
  constexpr int64_t kTwentieth = 20;
  return std::abs(*is - *was) * kTwentieth < std::abs(*was) ? was : is;
}

namespace {

bool HaveSameDownload(const Node& a, const Node& b) {
  const Node* const was = FindAt(a, {"status", "model", "download"});
  const Node* const is = FindAt(b, {"status", "model", "download"});
  if (was == nullptr || is == nullptr) return was == is;
  return Covers(*was, *is) && Covers(*is, *was);
}

int64_t ReadyReplicas(const Node& service, Role role) {
  const Node* const found = RoleOf(service, role);
  return found == nullptr ? 0 : IntegerAt(*found, {"readyReplicas"}).value_or(0);
}

}  // namespace

StatusChange Compare(const Node& before, const Node& after) {
  const Node* was = before.Find("status");
  const Node* is = after.Find("status");
  // Servers may change the order of fields.
  if (is == nullptr || (was != nullptr && Covers(*was, *is) && Covers(*is, *was))) {
    return StatusChange::kNone;
  }
  if (was == nullptr || !SaysTheSame(before, after)) return StatusChange::kNow;
  // Another release waits for its answer.
  if (ClaimOf(before) != ClaimOf(after)) return StatusChange::kNow;
  for (const std::string_view field :
       {"endpoint", "workerImage", "restartedAt", "namedImage", "imageDevice"}) {
    if (TextAt(before, {"status", field}) != TextAt(after, {"status", field})) {
      return StatusChange::kNow;
    }
  }
  if (TextAt(before, {"status", "model", "revision"}) !=
      TextAt(after, {"status", "model", "revision"})) {
    return StatusChange::kNow;
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (LastPodId(before, role) != LastPodId(after, role)) return StatusChange::kNow;
    // A changed count is a decision: an Event reports it, and later passes keep it while paused or
    // short of resources.
    if (DesiredInstances(before, role) != DesiredInstances(after, role)) return StatusChange::kNow;
    // It changes with conditions, but a pass later: the kubelet reports a pod ready after it
    // joined.
    if (ReadyReplicas(before, role) != ReadyReplicas(after, role)) return StatusChange::kNow;
  }
  if (IntegerAt(before, {"status", "desiredPools"}) !=
      IntegerAt(after, {"status", "desiredPools"})) {
    return StatusChange::kNow;
  }
  if (HasOtherWords(before, after) || !HaveSameDownload(before, after)) return StatusChange::kWords;
  return StatusChange::kNumbers;
}

PinnedImage PinnedImageOf(const Node& service) {
  const auto text = [&](std::string_view field) {
    return std::string(TextAt(service, {"status", field}));
  };
  const bool is_cuda = text("imageDevice") == ToString(Device::kCuda);
  return {text("workerImage"), text("restartedAt"), text("namedImage"),
          is_cuda ? Device::kCuda : Device::kCpu};
}

void SetPinnedImage(Node& service, const PinnedImage& pinned) {
  SetAt(service, {"status", "workerImage"}, Text(pinned.image));
  SetAt(service, {"status", "restartedAt"}, Text(pinned.restarted_at));
  SetAt(service, {"status", "namedImage"}, Text(pinned.named));
  SetAt(service, {"status", "imageDevice"}, Text(ToString(pinned.device)));
}

std::optional<int> DesiredInstances(const Node& service, Role role) {
  const Node* found = RoleOf(service, role);
  const auto desired = found == nullptr ? std::nullopt : IntegerAt(*found, {"desiredInstances"});
  if (!desired) return std::nullopt;
  return static_cast<int>(*desired);
}

int64_t LastPodId(const Node& service, Role role) {
  const Node* found = RoleOf(service, role);
  return found == nullptr ? 0 : IntegerAt(*found, {"lastPodId"}).value_or(0);
}

void SetLastPodId(Node& service, Role role, int64_t id) {
  const Node* roles = FindAt(service, {"status", "roles"});
  Node list = roles == nullptr ? Node::List() : *roles;
  bool found = false;
  for (Node& one : list.items) {
    if (TextAt(one, {"name"}) != ToString(role)) continue;
    SetAt(one, {"lastPodId"}, Node::Integer(id));
    found = true;
  }
  if (!found) {
    list.items.push_back(
        Object({{"name", Text(ToString(role))}, {"lastPodId", Node::Integer(id)}}));
  }
  SetAt(service, {"status", "roles"}, std::move(list));
}

}  // namespace janus::control
