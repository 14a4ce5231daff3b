#include <algorithm>
#include <chrono>
#include <string>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {
namespace {

std::string Epoch(int64_t epoch, const std::string& topology) {
  return "epoch " + std::to_string(epoch) + " of " + topology;
}

std::string Named(const Resource& resource, const std::string& name) {
  return resource.kind + " " + name;
}

const char* ChangeOf(MarkPod::Change change) {
  switch (change) {
    case MarkPod::Change::kJoin:
      return "label and open the gate of pod ";
    case MarkPod::Change::kLabel:
      return "label pod ";
    case MarkPod::Change::kUnlabel:
      return "unlabel pod ";
    case MarkPod::Change::kShut:
      return "shut the gate of pod ";
    case MarkPod::Change::kPool:
      return "label with its pool pod ";
  }
  return "";
}

// The call name for refusals, and a longer description if there is more to say.
struct Printed {
  std::string call;
  std::string more = {};
};

Printed Print(const KeepCertificates& one, MonotonicTime) {
  return {"keep certificates", one.uses_tls ? "" : ", of which the service uses none"};
}
Printed Print(const AskWorkers& one, MonotonicTime) {
  const std::string side = one.is_old_side ? " of the old side" : "";
  return {"ask workers" + side, " (" + std::to_string(one.workers.workers.size()) + " run)"};
}
Printed Print(const MakeChild& one, MonotonicTime) {
  return {"create " + Named(*one.resource, KeyOf(one.object).name)};
}
Printed Print(const ApplyChild& one, MonotonicTime) {
  return {"apply " + Named(*one.child.resource, KeyOf(one.child.object).name)};
}
Printed Print(const DeleteChild& one, MonotonicTime) {
  return {"delete " + Named(*one.resource, one.key.name), ": " + one.why};
}
Printed Print(const RefuseAdoption& one, MonotonicTime) {
  return {one.call, ", which has another owner"};
}
Printed Print(const ReservePodNames& one, MonotonicTime) {
  return {"reserve names of pods", ": attention to " + std::to_string(one.ids[0].last) +
                                       ", experts to " + std::to_string(one.ids[1].last) +
                                       ", image " + PinnedImageOf(one.next).image};
}
Printed Print(const MakePod& one, MonotonicTime) {
  return {"create Pod " + KeyOf(one.object).name};
}
Printed Print(const MarkPod& one, MonotonicTime) {
  return {ChangeOf(one.change) + one.pod.name};
}
Printed Print(const DeletePod& one, MonotonicTime) {
  return {"delete pod " + one.removal.name, ": " + one.removal.reason};
}
Printed Print(const MakeTopology& one, MonotonicTime) {
  return {"create MoETopology " + KeyOf(one.object).name};
}
Printed Print(const RaiseFence& one, MonotonicTime) {
  return {"raise the fence of " + one.topology};
}
Printed Print(const ProposeEpoch& one, MonotonicTime) {
  const Topology& topology = one.proposal->topology;
  return {"propose " + Epoch(one.epoch, one.topology),
          ": " + std::to_string(topology.m()) + "A" + std::to_string(topology.n()) + "E"};
}
Printed Print(const PrepareEpoch& one, MonotonicTime) {
  return {"prepare " + Epoch(one.epoch, one.topology)};
}
Printed Print(const CommitEpoch& one, MonotonicTime) {
  return {"commit " + Epoch(one.epoch, one.topology)};
}
Printed Print(const TellEpoch& one, MonotonicTime) {
  return {"tell members of " + Epoch(one.epoch, one.topology)};
}
Printed Print(const DropEpoch& one, MonotonicTime) {
  return {"tell members to drop " + Epoch(one.epoch, one.topology)};
}
Printed Print(const AbortEpoch& one, MonotonicTime) {
  return {"abort " + Epoch(one.epoch, one.topology), ": " + one.why};
}
Printed Print(const EndEpoch& one, MonotonicTime) {
  return {"end " + Epoch(one.epoch, one.topology), ": " + one.why};
}
Printed Print(const ReleaseMembers& one, MonotonicTime now) {
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(one.deadline - now);
  std::string more = ": " + std::to_string(one.order.members.size()) + " within " +
                     std::to_string(left.count()) + " s";
  if (one.beside) {
    more += ", beside epoch " + std::to_string(one.beside->successor.topology.epoch) +
            (one.beside->all_follow ? "" : ", until all gateways have followed");
  }
  return {"release members of " + Epoch(one.order.epoch, one.topology), more};
}
Printed Print(const UpdateTopology& one, MonotonicTime) {
  return {one.doing + " in " + KeyOf(one.object).name};
}
Printed Print(const DeleteTopology& one, MonotonicTime) {
  return {"delete MoETopology " + one.key.name};
}
Printed Print(const TakeDecision& one, MonotonicTime) {
  if (!one.scaling.last) return {"decide on counts"};
  const DecisionRecord& last = *one.scaling.last;
  return {"decide on counts", ": " + ToString(last.to) + ", " + last.reason};
}
Printed Print(const TakePlacement& one, MonotonicTime) {
  const auto& last = one.placement->last;
  const std::string of = one.pool == 1 ? "" : " of pool " + std::to_string(one.pool);
  return {"remember sampled routing" + of, last ? ": " + last->message : ""};
}
Printed Print(const RecordFetch& one, MonotonicTime) {
  return {"record the fetched model", ": " + one.what};
}
Printed Print(const WriteScalerStatus& one, MonotonicTime) {
  return {"write status of " + Named(kRoleScalers, KeyOf(one.next).name)};
}
Printed Print(const TellNamespace& one, MonotonicTime) {
  return {"tell namespace " + one.ns + " that no pod is left"};
}
Printed Print(const WriteStatus& one, MonotonicTime) {
  std::string more;
  for (const Condition& condition : ReadConditions(one.next)) {
    if (condition.type != "Ready" && condition.type != "Progressing") continue;
    const char* const is = condition.status == ConditionStatus::kTrue    ? "True"
                           : condition.status == ConditionStatus::kFalse ? "False"
                                                                         : "Unknown";
    more += (more.empty() ? ": " : ", ") + condition.type + " " + is + " " + condition.reason;
  }
  return {"write status", more};
}

std::string Line(const ServiceEvent& event) {
  return "event " + event.cause.reason + ": " + event.cause.message;
}

}  // namespace

std::string CallOf(const Action& action) {
  return std::visit([](const auto& one) { return Print(one, {}).call; }, action);
}

std::string ToString(const Action& action, MonotonicTime now) {
  const Printed printed = std::visit([&](const auto& one) { return Print(one, now); }, action);
  return printed.call + printed.more;
}

std::string ToString(const Plan& plan, MonotonicTime now) {
  std::string out;
  for (const Action& action : plan.work) out += ToString(action, now) + "\n";
  for (const Refusal& refusal : plan.refused) out += "refused: " + refusal.cause.message + "\n";
  if (plan.work.empty() || !plan.report.empty() || !plan.events.empty()) out += "then:\n";
  for (const ServiceEvent& event : plan.events) out += "  " + Line(event) + "\n";
  for (const Action& action : plan.report) {
    out += "  " + ToString(action, now) + "\n";
    if (const auto* const status = std::get_if<WriteStatus>(&action)) {
      for (const ServiceEvent& event : status->events) out += "  " + Line(event) + "\n";
    }
  }
  if (plan.again) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*plan.again - now);
    out += "look again in " + std::to_string(left.count()) + " ms\n";
  }
  return out;
}

}  // namespace janus::control
