#include "dataplane/fetch/progress_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>

#include "proto/convert.h"
#include "proto/fetch.grpc.pb.h"
#include "rpc/channel.h"

namespace janus::dataplane {
namespace {

// A question has no fields.
constexpr int kMostBytes = 1024;
constexpr int kMostThreads = 2;

class Server final : public ProgressServer, public v1::Fetch::CallbackService {
 public:
  explicit Server(const hub::Progress& progress) : progress_(progress) {}
  ~Server() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Status Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    AllowIdleCallers(builder);
    builder.SetMaxReceiveMessageSize(kMostBytes);
    builder.SetResourceQuota(grpc::ResourceQuota().SetMaxThreads(kMostThreads));
    // Two programs must not share the port and each get some calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return Unavailable("cannot listen at '" + address + "'; check that it is free");
    }
    return OkStatus();
  }

  grpc::ServerUnaryReactor* Look(grpc::CallbackServerContext* context, const v1::LookRequest*,
                                 v1::FetchProgress* reply) override {
    *reply = ToProto(ProgressOf(progress_.Look()));
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const hub::Progress& progress_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

FetchProgress ProgressOf(const hub::Progress::State& state) {
  FetchProgress out;
  out.bytes_total = state.bytes_total;
  out.bytes_done = std::clamp<int64_t>(state.bytes_done, 0, state.bytes_total);
  out.files_total = state.files_total;
  out.files_done = std::clamp(state.files_done, 0, state.files_total);
  return out;
}

Result<std::unique_ptr<ProgressServer>> ProgressServer::Create(const std::string& address,
                                                               const hub::Progress& progress) {
  auto server = std::make_unique<Server>(progress);
  JANUS_RETURN_IF_ERROR(server->Listen(address));
  return std::unique_ptr<ProgressServer>(std::move(server));
}

}  // namespace janus::dataplane
