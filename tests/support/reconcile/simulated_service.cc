#include "tests/support/reconcile/simulated_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "operator/api/json.h"
#include "operator/api/yaml.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/reconcile/status/conditions.h"
#include "operator/reconcile/status/reasons.h"
#include "tests/support/reconcile/small_model.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

}  // namespace

Result<PlannedService> ScriptedPlanner::Plan(const MoEService& service) const {
  if (!fails.ok()) return fails;
  if (asks && !knows) return Unavailable("its first worker is awaited");
  PlannedService out;
  out.awaited = awaited;
  out.model = SmallModel();
  out.model_digest = digest;
  const std::optional<HostPathSource>& source = service.spec.model.source.host_path;
  if (source && digest_of.contains(source->path)) out.model_digest = digest_of.at(source->path);
  out.text_digest = "text of " + out.model_digest;
  out.devices = devices;
  JANUS_ASSIGN_OR_RETURN(out.plan, PlanService(service, out.model, room));
  return out;
}

namespace {

class ScriptedKnowledge final : public ModelKnowledge {
 public:
  explicit ScriptedKnowledge(const ScriptedPlanner& planner) : planner_(planner) {}
  Result<PlannedService> Plan(const MoEService& service, const WorkersToAsk&) const override {
    return planner_.Plan(service);
  }

 private:
  const ScriptedPlanner planner_;  // the planner before
};

}  // namespace

std::shared_ptr<const ModelKnowledge> ScriptedPlanner::Know(const std::string&,
                                                            const std::vector<std::string>&,
                                                            MonotonicTime) {
  return std::make_shared<ScriptedKnowledge>(*this);
}

SimulatedService::SimulatedService() {
  options.worker_image = "worker:1";
  options.defaults.gateway_image = "gateway:1";
  options.host_paths = {"/models"};
  RestartOperator();
}

void SimulatedService::RestartOperator(ObjectApi* api) {
  operator_.reset();
  operator_ = std::make_unique<OperatorProcess>(api == nullptr ? operator_client : *api, store,
                                                planner, workers, timeline, options);
}

void SimulatedService::Apply(int attention, int experts, const std::string& more) {
  const Result<Node> object = ParseYaml(
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
      "metadata: {name: demo, namespace: default}\nspec:\n"
      "  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}\n"
      "  roles: {attention: {replicas: " +
          std::to_string(attention) + "}, experts: {replicas: " + std::to_string(experts) + "}}\n" +
          more,
      "demo.yaml");
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  const ApiResult<Node> applied =
      user.Apply(kMoEServices, *object, Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(applied.ok()) << applied.status().ToString();
}

void SimulatedService::Patch(const std::string& patch) {
  const ApiResult<Node> patched =
      user.Patch(kMoEServices, {"default", "demo"}, PatchKind::kMerge, *ParseJson(patch, "patch"),
                 Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(patched.ok()) << patched.status().ToString();
}

void SimulatedService::Delete() {
  ASSERT_TRUE(user.Delete(kMoEServices, {"default", "demo"}, {}, kLimits).ok());
}

void SimulatedService::Run(Seconds time) {
  const MonotonicTime end =
      timeline.Now() + std::chrono::duration_cast<MonotonicTime::duration>(time);
  while (timeline.Now() < end && !testing::Test::HasFatalFailure()) {
    cluster.Step();
    operator_->Step();
    on_step();
    timeline.Pass(Seconds(0.5));
  }
}

void SimulatedService::RunUntil(const std::string& condition, Seconds most) {
  const auto holds = [&] {
    const Node service = Service();
    const auto generation = IntegerAt(service, {"metadata", "generation"});
    const std::vector<control::Condition> all = ReadConditions(service);
    return std::any_of(all.begin(), all.end(), [&](const control::Condition& one) {
      return one.type == condition && one.status == ConditionStatus::kTrue &&
             one.observed_generation == generation;
    });
  };
  Run(Seconds(0.5));
  for (Seconds passed{0}; passed < most; passed += Seconds(0.5)) {
    if (holds()) return;
    Run(Seconds(0.5));
  }
  std::string all;
  for (const control::Condition& one : ReadConditions(Service())) {
    all += "\n  " + one.type + " " + Condition(one.type) + ": " + one.message;
  }
  FAIL() << condition << " is " << Condition(condition) << ": " << MessageOf(condition) << all
         << "; the last pass that failed: " << operator_->last_error().ToString();
}

std::optional<Node> SimulatedService::Get(const Resource& resource, const std::string& name) {
  ApiResult<Node> there = user.Get(resource, {"default", name}, Subresource::kNone, kLimits);
  if (!there.ok()) return std::nullopt;
  return *std::move(there);
}

std::vector<Node> SimulatedService::List(const Resource& resource) {
  return user.List(resource, {}, kLimits)->items;
}

void SimulatedService::ExpectKnownReasons() {
  for (const control::Condition& one : ReadConditions(Service())) {
    const char* status = one.status == ConditionStatus::kTrue    ? "True"
                         : one.status == ConditionStatus::kFalse ? "False"
                                                                 : "Unknown";
    EXPECT_TRUE(IsKnownReason(one.type, status, one.reason))
        << one.type << " " << status << " " << one.reason << " is not in reasons.cc";
  }
}

std::string SimulatedService::Condition(const std::string& type) {
  ExpectKnownReasons();
  for (const control::Condition& one : ReadConditions(Service())) {
    if (one.type != type) continue;
    return (one.status == ConditionStatus::kTrue    ? "True/"
            : one.status == ConditionStatus::kFalse ? "False/"
                                                    : "Unknown/") +
           one.reason;
  }
  return "";
}

std::string SimulatedService::MessageOf(const std::string& type) {
  for (const control::Condition& one : ReadConditions(Service())) {
    if (one.type == type) return one.message;
  }
  return "";
}

std::vector<PodSeen> SimulatedService::Pods(Role role) {
  std::vector<PodSeen> out;
  for (const Node& node : List(kPods)) {
    std::optional<PodSeen> pod = ReadPod(node);
    if (pod && pod->role == role && !pod->is_leaving) out.push_back(*std::move(pod));
  }
  return out;
}

std::optional<MoETopology> SimulatedService::Topology() {
  const std::vector<Node> all = List(kTopologies);
  if (all.size() != 1) return std::nullopt;
  return ParseMoETopology(all[0]).object;
}

void SimulatedService::ExpectWhole(int attention, int experts) {
  EXPECT_EQ(Condition("Ready"), "True/AsWanted") << MessageOf("Ready");
  ExpectMembers(attention, experts);
}

void SimulatedService::ExpectMembers(int attention, int experts) {
  const std::optional<MoETopology> topology = Topology();
  ASSERT_TRUE(topology && topology->spec.committed);
  EXPECT_FALSE(topology->spec.proposed);
  const EpochRecord record = EpochRecordOf(*topology);
  EXPECT_EQ(record.committed->content.members.size(), static_cast<size_t>(attention + experts));
  for (const auto& [role, wanted] :
       {std::pair{Role::kAttention, attention}, std::pair{Role::kExperts, experts}}) {
    const std::vector<PodSeen> pods = Pods(role);
    int instances = 0;
    for (const PodSeen& pod : pods) {
      SCOPED_TRACE(pod.name);
      EXPECT_TRUE(pod.has_member_label && pod.has_member_gate && pod.is_ready);
      instances += pod.instances;
      for (int index = 0; index < pod.instances; ++index) {
        const InstanceId id = InstanceOf(pod, index);
        EXPECT_TRUE(record.committed->content.members.contains(id)) << index;
        EXPECT_EQ(workers.Of(id).serving, record.committed->epoch) << index;
      }
    }
    EXPECT_EQ(instances, wanted) << ToString(role);
    const auto budget = Get(kDisruptionBudgets, RoleObjectName("demo", role));
    ASSERT_TRUE(budget);
    EXPECT_EQ(IntegerAt(*budget, {"spec", "minAvailable"}), std::ssize(pods));
  }
}

}  // namespace janus::control
