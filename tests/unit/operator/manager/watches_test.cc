#include "operator/manager/watches.h"

#include <gtest/gtest.h>

#include <set>

#include "common/exposition/metrics_text.h"
#include "common/mutex.h"
#include "operator/api/yaml.h"
#include "operator/local/store/store_client.h"
#include "operator/reconcile/objects/names.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

// Informers on a store, and the services that they woke.
class WatchesTest : public testing::Test {
 protected:
  void Begin(const std::vector<std::string>& namespaces, bool reads_nodes = true) {
    watches_ = std::make_unique<Watches>(
        api_, timeline_, WatchesOptions{namespaces, reads_nodes, &registry_},
        [this](const ObjectKey& key) {
          const MutexLock lock(mu_);
          woken_.push_back(key.ToString());
          changed_.NotifyAll();
        },
        [this] {
          const MutexLock lock(mu_);
          changed_.NotifyAll();
        });
    watches_->Start();
    const MutexLock lock(mu_);
    while (!watches_->Synced().ok()) changed_.Wait(mu_);
    woken_.clear();
  }
  ~WatchesTest() override {
    if (watches_) watches_->Stop();
  }

  void Create(const Resource& resource, const std::string& yaml) {
    const ApiResult<Node> made = api_.Create(resource, *ParseYaml(yaml, "test"), {}, kLimits);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  void CreatePod(const std::string& name, const std::string& service, const std::string& node) {
    Create(kPods, "{apiVersion: v1, kind: Pod, metadata: {name: " + name +
                      ", namespace: default, labels: {serving.janus.dev/service: " + service +
                      "}}, spec: {nodeName: " + node +
                      ", containers: [{name: worker, image: w}]}}");
  }
  void Patch(const Resource& resource, const ObjectKey& key, const std::string& yaml,
             Subresource subresource = Subresource::kNone) {
    const ApiResult<Node> patched = api_.Patch(resource, key, PatchKind::kMerge,
                                               *ParseYaml(yaml, "test"), subresource, {}, kLimits);
    ASSERT_TRUE(patched.ok()) << patched.error().message;
  }
  // All woken services in order, up to `last`.
  std::vector<std::string> WokenUpTo(const std::string& last) {
    const MutexLock lock(mu_);
    const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(60));
    while (woken_.empty() || woken_.back() != last) {
      if (!changed_.WaitUntil(mu_, end)) {
        ADD_FAILURE() << last << " is not woken";
        break;
      }
    }
    return std::exchange(woken_, {});
  }

  const SystemTimeline timeline_;
  LocalStore store_{{.limits = {}, .namespaces = {"default", "other", "third"}}, timeline_};
  StoreClient api_{store_, "test"};
  Mutex mu_;
  CondVar changed_;
  std::vector<std::string> woken_ JANUS_GUARDED_BY(mu_);
  MetricRegistry registry_;
  std::unique_ptr<Watches> watches_;
};

const char kNodeA[] = "{apiVersion: v1, kind: Node, metadata: {name: a}}";
const char kNodeB[] = "{apiVersion: v1, kind: Node, metadata: {name: b}}";

TEST_F(WatchesTest, AChangeOfANodeWakesTheServicesThatHavePodsThereAndNobodyForAHeartbeat) {
  Create(kNodes, kNodeA);
  Create(kNodes, kNodeB);
  CreatePod("one", "chat", "a");
  CreatePod("two", "code", "b");
  CreatePod("three", "code", "a");
  Begin({});
  Patch(kNodes, {"", "a"}, "{status: {conditions: [{type: Ready, lastHeartbeatTime: '1'}]}}",
        Subresource::kStatus);
  WokenUpTo("default/code");  // the condition is new
  Patch(kNodes, {"", "a"}, "{status: {conditions: [{type: Ready, lastHeartbeatTime: '2'}]}}",
        Subresource::kStatus);
  Patch(kNodes, {"", "b"}, "{spec: {unschedulable: true}}");
  EXPECT_EQ(WokenUpTo("default/code"), std::vector<std::string>{"default/code"});
  Patch(kNodes, {"", "a"}, "{spec: {unschedulable: true}}");
  // In the order of its pods' names.
  EXPECT_EQ(WokenUpTo("default/code"), (std::vector<std::string>{"default/chat", "default/code"}));
}

TEST_F(WatchesTest, APodThatChangesHandsWakesBothServices) {
  CreatePod("one", "chat", "a");
  Begin({});
  Patch(kPods, {"default", "one"}, "{metadata: {labels: {serving.janus.dev/service: code}}}");
  EXPECT_EQ(WokenUpTo("default/code"), (std::vector<std::string>{"default/chat", "default/code"}));
}

TEST_F(WatchesTest, WhoScalesARoleWakesItsService) {
  Create(kRoleScalers,
         "{apiVersion: serving.janus.dev/v1alpha1, kind: MoERoleScaler, metadata: {name: "
         "chat-experts, namespace: default, labels: {serving.janus.dev/service: chat}}, spec: "
         "{service: chat, role: experts, replicas: 2}}");
  Begin({});
  Patch(kRoleScalers, {"default", "chat-experts"}, "{spec: {replicas: 3}}", Subresource::kScale);
  EXPECT_EQ(WokenUpTo("default/chat"), std::vector<std::string>{"default/chat"});
  const std::optional<Node> kept = watches_->caches().scalers.Get({"default", "chat-experts"});
  ASSERT_TRUE(kept);
  EXPECT_EQ(IntegerAt(*kept, {"spec", "replicas"}), 3);
}

std::string ServiceYaml(const std::string& name, const std::string& ns) {
  return "{apiVersion: v1, kind: Service, metadata: {name: " + name + ", namespace: " + ns +
         ", labels: {serving.janus.dev/service: " + name + "}}, spec: {ports: [{port: 80}]}}";
}

TEST_F(WatchesTest, OneNamespaceIsAllThatIsSeenOfMany) {
  Begin({"other"});
  Create(kServices, ServiceYaml("chat", "default"));
  Create(kServices, ServiceYaml("code", "other"));
  EXPECT_EQ(WokenUpTo("other/code"), std::vector<std::string>{"other/code"});
  EXPECT_EQ(watches_->caches().endpoints.size(), 1u);
}

TEST_F(WatchesTest, OfSeveralNamespacesEachIsSeenAndNoOther) {
  Create(kNodes, kNodeA);
  Create(kServices, ServiceYaml("before", "default"));
  Create(kServices, ServiceYaml("before", "third"));
  Begin({"default", "other"});
  Create(kServices, ServiceYaml("chat", "default"));
  WokenUpTo("default/chat");
  Create(kServices, ServiceYaml("chat", "third"));
  Create(kServices, ServiceYaml("code", "other"));
  EXPECT_EQ(WokenUpTo("other/code"), std::vector<std::string>{"other/code"});
  EXPECT_EQ(
      watches_->caches().endpoints.Keys(),
      (std::vector<ObjectKey>{{"default", "before"}, {"default", "chat"}, {"other", "code"}}));
  EXPECT_EQ(watches_->caches().nodes.size(), 1u) << "of the whole cluster, once";
  // A series for each namespace.
  const std::string page = PrometheusText(registry_.Collect());
  for (const char* ns : {"default", "other"}) {
    EXPECT_NE(page.find("janus_reflector_synced{name=\"services\",namespace=\"" + std::string(ns) +
                        "\"} 1"),
              std::string::npos);
  }
  EXPECT_NE(page.find("janus_reflector_synced{name=\"nodes\"} 1"), std::string::npos) << page;
  int series = 0;
  const std::string begin = "\njanus_reflector_synced{";
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    ++series;
  }
  EXPECT_EQ(CountWatches({"default", "other"}), series) << "what the client has to have room for";
  EXPECT_EQ(CountWatches({}), static_cast<int>(KeptKinds().size()));
}

TEST_F(WatchesTest, WithoutNodesNothingOfTheWholeClusterIsRead) {
  Create(kNodes, "{apiVersion: v1, kind: Node, metadata: {name: a}}");
  Begin({"default"}, /*reads_nodes=*/false);
  EXPECT_EQ(watches_->caches().nodes.size(), 0u);
  EXPECT_EQ(watches_->caches().profiles.size(), 0u);
  const std::string page = PrometheusText(registry_.Collect());
  EXPECT_EQ(page.find("name=\"nodes\""), std::string::npos) << page;
  EXPECT_EQ(CountWatches({"default"}, false), CountWatches({"default"}) - 2);
}

TEST_F(WatchesTest, PodsAndServicesOfOthersAreNotKept) {
  Create(kPods,
         "{apiVersion: v1, kind: Pod, metadata: {name: foreign, namespace: default}, "
         "spec: {containers: [{name: a, image: b}]}}");
  CreatePod("one", "chat", "a");
  Begin({});
  EXPECT_EQ(watches_->caches().pods.Keys(), (std::vector<ObjectKey>{{"default", "one"}}));
}

}  // namespace
}  // namespace janus::control
