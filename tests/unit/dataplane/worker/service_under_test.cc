#include "tests/unit/dataplane/worker/service_under_test.h"

#include <gtest/gtest.h>

#include "common/model/config.h"
#include "proto/convert.h"
#include "rpc/channel.h"
#include "tests/support/golden.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

const std::string kEpochKey(16, 'k');

}  // namespace

ServedWorker::ServedWorker(const WorkerFlags& flags, const Clock& clock,
                           std::function<void(const Status&)> on_failure, kernels::Context& context)
    : worker_(flags, context, clock, Logger(), std::move(on_failure), registry_),
      control_(worker_),
      tokens_(worker_, Logger()) {
  grpc::ServerBuilder builder;
  AllowIdleCallers(builder);
  builder.AddListeningPort(flags.listen, grpc::InsecureServerCredentials());
  builder.RegisterService(&control_);
  builder.RegisterService(&tokens_);
  server_ = builder.BuildAndStart();
  JANUS_CHECK(server_ != nullptr, flags.listen);
  const auto channel = grpc::CreateChannel(flags.listen, grpc::InsecureChannelCredentials());
  control_stub_ = v1::Control::NewStub(channel);
  tokens_stub_ = v1::Tokens::NewStub(channel);
}

ServedWorker::~ServedWorker() {
  worker_.Stop();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

double ServedWorker::refused(const std::string& reason) const {
  for (const MetricFamily& family : registry_.Collect()) {
    if (family.name != "janus_connections_refused_total") continue;
    for (const MetricFamily::Series& series : family.series) {
      if (series.labels == MetricLabels{{"reason", reason}}) return series.value;
    }
  }
  ADD_FAILURE() << "nobody counts " << reason;
  return -1;
}

ServiceUnderTest::ServiceUnderTest(const std::string& given, kernels::Context& attention_context,
                                   kernels::Context& experts_context) {
  const std::string model = given.empty() ? ReadGolden("mixtral").folder : given;
  const ModelDescription description = *LoadModelConfig(model);
  const int experts = description.moe.experts;
  topology_ = MakeTopology(1, {experts}, description.layers, experts);
  const auto address = [&](Instance& instance, const std::string& name) {
    instance.address = "unix:" + folder_.path() + "/" + name + ".sock";
    instance.exchange_address = "unix:" + folder_.path() + "/" + name + ".x";
  };
  topology_.attention[0].role = Role::kAttention;
  address(topology_.attention[0], "attention-0");
  address(topology_.experts[0], "experts-0");
  topology_.attention[0].sequences = {.max_batch_size = 8, .kv_bytes = 4 << 20};
  const auto on_failure = [this](const Status& status) {
    const MutexLock lock(mu_);
    failures_.push_back(status);
    failed_.NotifyAll();
  };
  attention_ = std::make_unique<ServedWorker>(
      WorkerFlags{Role::kAttention, model, topology_.attention[0].address, kUid}, clock_,
      on_failure, attention_context);
  experts_ = std::make_unique<ServedWorker>(
      WorkerFlags{Role::kExperts, model, topology_.experts[0].address, kUid}, clock_, on_failure,
      experts_context);
}

v1::PrepareRequest ServiceUnderTest::PrepareRequest(uint64_t epoch) const {
  v1::PrepareRequest request;
  *request.mutable_stamp() = StampOf(kUid, kFence, epoch);
  Topology topology = topology_;
  topology.epoch = epoch;
  *request.mutable_topology() = ToProto(topology);
  *request.mutable_config() = config_;
  request.set_epoch_key(kEpochKey);
  return request;
}

Status ServiceUnderTest::PrepareAttention(
    const std::function<bool(const PrepareProgress&)>& progress) {
  return attention_->worker().Prepare({kUid, kFence, topology_.epoch}, topology_, config_,
                                      kEpochKey, progress);
}

void ServiceUnderTest::End(Role role) {
  (role == Role::kAttention ? attention_ : experts_).reset();
}

std::vector<Status> ServiceUnderTest::failures() const {
  const MutexLock lock(mu_);
  return failures_;
}

Status ServiceUnderTest::AwaitFailure() {
  const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  const MutexLock lock(mu_);
  while (failures_.empty()) {
    if (!failed_.WaitUntil(mu_, deadline)) return OkStatus();
  }
  return failures_.front();
}

void ServiceUnderTest::Prepare(const std::function<bool(const PrepareProgress&)>& progress) {
  Status prepared;
  {
    std::jthread beside([&] {
      prepared = experts_->worker().Prepare({kUid, kFence, topology_.epoch}, topology_, config_,
                                            kEpochKey, [](const PrepareProgress&) { return true; });
    });
    const Status own = PrepareAttention(progress);
    EXPECT_TRUE(own.ok()) << own.ToString();
  }
  EXPECT_TRUE(prepared.ok()) << prepared.ToString();
}

void ServiceUnderTest::Serve(bool commit_experts) {
  Prepare([](const PrepareProgress&) { return true; });
  for (ServedWorker* served : {experts_.get(), attention_.get()}) {
    if (served == experts_.get() && !commit_experts) continue;
    const Status committed = served->worker().Commit({kUid, kFence, topology_.epoch});
    ASSERT_TRUE(committed.ok()) << committed.ToString();
  }
}

v1::Stamp StampOf(const std::string& uid, uint64_t fence, uint64_t epoch) {
  v1::Stamp stamp;
  stamp.set_service_uid(uid);
  stamp.set_fence(fence);
  stamp.set_epoch(epoch);
  return stamp;
}

TestGateway::TestGateway(v1::Tokens::Stub& tokens) {
  context_.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20)));
  stream_ = tokens.Attach(&context_);
}

TestGateway::~TestGateway() {
  if (finished_) return;
  context_.TryCancel();
  (void)stream_->Finish();
}

void TestGateway::Hello(const std::string& uid, uint32_t credits, const std::string& id) {
  v1::ToAttention message;
  message.mutable_hello()->set_service_uid(uid);
  message.mutable_hello()->set_gateway_id(id);
  message.mutable_hello()->set_credits(credits);
  Send(message);
}

v1::ToAttention TestGateway::Submit(uint64_t id, std::vector<uint32_t> prompt,
                                    uint32_t max_tokens) {
  v1::ToAttention message;
  v1::Submit& submit = *message.mutable_submit();
  submit.set_request_id(id);
  submit.set_attempt(1);
  submit.mutable_prompt_tokens()->Assign(prompt.begin(), prompt.end());
  submit.set_max_tokens(max_tokens);
  submit.mutable_sampling()->set_top_p(1.0f);
  return message;
}

v1::FromAttention TestGateway::Read() {
  v1::FromAttention message;
  if (!stream_->Read(&message)) return {};
  return message;
}

v1::RequestTokens TestGateway::ReadToTheEnd(uint64_t id) {
  v1::RequestTokens all;
  for (;;) {
    const v1::FromAttention message = Read();
    if (message.message_case() == v1::FromAttention::MESSAGE_NOT_SET) {
      ADD_FAILURE() << "the stream ended before request " << id;
      return all;
    }
    for (const v1::RequestTokens& tokens : message.step().requests()) {
      if (tokens.request_id() == id) all.MergeFrom(tokens);
    }
    if (all.finish_reason() != v1::FINISH_REASON_NONE) return all;
  }
}

grpc::Status TestGateway::Finish() {
  finished_ = true;
  stream_->WritesDone();
  v1::FromAttention message;
  while (stream_->Read(&message)) continue;
  return stream_->Finish();
}

}  // namespace janus::dataplane
