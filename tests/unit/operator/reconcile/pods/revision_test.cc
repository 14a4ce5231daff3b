#include "operator/reconcile/pods/revision.h"

#include <gtest/gtest.h>

#include <functional>

#include "operator/api/parse.h"
#include "operator/api/yaml.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

MoEService Demo() {
  MoEService service;
  service.metadata.name = "demo";
  service.spec.model.source.type = SourceType::kHostPath;
  service.spec.model.source.host_path = HostPathSource{"/models/demo"};
  service.spec.roles.attention.replicas = 2;
  service.spec.roles.experts.replicas = 3;
  return service;
}

std::string Of(const MoEService& service, Role role = Role::kAttention) {
  return RevisionOf(service, role, "worker:1");
}

struct Edit {
  const char* name;
  std::function<void(MoEService&)> make;
};

// The fields that pods depend on.
TEST(RevisionOf, IsAnotherForEveryFieldThatAPodIsMadeOf) {
  const std::vector<Edit> edits = {
      {"path", [](MoEService& s) { s.spec.model.source.host_path->path = "/models/other"; }},
      {"device", [](MoEService& s) { s.spec.device = Device::kCpu; }},
      {"GPUs", [](MoEService& s) { s.spec.device = Device::kCuda; }},
      {"timed",
       [](MoEService& s) {
         s.spec.timed = TimedSpec{"H200", "deepseek-v3"};
       }},
      {"scale",
       [](MoEService& s) {
         s.spec.timed = TimedSpec{"H200", "deepseek-v3", 2};
       }},
      {"pull secret", [](MoEService& s) { s.spec.image_pull_secrets = {{"registry"}}; }},
      {"drain", [](MoEService& s) { s.spec.drain.timeout_seconds = 10; }},
      {"tls", [](MoEService& s) { s.spec.security.tls = Tls::kDisabled; }},
      {"instances", [](MoEService& s) { s.spec.roles.attention.instances_per_pod = 2; }},
      {"tensor", [](MoEService& s) { s.spec.roles.attention.tensor_parallel = 2; }},
      {"profile", [](MoEService& s) { s.spec.roles.attention.hardware_profile = "H20"; }},
      {"request",
       [](MoEService& s) {
         s.spec.roles.attention.resources.requests["cpu"] = *ParseQuantity("2");
       }},
      {"limit",
       [](MoEService& s) { s.spec.roles.attention.resources.limits["cpu"] = *ParseQuantity("2"); }},
      {"selector", [](MoEService& s) { s.spec.roles.attention.node_selector["gpu"] = ""; }},
      {"toleration", [](MoEService& s) { s.spec.roles.attention.tolerations.emplace_back(); }},
      {"scheduler", [](MoEService& s) { s.spec.roles.attention.scheduler_name = "kueue"; }},
      {"priority", [](MoEService& s) { s.spec.roles.attention.priority_class_name = "high"; }},
      {"template",
       [](MoEService& s) { s.spec.roles.attention.pod_template = *ParseYaml("spec: {}", "t"); }},
      {"batch", [](MoEService& s) { s.spec.roles.attention.max_batch_size = 7; }},
      {"length", [](MoEService& s) { s.spec.model.max_model_len = 7; }},
      {"kv size",
       [](MoEService& s) { s.spec.roles.attention.kv_cache.size = *ParseQuantity("1Gi"); }},
      {"kv share", [](MoEService& s) { s.spec.roles.attention.kv_cache.memory_percent = 7; }},
      {"host memory of prefixes",
       [](MoEService& s) {
         s.spec.roles.attention.kv_cache.prefix_host_memory = *ParseQuantity("1Gi");
       }},
      {"restart",
       [](MoEService& s) {
         s.metadata.annotations[std::string(kRestartedAtAnnotation)] = "2026-01-01T00:00:00Z";
       }},
  };
  std::set<std::string> seen = {Of(Demo()), RevisionOf(Demo(), Role::kAttention, "worker:2")};
  ASSERT_EQ(seen.size(), 2u);
  for (const Edit& edit : edits) {
    MoEService service = Demo();
    edit.make(service);
    EXPECT_TRUE(seen.insert(Of(service)).second) << edit.name;
  }
}

// Fields sent to workers in Prepare, and fields that do not concern workers.
TEST(RevisionOf, StaysForWhatNeedsNoNewPod) {
  const std::vector<Edit> edits = {
      {"replicas", [](MoEService& s) { s.spec.roles.attention.replicas = 7; }},
      {"slots", [](MoEService& s) { s.spec.roles.experts.slots_per_instance = 7; }},
      {"exchange", [](MoEService& s) { s.spec.exchange.transport = Transport::kTcp; }},
      {"gateway", [](MoEService& s) { s.spec.gateway.replicas = 7; }},
      {"scheduling",
       [](MoEService& s) { s.spec.roles.experts.scheduling = Scheduling::kAebsGreedy; }},
      {"queue", [](MoEService& s) { s.spec.gateway.limits.queued_requests = 7; }},
      {"the other role", [](MoEService& s) { s.spec.roles.experts.scheduler_name = "kueue"; }},
      {"slo",
       [](MoEService& s) {
         s.spec.slo.tpot = LatencyTarget{50, Percentile::kP99};
       }},
      {"label", [](MoEService& s) { s.metadata.labels["team"] = "a"; }},
      {"paused", [](MoEService& s) { s.spec.paused = true; }},
      {"no host memory of prefixes",
       [](MoEService& s) {
         s.spec.roles.attention.kv_cache.prefix_host_memory = *ParseQuantity("0");
       }},
  };
  for (const Edit& edit : edits) {
    MoEService service = Demo();
    edit.make(service);
    EXPECT_EQ(Of(service), Of(Demo())) << edit.name;
  }
}

TEST(RevisionOf, TheOrderOfATemplatesFieldsDoesNotShow) {
  MoEService one = Demo(), other = Demo();
  one.spec.roles.attention.pod_template =
      *ParseYaml("{spec: {a: 1, b: [x, y]}, metadata: {}}", "t");
  other.spec.roles.attention.pod_template =
      *ParseYaml("{metadata: {}, spec: {b: [x, y], a: 1}}", "t");
  EXPECT_EQ(Of(one), Of(other));
  other.spec.roles.attention.pod_template =
      *ParseYaml("{metadata: {}, spec: {b: [y, x], a: 1}}", "t");
  EXPECT_NE(Of(one), Of(other));
}

// The names of running pods contain the revision: a changed one would replace all pods.
TEST(RevisionOf, IsOfAnOlderOperatorToo) {
  EXPECT_EQ(Of(Demo()), "795rdg8tfh");
  EXPECT_EQ(Of(Demo(), Role::kExperts), Of(Demo()));
}

TEST(PodIdOf, IsTheNumberAtTheEndOfTheName) {
  EXPECT_EQ(PodName("chat", Role::kExperts, "bcdf", 12), "chat-experts-bcdf-12");
  EXPECT_EQ(PodIdOf("chat-experts-bcdf-12"), 12);
  for (const char* name :
       {"", "chat", "chat-", "chat-1x", "chat--1-", "chat-99999999999999999999"}) {
    EXPECT_EQ(PodIdOf(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace janus::control
