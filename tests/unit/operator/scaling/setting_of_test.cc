#include "operator/scaling/setting_of.h"

#include <gtest/gtest.h>

#include <string>

#include "common/model/config.h"
#include "common/model/memory.h"
#include "controllers/plan/shape_of.h"
#include "operator/reconcile/capacity/service_plan.h"
#include "operator/scaling/policy_of.h"
#include "tests/support/published_configs.h"
#include "tests/support/reconcile/small_model.h"

namespace janus::control {
namespace {

using controllers::ModelShape;
using controllers::Predictor;

constexpr int64_t kGiB = int64_t{1} << 30;

ModelDescription Published(std::string_view config) {
  Result<ModelDescription> model = ParseModelConfig(std::string(config));
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return *std::move(model);
}

// A service of the model in pods with so much memory, on H200 where not said otherwise.
struct Service {
  explicit Service(ModelDescription model, int64_t device_bytes = 140 * kGiB) {
    object.metadata.name = "chat";
    object.spec.model.source.type = SourceType::kHostPath;
    object.spec.slo.tpot = LatencyTarget{100};
    planned.model = std::move(model);
    planned.devices = {DeviceReport{"NVIDIA H200"}, DeviceReport{"NVIDIA H200"}};
    room.memory_bytes = 1024 * kGiB;
    room.memory_is_limited = true;
    room.cores = 16;
    room.cores_are_limited = true;
    if (device_bytes > 0) {
      room.device_memory_bytes = device_bytes;
      object.spec.device = Device::kCuda;
    }
  }

  Result<PredictorInputs> Inputs(Ground ground = Ground::kCluster) { return Of(InputsOf, ground); }
  Result<PredictionBasis> Basis(Ground ground = Ground::kCluster) { return Of(BasisOf, ground); }

  template <class T>
  Result<T> Of(Result<T> (&made_of)(const RunningService&), Ground ground) {
    Result<ServicePlan> plan = PlanServiceInPods(object, planned.model, {room, room});
    if (!plan.ok()) return plan.status();
    planned.plan = *std::move(plan);
    const Result<controllers::ScalingPolicy> policy = PolicyOf(object.spec);
    if (!policy.ok()) return policy.status();
    return made_of({.spec = object.spec,
                    .planned = planned,
                    .policy = *policy,
                    .profiles = profiles,
                    .ground = ground,
                    .m = serving_m,
                    .n = serving_n,
                    .stands_for = stands_for});
  }

  MoEService object;
  PlannedService planned;
  ProcessRoom room;
  std::vector<HardwareProfileObject> profiles;
  int serving_m = 0;
  int serving_n = 0;
  std::optional<StandsFor> stands_for;
};

TEST(ShapeOf, OfPublishedConfigsIsThePreset) {
  for (const auto& [config, name] :
       {std::pair{test::kDeepseekV2, "deepseek-v2"}, {test::kDeepseekV3, "deepseek-v3"}}) {
    SCOPED_TRACE(name);
    ModelShape shape = controllers::ShapeOf(Published(config));
    ModelShape preset = *controllers::FindModel(name);
    EXPECT_EQ(shape.bytes_per_dense_weight, 2);  // we cast all but experts to bfloat16
    EXPECT_EQ(shape.bytes_per_kv_value, 2);
    shape.bytes_per_dense_weight = preset.bytes_per_dense_weight;
    shape.name = preset.name;
    EXPECT_EQ(shape, preset);
  }
}

TEST(InputsOf, OfADeepseekOnH200sKnowsItsModelAndItsDevices) {
  Service service(Published(test::kDeepseekV3));
  const Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->model.experts, 256);
  EXPECT_EQ(inputs->attention.name, "H200");
  EXPECT_EQ(inputs->experts.name, "H200");
  EXPECT_FALSE(inputs->shares_node);
  const Result<Predictor> predictor = BuildPredictor(*inputs);
  ASSERT_TRUE(predictor.ok()) << predictor.status().ToString();
  // 654 GB of experts do not fit on one.
  EXPECT_EQ(predictor->FewestExperts(), service.planned.plan.n);
  EXPECT_GE(predictor->FewestExperts(), 5);
  EXPECT_EQ(predictor->SlotsPerExpert(service.planned.plan.n),
            service.planned.plan.slots_per_instance);
}

TEST(InputsOf, KvTokensAndSlotsAreThoseOfThePlan) {
  Service service(SmallModel());
  service.object.spec.roles.attention.kv_cache.size = Quantity{kGiB, kGiB * 1000, "1Gi"};
  service.object.spec.roles.experts.replicas = 2;
  Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  Result<Predictor> predictor = BuildPredictor(*inputs);
  ASSERT_TRUE(predictor.ok()) << predictor.status().ToString();
  const double tokens = static_cast<double>(service.planned.plan.kv_bytes) /
                        static_cast<double>(KvBytesPerToken(SmallModel()));
  EXPECT_EQ(predictor->KvTokensPerAttention(), tokens);
  EXPECT_EQ(service.planned.plan.slots_per_instance, 6);
  for (const auto& [n, slots] : {std::pair{1, 8}, {2, 6}, {3, 4}, {8, 2}, {12, 1}}) {
    EXPECT_EQ(predictor->SlotsPerExpert(n), slots) << n;
  }
  service.object.spec.roles.attention.kv_cache.dtype = KvDtype::kFp8;
  service.object.spec.roles.experts.slots_per_instance = 5;
  inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  predictor = BuildPredictor(*inputs);
  EXPECT_GT(predictor->KvTokensPerAttention(), tokens);
  EXPECT_EQ(predictor->SlotsPerExpert(2), 5);
  EXPECT_EQ(predictor->SlotsPerExpert(4), 5);
  EXPECT_EQ(predictor->FewestExperts(), 2);
}

TEST(InputsOf, TheWireIsThatOfThePlan) {
  Service service(SmallModel());
  EXPECT_EQ(service.Inputs()->options.wires, std::vector{controllers::WireFormat::kBf16});
  service.object.spec.exchange.compression = Compression::kFp8;
  EXPECT_EQ(service.Inputs()->options.wires, std::vector{controllers::WireFormat::kFp8});
  EXPECT_EQ(service.Inputs()->options.sums, std::vector{janus::SumRule::kContributions});
  service.object.spec.exchange.sum = SumRule::kFixedPoint;
  service.object.spec.exchange.sum_exponents.assign(static_cast<size_t>(SmallModel().moe_layers()),
                                                    -15);
  EXPECT_EQ(service.Inputs()->options.sums, std::vector{janus::SumRule::kFixedPoint});
  EXPECT_EQ(service.Inputs()->options.sum_bits, 32);
  service.object.spec.exchange.sum_bits = 24;
  EXPECT_EQ(service.Inputs()->options.sum_bits, 24);
}

// A pod is a node of the exchange. Pods of one instance have nothing to gather.
TEST(InputsOf, TheModesAreThoseThatAnEpochMayTake) {
  using Modes = std::vector<janus::ExchangeMode>;
  Service service(SmallModel());
  EXPECT_EQ(service.Inputs()->options.modes, Modes{janus::ExchangeMode::kDirect});
  EXPECT_EQ(service.Inputs()->attention_per_node, 1);
  service.object.spec.roles.attention.instances_per_pod = 4;
  const PredictorInputs inputs = *service.Inputs();
  EXPECT_EQ(inputs.options.modes,
            (Modes{janus::ExchangeMode::kDirect, janus::ExchangeMode::kTwoPhaseSingle,
                   janus::ExchangeMode::kTwoPhaseParallel}));
  EXPECT_EQ(inputs.attention_per_node, 4);
  EXPECT_EQ(inputs.experts_per_node, 1);
  EXPECT_EQ(BuildPredictor(inputs)->setting().attention_per_node, 4);
  service.object.spec.exchange.mode = ExchangeMode::kTwoPhaseSingle;
  EXPECT_EQ(service.Inputs()->options.modes, Modes{janus::ExchangeMode::kTwoPhaseSingle});
  service.object.spec.exchange.mode = ExchangeMode::kAuto;
  service.object.spec.roles.attention.instances_per_pod = 1;
  service.object.spec.exchange.host_shared = true;
  EXPECT_EQ(service.Inputs()->options.modes.size(), 3u);
  EXPECT_EQ(service.Inputs()->attention_per_node, 0) << "as many as a machine has GPUs for";
}

TEST(InputsOf, TheGateIsOnEitherSideOnlyWhereAnEpochMayMoveIt) {
  using Gates = std::vector<janus::GateSide>;
  const Gates experts{janus::GateSide::kExperts};
  const CpuSpeed speed{2, {10e9, 60e9}, {16e9, 120e9}};
  Service service(SmallModel(), 0);
  service.object.spec.roles.experts.replicas = 4;
  EXPECT_EQ(service.Inputs()->options.gates, experts) << "its workers report GPUs";
  service.planned.devices = {DeviceReport{"", speed}, DeviceReport{"", speed}};
  EXPECT_EQ(service.Inputs()->options.gates,
            (Gates{janus::GateSide::kExperts, janus::GateSide::kAttention}));
  service.object.spec.exchange.gate = GateSide::kAttention;
  EXPECT_EQ(service.Inputs()->options.gates, Gates{janus::GateSide::kAttention});
  service.object.spec.exchange.gate = GateSide::kExperts;
  EXPECT_EQ(service.Inputs()->options.gates, experts);
  Service gpus(SmallModel());
  gpus.object.spec.roles.experts.replicas = 4;
  EXPECT_EQ(gpus.Inputs()->options.gates, experts);
}

TEST(InputsOf, KnowsOnlyWhatThisVersionServes) {
  Service service(SmallModel());
  const Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  const Result<Predictor> predictor = BuildPredictor(*inputs);
  ASSERT_TRUE(predictor.ok()) << predictor.status().ToString();
  const controllers::ScalingPolicy policy = *PolicyOf(service.object.spec);
  controllers::Demand demand;
  demand.requests_per_second = 100;
  demand.output_tokens_per_second = 10'000;
  demand.prompt_tokens_per_second = 10'000;
  demand.context = 200;
  for (const auto& [m, n] : {std::pair{1, 1}, {2, 4}, {16, 3}, {4, 16}}) {
    EXPECT_TRUE(IsServed(predictor->setting(), predictor->Steady(m, n, demand, policy).how))
        << m << " " << n;
  }
}

TEST(InputsOf, MicroBatchesAreThoseOfTheSpec) {
  Service service(SmallModel());
  Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->options.min_micro_batches, 1);
  EXPECT_EQ(inputs->options.max_micro_batches, kMaxMicroBatches);
  service.object.spec.pipeline.micro_batches = 3;
  inputs = service.Inputs();
  EXPECT_EQ(inputs->options.min_micro_batches, 3);
  EXPECT_EQ(inputs->options.max_micro_batches, 3);
  const Result<Predictor> predictor = BuildPredictor(*inputs);
  EXPECT_EQ(predictor->Steady(1, 1, {}, *PolicyOf(service.object.spec)).how.micro_batches, 3);
}

TEST(InputsOf, TakesTheProfilesThatTheRolesName) {
  Service service(SmallModel());
  service.object.spec.roles.attention.hardware_profile = "H20";
  service.object.spec.roles.experts.hardware_profile = "L40S";
  const Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->attention.name, "H20");
  EXPECT_EQ(inputs->experts.name, "L40S");
}

TEST(InputsOf, WaitsForTheFirstReport) {
  Service service(SmallModel());
  service.planned.devices.experts.reset();
  EXPECT_EQ(service.Inputs().status().code(), StatusCode::kUnavailable);
}

TEST(InputsOf, OfCpusOfOneMachineExchangesWithinIt) {
  Service service(SmallModel(), 0);
  const CpuSpeed speed{2, {10e9, 60e9}, {16e9, 120e9}};
  service.planned.devices = {DeviceReport{"", speed}, DeviceReport{"", speed}};
  const Result<PredictorInputs> machine = service.Inputs(Ground::kMachine);
  ASSERT_TRUE(machine.ok()) << machine.status().ToString();
  EXPECT_TRUE(machine->attention.is_cpu);
  EXPECT_TRUE(machine->shares_node);
  EXPECT_EQ(machine->options.max_micro_batches, 1);
  const Result<PredictorInputs> cluster = service.Inputs(Ground::kCluster);
  controllers::Configuration how;
  how.m = how.n = 2;
  const controllers::StepLoad load = {8, 200, 0, 0};
  const double inside = BuildPredictor(*machine)->Step(how, load).exchange;
  const double across = BuildPredictor(*cluster)->Step(how, load).exchange;
  EXPECT_GT(across, 2 * inside);
}

TEST(InputsOf, KnowsAsManyInstancesAsServe) {
  Service service(SmallModel());
  service.object.spec.roles.attention.scaling.emplace().max_replicas = 4;
  service.object.spec.roles.experts.scaling.emplace().max_replicas = 5;
  Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->options.max_attention, 4);
  EXPECT_EQ(inputs->options.max_experts, 5);
  service.serving_m = 7;
  service.serving_n = 9;
  inputs = service.Inputs();
  EXPECT_EQ(inputs->options.max_attention, 7);
  EXPECT_EQ(inputs->options.max_experts, 9);
  service.object.spec.roles.experts.scaling.reset();
  EXPECT_EQ(service.Inputs()->options.max_experts, 16);
  service.object.spec.scaling.max_gpus = 12;
  EXPECT_EQ(service.Inputs()->options.max_experts, 11) << "one is left for attention";
}

// The one place where a timed device joins: its named model and device, rows and times.
TEST(InputsOf, ATimedDeviceIsPredictedAsWhatItStandsFor) {
  Service service(SmallModel(), 0);
  service.stands_for = StandsFor{"H200", "deepseek-v3", 64, 8};
  service.object.spec.roles.experts.slots_per_instance = 4;
  const Result<PredictorInputs> inputs = service.Inputs(Ground::kMachine);
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->model, *controllers::FindModel("deepseek-v3"));
  const Result<Predictor> timed = BuildPredictor(*inputs);
  ASSERT_TRUE(timed.ok()) << timed.status().ToString();
  EXPECT_EQ(timed->SlotsPerExpert(2), 128) << "each served expert stands for 32";
  PredictorInputs named = *inputs;
  named.options.rows_for_one = named.options.times_faster = 1;
  const Result<Predictor> whole = BuildPredictor(named);
  controllers::Configuration how;
  how.n = 2;
  const controllers::StepTimes small = timed->Step(how, {8, 500, 4, 250});
  const controllers::StepTimes large = whole->Step(how, {8 * 64, 500, 4 * 64, 250});
  EXPECT_NEAR(small.step * 8, large.step, 1e-9);
  EXPECT_NEAR(small.attention * 8, large.attention, 1e-9);
  EXPECT_NEAR(small.experts * 8, large.experts, 1e-9);
  EXPECT_NEAR(small.exchange * 8, large.exchange, 1e-9);
  // The profile that a role names is what decisions believe of it.
  service.object.spec.roles.experts.hardware_profile = "H20";
  const Result<PredictorInputs> believed = service.Inputs(Ground::kMachine);
  ASSERT_TRUE(believed.ok()) << believed.status().ToString();
  EXPECT_EQ(believed->attention.name, "H200");
  EXPECT_EQ(believed->experts.name, "H20");
  EXPECT_EQ(believed->model, inputs->model);
  service.object.spec.roles.experts.hardware_profile.clear();
  service.stands_for->model = "nothing";
  EXPECT_EQ(service.Inputs().status().code(), StatusCode::kNotFound);
}

TEST(BasisOf, IsTheContentsOfTheProfileNotItsPriceNorTheShareOfAnInstance) {
  Service service(SmallModel());
  HardwareProfileObject& object = service.profiles.emplace_back();
  object.metadata.name = "ours";
  object.spec.memory = object.spec.memory_bandwidth = object.spec.peak.bf16 =
      object.spec.intra_node_bandwidth = object.spec.inter_node_bandwidth =
          Quantity{kGiB, kGiB * 1000, "1Gi"};
  service.object.spec.roles.experts.hardware_profile = "ours";
  const Result<PredictionBasis> basis = service.Basis();
  ASSERT_TRUE(basis.ok()) << basis.status().ToString();
  EXPECT_EQ(basis->attention.name, "H200");
  EXPECT_EQ(basis->experts.memory_bytes_per_second, static_cast<double>(kGiB));
  object.spec.price = Quantity{7, 7000, "7"};
  object.spec.memory = Quantity{2 * kGiB, kGiB * 2000, "2Gi"};
  service.serving_m = service.serving_n = 9;
  service.object.spec.pools = 2;
  EXPECT_EQ(*service.Basis(), *basis);
  object.spec.memory_bandwidth = Quantity{2 * kGiB, kGiB * 2000, "2Gi"};
  EXPECT_FALSE(HasSameFactors(*service.Basis(), *basis));
}

TEST(BasisOf, OfCpusIsTheSameForAnyNumberOfThreads) {
  Service service(SmallModel(), 0);
  const CpuSpeed speed{2, {10e9, 60e9}, {16e9, 120e9}};
  service.planned.devices = {DeviceReport{"", speed}, DeviceReport{"", speed}};
  service.room.cores = 1;
  const Result<PredictionBasis> basis = service.Basis();
  const Result<PredictorInputs> inputs = service.Inputs();
  ASSERT_TRUE(basis.ok() && inputs.ok()) << basis.status().ToString();
  service.room.cores = 2;
  EXPECT_NE(service.Inputs()->experts, inputs->experts);
  EXPECT_EQ(*service.Basis(), *basis);
  service.planned.devices.experts->cpu->one.bytes *= 3;
  EXPECT_FALSE(HasSameFactors(*service.Basis(), *basis));
}

TEST(BasisOf, OfATimedDeviceIsWhatItPlaysAndWhatItIsTakenFor) {
  Service service(SmallModel(), 0);
  service.object.spec.timed = TimedSpec{"H200", "deepseek-v3", 64, 8};
  service.stands_for = StandsFor{"H200", "deepseek-v3", 64, 8};
  const Result<PredictionBasis> basis = service.Basis();
  ASSERT_TRUE(basis.ok()) << basis.status().ToString();
  EXPECT_EQ(basis->model.name, "deepseek-v3");
  EXPECT_EQ(basis->timed, service.object.spec.timed->device());
  service.object.spec.roles.experts.hardware_profile = "H20";
  EXPECT_FALSE(HasSameFactors(*service.Basis(), *basis));
  service.object.spec.roles.experts.hardware_profile.clear();
  service.object.spec.timed->time_scale = 4;
  EXPECT_FALSE(HasSameFactors(*service.Basis(), *basis));
}

}  // namespace
}  // namespace janus::control
