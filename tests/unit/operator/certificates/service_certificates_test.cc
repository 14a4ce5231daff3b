#include <gtest/gtest.h>

#include <set>

#include "common/base64.h"
#include "operator/api/json.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/worker_pod.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/certified_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;
const std::string kDemo = ServiceAuthority("cluster.local", "default", "demo");

TEST(ServiceCertificates, EveryRoleHasItsSecretBeforeItsPods) {
  CertifiedDemo sim;
  sim.on_step = [&] {
    for (const Node& pod : sim.List(kPods)) {
      const std::string role(TextAt(pod, {"metadata", "labels", kRoleLabel}));
      EXPECT_NE(sim.Field(role, "tls.key"), "") << role;
    }
  };
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  for (const PeerRole role : {PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts}) {
    const std::string name(ToString(role));
    const PeerVerdict verdict = sim.Judge(name, sim.Field(name, "ca.crt"));
    EXPECT_TRUE(verdict.is_accepted) << verdict.message;
    EXPECT_EQ(verdict.identity, (Identity{kDemo, role}));
    EXPECT_TRUE(CheckKeyPair(sim.Field(name, "tls.crt"), sim.Field(name, "tls.key")).ok());
    const Node secret = *sim.Get(kSecrets, TlsSecretName("demo", name));
    EXPECT_TRUE(IsControlledBy(secret, sim.Uid()));
  }
  for (const Node& pod : sim.List(kPods)) {
    const std::string role(TextAt(pod, {"metadata", "labels", kRoleLabel}));
    std::set<std::string> secrets;
    for (const Node& volume : FindAt(pod, {"spec", "volumes"})->items) {
      if (volume.Find("secret")) secrets.emplace(TextAt(volume, {"secret", "secretName"}));
    }
    EXPECT_EQ(secrets, std::set{TlsSecretName("demo", role)});
  }
  EXPECT_EQ(sim.Authorities(), 2u) << "the operator's, and the service's";
  const auto calls = sim.keeper->ForCalls(sim.Uid());
  ASSERT_TRUE(calls.ok() && *calls);
  EXPECT_EQ((*calls)->authority, kDemo);
  const auto workers = TrustBundle::Parse(*(*calls)->bundle).value();
  EXPECT_TRUE(
      workers->Judge(sim.Field("attention", "tls.crt"), sim.timeline.WallNow()).is_accepted);
  // The members accept the operator by its authority.
  const PeerVerdict caller = TrustBundle::Parse(sim.Field("experts", "ca.crt"))
                                 .value()
                                 ->Judge((*calls)->own->certificate, sim.timeline.WallNow());
  EXPECT_TRUE(caller.is_accepted) << caller.message;
  EXPECT_EQ(caller.identity.role, PeerRole::kOperator);
  EXPECT_FALSE(workers->Judge((*calls)->own->certificate, sim.timeline.WallNow()).is_accepted)
      << "an operator is no worker";
  EXPECT_EQ(TextAt(sim.Service(), {"status", "effective", "tls"}), "Enabled");
}

TEST(ServiceCertificates, AreRenewedAndANewAuthorityIsEverywhereBeforeItsFirstLeaf) {
  CertifiedDemo sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  std::set<std::string> leaves, bundles;
  // The bundle of a machine that got the Secret half a minute ago.
  std::vector<std::pair<WallTime, std::string>> heard;
  sim.on_step = [&] {
    const std::string bundle = sim.Field("experts", "ca.crt");
    if (leaves.insert(sim.Field("attention", "tls.crt")).second || bundles.insert(bundle).second) {
      for (const auto& [when, old] : heard) {
        if (sim.timeline.WallNow() - when > std::chrono::seconds(30)) continue;
        EXPECT_TRUE(sim.Judge("attention", old).is_accepted);
      }
    }
    heard.emplace_back(sim.timeline.WallNow(), bundle);
  };
  sim.Run(Seconds(1500));
  EXPECT_GE(leaves.size(), 12u);
  EXPECT_GE(bundles.size(), 6u) << "two authorities come and two go, of two kinds";
  EXPECT_TRUE(sim.Judge("attention", sim.Field("gateway", "ca.crt")).is_accepted);
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "renewal restarts nobody";
}

TEST(ServiceCertificates, AnotherProcessGoesOnWithWhatIsThere) {
  CertifiedDemo sim;
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const std::string before = sim.Field("gateway", "tls.crt");
  ASSERT_TRUE(sim.user.Delete(kSecrets, {"default", "demo-gateway-tls"}, {}, kLimits).ok());
  sim.keeper->ForgetAll();
  sim.RestartOperator();
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Field("gateway", "tls.crt"), before);
}

TEST(ServiceCertificates, ThatAreDeletedAreThereAgainWithinAnHour) {
  CertifiedDemo sim(std::chrono::hours(1000), std::chrono::hours(100));
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const std::string before = sim.Field("gateway", "tls.crt");
  ASSERT_TRUE(sim.user.Delete(kSecrets, {"default", "demo-gateway-tls"}, {}, kLimits).ok());
  sim.Run(Seconds(3610));
  EXPECT_EQ(sim.Field("gateway", "tls.crt"), before);
}

TEST(ServiceCertificates, ThatAreDeletedAreThereAgainBeforeANewPodNeedsThem) {
  CertifiedDemo sim(std::chrono::hours(1000), std::chrono::hours(100));
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  sim.Run(Seconds(60));
  ASSERT_TRUE(sim.user.Delete(kSecrets, {"default", "demo-experts-tls"}, {}, kLimits).ok());
  sim.on_step = [&] {
    if (sim.cluster.pods_ever().size() > 2) {
      EXPECT_NE(sim.Field("experts", "tls.crt"), "");
    }
  };
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.Field("experts", "tls.crt"), "") << "nothing needs it yet";
  sim.Apply(1, 2);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u);
  sim.ExpectWhole(1, 2);

  // Or within half a minute, where a pod waits for it already.
  sim.on_step = [] {};
  sim.Apply(1, 3);
  ASSERT_TRUE(sim.user.Delete(kSecrets, {"default", "demo-experts-tls"}, {}, kLimits).ok());
  sim.cluster.FillUp("experts", "0/2 nodes are available");
  sim.Run(Seconds(35));
  EXPECT_NE(sim.Field("experts", "tls.crt"), "");
}

// The keys are read again, and differ from what this process wrote.
TEST(ServiceCertificates, ThatAreDeletedAreThereAgainThoughSomebodyElseHasWrittenTheAuthority) {
  CertifiedDemo sim(std::chrono::hours(1000), std::chrono::hours(100));
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const std::string before = sim.Field("gateway", "tls.crt");
  const Node labelled =
      Object({{"metadata", Object({{"labels", Object({{"by", Text("hand")}})}})}});
  ASSERT_TRUE(sim.user
                  .Patch(kSecrets, {"janus", "janus-authority-" + sim.Uid()}, PatchKind::kMerge,
                         labelled, Subresource::kNone, {}, kLimits)
                  .ok());
  ASSERT_TRUE(sim.user.Delete(kSecrets, {"default", "demo-gateway-tls"}, {}, kLimits).ok());
  sim.Run(Seconds(3610));
  EXPECT_EQ(sim.Field("gateway", "tls.crt"), before);
  sim.ExpectWhole(1, 1);
}

TEST(ServiceCertificates, AreRenewedWhenAskedFor) {
  CertifiedDemo sim(std::chrono::hours(1000), std::chrono::hours(100));
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const std::string old = sim.Field("experts", "ca.crt");
  const std::string key = sim.Field("experts", "tls.key");
  sim.Patch(R"({"metadata":{"annotations":{"serving.janus.dev/certificatesRenewedAt":"today"}}})");
  sim.Run(Seconds(5));
  EXPECT_NE(sim.Field("experts", "tls.key"), key);
  EXPECT_TRUE(sim.Judge("experts", old).is_accepted);
  sim.Run(Seconds(200));
  EXPECT_FALSE(sim.Judge("experts", old).is_accepted);
  const std::string now = sim.Field("experts", "ca.crt");
  EXPECT_FALSE(Contains(now, old.substr(0, old.find("-----END")))) << "the old one is gone";
  EXPECT_TRUE(sim.Judge("gateway", now).is_accepted);
  sim.ExpectWhole(1, 1);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 2u);
}

TEST(ServiceCertificates, OfCallersHaveAnotherVersionWhenTheyAreRenewedAndOnlyThen) {
  CertifiedDemo sim;
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const uint64_t first = (*sim.keeper->ForCalls(sim.Uid()))->version;
  sim.Patch(R"({"spec":{"roles":{"experts":{"replicas":2}}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ((*sim.keeper->ForCalls(sim.Uid()))->version, first);
  sim.Run(Seconds(100));
  EXPECT_NE((*sim.keeper->ForCalls(sim.Uid()))->version, first);
}

TEST(ServiceCertificates, GoWithTheService) {
  CertifiedDemo sim;
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  sim.Delete();
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Authorities(), 1u) << "the operator's stays";
  EXPECT_FALSE(sim.Get(kSecrets, "demo-gateway-tls"));
}

TEST(ServiceCertificates, OfAServiceThatWentWhileNobodyLedAreSweptAway) {
  CertifiedDemo sim;
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const std::string uid = sim.Uid();
  ASSERT_TRUE(sim.user.Delete(kMoEServices, {"default", "demo"}, {}, kLimits).ok());
  sim.keeper->ForgetAll();
  const auto sweep = [&](bool is_there) {
    const auto known = [&](const CertifiedService& service) {
      EXPECT_EQ(service.key, (ObjectKey{"default", "demo"}));
      EXPECT_EQ(service.uid, uid);
      return is_there;
    };
    return sim.keeper->Sweep(sim.operator_client, known, kLimits).ok();
  };
  EXPECT_TRUE(sweep(true));
  EXPECT_EQ(sim.Authorities(), 2u) << "what is known stays";
  EXPECT_TRUE(sweep(false));
  EXPECT_EQ(sim.Authorities(), 1u);
}

TEST(ServiceCertificates, ASecretOfSomebodyElseIsLeftAlone) {
  CertifiedDemo sim;
  Node theirs = Node::Map();
  SetAt(theirs, {"apiVersion"}, Node::String("v1"));
  SetAt(theirs, {"kind"}, Node::String("Secret"));
  SetAt(theirs, {"type"}, Node::String("kubernetes.io/tls"));
  SetAt(theirs, {"metadata", "name"}, Node::String("demo-experts-tls"));
  SetAt(theirs, {"metadata", "namespace"}, Node::String("default"));
  SetAt(theirs, {"data", "tls.crt"}, Node::String(EncodeBase64("theirs")));
  SetAt(theirs, {"data", "tls.key"}, Node::String(EncodeBase64("theirs")));
  ASSERT_TRUE(sim.user.Create(kSecrets, theirs, {}, kLimits).ok());
  sim.Apply(1, 1);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Field("experts", "tls.crt"), "theirs");
  EXPECT_TRUE(Contains(sim.op().LastText("AdoptRefused"), "demo-experts-tls"));
  EXPECT_EQ(sim.Condition("Progressing"), "False/AdoptRefused");
  sim.Run(Seconds(600));
  EXPECT_LE(sim.op().CountEvents("AdoptRefused"), 12) << "in every pass";
  // Like the Secret of an earlier service of the same name, which is deleted without action.
  ASSERT_TRUE(sim.user.Delete(kSecrets, {"default", "demo-experts-tls"}, {}, kLimits).ok());
  sim.Run(Seconds(320));
  EXPECT_NE(sim.Field("experts", "tls.crt"), "theirs");
  sim.ExpectWhole(1, 1);
}

// We own only its content; additions of others stay.
TEST(ServiceCertificates, AreMendedWithoutTouchingWhatOthersAdded) {
  CertifiedDemo sim(std::chrono::hours(1000), std::chrono::hours(100));
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  const std::string before = sim.Field("gateway", "tls.crt");
  const Node change = *ParseJson(
      R"({"metadata":{"labels":{"by":"hand"}},"data":{"tls.crt":"eA==","other":"eA=="}})", "test");
  const ObjectKey key{"default", "demo-gateway-tls"};
  ASSERT_TRUE(
      sim.user.Patch(kSecrets, key, PatchKind::kMerge, change, Subresource::kNone, {}, kLimits)
          .ok());
  sim.Run(Seconds(3610));
  EXPECT_EQ(sim.Field("gateway", "tls.crt"), before);
  const auto there = sim.user.Get(kSecrets, key, Subresource::kNone, kLimits);
  ASSERT_TRUE(there.ok());
  EXPECT_EQ(TextAt(*there, {"metadata", "labels", "by"}), "hand");
  EXPECT_EQ(TextAt(*there, {"data", "other"}), "");
}

TEST(ServiceCertificates, WithoutTlsThereAreNoneAndStatusSaysSo) {
  CertifiedDemo sim;
  sim.Apply(1, 1, "  security: {tls: Disabled}\n");
  sim.RunUntil("Ready");
  EXPECT_EQ(sim.Authorities(), 0u);
  EXPECT_FALSE(sim.Get(kSecrets, "demo-gateway-tls"));
  EXPECT_EQ(TextAt(sim.Service(), {"status", "effective", "tls"}), "Disabled");
  EXPECT_TRUE(Contains(sim.MessageOf("Ready"), "plain text"));
  const auto calls = sim.keeper->ForCalls(sim.Uid());
  EXPECT_TRUE(calls.ok() && !*calls);
  EXPECT_FALSE(sim.keeper->ForCalls("nobody").ok());
}

}  // namespace
}  // namespace janus::control
