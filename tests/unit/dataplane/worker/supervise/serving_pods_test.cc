// Two pods of two instances each, as processes: a supervisor each, which a test drives as the
// control loop does.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/model/config.h"
#include "proto/convert.h"
#include "tests/support/golden.h"
#include "tests/support/own_host.h"
#include "tests/support/paths.h"
#include "tests/unit/dataplane/worker/service_under_test.h"
#include "tests/unit/dataplane/worker/supervise/program.h"

namespace janus::dataplane {
namespace {

constexpr const char* kUid = ServiceUnderTest::kUid;
constexpr int kPerPod = 2;

class ServingPodsTest : public testing::Test {
 protected:
  ServingPodsTest() {
    const int count = description_.moe.experts;
    topology_ = MakeTopology(kPerPod, {count, count}, description_.layers, count);
    topology_.mode = ExchangeMode::kTwoPhaseParallel;
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      auto& instances = role == Role::kAttention ? topology_.attention : topology_.experts;
      const int port = PortOf(role);
      for (int i = 0; i < kPerPod; ++i) {
        Instance& one = instances[static_cast<size_t>(i)];
        one.role = role;
        one.index = i;
        one.node = one.domain = ToString(role);
        one.address = OwnHost() + ":" + std::to_string(port + 10 * i);
        one.exchange_address = "tcp:" + OwnHost() + ":" + std::to_string(port + 10 * i + 1) +
                               ",unix:" + RunFolder(role) + "/exchange-" + std::to_string(i);
        if (role == Role::kAttention) {
          one.sequences = {.max_batch_size = 8, .kv_bytes = 4 << 20};
        }
        v1::RelayTarget& target = *relay_.Add();
        target.set_name(std::string(ToString(role)) + "-" + std::to_string(i));
        target.set_role(role == Role::kAttention ? v1::ROLE_ATTENTION : v1::ROLE_EXPERTS);
        target.set_address(one.address);
      }
    }
  }

  static int PortOf(Role role) { return role == Role::kAttention ? 9000 : 9100; }
  std::string RunFolder(Role role) const {
    return folder_.path() + "/" + std::string(ToString(role));
  }
  std::unique_ptr<Program> Pod(Role role) const {
    const std::string listen = OwnHost() + ":" + std::to_string(PortOf(role));
    auto pod = std::make_unique<Program>(std::vector<std::string>{
        test::BinDir() + "/janus-worker", "--role=" + std::string(ToString(role)),
        "--model=" + model_, "--service-uid=" + std::string(kUid), "--listen=" + listen,
        "--supervise=" + std::to_string(kPerPod), "--run-folder=" + RunFolder(role),
        "--drain-seconds=0"});
    EXPECT_EQ(pod->Line(), "ready " + listen);
    return pod;
  }

  static std::shared_ptr<grpc::Channel> To(const Instance& instance) {
    return grpc::CreateChannel(instance.address, grpc::InsecureChannelCredentials());
  }
  void Serve(uint64_t epoch) {
    topology_.epoch = epoch;
    const auto control = v1::Control::NewStub(To(topology_.attention[0]));
    v1::PrepareRequest request;
    *request.mutable_stamp() = StampOf(kUid, 1, epoch);
    *request.mutable_topology() = ToProto(topology_);
    request.mutable_config()->set_debug_logits_hash(true);
    *request.mutable_relay() = relay_;
    grpc::ClientContext preparing;
    const auto reader = control->Prepare(&preparing, request);
    v1::PrepareProgress last;
    while (reader->Read(&last)) continue;
    ASSERT_TRUE(last.done() && last.failures_size() == 0) << last.ShortDebugString();
    v1::CommitRequest commit;
    *commit.mutable_stamp() = request.stamp();
    *commit.mutable_relay() = relay_;
    v1::CommitReply committed;
    grpc::ClientContext committing;
    ASSERT_TRUE(control->Commit(&committing, commit, &committed).ok());
    ASSERT_EQ(committed.failures_size(), 0) << committed.ShortDebugString();
  }
  v1::RequestTokens Answer() const {
    const auto tokens = v1::Tokens::NewStub(To(topology_.attention[1]));
    TestGateway gateway(*tokens);
    gateway.Hello();
    v1::ToAttention message = TestGateway::Submit(1, {5, 6, 7}, 40);
    message.mutable_submit()->set_ignore_eos(true);
    message.mutable_submit()->set_want_logits_hash(true);
    gateway.Send(message);
    return gateway.ReadToTheEnd(1);
  }
  // Nothing: it does not answer now.
  static std::optional<InstanceStatistics> StatisticsOf(const Instance& instance) {
    const auto control = v1::Control::NewStub(To(instance));
    v1::GetStatisticsRequest request;
    request.set_service_uid(kUid);
    v1::Statistics reply;
    grpc::ClientContext context;
    if (!control->GetStatistics(&context, request, &reply).ok()) return std::nullopt;
    return FromProto(reply).instances.at(0);
  }

  const TempFolder folder_;
  const std::string model_ = ReadGolden("mixtral").folder;
  const ModelDescription description_ = *LoadModelConfig(model_);
  Topology topology_;
  google::protobuf::RepeatedPtrField<v1::RelayTarget> relay_;
};

TEST_F(ServingPodsTest, AnInstanceThatIsKilledComesBackAloneAndServesTheNextEpoch) {
  const auto attention = Pod(Role::kAttention);
  const auto experts = Pod(Role::kExperts);
  Serve(1);
  const v1::RequestTokens before = Answer();
  ASSERT_EQ(before.tokens_size(), 40);
  const std::optional<InstanceStatistics> serving = StatisticsOf(topology_.experts[0]);
  ASSERT_TRUE(serving);
  EXPECT_EQ(serving->links.size(), 3u);
  for (const PeerLink& link : serving->links) {
    EXPECT_EQ(link.transport, link.role == Role::kExperts ? "shared memory" : "UCX tcp/lo");
  }
  const std::map<int, pid_t> first = ChildrenOf(experts->pid());
  ASSERT_EQ(first.size(), size_t{kPerPod});
  kill(first.at(1), SIGKILL);
  EXPECT_TRUE(Await([&] {
    const auto now = StatisticsOf(topology_.experts[1]);
    return now && now->epoch == 0;
  }));
  const std::optional<InstanceStatistics> other = StatisticsOf(topology_.experts[0]);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->epoch, 1u) << "it is the same process";
  EXPECT_EQ(ChildrenOf(experts->pid()).at(0), first.at(0));
  Serve(2);
  const v1::RequestTokens after = Answer();
  EXPECT_EQ(std::vector(after.tokens().begin(), after.tokens().end()),
            std::vector(before.tokens().begin(), before.tokens().end()));
  EXPECT_EQ(std::vector(after.logits_hashes().begin(), after.logits_hashes().end()),
            std::vector(before.logits_hashes().begin(), before.logits_hashes().end()));
  for (const auto& pod : {attention.get(), experts.get()}) {
    kill(pod->pid(), SIGTERM);
    EXPECT_EQ(pod->Wait(), 0);
  }
}

}  // namespace
}  // namespace janus::dataplane
