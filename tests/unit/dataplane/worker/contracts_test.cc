// The table of proto/README.md, cell by cell: which callers each call accepts, and what it must
// carry.

#include <gtest/gtest.h>

#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

constexpr const char* kOwn = ServiceUnderTest::kUid;
constexpr uint64_t kFence = ServiceUnderTest::kFence;

// One call of janus.v1.Control with this stamp, or for a read with its uid. Only the first message
// of a stream is read.
using Call = grpc::Status (*)(ServiceUnderTest& service, ServedWorker& worker, const v1::Stamp&);

struct Rpc {
  const char* name;
  bool writes;
  Call call;
};
void PrintTo(const Rpc& rpc, std::ostream* out) {
  *out << rpc.name;
}

class Bounded : public grpc::ClientContext {
 public:
  Bounded() { set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20))); }
};

grpc::Status Prepare(ServiceUnderTest& service, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::PrepareRequest request = service.PrepareRequest();
  *request.mutable_stamp() = stamp;
  const auto reader = worker.control().Prepare(&context, request);
  v1::PrepareProgress progress;
  while (reader->Read(&progress)) continue;
  return reader->Finish();
}
grpc::Status Commit(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::CommitRequest request;
  *request.mutable_stamp() = stamp;
  v1::CommitReply reply;
  return worker.control().Commit(&context, request, &reply);
}
// Aborts an epoch that is neither prepared nor committed.
grpc::Status Abort(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::AbortRequest request;
  *request.mutable_stamp() = stamp;
  if (stamp.epoch() == 1) request.mutable_stamp()->set_epoch(2);
  v1::AbortReply reply;
  return worker.control().Abort(&context, request, &reply);
}
grpc::Status Drain(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::DrainRequest request;
  *request.mutable_stamp() = stamp;
  v1::DrainReply reply;
  return worker.control().Drain(&context, request, &reply);
}
grpc::Status Supersede(ServiceUnderTest& service, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::SupersedeRequest request;
  *request.mutable_stamp() = stamp;
  *request.mutable_successor() = service.PrepareRequest(2).topology();
  v1::SupersedeReply reply;
  return worker.control().Supersede(&context, request, &reply);
}
v1::GetTopologyRequest Ask(const v1::Stamp& stamp) {
  v1::GetTopologyRequest request;
  request.set_service_uid(stamp.service_uid());
  request.set_pool(stamp.pool());
  return request;
}
grpc::Status GetTopology(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::GetTopologyReply reply;
  return worker.control().GetTopology(&context, Ask(stamp), &reply);
}
grpc::Status WatchTopology(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  const auto reader = worker.control().WatchTopology(&context, Ask(stamp));
  v1::GetTopologyReply reply;
  const bool came = reader->Read(&reply);
  if (came) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return came ? grpc::Status::OK : status;
}
grpc::Status GetStatistics(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::GetStatisticsRequest request;
  request.set_service_uid(stamp.service_uid());
  v1::Statistics reply;
  return worker.control().GetStatistics(&context, request, &reply);
}
grpc::Status DescribeModel(ServiceUnderTest&, ServedWorker& worker, const v1::Stamp& stamp) {
  Bounded context;
  v1::DescribeModelRequest request;
  request.set_service_uid(stamp.service_uid());
  v1::DescribeModelReply reply;
  return worker.control().DescribeModel(&context, request, &reply);
}

class ContractsTest : public testing::TestWithParam<Rpc> {
 protected:
  ContractsTest() { service_.Serve(); }
  grpc::StatusCode Code(ServedWorker& worker, const std::string& uid, uint64_t fence = kFence,
                        uint64_t epoch = 1) {
    return GetParam().call(service_, worker, StampOf(uid, fence, epoch)).error_code();
  }
  std::vector<ServedWorker*> BothRoles() { return {&service_.attention(), &service_.experts()}; }

  ServiceUnderTest service_;
};

TEST_P(ContractsTest, IsTakenFromItsOwnService) {
  for (ServedWorker* worker : BothRoles()) EXPECT_EQ(Code(*worker, kOwn), grpc::StatusCode::OK);
}

TEST_P(ContractsTest, IsRefusedToAnotherService) {
  for (ServedWorker* worker : BothRoles()) {
    EXPECT_EQ(Code(*worker, "service-2"), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(Code(*worker, ""), grpc::StatusCode::PERMISSION_DENIED);
  }
}

// An address may come to belong to a worker of another pool.
TEST_P(ContractsTest, IsRefusedToAnotherPoolWhereItNamesOne) {
  const std::string_view name = GetParam().name;
  const bool names_one = GetParam().writes || name == "GetTopology" || name == "WatchTopology";
  for (ServedWorker* worker : BothRoles()) {
    v1::Stamp stamp = StampOf(kOwn, kFence, 1);
    stamp.set_pool(2);
    EXPECT_EQ(GetParam().call(service_, *worker, stamp).error_code(),
              names_one ? grpc::StatusCode::FAILED_PRECONDITION : grpc::StatusCode::OK);
    stamp.set_pool(1);
    EXPECT_EQ(GetParam().call(service_, *worker, stamp).error_code(), grpc::StatusCode::OK);
  }
}

TEST_P(ContractsTest, AWriteOfAnOlderFenceOrEpochIsRefusedAndAReadCarriesNone) {
  const grpc::StatusCode wanted =
      GetParam().writes ? grpc::StatusCode::ABORTED : grpc::StatusCode::OK;
  for (ServedWorker* worker : BothRoles()) {
    EXPECT_EQ(Code(*worker, kOwn, kFence - 1), wanted);
    EXPECT_EQ(Code(*worker, kOwn, kFence, 0), wanted);
  }
}

TEST_P(ContractsTest, AWriteOfANewerFenceShutsTheOlderOneOut) {
  if (!GetParam().writes) return;
  for (ServedWorker* worker : BothRoles()) {
    EXPECT_EQ(Code(*worker, kOwn, kFence + 1), grpc::StatusCode::OK);
    EXPECT_EQ(Code(*worker, kOwn, kFence), grpc::StatusCode::ABORTED);
  }
}

INSTANTIATE_TEST_SUITE_P(Control, ContractsTest,
                         testing::Values(Rpc{"Prepare", true, Prepare}, Rpc{"Commit", true, Commit},
                                         Rpc{"Abort", true, Abort}, Rpc{"Drain", true, Drain},
                                         Rpc{"Supersede", true, Supersede},
                                         Rpc{"GetTopology", false, GetTopology},
                                         Rpc{"WatchTopology", false, WatchTopology},
                                         Rpc{"GetStatistics", false, GetStatistics},
                                         Rpc{"DescribeModel", false, DescribeModel}),
                         [](const auto& info) { return std::string(info.param.name); });

class AttachTest : public testing::Test {
 protected:
  AttachTest() { service_.Serve(); }
  ServiceUnderTest service_;
};

TEST_F(AttachTest, IsTakenFromAGatewayOfItsService) {
  TestGateway gateway(service_.attention());
  gateway.Hello();
  EXPECT_TRUE(gateway.Read().has_welcome());
}

TEST_F(AttachTest, IsRefusedToAnotherService) {
  TestGateway gateway(service_.attention());
  gateway.Hello("service-2");
  EXPECT_EQ(gateway.Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AttachTest, IsRefusedByAnExpertInstance) {
  TestGateway gateway(service_.experts());
  EXPECT_EQ(gateway.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace janus::dataplane
