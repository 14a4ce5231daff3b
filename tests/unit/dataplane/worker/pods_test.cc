// Pods of two instances each: inside a pod they share memory, and they reach other pods over TCP.
// Each instance has an address for either kind of peer.

#include <gtest/gtest.h>

#include <thread>

#include "common/model/config.h"
#include "tests/support/golden.h"
#include "tests/support/own_host.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

constexpr const char* kUid = ServiceUnderTest::kUid;
constexpr int kPerPod = 2;
const std::string kKey(16, 'k');

class PodsTest : public testing::Test {
 protected:
  // 2A4E: one attention pod and two expert pods.
  PodsTest() {
    const int count = description_.moe.experts;
    topology_ = MakeTopology(2, std::vector<int>(4, count), description_.layers, count);
    for (Instance& one : topology_.attention) {
      one.sequences = {.max_batch_size = 8, .kv_bytes = 4 << 20};
    }
    config_.set_debug_logits_hash(true);
  }

  std::vector<Instance*> instances() {
    std::vector<Instance*> all;
    for (auto* role : {&topology_.attention, &topology_.experts}) {
      for (Instance& one : *role) all.push_back(&one);
    }
    return all;
  }
  // Starts the members and serves an epoch.
  void Serve() {
    for (const Instance* one : instances()) {
      workers_.push_back(std::make_unique<ServedWorker>(
          WorkerFlags{one->role, model_, one->address, kUid}, clock_, [](const Status&) {}));
    }
    const Stamp stamp{kUid, 1, topology_.epoch};
    std::vector<std::jthread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back([&] {
        const Status prepared = worker->worker().Prepare(
            stamp, topology_, config_, kKey, [](const PrepareProgress&) { return true; });
        EXPECT_EQ(prepared, OkStatus());
      });
    }
    threads.clear();
    for (const auto& worker : workers_) EXPECT_EQ(worker->worker().Commit(stamp), OkStatus());
  }
  v1::RequestTokens Answer() {
    TestGateway gateway(*workers_.front());
    gateway.Hello();
    v1::ToAttention message = TestGateway::Submit(1, {5, 6, 7}, 40);
    message.mutable_submit()->set_ignore_eos(true);
    message.mutable_submit()->set_want_logits_hash(true);
    gateway.Send(message);
    return gateway.ReadToTheEnd(1);
  }
  // Places the instances as a machine or as pods do.
  void Place(bool in_pods) {
    int port = 9000;
    for (Instance* one : instances()) {
      const int rank =
          static_cast<int>(one - (one->role == Role::kAttention ? topology_.attention.data()
                                                                : topology_.experts.data()));
      const std::string role(ToString(one->role));
      const std::string file = "unix:" + folder_.path() + "/" + role + std::to_string(rank);
      one->address = file + ".sock";
      one->exchange_address = file + ".x";
      one->node = one->domain = "machine";
      if (!in_pods) continue;
      one->node = one->domain = role + "-pod-" + std::to_string(rank / kPerPod);
      one->exchange_address =
          "tcp:" + OwnHost() + ":" + std::to_string(++port) + "," + one->exchange_address;
    }
  }

  const TempFolder folder_;
  const std::string model_ = ReadGolden("mixtral").folder;
  const ModelDescription description_ = *LoadModelConfig(model_);
  const SystemClock clock_;
  v1::WorkerConfig config_;
  Topology topology_;
  std::vector<std::unique_ptr<ServedWorker>> workers_;
};

TEST_F(PodsTest, InstancesShareMemoryInTheirPodAndUseTheNetworkBetweenPods) {
  Place(false);
  Serve();
  const v1::RequestTokens want = Answer();
  ASSERT_EQ(want.tokens_size(), 40);
  workers_.clear();
  Place(true);
  for (const ExchangeMode mode :
       {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel}) {
    SCOPED_TRACE(ToString(mode));
    topology_.mode = mode;
    Serve();
    const v1::RequestTokens got = Answer();
    EXPECT_EQ(std::vector(got.tokens().begin(), got.tokens().end()),
              std::vector(want.tokens().begin(), want.tokens().end()));
    EXPECT_EQ(std::vector(got.logits_hashes().begin(), got.logits_hashes().end()),
              std::vector(want.logits_hashes().begin(), want.logits_hashes().end()));
    int memory = 0, network = 0;
    for (size_t at = 0; at < workers_.size(); ++at) {
      const Instance& self = *instances()[at];
      for (const PeerLink& link : workers_[at]->worker().statistics().links) {
        const auto rank = static_cast<size_t>(link.rank.value);
        const Instance& peer =
            link.role == Role::kAttention ? topology_.attention[rank] : topology_.experts[rank];
        const bool shares = peer.domain == self.domain;
        EXPECT_EQ(link.transport, shares ? "shared memory" : "UCX tcp/lo");
        ++(shares ? memory : network);
      }
    }
    // Direct has pairs of attention with attention and with experts. The experts of a node pass
    // bundles on in the other modes.
    EXPECT_EQ(memory, mode == ExchangeMode::kDirect ? 2 : 6);
    EXPECT_EQ(network, 16);
    workers_.clear();
  }
}

}  // namespace
}  // namespace janus::dataplane
