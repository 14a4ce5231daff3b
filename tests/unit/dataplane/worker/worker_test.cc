#include "dataplane/worker/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/fingerprint.h"
#include "common/model/config.h"
#include "common/model/digest.h"
#include "common/process_room.h"
#include "dataplane/comm/transport/ucx/rdma_devices.h"
#include "dataplane/worker/describe_model.h"
#include "proto/convert.h"
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

  // Prepares the attention instance until it waits for its missing peer; then runs `meanwhile`.
  // Returns the result of Prepare.
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

TEST_F(WorkerTest, RdmaFailsOnAMachineWithoutADeviceAlthoughMembersShareMemory) {
  if (!FindRdmaDevices().empty()) GTEST_SKIP() << "this machine has an RDMA device";
  service_.topology().transport = ExchangeTransport::kRdma;
  const Status prepared = service_.PrepareAttention(On);
  EXPECT_EQ(prepared.code(), StatusCode::kFailedPrecondition) << prepared.ToString();
  EXPECT_TRUE(
      Contains(prepared.message(), "exchange transport RDMA: this machine has no RDMA device"));
}

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

// A caller gives up if it gets no reports, so Prepare reports each long phase at its beginning.
TEST_F(WorkerTest, TellsOfEachPhaseOfAPrepare) {
  std::vector<std::string> phases;
  service_.Prepare([&](const PrepareProgress& progress) {
    if (phases.empty() || phases.back() != progress.phase) phases.push_back(progress.phase);
    return true;
  });
  EXPECT_EQ(phases, (std::vector<std::string>{"weights", "connect", "memory", "instance"}));
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
  const auto room = [](Request& r) {
    return r.mutable_topology()->mutable_attention(0)->mutable_sequences();
  };
  refused([&](Request& r) { room(r)->set_kv_bytes(UINT64_MAX); }, "attention[0].sequences");
  refused([&](Request& r) { room(r)->set_kv_bytes(INT64_MAX); }, "sequences.kv_bytes",
          grpc::StatusCode::RESOURCE_EXHAUSTED);
  refused([&](Request& r) { room(r)->set_swap_bytes(uint64_t{1} << 60); }, "sequences.swap_bytes",
          grpc::StatusCode::RESOURCE_EXHAUSTED);
  refused([](Request& r) { r.mutable_config()->set_queued_requests(UINT32_MAX); },
          "config.queued_requests");
  refused([](Request& r) { r.mutable_config()->set_crossover_rows(65536); },
          "config.crossover_rows 65536");
  service_.Serve();  // nothing is left of it
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

TEST_F(WorkerTest, EpochZeroIsNoEpochAndLeavesTheFenceAsItIs) {
  const Stamp none{kUid, kFence, 0};
  for (const Status& status : {attention().Commit(none), attention().Abort(none),
                               attention().Drain(none, MonotonicClock::now(), Wait)}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(status.message(), "epoch 0"));
  }
  EXPECT_EQ(attention().fence(), 0u);
  service_.Serve();
}

// The expert instance is prepared but not committed: running requests stand still until then.
TEST_F(WorkerTest, DrainWaitsForWhatRunsAsLongAsSomebodyAsks) {
  service_.config().set_detection_deadline_ms(600'000);
  service_.Serve(false);
  TestGateway gateway(service_.attention());
  gateway.Hello();
  ASSERT_TRUE(gateway.Read().has_welcome());
  gateway.Send(TestGateway::Submit(1, {5, 6, 7}, 4));
  while (attention().statistics().waiting + attention().statistics().running == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(attention().Drain({kUid, kFence, 1}, MonotonicClock::now(), Wait).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(attention().draining());
  // Without a deadline it ends when the caller goes away.
  EXPECT_EQ(attention().Drain({kUid, kFence, 1}, MonotonicTime::max(), [] { return false; }).code(),
            StatusCode::kCancelled);
  gateway.Send(TestGateway::Submit(2, {5}, 2));
  const v1::FromAttention message = gateway.Read();
  ASSERT_TRUE(message.has_rejected());
  EXPECT_EQ(message.rejected().request_id(), 2u);
  EXPECT_EQ(message.rejected().code(), static_cast<uint32_t>(grpc::StatusCode::UNAVAILABLE));
  ASSERT_TRUE(service_.experts().worker().Commit({kUid, kFence, 1}).ok());
  EXPECT_TRUE(attention().Drain({kUid, kFence, 1}, MonotonicTime::max(), Wait).ok());
  EXPECT_EQ(gateway.ReadToTheEnd(1).tokens_size(), 4);
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

TEST_F(WorkerTest, ManyWhoWatchHoldNoThread) {
  const auto threads = [] {
    const std::filesystem::directory_iterator all("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  constexpr int kWatchers = 200;
  v1::GetTopologyRequest request;
  request.set_service_uid(kUid);
  std::vector<grpc::ClientContext> contexts(kWatchers);
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GetTopologyReply>>> readers;
  const auto before = threads();
  for (grpc::ClientContext& context : contexts) {
    readers.push_back(service_.attention().control().WatchTopology(&context, request));
  }
  service_.Serve();
  for (const auto& reader : readers) {
    v1::GetTopologyReply reply;
    ASSERT_TRUE(reader->Read(&reply));
    EXPECT_EQ(reply.committed().epoch(), 1u);
  }
  EXPECT_LT(threads() - before, kWatchers / 2);
  for (size_t i = 0; i < readers.size(); ++i) {
    contexts[i].TryCancel();
    EXPECT_EQ(readers[i]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(WorkerTest, AnEpochIsOfOneTopology) {
  service_.Serve();
  v1::PrepareRequest request = service_.PrepareRequest();
  request.mutable_topology()->set_max_rows_per_round(17);
  grpc::ClientContext context;
  const auto reader = service_.attention().control().Prepare(&context, request);
  v1::PrepareProgress progress;
  while (reader->Read(&progress)) continue;
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(Contains(status.error_message(), "epoch 1 is prepared with another topology"));
}

TEST_F(WorkerTest, StopsCleanWithItsPeersInAnyOrder) {
  for (const Role first : {Role::kAttention, Role::kExperts}) {
    ServiceUnderTest service;
    service.Serve();
    {
      TestGateway gateway(service.attention());
      gateway.Hello();
      ASSERT_TRUE(gateway.Read().has_welcome());
      gateway.Send(TestGateway::Submit(1, {5, 6, 7}, 900));
      ASSERT_TRUE(gateway.Read().has_step()) << "in the middle of steps";
    }
    service.End(first);
    service.End(first == Role::kAttention ? Role::kExperts : Role::kAttention);
    for (const Status& failure : service.failures()) ADD_FAILURE() << failure.ToString();
  }
}

TEST_F(WorkerTest, WhoIsLeftBehindSaysThatItsPeerWasStopped) {
  for (const Role first : {Role::kAttention, Role::kExperts}) {
    ServiceUnderTest service;
    service.config().set_detection_deadline_ms(1);  // also how long it waits for its own stop
    service.Serve();
    service.End(first);
    const Status failure = service.AwaitFailure();
    EXPECT_EQ(failure.code(), StatusCode::kUnavailable);
    EXPECT_TRUE(Contains(failure.message(), "was stopped")) << failure.ToString();
  }
}

TEST(CheckFits, HoldsASizeAgainstTheMachine) {
  EXPECT_TRUE(CheckFits("rows", 7, 7).ok());
  const Status refused = CheckFits("rows", uint64_t{1} << 63, 7);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(refused.message(), "rows"));
}

TEST_F(WorkerTest, SaysBeforeAnyEpochWhatItWouldLoadAndTheRoomItHas) {
  for (ServedWorker* worker : {&service_.attention(), &service_.experts()}) {
    grpc::ClientContext context;
    v1::DescribeModelRequest request;
    request.set_service_uid(kUid);
    v1::DescribeModelReply reply;
    const grpc::Status status = worker->control().DescribeModel(&context, request, &reply);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const Result<ModelReport> report = FromProto(reply);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    const std::string folder = worker->worker().flags().model;
    EXPECT_EQ(report->config_json, *ReadModelConfig(folder));
    EXPECT_EQ(report->digest, Fingerprint::Hex(*DigestCheckpoint(folder, report->config_json)));
    EXPECT_GT(report->room.memory_bytes, 1 << 20);
    EXPECT_FALSE(report->room.device_memory_bytes);
    EXPECT_GE(report->room.cores, 1);
    EXPECT_EQ(report->device.name, "");
    ASSERT_TRUE(report->device.cpu);
    EXPECT_EQ(report->device.cpu->threads, report->room.cores);
    v1::DescribeModelReply again;
    grpc::ClientContext second;
    ASSERT_TRUE(worker->control().DescribeModel(&second, request, &again).ok());
    EXPECT_EQ(FromProto(again)->device, report->device) << "it measures once";
  }
}

TEST_F(WorkerTest, OneOfSeveralInstancesSaysItsShareOfTheRoom) {
  const TempFolder folder;
  WorkerFlags flags = service_.experts().worker().flags();
  flags.listen = "unix:" + folder.path() + "/shares";
  flags.instances = 1000;
  const SystemClock clock;
  ServedWorker worker(flags, clock, [](const Status&) {});
  grpc::ClientContext context;
  v1::DescribeModelRequest request;
  request.set_service_uid(kUid);
  v1::DescribeModelReply reply;
  ASSERT_TRUE(worker.control().DescribeModel(&context, request, &reply).ok());
  const Result<ModelReport> report = FromProto(reply);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  const ProcessRoom whole = *ReadProcessRoom();
  const ProcessRoom share = ShareOf(whole, flags.instances);
  EXPECT_EQ(report->room.cores, share.cores);
  EXPECT_EQ(report->device.cpu->threads, share.cores);
  // Free memory may change between the two. Without a limit there is nothing to divide.
  if (whole.memory_is_limited) {
    EXPECT_LT(report->room.memory_bytes, whole.memory_bytes / 100);
  } else {
    EXPECT_GT(report->room.memory_bytes, whole.memory_bytes / 2);
  }
}

TEST(CpuSpeed, IsMeasuredOnOneThreadAndOnAll) {
  ModelDescription model;
  model.dtype = DType::kBFloat16;
  model.vocab = 512;
  model.hidden = 64;
  model.layers = 2;
  model.attention.heads = model.attention.kv_heads = 4;
  model.attention.head_dim = 16;
  model.moe = {.experts = 4, .top_k = 2, .intermediate = 96};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    model.dtype = dtype;
    const Result<CpuSpeed> speed = MeasureCpuSpeed(model, 2);
    ASSERT_TRUE(speed.ok()) << speed.status().ToString();
    EXPECT_EQ(speed->threads, 2);
    for (const ComputeRate& rate : {speed->one, speed->all}) {
      // How much depends on what else runs; no core does as much as this.
      EXPECT_GT(rate.bytes, 0);
      EXPECT_LT(rate.bytes, 1e13);
      EXPECT_GT(rate.operations, 0);
      EXPECT_LT(rate.operations, 1e14);
    }
  }
  const Result<CpuSpeed> alone = MeasureCpuSpeed(model, 0);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->threads, 1);
  EXPECT_EQ(alone->one, alone->all);
}

TEST(DescribeModel, NamesWhatIsNotThereOrTooLarge) {
  kernels::Context& host = kernels::HostContext();
  CpuSpeedOnce speed;
  EXPECT_EQ(DescribeModel("/nowhere", host, speed).status().code(), StatusCode::kNotFound);
  const TempFolder folder;
  folder.Write("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(
      DescribeModel(folder.path(), host, speed).status(),
      InvalidArgument(folder.path() + "/config.json: is 1048577 bytes; want at most 1048576"));
}

}  // namespace
}  // namespace janus::dataplane
