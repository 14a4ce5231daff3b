#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/pass.h"
#include "operator/reconcile/pass/plan.h"

namespace janus::control {

// Carries out what was decided from one observation. Every write goes through Pass::api, which
// first checks that this process still leads. Compare-and-swaps carry the observed version, calls
// to members the fence. Refused calls go to Pass::refused; other actions continue.
class Applier {
 public:
  // Both outlive this.
  Applier(Pass& pass, const ServiceObserved& seen) : pass_(pass), seen_(seen) {}

  // Carries out the work. True: something was done or refused, so observe and decide again. A write
  // of a topology, the service's own record, ends the work, because later actions were decided from
  // the previous record.
  bool Work(const Plan& plan);
  // Carries out the report, when no work is left.
  void Report(const Plan& plan);

 private:
  enum class Result {
    kNothing,  // nothing changed
    kDone,     // done or refused: decide again after the other actions
    kAnew,     // done, and later actions are outdated: decide again now
  };

  Result Carry(const KeepCertificates& action);
  Result Carry(const AskWorkers& action);
  Result Carry(const MakeChild& action);
  Result Carry(const ApplyChild& action);
  Result Carry(const DeleteChild& action);
  Result Carry(const RefuseAdoption& action);
  Result Carry(const ReservePodNames& action);
  Result Carry(const MakePod& action);
  Result Carry(const MarkPod& action);
  Result Carry(const DeletePod& action);
  Result Carry(const MakeTopology& action);
  Result Carry(const RaiseFence& action);
  Result Carry(const ProposeEpoch& action);
  Result Carry(const PrepareEpoch& action);
  Result Carry(const CommitEpoch& action);
  Result Carry(const TellEpoch& action);
  Result Carry(const DropEpoch& action);
  Result Carry(const AbortEpoch& action);
  Result Carry(const EndEpoch& action);
  Result Carry(const ReleaseMembers& action);
  Result Carry(const UpdateTopology& action);
  Result Carry(const DeleteTopology& action);
  Result Carry(const TakeDecision& action);
  Result Carry(const TakePlacement& action);
  Result Carry(const RecordFetch& action);
  Result Carry(const WriteScalerStatus& action);
  Result Carry(const WriteStatus& action);
  Result Carry(const TellNamespace& action);

  // Handles a refused call. `stands`: people or other programs must act, so it is retried later.
  Result Refused(const std::string& call, Refusal refusal, bool stands = false);
  // `what` has the name of our object but another owner: an Event, and a refusal that stands.
  Result RefuseForeign(const std::string& call, const std::string& what, const std::string& remedy);
  // POST, which changes nothing if the name is taken.
  enum class Made { kMade, kOurs, kForeign, kRefused };
  struct Making {
    Made made = Made::kRefused;
    Node there;  // with kOurs and kForeign
  };
  Making Make(const std::string& call, const Resource& resource, const Node& object);
  std::optional<std::string> TakeOver(const ApplyChild& action);
  ApiResult<Node> ReplaceLists(const Child& child, const Node& object);
  Result TakeChange(const std::string& call, ApiResult<Node> changed, const PodSeen& pod);
  bool Delete(const Resource& resource, const ObjectKey& key, const std::string& uid,
              const std::string& call);
  // With the record as observed.
  struct EpochTarget {
    EpochDriver& driver;
    EpochDriver::Record record;
    EpochDriver::Means means;
  };
  EpochTarget TargetOf(const std::string& topology);
  Result Written(const Action& action, std::optional<Refusal> refused);
  void TellMade();

  Pass& pass_;
  const ServiceObserved& seen_;
  bool may_make_pods_ = true;     // their names are reserved
  std::set<Role> refused_roles_;  // a pod of theirs was refused, or its name was taken
  std::string made_children_;
  std::array<std::vector<std::string>, 2> made_pods_;  // names, by role
};

}  // namespace janus::control
