#include "dataplane/worker/relay.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "rpc/channel.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

// A member that accepts every call.
class WillingMember final : public v1::Control::Service {
 public:
  explicit WillingMember(const std::string& address) {
    grpc::ServerBuilder builder;
    AllowIdleCallers(builder);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~WillingMember() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest*, v1::AbortReply*) override {
    return grpc::Status::OK;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
};

// A new member takes the address of a lost one.
TEST(Relay, WhoComesUpIsReachedAtOnceHoweverOftenItWasNot) {
  const TempFolder folder;
  v1::AbortRequest request;
  v1::RelayTarget& target = *request.add_relay();
  target.set_name("experts-1");
  target.set_role(v1::ROLE_EXPERTS);
  target.set_address("unix:" + folder.path() + "/e1");
  Relay relay;
  const auto abort = [&] {
    const auto deadline = std::chrono::system_clock::now() + Scaled(std::chrono::minutes(1));
    return relay.Abort(request, deadline, [] { return true; });
  };
  for (int i = 0; i < 3; ++i) {
    const Relay::Failures failures = abort();
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].name(), "experts-1");
  }
  const WillingMember member(target.address());
  const Relay::Failures failures = abort();
  EXPECT_TRUE(failures.empty()) << failures[0].message();
}

}  // namespace
}  // namespace janus::dataplane
