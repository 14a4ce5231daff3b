#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "operator/kube/object_api.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/epochs/next_step.h"
#include "tests/support/kube/simulated_timeline.h"

namespace janus::control {

// The workers' side of Control, in simulated time. Each instance accepts fences and epochs like
// real ones. A test fails if a worker must serve an epoch that no record shows as committed.
// Confined to one thread.
class ScriptedWorkers final : public MemberCalls {
 public:
  struct Worker {
    Role role = Role::kAttention;
    int64_t fence = 0;
    int64_t prepared = 0;
    int64_t serving = 0;
    int rank = 0;       // in the epoch that it has prepared or serves
    SequenceRoom room;  // from its first epoch
    DType dtype = DType::kFloat32;
    std::string holding;    // the reason, since it has lost its peers
    bool is_hung = false;   // it does not answer calls
    bool drains = false;    // it refuses new requests
    int64_t successor = 0;  // it reports this epoch
    uint64_t tokens = 0;    // generated
    LatencyCounts tpot;     // of ended requests
    LatencyCounts ttft;
  };

  // What clients send, and what workers make of it: all of it is served at these latencies.
  struct Traffic {
    double requests_per_second = 0;
    double prompt_tokens = 100;
    double output_tokens = 50;
    double ttft_seconds = 0.05;
    double tpot_seconds = 0.01;
    double late_share = 0;  // of the results of timed devices
  };
  // From now on. Before the first call workers are of a version that does not count its load.
  void SetTraffic(const Traffic& traffic);

  // `timeline` outlives this, as does `server`, which has the records.
  ScriptedWorkers(SimulatedTimeline& timeline, ObjectApi& server)
      : timeline_(timeline), server_(server) {}

  std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology& topology,
                                      const ServicePlan& plan, Wake wake) override;
  std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake wake) override;
  std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake wake) override;
  std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds longest, Wake wake) override;
  std::unique_ptr<MemberCall> Supersede(const MemberOrder& order, const Successor& successor,
                                        Wake wake) override;
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake wake) override;

  // Every member of this one's epoch loses it, as if a connection broke.
  void LoseEpochOf(const InstanceId& id, const std::string& why);

  Seconds prepare_time{1};
  Seconds answers_last{5};  // from a Drain on
  // The result of later Prepares; OK: as the workers decide.
  Status prepare_fails;
  Status commit_fails;
  RoutingStatistics routing;  // of all, for calls that ask for popularity
  // The sampled rounds of an answer, at most so many.
  std::function<std::vector<RoutedRound>(size_t most)> rounds;
  std::vector<StepTrace> traces;  // of an answer
  // What attention instances say of their link to each expert instance; nothing: that they could
  // not measure it. Null: they say nothing.
  std::function<std::optional<MeasuredLink>(Rank expert)> measured;
  // Prepare sends no reports.
  bool is_mute = false;

  Worker& Of(const InstanceId& id) { return workers_[id]; }
  int prepares() const { return prepares_; }
  int commits() const { return commits_; }
  int aborts() const { return aborts_; }
  int drains() const { return drains_; }
  int questions() const { return questions_; }
  int questions_for_popularity() const { return questions_for_popularity_; }
  // Calls that workers refused because of their fence.
  int refused() const { return refused_; }
  // The last prepared topology.
  const Topology& last() const { return last_; }
  const ServicePlan& last_plan() const { return last_plan_; }
  // Pods that have left according to the last Commit.
  const std::set<std::string>& leavers() const { return leavers_; }

 private:
  // Adds the traffic since the last answer to the counters.
  void CountTraffic();
  LoadCounts LoadOf(const Worker& worker, size_t members) const;
  size_t PoolsThatServe(const ObjectKey& service);
  std::unique_ptr<MemberCall> Answer(Status result, Seconds after, Wake wake);
  // The first error of a member that has seen a higher fence, hangs or refuses; otherwise OK.
  Status Take(const MemberOrder& order, const std::function<Status(Worker&)>& act);
  bool HasHung(const MemberOrder& order);

  SimulatedTimeline& timeline_;
  ObjectApi& server_;
  std::map<InstanceId, Worker> workers_;
  std::optional<Traffic> traffic_;
  MonotonicTime counted_;  // the traffic until then
  GatewayCounts gateway_;  // of the one gateway
  double fraction_ = 0;    // of a request that has not come yet
  double step_fraction_ = 0;
  uint64_t steps_ = 0;  // of every worker
  double late_ = 0;     // of these
  Topology last_;
  ServicePlan last_plan_;
  std::set<std::string> leavers_;
  int prepares_ = 0;
  int commits_ = 0;
  int aborts_ = 0;
  int drains_ = 0;
  int questions_ = 0;
  int questions_for_popularity_ = 0;
  int refused_ = 0;
};

}  // namespace janus::control
