#include "operator/reconcile/capacity/service_plan.h"

#include <gtest/gtest.h>

#include "common/model/memory.h"
#include "operator/reconcile/capacity/budget.h"
#include "tests/support/reconcile/small_model.h"

namespace janus::control {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

ModelDescription Mixtral8x7B() {
  ModelDescription model = SmallModel();
  model.vocab = 32000;
  model.hidden = 4096;
  model.layers = 32;
  model.max_positions = 32768;
  model.attention.heads = 32;
  model.attention.kv_heads = 8;
  model.attention.head_dim = 128;
  model.moe.intermediate = 14336;
  return model;
}

MoEService Fixed(int attention, int experts) {
  MoEService service;
  service.metadata.name = "demo";
  service.spec.model.source.type = SourceType::kHostPath;
  service.spec.roles.attention.replicas = attention;
  service.spec.roles.experts.replicas = experts;
  return service;
}

TEST(PlanService, TakesHalfAsManySlotsAgainAsHoldEveryExpert) {
  const auto plan = PlanService(Fixed(2, 3), SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->m, 2);
  EXPECT_EQ(plan->n, 3);
  EXPECT_EQ(plan->slots_per_instance, 4);
  EXPECT_EQ(plan->most_slots, 8);
  EXPECT_EQ(plan->spare_slots, 2);
  EXPECT_EQ(plan->max_model_len, 512);
  EXPECT_EQ(plan->max_rows_per_round, 512);
  EXPECT_EQ(plan->crossover_rows, 8);
  EXPECT_EQ(plan->compute_threads, 1);
  EXPECT_EQ(plan->dtype, DType::kBFloat16);
}

TEST(PlanService, BeginsModeSloWithTheFewestThatHoldTheModel) {
  MoEService service = Fixed(1, 1);
  service.spec.roles.attention.replicas.reset();
  service.spec.roles.experts.replicas.reset();
  service.spec.roles.experts.slots_per_instance = 3;
  auto plan = PlanService(service, SmallModel(), {16 * kGiB, 2});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->m, 1);
  EXPECT_EQ(plan->n, 3);
  service.spec.roles.experts.scaling.emplace().min_replicas = 5;
  plan = PlanService(service, SmallModel(), {16 * kGiB, 2});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->n, 5);
}

TEST(PlanService, TakesAsManySlotsAsTheSpecSays) {
  MoEService service = Fixed(1, 2);
  for (const int slots : {4, 5, 8}) {
    service.spec.roles.experts.slots_per_instance = slots;
    const auto plan = PlanService(service, SmallModel(), {16 * kGiB, 2});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan->slots_per_instance, slots);
    EXPECT_EQ(plan->most_slots, slots);
  }
}

TEST(PlanService, HasOneReplicaOfAnExpertOnAnInstance) {
  for (const auto& [n, slots] : {std::pair{1, 8}, {2, 6}, {5, 3}, {8, 2}, {20, 1}}) {
    const auto plan = PlanService(Fixed(1, n), SmallModel(), {16 * kGiB, 2});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan->slots_per_instance, slots) << n;
  }
}

// Converted weights lie in every process: replicas and keys and values want the same memory.
TEST(PlanService, ReplicasTakeOnlyMemoryThatKeysAndValuesLeave) {
  MoEService service = Fixed(1, 2);
  service.spec.model.dtype = Dtype::kFloat32;
  service.spec.model.max_model_len = 512;
  service.spec.roles.experts.slots_per_instance = 4;
  const auto fewest = PlanService(service, Mixtral8x7B(), {1024 * kGiB, 2});
  ASSERT_TRUE(fewest.ok()) << fewest.status().ToString();
  service.spec.roles.experts.slots_per_instance.reset();
  const int64_t tight = fewest->need.total() - 4 * kGiB;  // keys and values take all that is left
  const auto without = PlanService(service, Mixtral8x7B(), {tight, 2});
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(without->slots_per_instance, 4);
  EXPECT_EQ(without->most_slots, 4);
  const auto with = PlanService(service, Mixtral8x7B(), {1024 * kGiB, 2});
  ASSERT_TRUE(with.ok()) << with.status().ToString();
  EXPECT_EQ(with->slots_per_instance, 6);
  EXPECT_EQ(with->kv_bytes, fewest->kv_bytes);
}

TEST(PlanService, ASurvivablePlacementHasASlotForEveryExpertWithoutTheLargestPod) {
  const auto plan_of = [](int n, std::optional<int> slots) {
    MoEService service = Fixed(1, n);
    service.spec.roles.experts.placement.survivable = true;
    service.spec.roles.experts.slots_per_instance = slots;
    return PlanService(service, SmallModel(), {16 * kGiB, 2});
  };
  for (const auto& [n, slots] : {std::pair{2, 8}, {3, 4}, {5, 3}, {9, 2}}) {
    const auto plan = plan_of(n, std::nullopt);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan->slots_per_instance, slots) << n;
  }
  EXPECT_TRUE(plan_of(3, 4).ok());
  EXPECT_EQ(
      plan_of(3, 3).status().message(),
      "spec.roles.experts.slotsPerInstance: is 3; 2 expert instances, all but the largest "
      "pod's, then have 6 slots for the model's 8 experts; want at least 4 slots, or at least "
      "4 replicas");
  EXPECT_EQ(plan_of(1, std::nullopt).status().message(),
            "spec.roles.experts.placement.survivable: wants a slot for every expert without the "
            "largest pod, and there is one expert pod; raise spec.roles.experts.replicas to 2, "
            "or set survivable to false");
}

TEST(PlanService, NamesTooFewSlots) {
  MoEService service = Fixed(1, 3);
  service.spec.roles.experts.slots_per_instance = 2;
  EXPECT_EQ(PlanService(service, SmallModel(), {16 * kGiB, 2}).status().message(),
            "spec.roles.experts.slotsPerInstance: is 2; 3 expert instances then have 6 slots for "
            "the model's 8 experts; want at least 3 slots, or at least 4 replicas");
}

TEST(PlanService, NamesALengthBeyondTheModels) {
  MoEService service = Fixed(1, 1);
  service.spec.model.max_model_len = 513;
  EXPECT_EQ(PlanService(service, SmallModel(), {16 * kGiB, 2}).status().message(),
            "spec.model.maxModelLen: is 513; the model's max_position_embeddings is 512");
}

TEST(PlanService, GivesNoMoreKvThanAFullBatchCanUse) {
  const auto plan = PlanService(Fixed(1, 1), SmallModel(), {16 * kGiB, 2});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->kv_bytes, KvBytesPerToken(SmallModel()) * 512 * 256);
}

TEST(PlanService, ACacheInFp8TakesFewerBytesForAsMany) {
  MoEService service = Fixed(1, 2);
  service.spec.roles.attention.kv_cache.dtype = KvDtype::kFp8;
  const ModelDescription model = Mixtral8x7B();
  const auto plan = PlanService(service, model, {1024 * kGiB, 64});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_TRUE(plan->effective.fp8_kv_cache);
  EXPECT_EQ(plan->kv_bytes, Fp8KvBytesPerToken(model) * 32768 * 256);
  // One sequence in 16 bits takes 4.3 GB.
  service.spec.roles.attention.kv_cache.size = Quantity{3 * kGiB, 3 * kGiB * 1000, "3Gi"};
  EXPECT_TRUE(PlanService(service, model, {1024 * kGiB, 64}).ok());
  service.spec.roles.attention.kv_cache.dtype = KvDtype::kAuto;
  EXPECT_FALSE(PlanService(service, model, {1024 * kGiB, 64}).ok());
}

// Slots halve; instances keep unpacked rows and contributions beside them.
TEST(PlanService, AnExchangeInFp8TakesHalfTheSlotsAndWorkspaceForWhatIsUnpacked) {
  MoEService service = Fixed(2, 2);
  const ModelDescription model = Mixtral8x7B();
  const auto plain = PlanService(service, model, {1024 * kGiB, 64});
  service.spec.exchange.compression = Compression::kFp8;
  const auto packed = PlanService(service, model, {1024 * kGiB, 64});
  ASSERT_TRUE(plain.ok() && packed.ok()) << packed.status().ToString();
  EXPECT_EQ(packed->effective.compression, Compression::kFp8);
  const auto ratio = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  EXPECT_NEAR(ratio(packed->need.expert_exchange, plain->need.expert_exchange), 0.516, 0.03);
  EXPECT_NEAR(ratio(packed->need.attention_exchange, plain->need.attention_exchange), 0.516, 0.06);
  const int64_t rows = plain->max_rows_per_round;
  const int64_t row = int64_t{model.hidden} * 2;
  EXPECT_EQ(packed->need.attention_workspace - plain->need.attention_workspace,
            rows * (1 + model.moe.top_k) * row);
  EXPECT_EQ(packed->need.expert_workspace - plain->need.expert_workspace,
            2 * rows * (1 + model.moe.top_k) * row);
}

TEST(PlanService, WithSumsSlotsHoldOneForEachRow) {
  MoEService service = Fixed(2, 2);
  const ModelDescription model = Mixtral8x7B();
  const auto plain = PlanService(service, model, {1024 * kGiB, 64});
  service.spec.exchange.sum = SumRule::kFixedPoint;
  service.spec.exchange.sum_exponents.assign(static_cast<size_t>(model.moe_layers()), -15);
  const auto summed = PlanService(service, model, {1024 * kGiB, 64});
  ASSERT_TRUE(plain.ok() && summed.ok()) << summed.status().ToString();
  EXPECT_EQ(summed->effective.sum, janus::SumRule::kFixedPoint);
  EXPECT_EQ(summed->effective.sums.exponents.size(), static_cast<size_t>(model.moe_layers()));
  // A sum of 4 bytes takes the place of two contributions of 2.
  EXPECT_EQ(summed->need.expert_exchange, plain->need.expert_exchange);
  EXPECT_EQ(summed->need.attention_workspace, plain->need.attention_workspace);
  const int64_t rows = 2 * plain->max_rows_per_round;
  EXPECT_EQ(summed->need.expert_workspace - plain->need.expert_workspace,
            rows * (model.moe.top_k * int64_t{model.hidden} * 4 + 4));
  service.spec.exchange.sum_bits = 24;
  const auto narrow = PlanService(service, model, {1024 * kGiB, 64});
  EXPECT_LT(narrow->need.expert_exchange, summed->need.expert_exchange);
  service.spec.exchange.sum_exponents.pop_back();
  EXPECT_EQ(PlanService(service, model, {1024 * kGiB, 64}).status().message(),
            "spec.exchange.sum: FixedPoint: 31 exponents; the model has 32 MoE layers; janusctl "
            "calibrate prints theirs");
}

TEST(PlanService, SharesWhatTheWeightsLeaveFree) {
  const ModelDescription model = Mixtral8x7B();
  const int64_t room = 120 * kGiB;
  const auto one = PlanService(Fixed(1, 2), model, {room, 64});
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  const MemoryNeed& need = one->need;
  const int64_t rest = room - (need.total() - need.kv);
  EXPECT_LE(need.kv, rest * 90 / 100);
  EXPECT_GE(need.kv, rest * 88 / 100);
  EXPECT_EQ(one->kv_bytes % (KvBytesPerToken(model) * 16), 0);
  EXPECT_EQ(one->compute_threads, 21);
  const auto two = PlanService(Fixed(2, 2), model, {room, 64});
  ASSERT_TRUE(two.ok());
  EXPECT_LT(two->kv_bytes, one->kv_bytes / 2);
}

TEST(PlanService, SaysWhatIsNeededAndWhatIsFree) {
  const Status status = PlanService(Fixed(1, 1), Mixtral8x7B(), {24'000'000'000, 2}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("service demo needs 99 GB, 24 GB free: 93 GB weights in the page "
                                  "cache, 1 x 4.8 GB KV cache, 1 x "),
            std::string::npos)
      << status.message();
}

TEST(PlanService, CountsWeightsUsedInPlaceOnceHoweverManyUseThem) {
  const ModelDescription model = SmallModel();
  const auto one = PlanService(Fixed(1, 1), model, {16 * kGiB, 2});
  const auto many = PlanService(Fixed(4, 3), model, {16 * kGiB, 2});
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_EQ(one->need.mapped_weights, AttentionWeightBytes(model) + GateWeightBytes(model) +
                                          8 * 4 * ExpertWeightBytes(model));
  EXPECT_EQ(many->need.mapped_weights, one->need.mapped_weights);
  EXPECT_EQ(many->need.attention_weights + many->need.expert_weights, 0);
}

TEST(PlanService, CountsConvertedWeightsInEveryProcess) {
  ModelDescription model = SmallModel();
  MoEService service = Fixed(2, 2);
  service.spec.model.dtype = Dtype::kFloat32;
  const auto full = PlanService(service, model, {16 * kGiB, 2});
  ASSERT_TRUE(full.ok());
  model.dtype = DType::kFloat32;
  EXPECT_EQ(full->dtype, DType::kFloat32);
  EXPECT_EQ(full->need.mapped_weights, 0);
  EXPECT_EQ(full->need.attention_weights, AttentionWeightBytes(model) + GateWeightBytes(model));
  EXPECT_EQ(full->need.expert_weights,
            GateWeightBytes(model) + ExpertWeightBytes(model) * (6 * 4 + full->spare_slots));
}

TEST(PlanService, CountsWhatRoundsAndLogitsAreComputedIn) {
  const ModelDescription model = Mixtral8x7B();
  const auto plan = PlanService(Fixed(2, 1), model, {200 * kGiB, 3});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  // m * R_max * k * I in bf16, and the logits of a batch in fp32, are the largest parts.
  const int64_t ffn = int64_t{2} * 512 * 2 * 14336 * 2;
  EXPECT_GT(plan->need.expert_workspace, ffn);
  EXPECT_LT(plan->need.expert_workspace, ffn + ffn / 20);
  EXPECT_GT(plan->need.attention_workspace, int64_t{256} * 32000 * 4);
  EXPECT_GT(plan->need.total(), 2 * plan->need.attention_workspace + plan->need.expert_workspace);
}

TEST(PlanService, CountsLandingMemoryWhereEveryPairGoesOverTheNetwork) {
  MoEService service = Fixed(2, 2);
  const auto shared = PlanService(service, SmallModel(), {16 * kGiB, 2});
  ASSERT_TRUE(shared.ok());
  for (const auto& [asked, effective] : {std::pair(Transport::kTcp, ExchangeTransport::kTcp),
                                         std::pair(Transport::kRdma, ExchangeTransport::kRdma)}) {
    service.spec.exchange.transport = asked;
    const auto network = PlanService(service, SmallModel(), {16 * kGiB, 2});
    ASSERT_TRUE(network.ok());
    EXPECT_EQ(network->effective.transport, effective);
    EXPECT_GT(network->need.exchange, 2 * shared->need.exchange) << ToString(effective);
  }
}

TEST(PlanService, CountsLandingMemoryBetweenPlayedNodesAndBundlesThere) {
  MachineRoom room{16 * kGiB, 2};
  const auto shared = PlanService(Fixed(2, 2), SmallModel(), room);
  room.nodes = {1, 1};
  const auto alone = PlanService(Fixed(2, 2), SmallModel(), room);
  room.nodes = {2, 2};
  const auto mates = PlanService(Fixed(2, 2), SmallModel(), room);
  MoEService direct = Fixed(2, 2);
  direct.spec.exchange.mode = ExchangeMode::kDirect;
  const auto asked = PlanService(direct, SmallModel(), room);
  ASSERT_TRUE(shared.ok() && alone.ok() && mates.ok() && asked.ok());
  EXPECT_GT(alone->need.exchange, 2 * shared->need.exchange);
  EXPECT_EQ(alone->effective.mode, janus::ExchangeMode::kDirect);
  EXPECT_EQ(mates->effective.mode, janus::ExchangeMode::kTwoPhaseParallel);
  EXPECT_EQ(asked->effective.mode, janus::ExchangeMode::kDirect);
}

TEST(PlanService, CountsWhatTheGatewayMayHold) {
  const ModelDescription model = Mixtral8x7B();
  const MachineRoom room{120 * kGiB, 8};
  MoEService service = Fixed(1, 2);
  service.spec.gateway.limits.open_streams = 1000;
  const auto small = PlanService(service, model, room, 64 << 20);
  const auto large = PlanService(service, model, room, kGiB);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(small->gateway_memory_bytes, 64 << 20);
  EXPECT_EQ(small->need.gateway, (64 << 20) + 1000 * 9 * 1024);
  const auto rest = [](const MemoryNeed& need) { return need.total() - need.m * need.kv; };
  EXPECT_EQ(rest(large->need) - rest(small->need), kGiB - (64 << 20));
  // Memory for the gateway reduces the KV cache.
  EXPECT_LT(large->kv_bytes, small->kv_bytes);
  // A gateway that does not fit is refused.
  const Status status = PlanService(service, model, room, 100 * kGiB).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("107 GB gateway"), std::string::npos) << status.message();
}

TEST(PlanService, GivesTheGatewayASmallShareOfTheMachine) {
  const auto share = [](int64_t memory_bytes, int64_t request_bytes) {
    MoEService service = Fixed(1, 1);
    service.spec.gateway.limits.request_size.value = request_bytes;
    const auto plan = PlanService(service, SmallModel(), {memory_bytes, 2});
    return plan.ok() ? plan->gateway_memory_bytes : -1;
  };
  EXPECT_EQ(share(3 * kGiB, 1 << 20), 3 * kGiB / 16);
  EXPECT_EQ(share(64 * kGiB, 1 << 20), 256 << 20);
  EXPECT_EQ(share(kGiB / 4, 1 << 20), 32 << 20);
  EXPECT_EQ(share(3 * kGiB, 64 << 20), 256 << 20) << "four of the largest requests";
}

TEST(PlanService, RefusesAGatewayWithoutRoomForOneRequest) {
  EXPECT_EQ(PlanService(Fixed(1, 1), SmallModel(), {16 * kGiB, 2}, 5 << 20).status(),
            InvalidArgument("--memory-bytes: is 5242880; requests may take three quarters of it, "
                            "and one of spec.gateway.limits.requestSize (4Mi) would never fit; "
                            "want at least 16777216"));
}

TEST(PlanService, RefusesAKvCacheTooSmallForOneSequence) {
  MoEService service = Fixed(1, 1);
  service.spec.roles.attention.kv_cache.size = *ParseQuantity("64Ki");
  EXPECT_EQ(PlanService(service, SmallModel(), {16 * kGiB, 2}).status().message(),
            "spec.roles.attention.kvCache.size: is 64Ki; one sequence of 512 tokens takes 131 kB; "
            "raise it, or lower spec.model.maxModelLen");
}

// Plans for instances in pods.

ProcessRoom Limited(int64_t memory_bytes, int cores) {
  return {memory_bytes, true, cores, true};
}

MoEService Timed(int attention, int experts, TimedSpec timed) {
  MoEService service = Fixed(attention, experts);
  service.spec.device = Device::kTimed;
  service.spec.timed = std::move(timed);
  return service;
}

// An H200 has room for 49 of DeepSeek-V3's 256 experts of a layer; one of the small model's 8
// stands for 32.
TEST(PlanService, ATimedDeviceHasTheRoomOfTheDeviceThatItStandsFor) {
  const auto plan =
      PlanService(Timed(1, 8, {"H200", "deepseek-v3", 64}), SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->slots_per_instance, 1);
  EXPECT_EQ(plan->timed, (TimedDevice{"H200", "deepseek-v3", 64, 1}));
  const int64_t tokens = plan->kv_bytes / KvBytesPerToken(SmallModel());
  EXPECT_GT(tokens, 20'000);
  EXPECT_EQ(tokens % 16, 0);
  const auto half =
      PlanService(Timed(1, 8, {"H200", "deepseek-v3", 128}), SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(half.ok()) << half.status().ToString();
  EXPECT_NEAR(static_cast<double>(plan->kv_bytes) / static_cast<double>(half->kv_bytes), 2, 0.01);
  // Mixtral's 8 experts: as many as one device holds are on each, not the fewest.
  const auto mixtral =
      PlanService(Timed(1, 4, {"H200", "mixtral-8x22b"}), SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(mixtral.ok()) << mixtral.status().ToString();
  EXPECT_EQ(mixtral->slots_per_instance, 3);
  EXPECT_LE(mixtral->need.kv, KvBytesPerToken(SmallModel()) * 512 * 256 * 9 / 8)
      << "what a full batch writes, and an eighth to swap";
}

TEST(PlanService, InModeSloTimedDevicesAreAsManyAsHoldTheNamedModel) {
  MoEService service = Timed(1, 1, {"H200", "deepseek-v3", 64});
  service.spec.roles.experts.replicas.reset();
  const auto plan = PlanService(service, SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->n, 8);
}

TEST(PlanService, NamesWhatATimedDeviceHasNoRoomFor) {
  const auto why = [](const MoEService& service) {
    return PlanService(service, SmallModel(), {16 * kGiB, 8}).status();
  };
  const Status few = why(Timed(1, 7, {"H200", "deepseek-v3", 64}));
  EXPECT_EQ(few.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(few.message(),
            "spec.roles.experts.slotsPerInstance: is 1; 7 expert instances then have 7 slots for "
            "the model's 8 experts; want at least 8 replicas, as a timed device stands for H200 as "
            "deepseek-v3, scale 64, time scale 1");
  MoEService slots = Timed(1, 8, {"H200", "deepseek-v3", 64});
  slots.spec.roles.experts.slots_per_instance = 2;
  EXPECT_EQ(why(slots).message(),
            "spec.roles.experts.slotsPerInstance: is 2; a timed device, H200 as deepseek-v3, scale "
            "64, time scale 1, has room for 1; lower it, or leave it out");
  const Status scale = why(Timed(1, 8, {"H200", "deepseek-v3", 65'536}));
  EXPECT_TRUE(scale.message().starts_with("spec.timed.scale: a timed device, ")) << scale.message();
  MoEService size = Timed(1, 8, {"H200", "deepseek-v3", 64});
  size.spec.roles.attention.kv_cache.size = Quantity{8 * kGiB, 8 * kGiB * 1000, "8Gi"};
  EXPECT_TRUE(why(size).message().starts_with("spec.roles.attention.kvCache.size: is 8Gi; "));
  const Status small = why(Timed(1, 8, {"H100", "deepseek-v3", 64}));
  EXPECT_EQ(small.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(small.message().starts_with("spec.timed: one H100 has room for ")) << small.message();
}

// PlanPinned gives the KV cache of one instance of a revision to the others, as a size.
TEST(PlanService, ATimedDeviceTakesTheKvCacheThatItWouldHaveByItself) {
  MoEService service = Timed(1, 8, {"H200", "deepseek-v3", 64});
  const auto plan = PlanService(service, SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(plan.ok());
  service.spec.roles.attention.kv_cache.size = UnitsOf(plan->kv_bytes);
  const auto again = PlanService(service, SmallModel(), {16 * kGiB, 8});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->kv_bytes, plan->kv_bytes);
}

TEST(PlanServiceInPods, TakesTheKvCacheFromAnAttentionPodAlone) {
  const ModelDescription model = Mixtral8x7B();
  const auto kv = [&](int attention, int experts, int64_t attention_bytes, int64_t expert_bytes) {
    const auto plan = PlanServiceInPods(Fixed(attention, experts), model,
                                        {Limited(attention_bytes, 8), Limited(expert_bytes, 8)});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() ? plan->need.kv : -1;
  };
  const int64_t one = kv(1, 2, 40 * kGiB, 64 * kGiB);
  EXPECT_GT(one, 20 * kGiB);
  EXPECT_LT(one, 36 * kGiB);
  EXPECT_EQ(kv(1, 2, 40 * kGiB, 640 * kGiB), one) << "what experts have is not for it";
  // Each has a separate pod; queues for more peers take a little more.
  EXPECT_NEAR(static_cast<double>(kv(3, 2, 40 * kGiB, 64 * kGiB)), static_cast<double>(one),
              4 << 20);
  EXPECT_GT(kv(1, 2, 50 * kGiB, 64 * kGiB), one + 8 * kGiB);
}

TEST(PlanServiceInPods, CountsForEachPodWhatItsInstanceNeeds) {
  const ModelDescription model = Mixtral8x7B();
  const auto plan =
      PlanServiceInPods(Fixed(2, 4), model, {Limited(64 * kGiB, 8), Limited(64 * kGiB, 8)});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const PodNeed attention = plan->need.attention_pod(), experts = plan->need.expert_pod();
  EXPECT_EQ(attention.weights, AttentionWeightBytes(model) + GateWeightBytes(model));
  EXPECT_EQ(experts.weights, GateWeightBytes(model) + ExpertWeightBytes(model) * 3 * 32);
  EXPECT_EQ(experts.kv, 0);
  // Its own rows, and space where contributions of four land twice.
  EXPECT_GT(attention.exchange, 512 * 4096 * 2 * (1 + 2 * 4 * 2));
  EXPECT_GT(experts.exchange, 2 * 512 * 4096 * 2 * (2 + 2));
  EXPECT_EQ(plan->need.gateway, 0) << "it has a pod of its own";
  EXPECT_EQ(plan->gateway_memory_bytes, 0);
}

TEST(PlanServiceInPods, HasRoomForTheGateOnAttentionWhereAnEpochMayPutItThere) {
  const auto plan = [](const MoEService& service) {
    return *PlanServiceInPods(service, SmallModel(), {Limited(8 * kGiB, 8), Limited(8 * kGiB, 8)});
  };
  MoEService service = Fixed(2, 4);
  const ServicePlan chosen = plan(service);
  EXPECT_EQ(chosen.effective.gate, janus::GateSide::kExperts) << "until links are measured";
  EXPECT_TRUE(chosen.moves_gate());
  EXPECT_EQ(chosen.gate_fits, chosen.mode_fits);
  service.spec.exchange.gate = GateSide::kExperts;
  const ServicePlan experts = plan(service);
  EXPECT_FALSE(experts.moves_gate());
  EXPECT_GT(chosen.need.attention_exchange, experts.need.attention_exchange);
  service.spec.exchange.gate = GateSide::kAttention;
  const ServicePlan attention = plan(service);
  EXPECT_FALSE(attention.moves_gate());
  EXPECT_EQ(attention.effective.gate, janus::GateSide::kAttention);
  EXPECT_GE(chosen.need.attention_exchange, attention.need.attention_exchange);
  EXPECT_GE(chosen.need.expert_exchange, attention.need.expert_exchange);
}

TEST(PlanServiceInPods, RefusesNoServiceForMemoryThatOnlyTheOtherSideOfTheGateNeeds) {
  const auto plan = [](GateSide gate, int64_t bytes) {
    MoEService service = Fixed(2, 4);
    service.spec.exchange.gate = gate;
    return PlanServiceInPods(service, SmallModel(), {Limited(8 * kGiB, 8), Limited(bytes, 8)});
  };
  int64_t fits = 8 * kGiB, fails = 0;
  while (fits - fails > 4096) {
    const int64_t bytes = (fits + fails) / 2;
    (plan(GateSide::kExperts, bytes).ok() ? fits : fails) = bytes;
  }
  EXPECT_FALSE(plan(GateSide::kAttention, fits).ok());
  const Result<ServicePlan> chosen = plan(GateSide::kAuto, fits);
  ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
  EXPECT_FALSE(chosen->moves_gate());
}

// Bundles are made in the host's memory; in mode Direct the network may read from GPU to GPU.
TEST(PlanServiceInPods, BeginsWithDirectOnGpus) {
  MoEService service = Fixed(4, 4);
  service.spec.roles.attention.instances_per_pod = 4;
  service.spec.roles.experts.instances_per_pod = 4;
  const auto plan_of = [](const MoEService& of) {
    ProcessRoom room = Limited(64 * kGiB, 8);
    room.device_memory_bytes = 64 * kGiB;
    return *PlanServiceInPods(of, SmallModel(), {room, room});
  };
  const auto mode = [&](const MoEService& of) { return plan_of(of).effective.mode; };
  EXPECT_EQ(mode(service), janus::ExchangeMode::kTwoPhaseParallel);
  service.spec.device = Device::kCuda;
  EXPECT_EQ(mode(service), janus::ExchangeMode::kDirect);
  EXPECT_EQ(plan_of(service).mode_fits, (std::array{true, true, true})) << "it may change later";
  service.spec.exchange.mode = ExchangeMode::kTwoPhaseParallel;
  EXPECT_EQ(mode(service), janus::ExchangeMode::kTwoPhaseParallel);
}

TEST(PlanServiceInPods, LeavesTheGateOnExpertsWhereNothingIsSaved) {
  const auto moves = [](const MoEService& service) {
    ProcessRoom room = Limited(64 * kGiB, 8);
    room.device_memory_bytes = 64 * kGiB;
    const auto plan = PlanServiceInPods(service, SmallModel(), {room, room});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() && plan->moves_gate();
  };
  EXPECT_TRUE(moves(Fixed(2, 2)));
  EXPECT_FALSE(moves(Fixed(2, 1))) << "the only expert instance needs all rows";
  MoEService one_node = Fixed(2, 4);
  one_node.spec.roles.experts.instances_per_pod = 4;
  EXPECT_FALSE(moves(one_node));
  MoEService gpus = Fixed(2, 2);
  gpus.spec.device = Device::kCuda;
  EXPECT_FALSE(moves(gpus));
  // Workers of one machine share memory; nodes that it plays do not.
  EXPECT_FALSE(PlanService(Fixed(2, 4), SmallModel(), {16 * kGiB, 2})->moves_gate());
  MachineRoom room{16 * kGiB, 2};
  room.nodes = {2, 2};
  EXPECT_TRUE(PlanService(Fixed(2, 4), SmallModel(), room)->moves_gate());
  const MoEService timed = Timed(2, 8, {"H200", "deepseek-v3", 64});
  const auto as_gpus = PlanService(timed, SmallModel(), room);
  ASSERT_TRUE(as_gpus.ok()) << as_gpus.status().ToString();
  EXPECT_FALSE(as_gpus->moves_gate());
}

// One expert of all layers of Mixtral takes 11 GB.
TEST(PlanServiceInPods, TakesReplicasAsFarAsAnExpertPodHoldsThem) {
  const ModelDescription model = Mixtral8x7B();
  for (const auto& [gib, slots] : {std::pair{48, 4}, {58, 5}, {70, 6}, {200, 6}}) {
    const auto plan =
        PlanServiceInPods(Fixed(1, 2), model, {Limited(40 * kGiB, 8), Limited(gib * kGiB, 8)});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_EQ(plan->slots_per_instance, slots) << gib;
    EXPECT_EQ(plan->most_slots, gib == 200 ? 8 : slots) << gib;
  }
}

TEST(PlanServiceInPods, HasAsManyExpertPodsAsHoldTheModelWhereTheSpecLeavesThemOpen) {
  const ModelDescription model = Mixtral8x7B();
  MoEService service = Fixed(1, 1);
  service.spec.roles.experts.replicas.reset();
  const auto pods = [&](int64_t gib, bool are_wanted = true) {
    const auto plan = PlanServiceInPods(
        service, model, {Limited(40 * kGiB, 8), Limited(gib * kGiB, 8), are_wanted});
    return plan.ok() ? plan->n : -1;
  };
  EXPECT_EQ(pods(120), 1);
  EXPECT_EQ(pods(48), 2);
  EXPECT_EQ(pods(26), 4);
  EXPECT_EQ(pods(14), 8);
  EXPECT_EQ(pods(8), -1) << "not even one expert";
  EXPECT_EQ(pods(26, false), -1) << "pods of an older spec say nothing of the number of new ones";
  service.spec.roles.experts.scaling.emplace().max_replicas = 3;
  EXPECT_EQ(pods(48), 2);
  EXPECT_EQ(pods(26), -1);
  service.spec.roles.experts.scaling.reset();
  service.spec.roles.experts.replicas = 1;
  EXPECT_EQ(pods(48), -1) << "the number is said";
}

TEST(PlanServiceInPods, NamesTheRoleWithoutRoomAndWhatToChange) {
  const ModelDescription model = Mixtral8x7B();
  Status status =
      PlanServiceInPods(Fixed(1, 2), model, {Limited(40 * kGiB, 8), Limited(24 * kGiB, 8)})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("each experts pod of service demo needs "), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(" and has 26 GB: 45 GB experts, "), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("; raise spec.roles.experts.resources.limits.memory, or have "
                                  "more replicas of that role or fewer slotsPerInstance"),
            std::string::npos)
      << status.message();
  status = PlanServiceInPods(Fixed(1, 2), model,
                             {ProcessRoom{4 * kGiB, false, 8, false}, Limited(64 * kGiB, 8)})
               .status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("each attention pod of service demo needs "), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("; use machines with more memory free for role attention, or "
                                  "lower maxBatchSize or kvCache.size of that role"),
            std::string::npos)
      << status.message();
}

ProcessRoom OnGpu(int64_t device_bytes, int64_t host_bytes) {
  ProcessRoom room = Limited(host_bytes, 8);
  room.device_memory_bytes = device_bytes;
  return room;
}

// Mixtral's experts are 90 GB; two instances hold 45 GB each.
TEST(PlanServiceInPods, OnGpusHoldsEitherMemoryAgainstWhatLiesThere) {
  const ModelDescription model = Mixtral8x7B();
  const auto says = [&](const ProcessRoom& attention, const ProcessRoom& experts) {
    const auto plan = PlanServiceInPods(Fixed(1, 2), model, {attention, experts});
    return plan.ok() ? "" : plan.status().message();
  };
  const ProcessRoom large = OnGpu(80 * kGiB, 16 * kGiB);
  // On CPUs a limit of 16 GiB could not hold these experts.
  EXPECT_EQ(says(large, large), "");
  EXPECT_TRUE(says(large, Limited(16 * kGiB, 8)).starts_with("each experts pod of service demo"));

  const std::string no_gpu = says(large, OnGpu(40 * kGiB, 16 * kGiB));
  EXPECT_TRUE(no_gpu.starts_with("each experts pod of service demo needs 4")) << no_gpu;
  EXPECT_NE(no_gpu.find(" of its GPU and has 42 GB: 46 GB experts, "), std::string::npos) << no_gpu;
  EXPECT_EQ(no_gpu.find(" process"), std::string::npos)
      << "the process is no part of it: " << no_gpu;
  EXPECT_NE(no_gpu.find("; use GPUs with more memory free for role experts, or have more replicas "
                        "of that role"),
            std::string::npos)
      << no_gpu;

  const std::string no_host = says(OnGpu(80 * kGiB, kGiB / 4), large);
  EXPECT_TRUE(no_host.starts_with("each attention pod of service demo needs ")) << no_host;
  EXPECT_NE(no_host.find(" beside its GPU and has 268 MB: "), std::string::npos) << no_host;
  EXPECT_NE(no_host.find("; raise spec.roles.attention.resources.limits.memory, or lower "),
            std::string::npos)
      << no_host;
}

// On a machine, instances share its GPUs.
class PlanOnGpusOfAMachine : public testing::Test {
 protected:
  static Result<ServicePlan> Plan(int m, int n, std::optional<GpuRoom> gpus,
                                  int64_t host_bytes = 512 * kGiB) {
    MoEService service = Fixed(m, n);
    service.spec.device = Device::kCuda;
    service.spec.model.max_model_len = 4096;
    service.spec.roles.experts.slots_per_instance = 8;
    return PlanService(service, Mixtral8x7B(), {host_bytes, 16, {}, gpus});
  }
};

TEST_F(PlanOnGpusOfAMachine, KeysAndValuesTakeAShareOfWhatTheInstancesLeave) {
  const auto one_gpu = Plan(1, 1, GpuRoom{1, 141 * kGiB});
  ASSERT_TRUE(one_gpu.ok()) << one_gpu.status().ToString();
  const MemoryNeed& need = one_gpu->need;
  const int64_t all = need.attention_on_gpu.device.total() + need.experts_on_gpu.device.total();
  EXPECT_LE(all, UsableOfGpu(141 * kGiB));
  EXPECT_GT(all, 141 * kGiB / 100 * 90);
  // With a GPU for each, attention's has no experts.
  const auto two_gpus = Plan(1, 1, GpuRoom{2, 141 * kGiB});
  ASSERT_TRUE(two_gpus.ok()) << two_gpus.status().ToString();
  EXPECT_GT(two_gpus->kv_bytes, one_gpu->kv_bytes + 60 * kGiB);
}

TEST_F(PlanOnGpusOfAMachine, HoldsTheFullestGpuAgainstWhatItHas) {
  EXPECT_TRUE(Plan(1, 2, GpuRoom{3, 100 * kGiB}).ok());
  const auto refused = Plan(1, 2, GpuRoom{2, 100 * kGiB});  // both expert instances may be on one
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  const std::string why = refused.status().message();
  EXPECT_NE(why.find(" of a GPU that holds 2 of its instances, and 105 GB can be used: 2 x experts "
                     "with 91 GB experts, "),
            std::string::npos)
      << why;
  const auto host = Plan(1, 1, GpuRoom{1, 141 * kGiB}, kGiB);
  EXPECT_NE(host.status().message().find(" of the host's memory beside its GPUs, 1.1 GB free"),
            std::string::npos)
      << host.status().message();
}

TEST_F(PlanOnGpusOfAMachine, NeedsGpus) {
  EXPECT_EQ(Plan(1, 1, std::nullopt).status().message(),
            "service demo asks for GPUs, and the workers of this machine can use none "
            "(janus-worker gpus says why); set spec.device: CPU");
}

TEST(PlanServiceInPods, OnAGpuTheKvCacheIsAShareOfWhatThatHasLeft) {
  const ModelDescription model = Mixtral8x7B();
  const auto planned = [&](int64_t device_bytes, int64_t host_bytes) {
    const ProcessRoom room = OnGpu(device_bytes, host_bytes);
    const auto plan = PlanServiceInPods(Fixed(1, 2), model, {room, OnGpu(80 * kGiB, 16 * kGiB)});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return *plan;
  };
  const ServicePlan plan = planned(40 * kGiB, 16 * kGiB);
  const PodNeed& device = plan.need.attention_on_gpu.device;
  const int64_t left = 40 * kGiB / 100 * 98 - kGiB / 4 - (device.total() - device.kv);
  EXPECT_LE(device.kv, left * 90 / 100);
  EXPECT_GE(plan.kv_bytes, left * 88 / 100);
  EXPECT_EQ(plan.need.attention_on_gpu.host.kv, plan.swap_bytes);
  EXPECT_GE(plan.swap_bytes, plan.kv_bytes / 9);
  // Preempted sequences stay in host memory; a small host holds fewer.
  const ServicePlan small_host = planned(40 * kGiB, 3 * kGiB);
  EXPECT_EQ(small_host.kv_bytes, plan.kv_bytes);
  EXPECT_LT(small_host.swap_bytes, plan.swap_bytes);
  EXPECT_LE(small_host.need.attention_on_gpu.host.total(), 3 * kGiB);
}

TEST(PlanServiceInPods, OnAGpuHostMemoryForPrefixesIsCountedBesideThatOfPreemptedSequences) {
  const ModelDescription model = Mixtral8x7B();
  const int64_t page = KvBytesPerToken(model) * 16;
  MoEService service = Fixed(1, 2);
  const auto plan_with = [&](int64_t prefixes, int64_t host_bytes) {
    service.spec.roles.attention.kv_cache.prefix_host_memory = UnitsOf(prefixes);
    return PlanServiceInPods(service, model,
                             {OnGpu(40 * kGiB, host_bytes), OnGpu(80 * kGiB, 16 * kGiB)});
  };
  const auto none = plan_with(0, 16 * kGiB);
  const auto some = plan_with(5 * kGiB + 1, 16 * kGiB);
  ASSERT_TRUE(none.ok() && some.ok()) << some.status().ToString();
  EXPECT_EQ(none->prefix_host_bytes, 0);
  EXPECT_EQ(some->prefix_host_bytes, 5 * kGiB / page * page) << "whole pages";
  EXPECT_EQ(some->kv_bytes, none->kv_bytes);
  EXPECT_EQ(some->need.attention_on_gpu.host.kv, some->swap_bytes + some->prefix_host_bytes);
  // Preempted sequences get a share of what it leaves.
  const auto short_of_swap = plan_with(14 * kGiB, 16 * kGiB);
  ASSERT_TRUE(short_of_swap.ok()) << short_of_swap.status().ToString();
  EXPECT_LT(short_of_swap->swap_bytes, some->swap_bytes);
  EXPECT_LE(short_of_swap->need.attention_on_gpu.host.total(), 16 * kGiB);

  const Status refused = plan_with(16 * kGiB, 16 * kGiB).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find(" beside its GPU and has 17 GB: "), std::string::npos)
      << refused.message();
  EXPECT_TRUE(
      refused.message().ends_with("; raise spec.roles.attention.resources.limits.memory, "
                                  "or lower kvCache.prefixHostMemory of that role"))
      << refused.message();

  service.spec.roles.attention.kv_cache.prefix_cache = PrefixCache::kDisabled;
  EXPECT_TRUE(plan_with(0, 16 * kGiB).ok());
  EXPECT_EQ(plan_with(kGiB, 16 * kGiB).status(),
            InvalidArgument("spec.roles.attention.kvCache.prefixHostMemory: is 1073741824, and "
                            "prefixCache is Disabled; leave one of them out"));
}

// They are converted on the way to the GPU, one at a time.
TEST(PlanServiceInPods, OnAGpuOneConvertedTensorOfAttentionIsCountedOnItsHost) {
  ModelDescription model = Mixtral8x7B();
  const auto host_weights = [&] {
    const ProcessRoom room = OnGpu(80 * kGiB, 16 * kGiB);
    const auto plan = PlanServiceInPods(Fixed(1, 2), model, {room, OnGpu(80 * kGiB, 16 * kGiB)});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan->need.attention_on_gpu.host.weights;
  };
  EXPECT_EQ(host_weights(), 0) << "they lie in the page cache";
  model.has_fp8_weights = true;
  EXPECT_EQ(host_weights(), int64_t{32000} * 4096 * 2);
}

// With a given size, everything that depends on the keys must fit the GPU too.
TEST(PlanServiceInPods, OnAGpuAGivenKvCacheTakesItsPagesAndWhatTheirKeysTake) {
  MoEService service = Fixed(1, 2);
  service.spec.roles.attention.kv_cache.size = Quantity{20 * kGiB, 20 * kGiB * 1000, "20Gi"};
  const ProcessRoom room = OnGpu(80 * kGiB, 16 * kGiB);
  const auto plan = PlanServiceInPods(service, Mixtral8x7B(), {room, room});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const PodNeed& device = plan->need.attention_on_gpu.device;
  EXPECT_GT(device.kv, 20 * kGiB);
  // In addition to the GPU's reserve.
  const int64_t enough = (device.total() + kGiB / 4) / 98 * 100 + 200;
  EXPECT_TRUE(PlanServiceInPods(service, Mixtral8x7B(), {OnGpu(enough, 16 * kGiB), room}).ok());
  EXPECT_FALSE(
      PlanServiceInPods(service, Mixtral8x7B(), {OnGpu(enough - 1000, 16 * kGiB), room}).ok());
}

// With compression or exact sums the slots do not grow with the micro-batches, and what computes
// one of them is smaller. A plan has room for fewer of them than it says too.
TEST(PlanServiceInPods, OnAGpuMoreMicroBatchesNeverTakeLessMemory) {
  ModelDescription latent = Mixtral8x7B();
  latent.attention.kv_heads = latent.attention.heads = 128;
  latent.attention.head_dim = 192;
  LatentDescription& vectors = latent.attention.latent.emplace();
  vectors.rank = 512;
  vectors.value_dim = 128;
  latent.attention.rope.rotary_dim = 64;
  const ProcessRoom room = OnGpu(160 * kGiB, 64 * kGiB);
  for (const ModelDescription& model : {Mixtral8x7B(), latent}) {
    for (const bool has_sums : {false, true}) {
      for (const bool is_given : {false, true}) {
        MoEService service = Fixed(1, 2);
        service.spec.roles.attention.max_batch_size = 4096;
        service.spec.exchange.compression = Compression::kFp8;
        if (has_sums) {
          service.spec.exchange.sum = SumRule::kFixedPoint;
          service.spec.exchange.sum_exponents.assign(static_cast<size_t>(model.moe_layers()), -15);
        }
        if (is_given) {
          service.spec.roles.attention.kv_cache.size = Quantity{8 * kGiB, 8 * kGiB * 1000, "8Gi"};
        }
        int64_t least = 0, most_keys = INT64_MAX;
        for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
          service.spec.pipeline.micro_batches = micro_batches;
          const auto plan = PlanServiceInPods(service, model, {room, room});
          ASSERT_TRUE(plan.ok()) << plan.status().ToString();
          const PodNeed& device = plan->need.attention_on_gpu.device;
          EXPECT_GE(device.total() - device.kv, least) << micro_batches;
          EXPECT_LE(plan->kv_bytes, most_keys) << micro_batches;
          least = is_given ? device.total() - device.kv : 0;
          most_keys = plan->kv_bytes;
        }
      }
    }
  }
}

TEST(PlanServiceInPods, WithoutALimitTakesItsShareAmongAllInstances) {
  const ModelDescription model = Mixtral8x7B();
  const ProcessRoom machine{128 * kGiB, false, 64, false};
  const auto plan = PlanServiceInPods(Fixed(1, 3), model, {machine, machine});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const int64_t left = machine.memory_bytes - (plan->need.attention_pod().total() - plan->need.kv);
  EXPECT_LE(plan->need.kv, left * 90 / 100 / 4);
  EXPECT_GE(plan->need.kv, left * 88 / 100 / 4);
  EXPECT_EQ(plan->compute_threads, 16);
  // Two experts pods would not fit on one machine, but they may be on two.
  EXPECT_TRUE(
      PlanServiceInPods(Fixed(1, 2), model, {machine, ProcessRoom{64 * kGiB, false, 8, false}})
          .ok());
}

TEST(PlanServiceInPods, ComputesWithTheCoresThatEveryPodHas) {
  const auto threads = [](const PodRooms& rooms) {
    return PlanServiceInPods(Fixed(1, 2), SmallModel(), rooms)->compute_threads;
  };
  EXPECT_EQ(threads({Limited(kGiB, 4), Limited(kGiB, 8)}), 4);
  EXPECT_EQ(threads({Limited(kGiB, 4), ProcessRoom{kGiB, true, 9, false}}), 3);
  EXPECT_EQ(threads({Limited(kGiB, 4), std::nullopt}), 4);
  EXPECT_EQ(threads({ProcessRoom{kGiB, true, 1, false}, std::nullopt}), 1);
}

TEST(PlanServiceInPods, JudgesNobodyWhoseRoomIsNotKnown) {
  const auto plan = PlanServiceInPods(Fixed(1, 1), Mixtral8x7B(), {});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->kv_bytes, KvBytesPerToken(Mixtral8x7B()) * 32768) << "one sequence";
}

}  // namespace
}  // namespace janus::control
