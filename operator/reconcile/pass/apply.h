#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/pass.h"
#include "operator/reconcile/pass/plan.h"

namespace janus::control {

// Carries out what was decided on one observation. Every write goes through Pass::api, which asks
// first whether this process still leads; compare-and-swaps carry the version that was observed,
// and calls to members the fence. What is refused is in Pass::refused; other actions go on.
class Applier {
 public:
  // Both outlive this.
  Applier(Pass& pass, const ServiceObserved& seen) : pass_(pass), seen_(seen) {}

  // The work. True: something of it was done or refused, so the service is to be observed and
  // decided on anew. A write of the service's own record, a topology, ends it there: what comes
  // after was decided on the record before.
  bool Work(const Plan& plan);
  // The rest, when no work is left.
  void Report(const Plan& plan);

 private:
  enum class Result {
    kNothing,  // nothing is other than it was
    kDone,     // done, or refused: decide anew, after the other actions
    kAnew,     // done, and what follows no longer holds: decide anew now
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
  Result Carry(const WriteScalerStatus& action);
  Result Carry(const WriteStatus& action);

  // The call was refused. One that people or others have to mend stands for a while.
  Result Refused(const std::string& call, Refusal refusal, bool stands = false);
  // `what` has the name of an object of ours: an Event, and a refusal that stands.
  Result RefuseForeign(const std::string& call, const std::string& what, const std::string& remedy);
  // POST, which changes nothing that has the name already.
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
  // With the record as it was observed.
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
  std::set<Role> refused_roles_;  // one of their pods was refused, or its name was taken
  std::string made_children_;
  std::array<std::vector<std::string>, 2> made_pods_;  // names, by role
};

}  // namespace janus::control
