#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/reconcile/capacity/pinned_plan.h"
#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/epochs/epoch_end.h"
#include "operator/reconcile/observe/own_writes.h"
#include "operator/reconcile/pass/pass_context.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/pods/leaving_pods.h"
#include "operator/reconcile/pods/nodes.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/reconciler.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// What the files one_pass*.cc share; nobody else includes it.

inline MonotonicTime At(MonotonicTime now, Seconds later) {
  return now + std::chrono::duration_cast<MonotonicTime::duration>(later);
}

// Under which a planner knows the pods of the model that is on its way out.
inline std::string OldPlannerKey(const std::string& uid) {
  return uid + "/old";
}

// What is remembered of a service between its passes.
struct Reconciler::Memory {
  Memory(std::string its_uid, const Caches& caches, ObjectApi& api, MemberCalls& calls,
         ServicePlanner& its_planner)
      : uid(std::move(its_uid)),
        planner(its_planner),
        writes([&caches](const Resource& resource) -> const ObjectStore& {
          return caches.Of(resource);
        }),
        api_(api),
        calls_(calls) {}
  ~Memory() {
    planner.Forget(uid);
    planner.Forget(OldPlannerKey(uid));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const std::string uid;
  ServicePlanner& planner;
  OwnWrites writes;
  Refusals refusals;
  MendedVersions mended;
  struct AppliedSecret {
    // What it should hold, and since when it has been written so; nothing: it is not yet.
    struct Part {
      uint64_t hash = 0;
      std::optional<MonotonicTime> since;
      void Want(uint64_t wanted) {
        if (hash != wanted) *this = {wanted, std::nullopt};
      }
    };
    Part whole;
    Part authorities;  // its ca.crt
    MonotonicTime at;
    WallTime expires;  // its certificate
  };
  std::map<PeerRole, AppliedSecret> secrets;  // as far as this process knows

  // Of a role's pods that are to be made: reserved in the status, and of none yet.
  struct PodIds {
    int64_t next = 1;
    int64_t last = 0;
  };
  std::array<PodIds, 2> ids;

  // The epochs of one MoETopology.
  struct Line {
    Line(ObjectApi& api, MemberCalls& calls) : epochs(api, calls), end(calls) {}
    EpochDriver epochs;
    EpochEnd end;
  };
  // By the object's name; empty: of the one that is not made yet.
  Line& LineOf(const std::string& name) {
    std::unique_ptr<Line>& line = lines_[name];
    if (line == nullptr) line = std::make_unique<Line>(api_, calls_);
    return *line;
  }
  void NameLine(const std::string& name) {
    if (auto unnamed = lines_.extract("")) {
      unnamed.key() = name;
      lines_.insert(std::move(unnamed));
    }
  }
  void KeepLines(const std::set<std::string>& names) {
    std::erase_if(lines_, [&](const auto& one) { return !names.contains(one.first); });
  }
  LeavingPods departures;
  uint64_t moved_mark = 0;  // of what moves while a service comes up; another one is progress
  std::optional<WallTime> moved;
  std::optional<MonotonicTime> failing_since;  // every pass since then has failed
  std::optional<MonotonicTime> asleep_since;   // all members are on their way out since then
  std::optional<MonotonicTime> numbers_written;
  std::array<std::optional<MonotonicTime>, 2> scaler_numbers_written;

 private:
  ObjectApi& api_;
  MemberCalls& calls_;
  std::map<std::string, std::unique_ptr<Line>> lines_;
};

// One role in one pass.
struct RolePass {
  Role role;
  RoleWanted wanted;
  std::vector<PodSeen> pods;
  PodPlan plan;
  // In mode External: the MoERoleScaler, if there is ours; how many there are to be, asleep or not;
  // what keeps it from being as many as asked for.
  std::optional<Node> scaler = {};
  int external_count = 0;
  Cause limit = {};
  bool awaits_certificate = false;  // pods that are to be made
};

// One pass over one service, from its reading to its result.
class Reconciler::OnePass {
 public:
  OnePass(Reconciler& owner, Memory& memory, Node tree, const std::stop_token& stop)
      : owner_(owner),
        memory_(memory),
        tree_(std::move(tree)),
        now_(owner.clock_.Now()),
        wall_(owner.clock_.WallNow()),
        limits_{owner.options_.call_timeout, stop} {}

  PassResult Run();

 private:
  PassContext Context() {
    return {owner_.api_, owner_.caches_, service_, memory_.writes, memory_.refusals,
            now_,        limits_,        tell_,    refused_};
  }
  struct Certified {
    bool can_call = true;  // the service's workers, by us
    // By role: what its pods mount is there, and valid.
    std::array<bool, 2> can_start{true, true};
  };

  // one_pass_world.cc
  bool ResolveDoubts();
  void ReadWorld();
  std::optional<NodeSeen> FindNode(const PodSeen& pod);

  // one_pass_spec.cc
  void ReadSpec();
  void CheckSpec();
  void PinImage();
  const std::string& NewestImage(Device device) const;
  const std::string& ImageOfPods() const;
  void LookForWorkers();
  void HoldTls();
  std::optional<SequenceRoom> HeldRoom();
  void HoldCommitted();
  void SayWhatIsKept();
  void PlanSpec();
  void Plan();

  // one_pass_dismiss.cc
  MonotonicTime EndOfDrain(int drain_seconds) const;
  MemberOrder OrderTo(int64_t epoch, std::vector<TopologyInstance> members) const;
  bool Dismiss(const MemberOrder& order, const std::optional<EpochEnd::Beside>& beside,
               MonotonicTime deadline);

  // one_pass_recreate.cc
  void TakeRecord();
  bool MayStandBeside() const { return owner_.options_.ground == Ground::kCluster; }
  void JudgeModel();
  bool IsOld(const PodSeen& pod, const RolePass& role) const;
  void LookForOldPods();
  void PlanRecreation(RolePass& role);
  void EndOldEpoch();
  void LetMembersGo();
  std::optional<MoEService> LastServiceOf(const Node& record) const;
  std::optional<MoEService> LastService() const;
  bool IsLastSpec() const;
  bool HasWaitingEdits() const;
  MoEService GatewaysService();

  // one_pass_sides.cc
  void TakeSides(std::vector<Node> records, std::vector<PodSeen> pods);
  void PartPods(std::vector<PodSeen> pods);
  std::vector<PodSeen> TakeAllPods();
  void Split();
  void ReturnToOldSide();
  bool MustAwaitOldSide() const;
  void AwaitOldSide();
  bool IsWhole() const;
  bool HaveGatewaysFollowed() const;
  void KeepOldSide(const Certified& certified);
  void RunAsOld(OnePass& front, const Certified& certified);
  void PlanOldSide(const OnePass& front, bool mends);
  void EndOldSide(const OnePass& front);
  void DropRecord(Node record);
  std::string PlannerKey() const { return is_old_side_ ? OldPlannerKey(memory_.uid) : memory_.uid; }
  MoEService AsPlanned(MoEService service) const;

  // one_pass_last.cc
  void HoldLast();
  void KeepLast();

  // one_pass_scalers.cc
  void AskScaler(RolePass& role, std::optional<int> before);
  void TakeExternal(RolePass& role, int planned);
  Cause LimitOf(const RolePass& role);
  void WriteScalerStatus(const RolePass& role, const ServiceSeen& seen);

  // one_pass_pods.cc
  void PlanRole(RolePass& role);
  void WriteAllChildren();
  void MakeAllPods(const std::array<bool, 2>& may_start);
  void MarkAndRemove();

  // one_pass_certificates.cc
  Certified KeepCertificates();
  Certified GoOnWithWhatIsThere();
  bool HaveAll(Memory::AppliedSecret::Part Memory::AppliedSecret::*part, Seconds spread) const;
  void ApplySecrets(const ServiceCertificates& kept);
  bool IsSecretDue(const ServiceCertificates& kept, const IssuedLeaf& leaf);
  void ApplySecret(const ServiceCertificates& kept, const IssuedLeaf& leaf);
  void CertificatesRefused(const ApiError& error, const std::string& doing);
  void SayUncertified(const Refusal& refusal);

  // one_pass_topology.cc
  enum class Answers { kYes, kNotYet, kNo };
  Answers AnswerOf(const PodSeen& pod);
  std::optional<Topology> NextTopology();
  void AdvanceEpochs();
  bool ServesCommitted();

  // one_pass_members.cc
  void WriteMembers();

  // one_pass_status.cc
  ServiceSeen Seen();
  void SeeMembers(ServiceSeen& seen);
  RoleStatus SeenOf(const RolePass& role);
  std::string GatewayTrouble() const;
  std::string WhyAsleep();
  Cause WhyNoService(const std::string& name) const;
  std::string FailsFor();
  WallTime Moved(const ServiceSeen& seen);
  void WriteStatus();
  void TellTransitions(const Node& before, const Node& after);

  void Tell(const ServiceEvent& event);
  PassResult Result();
  // One role without replicas leaves nothing for the other one to serve with.
  bool has_no_replicas() {
    return SpecOf(service_, Role::kAttention).replicas == 0 ||
           SpecOf(service_, Role::kExperts).replicas == 0;
  }
  // What is to be done is known: the spec can be carried out, or the last one that was is held.
  bool acts() const { return !invalid_ || is_held_; }
  bool wants_pods() const {
    return !service_.spec.suspend && roles_[0].wanted.pods + roles_[1].wanted.pods > 0;
  }

  Reconciler& owner_;
  Memory& memory_;
  Node tree_;  // the MoEService, newest
  const MonotonicTime now_;
  const WallTime wall_;
  const CallLimits limits_;
  MoEService service_;
  TellEvent tell_ = [this](const ServiceEvent& event) { Tell(event); };
  std::vector<Refusal> refused_;
  std::optional<MonotonicTime> again_;

  Cause invalid_;
  bool is_held_ = false;  // service_ has the last spec that served, not the one that is invalid
  Cause capacity_;
  Cause awaited_;
  Cause held_tls_;     // the spec's security.tls is another than the pods'
  Cause uncertified_;  // certificates that are due and could not be written
  PinnedImage pinned_;
  bool has_workers_ = false;  // whom a planner could ask
  std::optional<PlannedService> planned_;
  std::array<RolePass, 2> roles_{
      {{Role::kAttention, {}, {}, {}, {}, {}, {}}, {Role::kExperts, {}, {}, {}, {}, {}, {}}}};
  std::optional<Node> record_;    // the MoETopology
  Memory::Line* line_ = nullptr;  // its epochs
  std::optional<MoETopology> topology_;
  std::set<std::string> committed_;  // uids of pods
  // Recreate: the committed epoch that was ended, of which topology_ has nothing; whether pods of
  // it, or of its revision, are still there; why the committed one is to be ended now.
  std::optional<TopologyRecord> ended_;
  // SideBySide: the topology of the model that goes, and its pods; the records that nobody needs.
  std::optional<Node> old_record_;
  std::vector<PodSeen> old_pods_;
  std::set<std::string> old_models_;  // the labels of its pods
  std::set<std::string> models_;      // of those of this side's committed topology
  std::vector<Node> spare_records_;
  bool is_old_side_ = false;  // this pass is over that one
  int64_t other_epoch_ = 0;   // lastEpoch of the other side
  bool may_propose_ = true;
  bool old_serves_ = false;
  bool is_frozen_ = false;  // no pod comes or goes
  Cause replacing_;
  // The spec waits for the old side's end, or for room, and the one before is kept.
  Cause held_back_;
  bool has_old_pods_ = false;
  std::string ends_;
  std::set<InstanceId> alive_;
};

}  // namespace janus::control
