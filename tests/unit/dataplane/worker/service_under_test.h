#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/worker/control_service.h"
#include "dataplane/worker/tokens_service.h"
#include "dataplane/worker/worker.h"
#include "proto/control.grpc.pb.h"
#include "proto/tokens.grpc.pb.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {

// One worker in this process, behind gRPC on a socket of its own.
class ServedWorker {
 public:
  ServedWorker(const WorkerFlags& flags, const Clock& clock,
               std::function<void(const Status&)> on_failure,
               kernels::Context& context = kernels::HostContext());
  ~ServedWorker();

  Worker& worker() { return worker_; }
  v1::Control::Stub& control() { return *control_stub_; }
  v1::Tokens::Stub& tokens() { return *tokens_stub_; }
  // How many it has refused by `reason`, as a scrape sees it.
  double refused(const std::string& reason) const;

 private:
  MetricRegistry registry_;
  Worker worker_;
  ControlService control_;
  TokensService tokens_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Control::Stub> control_stub_;
  std::unique_ptr<v1::Tokens::Stub> tokens_stub_;
};

// A service of one attention and one expert instance over the golden Mixtral checkpoint, or another
// one, connected by shared memory: the objects of two janus-worker processes in one, which compute
// in these contexts.
class ServiceUnderTest {
 public:
  static constexpr const char* kUid = "service-1";
  static constexpr uint64_t kFence = 5;

  explicit ServiceUnderTest(const std::string& model = "",
                            kernels::Context& attention_context = kernels::HostContext(),
                            kernels::Context& experts_context = kernels::HostContext());

  ServedWorker& attention() { return *attention_; }
  ServedWorker& experts() { return *experts_; }
  // Changed before Prepare.
  v1::WorkerConfig& config() { return config_; }
  Topology& topology() { return topology_; }
  SequenceRoom& room() { return topology_.attention[0].sequences; }

  v1::PrepareRequest PrepareRequest(uint64_t epoch = 1) const;
  // What the attention instance alone says to a Prepare; `progress` as of Worker::Prepare.
  Status PrepareAttention(const std::function<bool(const PrepareProgress&)>& progress);
  // Prepares both for epoch topology().epoch; `progress` of the attention instance.
  void Prepare(const std::function<bool(const PrepareProgress&)>& progress);
  // Prepares both and commits attention; `commit_experts` the other too.
  void Serve(bool commit_experts = true);
  // Ends a worker as the end of its process does.
  void End(Role role);
  // With what workers ended by themselves.
  std::vector<Status> failures() const;
  // Waits for one.
  Status AwaitFailure();

 private:
  const TempFolder folder_;
  const SystemClock clock_;
  v1::WorkerConfig config_;
  Topology topology_;
  mutable Mutex mu_;
  CondVar failed_;
  std::vector<Status> failures_ JANUS_GUARDED_BY(mu_);
  std::unique_ptr<ServedWorker> attention_;
  std::unique_ptr<ServedWorker> experts_;
};

v1::Stamp StampOf(const std::string& uid, uint64_t fence, uint64_t epoch);

// A gateway's end of a token stream; every wait ends after 20 s.
class TestGateway {
 public:
  explicit TestGateway(ServedWorker& worker);
  ~TestGateway();

  void Hello(const std::string& uid = ServiceUnderTest::kUid, uint32_t credits = 1000,
             const std::string& id = "gateway-1");
  void Send(const v1::ToAttention& message) { stream_->Write(message); }
  // A greedy request for `max_tokens` tokens that no stop token ends.
  static v1::ToAttention Submit(uint64_t id, std::vector<uint32_t> prompt, uint32_t max_tokens);
  // The next message; MESSAGE_NOT_SET when the stream has ended.
  v1::FromAttention Read();
  // Reads until the request has ended; its messages merged.
  v1::RequestTokens ReadToTheEnd(uint64_t id);
  // Ends the stream.
  grpc::Status Finish();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAttention, v1::FromAttention>> stream_;
  bool finished_ = false;
};

}  // namespace janus::dataplane
