#include "dataplane/worker/worker.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/contains.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

constexpr const char* kUid = ServiceUnderTest::kUid;
constexpr uint64_t kFence = ServiceUnderTest::kFence;
bool On(const PrepareProgress&) {
  return true;
}
bool Wait() {
  return true;
}

class WorkerTest : public testing::Test {
 protected:
  Worker& attention() { return service_.attention().worker(); }

  // Prepares the attention instance, whose peer does not come, until it waits for that; then
  // `meanwhile` runs. What Prepare says in the end.
  Status WhileItConnects(const std::function<void()>& meanwhile) {
    std::atomic<bool> connects = false;
    Status prepared;
    {
      std::jthread preparing([&] {
        prepared = service_.PrepareAttention([&](const PrepareProgress& progress) {
          connects = connects || progress.phase == "connect";
          connects.notify_all();
          return true;
        });
      });
      connects.wait(false);
      meanwhile();
    }
    return prepared;
  }

  ServiceUnderTest service_;
};

TEST_F(WorkerTest, AbortEndsAPrepareUnderWayAndTheNextOneSucceeds) {
  const Status prepared = WhileItConnects([&] {
    EXPECT_TRUE(attention().Abort({kUid, kFence, 1}).ok());
  });
  EXPECT_EQ(prepared.code(), StatusCode::kCancelled) << prepared.ToString();
  EXPECT_EQ(attention().Commit({kUid, kFence, 1}).code(), StatusCode::kFailedPrecondition);
  service_.Serve();
}

TEST_F(WorkerTest, StopEndsAPrepareUnderWay) {
  EXPECT_EQ(WhileItConnects([&] { attention().Stop(); }).code(), StatusCode::kCancelled);
}

TEST_F(WorkerTest, AnAbortOfAnotherEpochLeavesAPrepareAlone) {
  const Status prepared = WhileItConnects([&] {
    EXPECT_TRUE(attention().Abort({kUid, kFence, 2}).ok());
    EXPECT_EQ(service_.PrepareAttention(On).code(), StatusCode::kAborted) << "one at a time";
    EXPECT_TRUE(attention().Abort({kUid, kFence, 1}).ok());
  });
  EXPECT_EQ(prepared.code(), StatusCode::kCancelled);
}

TEST_F(WorkerTest, WhoGaveThePrepareUpEndsIt) {
  const Status prepared = service_.PrepareAttention(
      [](const PrepareProgress& progress) { return progress.phase != "connect"; });
  EXPECT_EQ(prepared.code(), StatusCode::kCancelled);
}

TEST_F(WorkerTest, RefusesWhatCannotBePrepared) {
  const auto code = [&](auto&& change) {
    v1::PrepareRequest request = service_.PrepareRequest();
    change(request);
    grpc::ClientContext context;
    const auto reader = service_.attention().control().Prepare(&context, request);
    v1::PrepareProgress progress;
    while (reader->Read(&progress)) continue;
    return reader->Finish();
  };
  const auto refused = [&](auto&& change, std::string_view why,
                           grpc::StatusCode want = grpc::StatusCode::INVALID_ARGUMENT) {
    const grpc::Status status = code(change);
    EXPECT_EQ(status.error_code(), want) << status.error_message();
    EXPECT_TRUE(Contains(status.error_message(), why)) << status.error_message();
  };
  using Request = v1::PrepareRequest;
  refused([](Request& r) { r.set_epoch_key("short"); }, "epoch_key: 5 bytes");
  refused([](Request& r) { r.mutable_topology()->set_epoch(2); }, "epoch 2 under the stamp");
  refused([](Request& r) { r.mutable_topology()->mutable_attention(0)->set_address("unix:/x"); },
          "no attention instance at");
  refused([](Request& r) { r.mutable_topology()->set_micro_batches(9); }, "micro-batches");
  refused([](Request& r) { r.mutable_config()->set_isa("mmx"); }, "config.isa 'mmx'");
  refused([](Request& r) { r.mutable_config()->set_kv_block_size(7); }, "kv_block_size 7");
  refused([](Request& r) { r.mutable_config()->set_compute_threads(9999); }, "compute_threads");
  refused([](Request& r) { r.mutable_config()->set_kv_bytes(UINT64_MAX); }, "config.kv_bytes",
          grpc::StatusCode::RESOURCE_EXHAUSTED);
  refused([](Request& r) { r.mutable_config()->set_swap_bytes(uint64_t{1} << 60); },
          "config.swap_bytes", grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Four slots of 65,535 rows to each of 256 instances.
  refused(
      [](Request& r) {
        v1::Topology& topology = *r.mutable_topology();
        topology.set_max_rows_per_round(65535);
        topology.set_micro_batches(4);
        while (topology.experts_size() < 1024) {
          *topology.add_experts() = topology.experts(0);
          topology.mutable_experts(topology.experts_size() - 1)->set_slots(0);
          topology.mutable_placement()->add_slots_of_instance(0);
        }
      },
      "exchange memory", grpc::StatusCode::RESOURCE_EXHAUSTED);
  service_.Serve();  // none of it has left anything
}

TEST_F(WorkerTest, CommitsWhatIsPreparedOnceAndDropsNothingCommitted) {
  EXPECT_EQ(attention().Commit({kUid, kFence, 1}).code(), StatusCode::kFailedPrecondition);
  service_.Serve();
  EXPECT_TRUE(attention().Commit({kUid, kFence, 1}).ok()) << "idempotent";
  EXPECT_EQ(attention().Abort({kUid, kFence, 1}).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(service_.PrepareAttention(On).ok()) << "idempotent";
  EXPECT_EQ(attention().Commit({kUid, kFence, 2}).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(attention().topology().has_value());
  EXPECT_EQ(attention().topology()->epoch, 1u);
}

TEST_F(WorkerTest, DrainWaitsForWhatRunsAsLongAsSomebodyAsks) {
  service_.Serve();
  TestGateway gateway(service_.attention());
  gateway.Hello();
  ASSERT_TRUE(gateway.Read().has_welcome());
  gateway.Send(TestGateway::Submit(1, {5, 6, 7}, 900));
  ASSERT_TRUE(gateway.Read().has_step());
  EXPECT_EQ(attention().Drain({kUid, kFence, 1}, MonotonicClock::now(), Wait).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(attention().draining());
  // Without a deadline it ends with who asked for it.
  EXPECT_EQ(attention().Drain({kUid, kFence, 1}, MonotonicTime::max(), [] { return false; }).code(),
            StatusCode::kCancelled);
  gateway.Send(TestGateway::Submit(2, {5}, 2));
  for (;;) {
    const v1::FromAttention message = gateway.Read();
    ASSERT_NE(message.message_case(), v1::FromAttention::MESSAGE_NOT_SET);
    if (!message.has_rejected()) continue;
    EXPECT_EQ(message.rejected().request_id(), 2u);
    EXPECT_EQ(message.rejected().code(), static_cast<uint32_t>(grpc::StatusCode::UNAVAILABLE));
    break;
  }
  v1::ToAttention cancel;
  cancel.mutable_cancel()->set_request_id(1);
  cancel.mutable_cancel()->set_attempt(1);
  gateway.Send(cancel);
  EXPECT_TRUE(attention().Drain({kUid, kFence, 1}, MonotonicTime::max(), Wait).ok());
  TestGateway late(service_.attention());
  EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(WorkerTest, WhoWatchesIsToldOfTheEpochWhenItIsCommitted) {
  v1::GetTopologyRequest request;
  request.set_service_uid(kUid);
  grpc::ClientContext context;
  const auto reader = service_.attention().control().WatchTopology(&context, request);
  service_.Serve();
  v1::GetTopologyReply reply;
  ASSERT_TRUE(reader->Read(&reply));
  EXPECT_EQ(reply.committed().epoch(), 1u);
  EXPECT_EQ(reply.fence(), kFence);
  EXPECT_EQ(reply.committed().attention_size(), 1);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(WorkerTest, StopsCleanWithItsPeersInAnyOrder) {
  for (const bool attention_first : {true, false}) {
    ServiceUnderTest service;
    service.Serve();
    TestGateway gateway(service.attention());
    gateway.Hello();
    ASSERT_TRUE(gateway.Read().has_welcome());
    gateway.Send(TestGateway::Submit(1, {5, 6, 7}, 900));
    ASSERT_TRUE(gateway.Read().has_step()) << "in the middle of steps";
    ServedWorker& first = attention_first ? service.attention() : service.experts();
    ServedWorker& second = attention_first ? service.experts() : service.attention();
    first.worker().Stop();
    second.worker().Stop();
    EXPECT_TRUE(first.failure().ok()) << first.failure().ToString();
    EXPECT_TRUE(second.failure().ok()) << second.failure().ToString();
  }
}

}  // namespace
}  // namespace janus::dataplane
