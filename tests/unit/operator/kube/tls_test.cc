#include <gtest/gtest.h>

#include "operator/kube/client.h"
#include "tests/support/contains.h"
#include "tests/support/kube/scripted_server.h"
#include "tests/support/passing_timeline.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

const Resource kPods{"", "v1", "pods", "Pod", true};

bool AnswerPod(const SeenRequest&, Peer& peer) {
  peer.Reply(200, R"({"kind":"Pod"})");
  return true;
}

class TlsTest : public testing::Test {
 protected:
  TlsTest()
      : server_(AnswerPod, authority_.Issue("server", "IP:127.0.0.1,DNS:api.test"), authority_) {
    config_ = server_.config();
    config_.ca.text = authority_.pem();
  }
  // "OK", or the error.
  std::string Get(KubeClient& client) {
    return client.Get(kPods, {"prod", "a"}, Subresource::kNone, {}).status().ToString();
  }
  std::string GetOnce() {
    KubeClient client(config_, {}, timeline_);
    return Get(client);
  }

  TestAuthority authority_;
  TestAuthority other_;
  PassingTimeline timeline_;
  ScriptedServer server_;
  ClusterConfig config_;
};

TEST_F(TlsTest, TrustsItsCaAndKeepsTheConnection) {
  KubeClient client(config_, {}, timeline_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Get(client), "OK");
  EXPECT_EQ(server_.requests().back().connection, 0);
}

TEST_F(TlsTest, AServerOfAnotherCaIsNotSpokenTo) {
  config_.ca.text = other_.pem();
  const std::string refusal = GetOnce();
  EXPECT_TRUE(Contains(refusal, "FailedPrecondition: 127.0.0.1: certificate: ")) << refusal;
  config_.ca.text.clear();  // the system's roots
  EXPECT_TRUE(Contains(GetOnce(), "FailedPrecondition: "));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(TlsTest, AnIntermediateCaIsTrustedForItself) {
  const TestAuthority intermediate(authority_);
  server_.Present(intermediate.Issue("server", "IP:127.0.0.1"));  // without the intermediate
                                                                  // certificate
  config_.ca.text = intermediate.pem();
  EXPECT_EQ(GetOnce(), "OK");
  // Other certificates are not trusted: the root's, or one of another intermediate with the same
  // root and name.
  server_.Present(authority_.Issue("server", "IP:127.0.0.1"));
  EXPECT_TRUE(Contains(GetOnce(), "certificate: "));
  server_.Present(TestAuthority(authority_).Issue("server", "IP:127.0.0.1"));
  EXPECT_TRUE(Contains(GetOnce(), "certificate: "));
}

TEST_F(TlsTest, TheNameInTheCertificateMustBeTheServers) {
  server_.Present(authority_.Issue("server", "DNS:api.test"));
  EXPECT_TRUE(Contains(GetOnce(), "IP address mismatch"));
  config_.tls_server_name = "api.test";
  EXPECT_EQ(GetOnce(), "OK");
  config_.tls_server_name = "other.test";
  EXPECT_TRUE(Contains(GetOnce(), "127.0.0.1 (other.test): certificate: hostname mismatch"));
}

TEST_F(TlsTest, VerificationCanBeSwitchedOffAndIsOnOtherwise) {
  server_.Present(other_.Issue("server", ""));
  EXPECT_TRUE(Contains(GetOnce(), "FailedPrecondition"));
  config_.ca.text.clear();
  config_.insecure_skip_tls_verify = true;
  EXPECT_EQ(GetOnce(), "OK");
}

TEST_F(TlsTest, TheClientsCertificateIsShown) {
  const Certificate ours = authority_.Issue("janus", "");
  config_.client_certificate.text = ours.pem;
  config_.client_key.text = ours.key;
  EXPECT_EQ(GetOnce(), "OK");
  EXPECT_EQ(server_.requests().back().client_name, "janus");
}

TEST_F(TlsTest, BadCertificatesAreNamed) {
  const Certificate ours = authority_.Issue("janus", "");
  config_.client_certificate.text = ours.pem;
  config_.client_key.text = authority_.Issue("other", "").key;
  EXPECT_TRUE(Contains(GetOnce(), "test: the client key is not of the certificate"));
  config_.client_key.text = "-----BEGIN nothing";
  EXPECT_TRUE(Contains(GetOnce(), "test: the client key cannot be read"));
  config_.ca.text = "-----BEGIN nothing";
  EXPECT_TRUE(Contains(GetOnce(), "test: the CA's PEM holds no certificate"));
}

TEST_F(TlsTest, ARotatedCaIsTakenUpWithoutARestart) {
  const TempFolder folder;
  folder.Write("ca.crt", authority_.pem());
  config_.ca = {"", folder.path() + "/ca.crt"};
  KubeClient client(config_, {}, timeline_);
  EXPECT_EQ(Get(client), "OK");
  server_.Present(other_.Issue("server", "IP:127.0.0.1"));
  EXPECT_EQ(Get(client), "OK");  // on the existing connection
  timeline_.Advance(Seconds(61));
  EXPECT_TRUE(Contains(Get(client), "certificate: "));
  folder.Write("ca.crt", authority_.pem() + other_.pem());
  EXPECT_EQ(Get(client), "OK");  // an untrusted server makes the client reload at once
}

TEST_F(TlsTest, AnIdleConnectionThatTheServerClosedIsNotWrittenTo) {
  ScriptedServer closing(
      [](const SeenRequest&, Peer& peer) {
        peer.Reply(200, R"({"kind":"Pod"})");
        return false;
      },
      authority_.Issue("server", "IP:127.0.0.1"), authority_);
  config_.port = closing.port();
  KubeClient client(config_, {}, timeline_);
  Node pod = Node::Map();
  SetAt(pod, {"metadata", "name"}, Node::String("a"));
  SetAt(pod, {"metadata", "namespace"}, Node::String("prod"));
  for (int i = 0; i < 3; ++i) {
    const ApiResult<Node> created = client.Create(kPods, pod, {}, {});
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    closing.WaitUntilClosed();
  }
  EXPECT_EQ(closing.requests().size(), 3u) << "none was sent twice";
}

TEST_F(TlsTest, AWatchOverTlsIsCutAndStopped) {
  std::stop_source stop;
  ScriptedServer watched(
      [&](const SeenRequest& request, Peer& peer) {
        peer.BeginChunks();
        if (request.connection == 1) stop.request_stop();
        peer.HoldUntilClosed();
        return false;
      },
      authority_.Issue("server", "IP:127.0.0.1"), authority_);
  config_.port = watched.port();
  KubeClientOptions options;
  const SystemTimeline real_time;
  WatchOptions watch;
  watch.resource_version = "1";
  const auto run = [&](Seconds silence) {
    options.watch_silence = silence;
    KubeClient client(config_, options, real_time);
    return client.Watch(
        kPods, watch, [](const WatchEvent&) { return true; }, stop.get_token());
  };
  EXPECT_EQ(*run(Scaled(Seconds(1))), WatchEnd::kSilence);
  EXPECT_EQ(run(Seconds(600)).error().code, StatusCode::kCancelled);
}

}  // namespace
}  // namespace janus::control
