// Two candidates for a lease, with failing calls.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/kube/leader_election.h"
#include "operator/local/store/store_client.h"
#include "tests/support/kube/fault_sweep.h"
#include "tests/support/kube/simulated_timeline.h"

namespace janus::control {
namespace {

const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};
const ObjectKey kLease{"default", "operator"};

// a and b run from the start. At 20 s the leader is stopped, releases the lease, and restarts as a
// new process at 25 s.
class Election {
 public:
  explicit Election(std::vector<FaultPlan> plans) : api_(client_, std::move(plans), timeline_) {
    Start("a");
    timeline_.In(Seconds(0.7), [this] { Start("b"); });
    timeline_.In(Seconds(20), [this] { EndTheLeader(); });
    timeline_.In(Seconds(25), [this] { Start("c"); });
    Look();
  }

  void Play() {
    timeline_.Pass(Seconds(50));
    api_.Heal();
    timeline_.Pass(Seconds(20));  // a lease's duration, and a pause between attempts
    const std::vector<std::string> leaders = Leaders();
    EXPECT_EQ(leaders.size(), 1U);
    EXPECT_FALSE(leaders == ended_);
    EXPECT_EQ(Created(), 1U) << "leases made";
    if (testing::Test::HasFailure()) {
      for (size_t i = 0; i < api_.calls().size(); ++i) {
        ADD_FAILURE() << "call " << i << ": " << api_.calls()[i];
      }
    }
  }
  CallCounts counts() const { return api_.counts(); }

 private:
  struct Candidate {
    std::string identity;
    LeaderElection election;
    bool runs = true;
  };

  void Start(const std::string& identity) {
    LeaderElectionOptions options;
    options.lease = kLease;
    options.identity = identity;
    options.seed = SweepSeed(static_cast<uint32_t>(candidates_.size()));
    candidates_.push_back(std::unique_ptr<Candidate>(
        new Candidate{identity, LeaderElection(api_, options, timeline_)}));
    Step(*candidates_.back());
  }
  void Step(Candidate& candidate) {
    if (!candidate.runs) return;
    const MonotonicTime next = candidate.election.Step({});
    timeline_.At(next, [this, &candidate] { Step(candidate); });
  }
  void EndTheLeader() {
    for (const auto& candidate : candidates_) {
      if (!candidate->runs || !candidate->election.Term(timeline_.Now())) continue;
      candidate->runs = false;
      ended_ = {candidate->identity};
      (void)candidate->election.Release();
      return;
    }
    timeline_.In(Seconds(0.1), [this] { EndTheLeader(); });
  }
  std::vector<std::string> Leaders() const {
    std::vector<std::string> out;
    for (const auto& candidate : candidates_) {
      if (candidate->election.Term(timeline_.Now())) out.push_back(candidate->identity);
    }
    return out;
  }
  // Ten times a second: which candidate may act, and in which term.
  void Look() {
    EXPECT_LE(Leaders().size(), 1U);
    for (const auto& candidate : candidates_) {
      const auto term = candidate->election.Term(timeline_.Now());
      if (!term) continue;
      const auto [led, is_new] = terms_.emplace(*term, candidate->identity);
      EXPECT_EQ(led->second, candidate->identity) << "term " << *term;
    }
    timeline_.In(Seconds(0.1), [this] { Look(); });
  }
  size_t Created() {
    size_t count = 0;
    store_.Do([&](LocalStore::Session& session) {
      const History& history = session.tables.history();
      for (int64_t at = history.floor() + 1; at <= history.newest(); ++at) {
        const Change& change = history.At(at);
        if (change.kind == FindKind(kLeases) && change.before == nullptr) ++count;
      }
    });
    return count;
  }

  SimulatedTimeline timeline_;
  LocalStore store_{{}, timeline_};
  StoreClient client_{store_, "janus-operator"};
  FaultyApi api_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::vector<std::string> ended_;
  std::map<int64_t, std::string> terms_;
};

TEST(LeaderElectionFaults, OneLeadsAtATimeAndOneInTheEndWhateverCallsFail) {
  SweepFaults("leader election", CallFaults(), [](std::vector<FaultPlan> plans) {
    Election election(std::move(plans));
    election.Play();
    return election.counts();
  });
}

}  // namespace
}  // namespace janus::control
