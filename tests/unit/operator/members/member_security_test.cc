#include "operator/members/member_security.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "operator/kube/object.h"
#include "operator/local/store/store_client.h"
#include "proto/control.grpc.pb.h"
#include "rpc/channel.h"
#include "rpc/credentials/trust_folder.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kube/simulated_timeline.h"
#include "tests/support/time_scale.h"
#include "tests/unit/rpc/credentials/trust_on_disk.h"

namespace janus::control {
namespace {

class Control final : public v1::Control::Service {
  grpc::Status GetTopology(grpc::ServerContext*, const v1::GetTopologyRequest*,
                           v1::GetTopologyReply*) override {
    return grpc::Status::OK;
  }
};

// A member's server, with those certificates, or in plain text without any.
class Member {
 public:
  Member(const Clock& clock, RefusalCounts& refusals, const ServiceCertificates* of,
         PeerRole role) {
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (of != nullptr) {
      own_.Put(of->issued.Find(role)->pair, of->bundle);
      credentials = TrustFolder::Open(own_.path(), clock, refusals).value()->Server();
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterService(&control_);
    server_ = builder.BuildAndStart();
  }
  ~Member() { server_->Shutdown(std::chrono::system_clock::now()); }

  // True if a call with that security succeeds.
  bool Takes(const Connections::Security& security) const {
    const auto stub = v1::Control::NewStub(
        DialInstance("127.0.0.1:" + std::to_string(port_), security.Credentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(50)));
    v1::GetTopologyReply reply;
    return stub->GetTopology(&context, {}, &reply).ok();
  }

 private:
  TrustOnDisk own_;
  Control control_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// An operator that knows the services "a" and "b".
class MemberSecurityTest : public testing::Test {
 protected:
  MemberSecurityTest() {
    Node ns = Node::Map();
    SetAt(ns, {"apiVersion"}, Node::String("v1"));
    SetAt(ns, {"kind"}, Node::String("Namespace"));
    SetAt(ns, {"metadata", "name"}, Node::String("janus"));
    const Resource namespaces{"", "v1", "namespaces", "Namespace", false};
    EXPECT_TRUE(api_.Create(namespaces, ns, {}, {}).ok());
    CertificateOptions options;
    options.ns = "janus";
    keeper_ = std::make_unique<CertificateKeeper>(options);
    of_a_ = Keep("a");
    of_b_ = Keep("b");
    security_ = MemberSecurity(*keeper_, clock_);
  }
  ServiceCertificates Keep(const std::string& name) {
    return keeper_->Keep(api_, {{"team", name}, "uid-" + name}, clock_.WallNow(), {}).value();
  }
  Member Of(const ServiceCertificates* certificates, PeerRole role = PeerRole::kAttention) {
    return {clock_, refusals_, certificates, role};
  }

  FakeClock clock_;
  SimulatedTimeline timeline_;
  MetricRegistry registry_;
  RefusalCounts refusals_{registry_};
  LocalStore store_{{}, timeline_};
  StoreClient api_{store_, "janus-operator"};
  std::unique_ptr<CertificateKeeper> keeper_;
  ServiceCertificates of_a_, of_b_;
  Connections::SecurityOf security_;
};

TEST_F(MemberSecurityTest, MembersOfThatServiceAloneAreCalled) {
  EXPECT_TRUE(Of(&of_a_).Takes(security_("uid-a")));
  EXPECT_TRUE(Of(&of_a_, PeerRole::kExperts).Takes(security_("uid-a")));
  EXPECT_TRUE(Of(&of_b_).Takes(security_("uid-b")));
  EXPECT_FALSE(Of(&of_b_).Takes(security_("uid-a"))) << "of another service";
  EXPECT_FALSE(Of(&of_a_, PeerRole::kGateway).Takes(security_("uid-a"))) << "no worker";
  EXPECT_FALSE(Of(nullptr).Takes(security_("uid-a"))) << "in plain text";
}

TEST_F(MemberSecurityTest, AServiceWithoutTlsIsCalledInPlainText) {
  keeper_->Without("uid-b");
  const Connections::Security plain = security_("uid-b");
  EXPECT_EQ(plain.Credentials(), nullptr);
  EXPECT_NE(plain.version, security_("uid-a").version);
  EXPECT_TRUE(Of(nullptr).Takes(plain));
  EXPECT_TRUE(Of(&of_a_).Takes(security_("uid-a"))) << "and nobody else";
}

// Not in plain text, which any server could accept: an error until the service is known.
TEST_F(MemberSecurityTest, OfAServiceThatIsNotKnownNobodyIsCalled) {
  const Connections::Security unknown = security_("nobody");
  ASSERT_NE(unknown.Credentials(), nullptr);
  EXPECT_FALSE(Of(nullptr).Takes(unknown));
  EXPECT_FALSE(Of(&of_a_).Takes(unknown));
}

TEST_F(MemberSecurityTest, AnotherCertificateIsAnotherVersion) {
  const uint64_t first = security_("uid-a").version;
  Keep("a");
  EXPECT_EQ(security_("uid-a").version, first) << "the same one is not";
  clock_.Advance(std::chrono::hours(24 * 61));
  of_a_ = Keep("a");
  EXPECT_NE(security_("uid-a").version, first);
  EXPECT_TRUE(Of(&of_a_).Takes(security_("uid-a")));
}

}  // namespace
}  // namespace janus::control
