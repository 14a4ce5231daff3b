// One message of one member is dropped, delayed, sent twice or falsified, at every position in
// turn: each request ends, with the tokens of an undisturbed run or with an error that says who and
// where. Never with another token, and never not at all.
//
// The usual run takes every k-th position, another start each time; JANUS_SOAK=1 takes all.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/support/faulty_transport.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

constexpr int kRequests = 2;
constexpr Seconds kDetection{0.2};

struct Ended {
  std::vector<LoopbackCluster::Outcome> outcomes;  // by request
  Status failure;                                  // of any step loop
  std::map<PeerId, int> messages;
};

class FaultSweep : public testing::Test {
 protected:
  Ended Serve(PeerId victim, std::optional<PlannedFault> fault) {
    std::map<PeerId, FaultyTransport*> transports;
    LoopbackCluster::Options options;
    options.topology = topology_;
    options.attention.kv_bytes = 1 << 18;
    options.attention.max_batch = 4;
    options.attention.detection_deadline = kDetection;
    options.experts.detection_deadline = kDetection;
    options.wrap_transport = [&](PeerId self, std::unique_ptr<Transport> inner) {
      PlannedFault plan;
      plan.message = -1;
      if (self == victim && fault) plan = *fault;
      auto faulty = std::make_unique<FaultyTransport>(std::move(inner), plan);
      transports[self] = faulty.get();
      return faulty;
    };
    LoopbackCluster cluster(options, held_.model, held_.attention, PointersTo(shares_));
    for (int i = 0; i < kRequests; ++i) {
      Request request;
      request.key = {1, static_cast<uint64_t>(i), 1};
      request.prompt = {5, 6, 7 + i};
      request.max_tokens = 3;
      request.temperature = 0.7f;
      request.seed = 11;
      EXPECT_TRUE(cluster.attention(i % topology_.m()).Submit(std::move(request)).ok());
    }
    Ended run;
    for (int i = 0; i < kRequests; ++i) {
      run.outcomes.push_back(cluster.Await({1, static_cast<uint64_t>(i), 1}));
    }
    run.failure = cluster.Stop();
    for (const auto& [peer, transport] : transports) run.messages[peer] = transport->messages();
    return run;
  }

  const HeldModel held_ = SmallRandomModel(DType::kFloat32, 3);
  const Topology topology_ = MakeTopology(2, {4, 5}, held_.model.layers, held_.model.moe.experts);
  const std::vector<ExpertWeights> shares_ = held_.Shares(topology_.placement);
};

TEST_F(FaultSweep, EveryRequestEndsRightOrWithItsReason) {
  const Ended whole = Serve({}, std::nullopt);
  ASSERT_TRUE(whole.failure.ok()) << whole.failure.ToString();
  for (const LoopbackCluster::Outcome& outcome : whole.outcomes) {
    ASSERT_EQ(outcome.finish, FinishReason::kLength) << outcome.error.ToString();
  }
  struct Position {
    PeerId member;
    PlannedFault fault;
  };
  std::vector<Position> positions;
  for (const auto& [member, messages] : whole.messages) {
    for (int message = 0; message < messages; ++message) {
      for (const Fault fault : kAllFaults) positions.push_back({member, {fault, message}});
    }
  }
  const size_t stride = Soak() ? 1 : std::max<size_t>(1, positions.size() / (kSanitized ? 20 : 60));
  const size_t begin = MixSeed(TestSeed(), 17) % stride;
  int completed = 0, failed = 0;
  for (size_t p = begin; p < positions.size(); p += stride) {
    const auto& [member, fault] = positions[p];
    SCOPED_TRACE(ToString(member) + ", message " + std::to_string(fault.message) + ": " +
                 std::string(ToString(fault.fault)));
    const Ended run = Serve(member, fault);
    bool all = true;
    for (size_t i = 0; i < run.outcomes.size(); ++i) {
      const LoopbackCluster::Outcome& outcome = run.outcomes[i];
      const std::vector<int32_t>& want = whole.outcomes[i].tokens;
      ASSERT_LE(outcome.tokens.size(), want.size());
      EXPECT_TRUE(std::equal(outcome.tokens.begin(), outcome.tokens.end(), want.begin()))
          << "request " << i << " got a token of its own";
      const bool complete = outcome.finish == FinishReason::kLength;
      if (complete) {
        EXPECT_EQ(outcome.tokens, want);
      }
      all = all && complete;
    }
    ++(all ? completed : failed);
    if (all) continue;
    ASSERT_FALSE(run.failure.ok()) << "a request did not end and nobody says why";
    const std::string said = run.failure.ToString();
    EXPECT_TRUE(said.find("attention") != std::string::npos ||
                said.find("expert") != std::string::npos)
        << said;
    EXPECT_NE(said.find("step"), std::string::npos) << said;
  }
  std::printf("%zu positions x kinds, every %zu-th from %zu: %d completed, %d failed by name\n",
              positions.size(), stride, begin, completed, failed);
  EXPECT_GT(completed, 0);
}

}  // namespace
}  // namespace janus::dataplane
