#include "operator/reconcile/epochs/plan_epoch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/epochs/member_name.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {
namespace {

Node NewTopology(const MoEService& service, const std::string& name, int pool) {
  Node out =
      Object({{"apiVersion", Text(kApiVersion)},
              {"kind", Text(kTopologies.kind)},
              {"metadata", Node::Map()},
              {"spec", Object({{"fence", Node::Integer(1)}, {"lastEpoch", Node::Integer(0)}})}});
  Labels labels = LabelsOf(service, "topology");
  if (pool > 1) labels[std::string(kPoolLabel)] = std::to_string(pool);
  MakeOwned(service, name, labels, out);
  return out;
}

std::string WhyAborted(const EpochStep& step, const TopologyRecord& proposed,
                       const EpochsSeen& epochs) {
  for (const TopologyInstance& one : proposed.instances) {
    if (step.gone == IdOf(one)) return MemberName(one) + " has gone";
  }
  const bool has_failed = !step.gone && epochs.progress.prepare == PrepareState::kFailed;
  return has_failed ? epochs.under_way.message : step.why;
}

// True: that call is running, so wait for it.
bool IsUnderWay(const EpochsSeen& epochs, EpochCall verb, int64_t epoch, PlanBuilder& out) {
  if (!epochs.call || epochs.call->verb != verb || epochs.call->epoch != epoch) return false;
  out.LookAgain(epochs.call->until);
  return true;
}

}  // namespace

bool PlanEpoch(const ServiceObserved& seen, const MoEService& service, const TopologySeen* topology,
               const EpochWish& wish, PlanBuilder& out) {
  if (topology == nullptr) {
    if (wish.name.empty() || (wish.wanted == nullptr && !wish.makes_record)) return false;
    return out.Add(MakeTopology{NewTopology(service, wish.name, wish.pool)});
  }
  if (!topology->topology) {
    out.Refuse({RefusalKind::kInvalid, {"InvalidTopology", topology->unreadable}, {}});
    return false;
  }
  const EpochsSeen& epochs = topology->epochs;
  const std::string name = topology->name();
  LeaderProgress progress = epochs.progress;
  progress.ends = !wish.ends.empty();
  progress.above = wish.above;
  progress.may_propose = wish.may_propose && seen.now >= epochs.not_before;
  std::optional<EpochContent> wanted;
  if (wish.wanted != nullptr) wanted = ContentOf(wish.wanted->topology);
  const EpochStep step = NextStep(EpochRecordOf(*topology->topology), progress, wanted, seen.alive);
  const int64_t epoch = step.epoch;
  using Kind = EpochStepKind;
  switch (step.kind) {
    case Kind::kNothing:
      if (seen.now < epochs.not_before) {
        out.LookAgain(epochs.not_before);
      } else {
        out.plan().settled.push_back(name);
      }
      return false;
    case Kind::kRaiseFence:
      return out.Add(RaiseFence{name});
    case Kind::kTell:
      if (IsUnderWay(epochs, EpochCall::kCommit, epoch, out)) return false;
      if (seen.now < epochs.not_before) {
        out.LookAgain(epochs.not_before);
      } else {
        out.Add(TellEpoch{name, epoch});
      }
      return false;
    case Kind::kAbort:
      if (IsUnderWay(epochs, EpochCall::kAbort, epoch, out)) return false;
      if (epochs.dropped != epoch) {
        out.Add(DropEpoch{name, epoch});
        return false;
      }
      return out.Add(
          AbortEpoch{name, epoch, WhyAborted(step, *topology->topology->spec.proposed, epochs)});
    case Kind::kPropose:
      return out.Add(ProposeEpoch{name, epoch, wish.wanted});
    case Kind::kPrepare:
    case Kind::kWait:
      if (!IsUnderWay(epochs, EpochCall::kPrepare, epoch, out)) out.Add(PrepareEpoch{name, epoch});
      return false;
    case Kind::kCommit:
      return out.Add(CommitEpoch{name, epoch});
    case Kind::kEnd:
      return out.Add(EndEpoch{name, epoch, wish.ends});
  }
  return false;
}

namespace {

// The status entry of an instance.
const Node* SaidOf(const Node* said, const TopologyInstance& instance) {
  if (said == nullptr) return nullptr;
  const auto found = std::ranges::find_if(said->items, [&](const Node& one) {
    return TextAt(one, {"pod"}) == instance.node && IntegerAt(one, {"index"}) == instance.index;
  });
  return found == said->items.end() ? nullptr : &*found;
}

}  // namespace

void PlanMemberStatus(const ServiceObserved& seen, const Side& side, PlanBuilder& out) {
  const TopologyRecord* const committed = side.committed();
  if (committed == nullptr || !side.HasTold()) return;
  const WatchSeen& watch = side.epochs().watch;
  if (watch.epoch != committed->epoch) return;
  if (watch.serves.size() != committed->instances.size()) return;  // no answer yet
  const Node* const said = FindAt(side.topology->record, {"status", "instances"});
  Node instances = Node::List();
  for (size_t i = 0; i < committed->instances.size(); ++i) {
    const TopologyInstance& one = committed->instances[i];
    Node now = Object({{"pod", Text(one.node)}, {"index", Node::Integer(one.index)}});
    if (watch.serves[i]) {
      const Node* const before = SaidOf(said, one);
      std::string since;
      if (before != nullptr && IntegerAt(*before, {"epoch"}) == committed->epoch) {
        since = TextAt(*before, {"since"});
      }
      now.Add("epoch", Node::Integer(committed->epoch));
      now.Add("since", Text(since.empty() ? FormatTime(seen.wall) : since));
    }
    instances.items.push_back(std::move(now));
  }
  if (said != nullptr && Covers(*said, instances) && Covers(instances, *said)) return;
  UpdateTopology update{side.topology->record, Subresource::kStatus, "note which members serve",
                        true};
  SetAt(update.object, {"status", "instances"}, std::move(instances));
  if (!out.Add(std::move(update))) out.LookAgain(seen.now + kNumbersPeriod);
}

}  // namespace janus::control
