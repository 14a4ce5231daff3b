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

// One worker in this process, behind gRPC on its own socket.
class ServedWorker {
 public:
  ServedWorker(const WorkerFlags& flags, const Clock& clock,
               std::function<void(const Status&)> on_failure,
               kernels::Context& context = kernels::HostContext());
  ~ServedWorker();

  Worker& worker() { return worker_; }
  v1::Control::Stub& control() { return *control_stub_; }
  v1::Tokens::Stub& tokens() { return *tokens_stub_; }
  // Number of peers refused for `reason`, as in a scrape.
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
// one, connected by shared memory: the objects of two janus-worker processes in one process. They
// compute in these contexts.
class ServiceUnderTest {
 public:
  static constexpr const char* kUid = "service-1";
  static constexpr uint64_t kFence = 5;

  explicit ServiceUnderTest(const std::string& model = "",
                            kernels::Context& attention_context = kernels::HostContext(),
                            kernels::Context& experts_context = kernels::HostContext());

  ServedWorker& attention() { return *attention_; }
  ServedWorker& experts() { return *experts_; }
  // Change it before Prepare.
  v1::WorkerConfig& config() { return config_; }
  Topology& topology() { return topology_; }
  SequenceRoom& room() { return topology_.attention[0].sequences; }

  v1::PrepareRequest PrepareRequest(uint64_t epoch = 1) const;
  // Prepares only the attention instance and returns the result; `progress` as in Worker::Prepare.
  Status PrepareAttention(const std::function<bool(const PrepareProgress&)>& progress);
  // Prepares both for epoch topology().epoch; `progress` is that of the attention instance.
  void Prepare(const std::function<bool(const PrepareProgress&)>& progress);
  // Prepares both and commits attention; with `commit_experts` also the experts.
  void Serve(bool commit_experts = true);
  // Ends a worker like the end of its process.
  void End(Role role);
  // The statuses of workers that ended without Stop.
  std::vector<Status> failures() const;
  // Waits for such a status.
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
  explicit TestGateway(ServedWorker& worker) : TestGateway(worker.tokens()) {}
  explicit TestGateway(v1::Tokens::Stub& tokens);
  ~TestGateway();

  void Hello(const std::string& uid = ServiceUnderTest::kUid, uint32_t credits = 1000,
             const std::string& id = "gateway-1");
  void Send(const v1::ToAttention& message) { stream_->Write(message); }
  // A greedy request for `max_tokens` tokens without stop tokens.
  static v1::ToAttention Submit(uint64_t id, std::vector<uint32_t> prompt, uint32_t max_tokens);
  // The next message; MESSAGE_NOT_SET when the stream has ended.
  v1::FromAttention Read();
  // Reads until the request has ended; returns its merged messages.
  v1::RequestTokens ReadToTheEnd(uint64_t id);
  // Ends the stream.
  grpc::Status Finish();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAttention, v1::FromAttention>> stream_;
  bool finished_ = false;
};

}  // namespace janus::dataplane
