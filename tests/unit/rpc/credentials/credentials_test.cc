#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "proto/tokens.grpc.pb.h"
#include "rpc/channel.h"
#include "rpc/credentials/call_rules.h"
#include "rpc/credentials/handshake_counter.h"
#include "rpc/credentials/own_certificate.h"
#include "rpc/credentials/trust_folder.h"
#include "tests/support/contains.h"
#include "tests/support/fake_clock.h"
#include "tests/support/time_scale.h"
#include "tests/unit/rpc/credentials/trust_on_disk.h"

namespace janus {
namespace {

using control::KeyPair;

class Control final : public v1::Control::Service {
 public:
  grpc::Status GetTopology(grpc::ServerContext* context, const v1::GetTopologyRequest*,
                           v1::GetTopologyReply*) override {
    const auto pem = context->auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const MutexLock lock(mu_);
    last_ = pem.empty() ? "" : std::string(pem[0].data(), pem[0].size());
    return grpc::Status::OK;
  }
  grpc::Status WatchTopology(grpc::ServerContext* context, const v1::GetTopologyRequest*,
                             grpc::ServerWriter<v1::GetTopologyReply>* writer) override {
    while (!context->IsCancelled() && writer->Write({})) {
      const MutexLock lock(mu_);
      steps_.WaitUntil(mu_, MonotonicClock::now() + std::chrono::milliseconds(1));
    }
    return grpc::Status::OK;
  }
  // The certificate of the last caller.
  std::string last() const {
    const MutexLock lock(mu_);
    return last_;
  }

 private:
  mutable Mutex mu_;
  CondVar steps_;
  std::string last_ JANUS_GUARDED_BY(mu_);
};

class Tokens final : public v1::Tokens::Service {
  grpc::Status Attach(grpc::ServerContext*,
                      grpc::ServerReaderWriter<v1::FromAttention, v1::ToAttention>*) override {
    return grpc::Status::OK;
  }
};

// A worker's server, and clients with different credentials.
class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    own_.Put(LeafOf(authority_, kChat + "/attention", now()), bundle_);
    trust_ = TrustFolder::Open(own_.path(), clock_, refusals_).value();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", trust_->Server(), &port_);
    builder.RegisterService(&control_);
    builder.RegisterService(&tokens_);
    server_ = builder.BuildAndStart();
  }
  ~CredentialsTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  WallTime now() const { return clock_.WallNow(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  KeyPair Of(PeerRole role) { return LeafOf(authority_, ToUri({kChat, role}), now()); }

  // Credentials with that key pair; with `trusting` they accept any peer.
  std::shared_ptr<grpc::ChannelCredentials> With(const KeyPair& pair, bool trusting = false) {
    PeerRules rules;
    rules.bundle = [this] { return TrustBundle::Parse(bundle_); };
    rules.authority = kChat;
    rules.roles = {PeerRole::kAttention, PeerRole::kExperts};
    if (trusting) rules.roles.push_back(PeerRole::kGateway);
    rules.clock = &clock_;
    return MutualTlsChannel(pair.certificate, pair.key, rules);
  }
  grpc::Status Ask(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    const auto stub = v1::Control::NewStub(DialInstance(address(), credentials));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(50)));
    v1::GetTopologyReply reply;
    return stub->GetTopology(&context, {}, &reply);
  }
  // For a client the handshake ends before the server has judged it.
  void WaitForRefusal(Refusal why) {
    while (refusals_.of(why) == 0) std::this_thread::yield();
  }
  void ExpectOnly(Refusal why) {
    for (const Refusal one : kRefusals) {
      EXPECT_EQ(refusals_.of(one) > 0, one == why) << ToString(one);
    }
  }

  FakeClock clock_;
  MetricRegistry registry_;
  RefusalCounts refusals_{registry_};
  HandshakeCounter handshakes_{refusals_, Logger()};
  const KeyPair authority_ = AuthorityOf(kChat, now());
  const KeyPair operators_ = AuthorityOf(kOperator, now());
  const std::string bundle_ = authority_.certificate + operators_.certificate;
  TrustOnDisk own_;
  std::shared_ptr<const TrustFolder> trust_;
  Control control_;
  Tokens tokens_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CredentialsTest, AMemberOfTheServiceIsTaken) {
  const grpc::Status status = Ask(trust_->Channel());
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(CredentialsTest, TheOperatorIsTaken) {
  const grpc::Status status = Ask(With(LeafOf(operators_, kOperator + "/operator", now())));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(CredentialsTest, PlainTextIsRefusedAndCounted) {
  EXPECT_EQ(Ask(grpc::InsecureChannelCredentials()).error_code(), grpc::StatusCode::UNAVAILABLE);
  WaitForRefusal(Refusal::kHandshake);
  ExpectOnly(Refusal::kHandshake);
}

TEST_F(CredentialsTest, AnotherAuthorityOfTheSameNameIsRefusedAndCounted) {
  const KeyPair forger = AuthorityOf(kChat, now());
  EXPECT_FALSE(Ask(With(LeafOf(forger, kChat + "/gateway", now()))).ok());
  WaitForRefusal(Refusal::kUnknownAuthority);
  ExpectOnly(Refusal::kUnknownAuthority);
}

TEST_F(CredentialsTest, AnotherServicesMemberIsRefusedAndCounted) {
  // Even if its authority is in the bundle.
  const KeyPair other = AuthorityOf(kOther, now());
  own_.Put(LeafOf(authority_, kChat + "/attention", now()), bundle_ + other.certificate);
  EXPECT_FALSE(Ask(With(LeafOf(other, kOther + "/attention", now()))).ok());
  WaitForRefusal(Refusal::kAnotherService);
  ExpectOnly(Refusal::kAnotherService);
}

TEST_F(CredentialsTest, AnAuthorityCannotNameWhatIsNotItsOwn) {
  EXPECT_FALSE(Ask(With(LeafOf(operators_, kChat + "/attention", now()))).ok());
  WaitForRefusal(Refusal::kIdentity);
  EXPECT_FALSE(Ask(With(LeafOf(authority_, kOperator + "/operator", now()))).ok());
  ExpectOnly(Refusal::kIdentity);
}

TEST_F(CredentialsTest, AnExpiredCertificateIsRefusedAndCounted) {
  const KeyPair old = LeafOf(authority_, kChat + "/gateway", now(), std::chrono::minutes(1));
  ASSERT_TRUE(Ask(With(old)).ok());
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_FALSE(Ask(With(old)).ok());
  WaitForRefusal(Refusal::kExpired);
  ExpectOnly(Refusal::kExpired);
}

TEST_F(CredentialsTest, AClientRefusesAServerOfAnotherServiceAndOneThatIsNoWorker) {
  const KeyPair other = AuthorityOf(kOther, now());
  const TrustOnDisk theirs(LeafOf(other, kOther + "/gateway", now()), other.certificate + bundle_);
  const auto trust = TrustFolder::Open(theirs.path(), clock_, refusals_).value();
  EXPECT_EQ(Ask(trust->Channel()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GT(refusals_.of(Refusal::kAnotherService), 0u);
  own_.Put(Of(PeerRole::kGateway), bundle_);
  // Until the server has noticed its new files.
  while (refusals_.of(Refusal::kRole) == 0) Ask(trust_->Channel());
}

// Like an attention instance, which relays the operator's calls to other members.
TEST_F(CredentialsTest, AServerThatCallsOthersTooShowsItsNewCertificate) {
  const auto stub = v1::Control::NewStub(DialInstance(address(), trust_->Channel()));
  grpc::ClientContext context;
  v1::GetTopologyReply reply;
  ASSERT_TRUE(stub->GetTopology(&context, {}, &reply).ok());
  own_.Put(Of(PeerRole::kGateway), bundle_);
  // A client does not accept a gateway's certificate from a server.
  const auto deadline = std::chrono::steady_clock::now() + Scaled(std::chrono::minutes(1));
  while (refusals_.of(Refusal::kRole) == 0) {
    Ask(trust_->Channel());
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it shows its first certificate still";
  }
}

TEST_F(CredentialsTest, FilesAreReplacedUnderAStreamAndNoCallFails) {
  const TrustOnDisk theirs(Of(PeerRole::kGateway), bundle_);
  const auto trust = TrustFolder::Open(theirs.path(), clock_, refusals_).value();
  const auto stub = v1::Control::NewStub(DialInstance(address(), trust->Channel()));
  grpc::ClientContext context;
  const auto stream = stub->WatchTopology(&context, {});
  v1::GetTopologyReply reply;
  ASSERT_TRUE(stream->Read(&reply));

  // Steps of replacing an authority: the new one is added to every bundle, then new leaves, then
  // the old one is removed.
  const KeyPair next = AuthorityOf(kChat, now());
  const KeyPair gateway = LeafOf(next, kChat + "/gateway", now());
  const KeyPair attention = LeafOf(next, kChat + "/attention", now());
  TrustOnDisk& mine = const_cast<TrustOnDisk&>(theirs);
  const std::string both = bundle_ + next.certificate;
  own_.Put(Of(PeerRole::kAttention), both);
  mine.Put(Of(PeerRole::kGateway), both);
  EXPECT_TRUE(Ask(trust->Channel()).ok());
  mine.Put(gateway, both);
  while (control_.last() != gateway.certificate) ASSERT_TRUE(Ask(trust->Channel()).ok());
  own_.Put(attention, both);
  mine.Put(gateway, next.certificate);
  // Refuses its peer until that presents its new certificate.
  while (!Ask(trust->Channel()).ok()) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream->Read(&reply)) << "the stream was cut";
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// The callers in the table of proto/README.md: every call, every role.
TEST_F(CredentialsTest, EveryCallIsTakenFromItsCallersAlone) {
  const KeyPair by_role[] = {LeafOf(operators_, kOperator + "/operator", now()),
                             Of(PeerRole::kGateway), Of(PeerRole::kAttention),
                             Of(PeerRole::kExperts)};
  uint64_t refused = 0;
  for (const PeerRole role :
       {PeerRole::kOperator, PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts}) {
    const auto channel = DialInstance(address(), With(by_role[static_cast<size_t>(role)]));
    for (const CallRule& rule : CallRules()) {
      SCOPED_TRACE(std::string(ToString(role)) + " " + std::string(rule.path));
      const bool may =
          std::find(rule.callers.begin(), rule.callers.end(), role) != rule.callers.end();
      grpc::ClientContext context;
      grpc::Status status;
      const std::string path(rule.path);
      if (path.ends_with("Attach")) {
        const auto stream = v1::Tokens::NewStub(channel)->Attach(&context);
        stream->WritesDone();
        status = stream->Finish();
      } else if (path.ends_with("WatchTopology")) {
        const auto stream = v1::Control::NewStub(channel)->WatchTopology(&context, {});
        v1::GetTopologyReply reply;
        if (stream->Read(&reply)) context.TryCancel();
        status = stream->Finish();
        if (status.error_code() == grpc::StatusCode::CANCELLED) status = grpc::Status::OK;
      } else {
        // For any call, the service answers that it is unimplemented, and the check that it is not
        // permitted.
        const auto stub = v1::Control::NewStub(channel);
        v1::CommitReply commit;
        v1::AbortReply abort;
        v1::DrainReply drain;
        v1::SupersedeReply supersede;
        v1::GetTopologyReply topology;
        v1::Statistics statistics;
        v1::DescribeModelReply model;
        v1::PrepareProgress progress;
        if (path.ends_with("Prepare")) status = stub->Prepare(&context, {})->Finish();
        if (path.ends_with("Commit")) status = stub->Commit(&context, {}, &commit);
        if (path.ends_with("Abort")) status = stub->Abort(&context, {}, &abort);
        if (path.ends_with("Drain")) status = stub->Drain(&context, {}, &drain);
        if (path.ends_with("Supersede")) status = stub->Supersede(&context, {}, &supersede);
        if (path.ends_with("/GetTopology")) status = stub->GetTopology(&context, {}, &topology);
        if (path.ends_with("DescribeModel")) status = stub->DescribeModel(&context, {}, &model);
        if (path.ends_with("GetStatistics")) {
          status = stub->GetStatistics(&context, {}, &statistics);
        }
      }
      refused += !may;
      EXPECT_EQ(status.error_code() == grpc::StatusCode::PERMISSION_DENIED, !may)
          << status.error_message();
      EXPECT_TRUE(!may || status.ok() || status.error_code() == grpc::StatusCode::UNIMPLEMENTED)
          << status.error_message();
      EXPECT_EQ(refusals_.of(Refusal::kRole), refused);
    }
  }
  EXPECT_EQ(refused, 13u);
}

TEST(CallRulesTest, EveryCallThereIsHasARow) {
  for (const google::protobuf::ServiceDescriptor* const service :
       {v1::GetTopologyRequest::descriptor()->file()->FindServiceByName("Control"),
        v1::ToAttention::descriptor()->file()->FindServiceByName("Tokens")}) {
    ASSERT_NE(service, nullptr);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string path = "/" + service->full_name() + "/" + service->method(i)->name();
      EXPECT_EQ(std::count_if(CallRules().begin(), CallRules().end(),
                              [&](const CallRule& rule) { return rule.path == path; }),
                1)
          << path;
    }
  }
  EXPECT_FALSE(MayCall("/janus.v1.Control/Unheard", PeerRole::kOperator));
}

class TrustFolderTest : public testing::Test {
 protected:
  Status Open(const std::string& path) {
    return TrustFolder::Open(path, clock_, refusals_).status();
  }
  FakeClock clock_;
  MetricRegistry registry_;
  RefusalCounts refusals_{registry_};
  const KeyPair authority_ = AuthorityOf(kChat, clock_.WallNow());
  const KeyPair leaf_ = LeafOf(authority_, kChat + "/experts", clock_.WallNow());
};

TEST_F(TrustFolderTest, SaysWhoItIs) {
  const TrustOnDisk disk(leaf_, authority_.certificate);
  const auto trust = TrustFolder::Open(disk.path(), clock_, refusals_);
  ASSERT_TRUE(trust.ok()) << trust.status().message();
  EXPECT_EQ((*trust)->identity(), (Identity{kChat, PeerRole::kExperts}));
}

TEST_F(TrustFolderTest, TellsOfTheCertificateThatIsThereNow) {
  TrustOnDisk disk(leaf_, authority_.certificate);
  const auto trust = TrustFolder::Open(disk.path(), clock_, refusals_);
  ASSERT_TRUE(trust.ok()) << trust.status().message();
  TellCertificate(*trust, registry_);
  const auto told = [&](const std::string& name) -> std::optional<double> {
    for (const MetricFamily& family : registry_.Collect()) {
      if (family.name == name) return family.series.at(0).value;
    }
    return {};
  };
  const auto seconds = [](WallTime time) { return Seconds(time.time_since_epoch()).count(); };
  const std::string begin = "janus_certificate_not_before_timestamp_seconds";
  const std::string end = "janus_certificate_not_after_timestamp_seconds";
  const WallTime now = clock_.WallNow();  // certificates have whole seconds
  EXPECT_NEAR(told(begin).value(), seconds(now - std::chrono::minutes(5)), 1);
  EXPECT_NEAR(told(end).value(), seconds(now + 90 * kDay), 1);
  disk.Put(LeafOf(authority_, kChat + "/experts", now, kDay), authority_.certificate);
  EXPECT_NEAR(told(end).value(), seconds(now + kDay), 1);
  disk.Put({"no certificate", leaf_.key}, authority_.certificate);
  EXPECT_FALSE(told(begin) || told(end));
}

TEST_F(TrustFolderTest, NamesTheFileThatIsMissing) {
  TempFolder empty;
  EXPECT_TRUE(Contains(Open(empty.path()).message(), empty.path() + "/tls.crt"));
  EXPECT_TRUE(Contains(Open(empty.path()).message(), "--trust holds"));
  empty.Write("tls.crt", leaf_.certificate);
  EXPECT_TRUE(Contains(Open(empty.path()).message(), "/tls.key"));
  empty.Write("tls.key", leaf_.key);
  EXPECT_TRUE(Contains(Open(empty.path()).message(), "/ca.crt"));
}

TEST_F(TrustFolderTest, NamesWhatIsWrong) {
  const auto with = [&](const KeyPair& own, const std::string& bundle) {
    return Open(TrustOnDisk(own, bundle).path()).message();
  };
  const std::string& ca = authority_.certificate;
  EXPECT_TRUE(Contains(with({"nonsense", leaf_.key}, ca), "the certificate is not PEM"));
  EXPECT_TRUE(Contains(with({leaf_.certificate, "nonsense"}, ca), "the private key is not PEM"));
  EXPECT_TRUE(Contains(with({leaf_.certificate, authority_.key}, ca), "is not the one of"));
  EXPECT_TRUE(Contains(with(leaf_, "nonsense"), "ca.crt: certificate 1 is not PEM"));
  EXPECT_TRUE(Contains(with(leaf_, ca + "-----BEGIN CERTIFICATE-----\n"), "certificate 2"));
  EXPECT_TRUE(Contains(with(leaf_, leaf_.certificate), "not one of an authority"));
  EXPECT_TRUE(Contains(with(leaf_, AuthorityOf(kChat, clock_.WallNow()).certificate),
                       "unable to get local issuer certificate"));
  EXPECT_TRUE(Contains(with(LeafOf(authority_, kOther + "/experts", clock_.WallNow()), ca),
                       "is no name that"));
  clock_.Advance(91 * kDay);
  EXPECT_TRUE(Contains(with(leaf_, ca), "certificate has expired"));
}

TEST(IdentityTest, ReadsBothFormsAndNothingElse) {
  EXPECT_EQ(ParseIdentity(kChat + "/gateway"), (Identity{kChat, PeerRole::kGateway}));
  EXPECT_EQ(ParseIdentity(kOperator + "/operator"), (Identity{kOperator, PeerRole::kOperator}));
  for (const std::string& wrong :
       {kChat, kChat + "/operator", kOperator + "/gateway", kChat + "/gateway/",
        kChat + "//gateway", kChat + "/Gateway",
        std::string("https://cluster.local/ns/a/moeservice/b/gateway"),
        std::string("spiffe:///ns/a/moeservice/b/gateway"), std::string("spiffe://"),
        std::string("spiffe://x/ns/a%2f/moeservice/b/gateway"), std::string()}) {
    EXPECT_EQ(ParseIdentity(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace janus
