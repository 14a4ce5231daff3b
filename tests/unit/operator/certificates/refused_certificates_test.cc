#include <gtest/gtest.h>

#include <functional>

#include "tests/support/contains.h"
#include "tests/support/kube/passing_api.h"
#include "tests/support/reconcile/certified_service.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

// An admission webhook refuses Secrets with certain names.
class Webhook final : public PassingApi {
 public:
  using PassingApi::PassingApi;

  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override {
    if (Refuses(resource, KeyOf(object).name)) return Refusal();
    return PassingApi::Create(resource, object, options, limits);
  }
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override {
    if (Refuses(resource, KeyOf(object).name)) return Refusal();
    return PassingApi::Update(resource, object, subresource, options, limits);
  }
  ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                        const Node& patch, Subresource subresource, const WriteOptions& options,
                        const CallLimits& limits) override {
    if (Refuses(resource, key.name)) return Refusal();
    return PassingApi::Patch(resource, key, kind, patch, subresource, options, limits);
  }
  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override {
    if (refuses_reads && Refuses(resource, key.name)) return Refusal();
    return PassingApi::Get(resource, key, subresource, limits);
  }

  std::string refused;  // prefix of refused names; empty: refuse none
  bool refuses_reads = false;
  mutable int asked = 0;  // requests for refused names
  int http_status = 403;
  bool is_policy = false;  // a ValidatingAdmissionPolicy with the API server's text

 private:
  static constexpr std::string_view kPolicy =
      R"({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid",)"
      R"( "message": "secrets \"x\" is forbidden: ValidatingAdmissionPolicy 'keys' with binding)"
      R"( 'keys' denied request: no", "details": {"kind": "secrets", "causes": [{"message":)"
      R"( "ValidatingAdmissionPolicy 'keys' with binding 'keys' denied request: no"}]}})";
  bool Refuses(const Resource& resource, const std::string& name) const {
    const bool refuses =
        resource.plural == "secrets" && !refused.empty() && name.starts_with(refused);
    asked += refuses;
    return refuses;
  }
  ApiError Refusal() const {
    if (is_policy) return ErrorOfReply(422, kPolicy, std::nullopt);
    return ErrorOfReply(http_status,
                        R"({"kind": "Status", "apiVersion": "v1", "status": "Failure",)"
                        R"( "message": "admission webhook \"keys.example\" denied the request"})",
                        std::nullopt);
  }
};

// Leaves last two minutes and are renewed after 80 s. All writes pass the webhook.
struct RefusedCertificates : testing::Test {
  RefusedCertificates() { sim.RestartOperator(&webhook); }
  void Start() {
    sim.Apply(1, 2);
    sim.RunUntil("Ready");
    started = sim.timeline.Now();
  }
  void RunTo(Seconds since_start) { sim.Run(since_start - (sim.timeline.Now() - started)); }
  void Lose(Role role) {
    ASSERT_TRUE(sim.user.Delete(kPods, {"default", sim.Pods(role)[0].name}, {}, kLimits).ok());
  }
  int64_t Epoch() { return sim.Topology()->spec.committed->epoch; }

  CertifiedDemo sim;
  Webhook webhook{sim.operator_client};
  MonotonicTime started;
};

TEST_F(RefusedCertificates, OfTheAuthorityStopNothingWhileThoseThereAreAreValid) {
  Start();
  const std::string before = sim.Field("experts", "tls.crt");
  webhook.refused = "janus-authority-";
  RunTo(Seconds(90));
  EXPECT_EQ(sim.Field("experts", "tls.crt"), before);
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  EXPECT_TRUE(Contains(sim.MessageOf("Progressing"), "keys.example")) << "the server's words";
  EXPECT_TRUE(Contains(sim.MessageOf("Progressing"), "are valid until 1970-01-01T"));
  EXPECT_EQ(sim.Condition("Stalled"), "False/Reconciling");
  EXPECT_EQ(sim.op().CountEvents("CertificatesRefused"), 1);
  sim.ExpectWhole(1, 2);

  Lose(Role::kExperts);
  sim.Patch(R"({"spec":{"roles":{"attention":{"replicas":2}}}})");
  sim.Run(Seconds(15));
  sim.ExpectWhole(2, 2);

  webhook.refused = "";
  sim.Run(Seconds(60));
  EXPECT_NE(sim.Field("experts", "tls.crt"), before);
  EXPECT_EQ(sim.Condition("Progressing"), "True/Complete");
}

TEST_F(RefusedCertificates, OfTheAuthorityStopEverythingWhenTheLastOneHasRunOut) {
  Start();
  webhook.refused = "janus-";
  RunTo(Seconds(125));
  const int64_t epoch = Epoch();
  Lose(Role::kExperts);
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 1u);
  EXPECT_EQ(Epoch(), epoch);
  EXPECT_TRUE(Contains(sim.MessageOf("Progressing"),
                       "no valid certificate is there for attention and experts, whose pods wait"))
      << sim.MessageOf("Progressing");
  webhook.refused = "";
  sim.Run(Seconds(120));
  sim.ExpectWhole(1, 2);
  EXPECT_TRUE(sim.Judge("experts", sim.Field("attention", "ca.crt")).is_accepted);
}

TEST_F(RefusedCertificates, OfOneRoleStopThatRoleAloneAndOnlyWhenItsLastOneHasRunOut) {
  Start();
  const std::string before = sim.Field("attention", "tls.crt");
  webhook.refused = "demo-experts-tls";
  RunTo(Seconds(90));
  EXPECT_NE(sim.Field("attention", "tls.crt"), before) << "the others are renewed";
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  Lose(Role::kExperts);
  sim.Run(Seconds(15));
  sim.ExpectWhole(1, 2);

  RunTo(Seconds(125));
  const int64_t epoch = Epoch();
  Lose(Role::kAttention);
  sim.Run(Seconds(15));
  sim.ExpectWhole(1, 2);
  EXPECT_GT(Epoch(), epoch) << "whom we can call is called";
  Lose(Role::kExperts);
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 1u);
  EXPECT_TRUE(Contains(sim.MessageOf("Progressing"), "is there for experts, whose pods wait"));
  webhook.refused = "";
  sim.Run(Seconds(120));
  sim.ExpectWhole(1, 2);
}

// A serving service has a pass every few seconds.
TEST(RefusedCertificatesOfMonths, AreAskedForAgainWithPausesThatGrow) {
  CertifiedDemo sim(std::chrono::hours(1000), std::chrono::hours(100));
  Webhook webhook(sim.operator_client);
  sim.RestartOperator(&webhook);
  sim.Apply(1, 1);
  sim.RunUntil("Ready");
  webhook.refused = "demo-experts-tls";
  sim.Run(Seconds(3610));  // until Secrets, which are never read, are rewritten
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  const int before = webhook.asked;
  sim.Run(Seconds(1200));
  EXPECT_LE(webhook.asked - before, 12);
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused") << "and it is still said";
  webhook.refused = "";
  sim.Run(Seconds(310));
  EXPECT_EQ(sim.Condition("Progressing"), "True/Complete");
}

// The condition must not report a foreign Secret: its remedy, deleting the Secret, would be wrong.
TEST_F(RefusedCertificates, ByAPolicyAreToldInItsWords) {
  Start();
  webhook.refused = "demo-experts-tls";
  webhook.is_policy = true;
  RunTo(Seconds(90));
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  EXPECT_TRUE(Contains(sim.MessageOf("Progressing"), "ValidatingAdmissionPolicy 'keys'"))
      << sim.MessageOf("Progressing");
  EXPECT_EQ(sim.op().CountEvents("AdoptRefused"), 0);
  sim.ExpectWhole(1, 2);
}

TEST_F(RefusedCertificates, AtTheBeginningOneRoleWaits) {
  webhook.refused = "demo-experts-tls";
  webhook.http_status = 422;  // as some webhooks answer
  sim.Apply(1, 2);
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Pods(Role::kAttention).size(), 1u);
  EXPECT_EQ(sim.Pods(Role::kExperts).size(), 0u);
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  EXPECT_EQ(sim.op().CountEvents("AdoptRefused"), 0);
  webhook.refused = "";
  sim.Run(Seconds(60));
  sim.ExpectWhole(1, 2);
}

TEST_F(RefusedCertificates, ANewAuthorityThatIsRefusedIsAskedForUntilItIsThere) {
  webhook.refused = "janus-authority-";
  sim.Apply(1, 2);
  sim.Run(Seconds(20));
  EXPECT_TRUE(sim.List(kPods).empty());
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  webhook.refused = "";
  sim.RunUntil("Ready");
}

// A new process does not know the Secrets' content, but knows that pods have started with them.
TEST_F(RefusedCertificates, ToAnotherProcessStopNothing) {
  Start();
  webhook.refused = "demo-";
  sim.keeper->ForgetAll();
  sim.RestartOperator(&webhook);
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
  Lose(Role::kExperts);
  sim.Run(Seconds(15));
  sim.ExpectWhole(1, 2);
}

TEST_F(RefusedCertificates, ToBeReadStopNoCalls) {
  Start();
  webhook.refused = "janus-";
  webhook.refuses_reads = true;
  sim.keeper->ForgetAll();
  Lose(Role::kExperts);
  sim.Run(Seconds(15));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.Condition("Progressing"), "False/CertificatesRefused");
}

TEST_F(RefusedCertificates, WhoseReplyWasLostAreReadBeforeTheyAreWrittenAgain) {
  Start();
  // Another process writes the Secret, as if our write had lost its reply.
  CertificateOptions options;
  options.ns = "janus";
  options.lifetimes = sim.keeper->lifetimes();
  CertificateKeeper other(options);
  sim.timeline.Pass(Seconds(90));
  ASSERT_TRUE(other
                  .Keep(sim.operator_client, {{"default", "demo"}, sim.Uid()},
                        sim.timeline.WallNow(), kLimits)
                  .ok());
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.op().CountEvents("CertificatesRefused"), 0) << "a conflict is no refusal";
  const auto theirs = other.ForCalls(sim.Uid()), ours = sim.keeper->ForCalls(sim.Uid());
  EXPECT_EQ(*(*theirs)->own, *(*ours)->own) << "both go on with the same";
}

// Authorities last 600 s and get a successor after 400 s. The signer changes when every role has
// had the new one in its bundle for a minute.
TEST(RefusedAuthority, ThatARoleHasNotHeardOfSignsNothing) {
  CertifiedDemo sim(Seconds(600), Seconds(500));
  Webhook webhook(sim.operator_client);
  sim.RestartOperator(&webhook);
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  const auto everybody_is_taken = [&] {
    for (const std::string by : {"gateway", "attention", "experts"}) {
      const std::string bundle = sim.Field(by, "ca.crt");
      for (const std::string who : {"gateway", "attention", "experts"}) {
        ASSERT_TRUE(sim.Judge(who, bundle).is_accepted) << who << " by " << by;
      }
      const auto caller = sim.keeper->ForCalls(sim.Uid());
      ASSERT_TRUE(TrustBundle::Parse(bundle)
                      .value()
                      ->Judge((*caller)->own->certificate, sim.timeline.WallNow())
                      .is_accepted)
          << "the operator by " << by;
    }
  };
  const std::string old = sim.Field("experts", "ca.crt");
  sim.Run(Seconds(380));
  std::optional<MonotonicTime> heard, signed_by_new;
  sim.on_step = [&] {
    everybody_is_taken();
    const MonotonicTime now = sim.timeline.Now();
    if (!heard && sim.Field("experts", "ca.crt") != old) heard = now;
    if (!signed_by_new && !sim.Judge("gateway", old).is_accepted) signed_by_new = now;
  };
  webhook.refused = "demo-experts-tls";
  sim.Run(Seconds(90));
  EXPECT_NE(sim.Field("gateway", "ca.crt"), old);
  EXPECT_EQ(sim.Field("experts", "ca.crt"), old);
  EXPECT_TRUE(sim.Judge("gateway", old).is_accepted) << "after its time, were it not refused";
  webhook.refused = "";
  // The pause after the last failures, plus the minute.
  sim.Run(Seconds(120));
  ASSERT_TRUE(heard && signed_by_new);
  EXPECT_GE(*signed_by_new - *heard, std::chrono::seconds(60)) << "machines hear of it later";
  EXPECT_EQ(sim.Condition("Progressing"), "True/Complete");
}

}  // namespace
}  // namespace janus::control
