#include "proto/convert.h"

#include <gtest/gtest.h>

#include <cmath>

#include <functional>
#include <string>
#include <vector>

namespace janus {
namespace {

Topology Sample() {
  Topology topology;
  topology.epoch = 7;
  topology.attention.push_back(
      {Role::kAttention, "pod-a", 1, 2, "node-a", "local", "unix:/a.sock", "unix:/a.x", 0, {}});
  topology.experts.push_back(
      {Role::kExperts, "pod-b", 0, 3, "node-b", "local", "unix:/b.sock", "unix:/b.x", 3, {}});
  topology.mode = ExchangeMode::kTwoPhaseParallel;
  topology.gate = GateSide::kAttention;
  topology.sum = SumRule::kFixedPoint;
  topology.micro_batches = 3;
  topology.attention[0].sequences = {4, 4096, int64_t{3} << 32, 77, int64_t{5} << 32};
  topology.max_rows_per_round = 256;
  topology.placement.layers = 2;
  topology.placement.slots_of_instance = {3};
  topology.placement.expert_of = {0, 1, Placement::kEmpty, 1, 300, 0};
  topology.config_hash = "abc";
  return topology;
}

TEST(Convert, TakesATopologyThroughTheWireUnchanged) {
  const Topology in = Sample();
  const Result<Topology> out = FromProto(ToProto(in));
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ(out->epoch, in.epoch);
  EXPECT_EQ(out->attention, in.attention);
  EXPECT_EQ(out->experts, in.experts);
  EXPECT_EQ(out->mode, in.mode);
  EXPECT_EQ(out->gate, in.gate);
  EXPECT_EQ(out->sum, in.sum);
  EXPECT_EQ(out->micro_batches, in.micro_batches);
  EXPECT_EQ(out->max_rows_per_round, in.max_rows_per_round);
  EXPECT_EQ(out->placement, in.placement);
  EXPECT_EQ(out->config_hash, in.config_hash);
}

struct Broken {
  const char* name;
  std::function<void(v1::Topology&)> damage;
  const char* message;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

class ConvertRefuses : public testing::TestWithParam<Broken> {};

TEST_P(ConvertRefuses, NamingTheField) {
  v1::Topology wire = ToProto(Sample());
  GetParam().damage(wire);
  const Result<Topology> out = FromProto(wire);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(out.status().message().find(GetParam().message), std::string::npos)
      << out.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    All, ConvertRefuses,
    testing::Values(
        Broken{"AnUnknownMode", [](auto& t) { t.set_mode(static_cast<v1::ExchangeMode>(9)); },
               "mode 9 is unknown"},
        Broken{"AnUnspecifiedGate", [](auto& t) { t.clear_gate(); }, "gate 0 is unknown"},
        Broken{"AnUnspecifiedSum", [](auto& t) { t.clear_sum(); }, "sum 0 is unknown"},
        Broken{"AnInstanceInTheOtherList",
               [](auto& t) { t.mutable_experts(0)->set_role(v1::ROLE_ATTENTION); },
               "experts[0] is of role ROLE_ATTENTION"},
        Broken{"ANegativeNumber", [](auto& t) { t.mutable_experts(0)->set_slots(0x80000000u); },
               "experts[0].slots 2147483648"},
        Broken{"ARoomBeyondWhatANumberHolds",
               [](auto& t) {
                 t.mutable_attention(0)->mutable_sequences()->set_prefix_host_bytes(UINT64_MAX);
               },
               "attention[0].sequences has 18446744073709551615"},
        Broken{"APlacementCutShort",
               [](auto& t) { t.mutable_placement()->mutable_expert_of()->pop_back(); },
               "placement of 2 layers x 3 slots in 11 bytes"},
        Broken{"APlacementOfAbsurdSize",
               [](auto& t) { t.mutable_placement()->set_layers(1 << 30); }, "placement of"},
        Broken{"SlotsOfAbsurdNumber",
               [](auto& t) { t.mutable_placement()->set_slots_of_instance(0, 0x7fffffff); },
               "placement of"}),
    [](const auto& info) { return std::string(info.param.name); });

// A field that a conversion forgets is 0 on the wire, where the sample has another value.
void ExpectAllFieldsTravel(const google::protobuf::Message& wire) {
  const auto* fields = wire.GetDescriptor();
  const auto* reflection = wire.GetReflection();
  for (int i = 0; i < fields->field_count(); ++i) {
    const auto* field = fields->field(i);
    EXPECT_TRUE(field->is_repeated() ? reflection->FieldSize(wire, field) > 0
                                     : reflection->HasField(wire, field))
        << field->full_name() << " does not travel";
  }
}

TEST(Convert, TakesStatisticsThroughTheWireUnchanged) {
  InstanceStatistics in;
  in.role = Role::kExperts;
  in.rank = Rank{2};
  in.epoch = 23;
  in.steps = 1;
  in.rows = 2;
  in.tokens = 3;
  in.running = 4;
  in.waiting = 5;
  in.kv_tokens_used = 6;
  in.kv_tokens_capacity = 7;
  in.step_seconds_median = 0.5;
  in.compute_seconds = 8;
  in.wait_seconds = 9;
  in.host_seconds = 0.5;
  in.spin_seconds = 0.125;
  in.rounds = 10;
  in.activated_experts = 11;
  in.preempted = 12;
  in.recomputed = 15;
  in.cached = 28;
  in.sit_outs = 13;
  in.steps_aborted = 16;
  in.rounds_missed = 17;
  in.detection_seconds = 1.25;
  in.messages_dropped = 18;
  in.messages_malformed = 19;
  in.messages_late = 20;
  in.bytes_sent = 21;
  in.bytes_received = 22;
  in.tpot_seconds_median = 0.25;
  in.tpot_counts.Add(Seconds(0.03));
  in.ttft_counts.Add(Seconds(2));
  in.replayed = 24;
  in.swapped = 25;
  in.timed = "H200 as deepseek-v3";
  in.timed_waits = 26;
  in.timed_overruns = 27;
  in.resident_bytes = 14;
  in.holding = "a peer is gone";
  in.load = {.process = uint64_t{1} << 63,
             .decode_rows = 30,
             .decode_keys = 31,
             .prompt_rows = 32,
             .prompt_keys = 33,
             .attention_seconds = 0.5,
             .exchange_seconds = 0.25,
             .step_seconds = 1.5,
             .gate_seconds = 0.125,
             .aebs_seconds = 0.0625,
             .expert_seconds = 0.75,
             .decoding = 34,
             .decoding_kv_tokens = 35,
             .awaiting = 36,
             .waiting_prompt_tokens = 37,
             .oldest_waiting_seconds = 2.5};
  in.links = {{Role::kAttention, Rank{1}, "UCX tcp/lo"},
              {Role::kExperts, Rank{0}, "UCX tcp/eth0", MeasuredLink{3e-4, 22.5e6, 2e-5}},
              {Role::kExperts, Rank{1}, "UCX tcp/eth0", std::nullopt, "it did not answer"}};
  in.device = {"mlx5_3", 2, "InfiniBand", 400'000'000'000, "same PCIe switch as GPU 0000:3b:00.0"};
  const v1::InstanceStatistics wire = ToProto(in);
  // Every field is set above: equal bytes mean that no field is lost.
  EXPECT_EQ(ToProto(FromProto(wire)).SerializeAsString(), wire.SerializeAsString());
  EXPECT_EQ(FromProto(wire).tpot_counts, in.tpot_counts);
  EXPECT_EQ(FromProto(wire).ttft_counts, in.ttft_counts);
  EXPECT_EQ(FromProto(wire).device, in.device);
  EXPECT_EQ(FromProto(wire).load, in.load);
  ExpectAllFieldsTravel(wire);
  ExpectAllFieldsTravel(wire.load());
}

TEST(Convert, AWorkerThatDoesNotCountItsLoadIsNotOneWithoutLoad) {
  EXPECT_FALSE(FromProto(v1::InstanceStatistics()).load);
  InstanceStatistics idle;
  idle.load.emplace();
  v1::InstanceStatistics wire;
  ASSERT_TRUE(wire.ParseFromString(ToProto(idle).SerializeAsString()));
  EXPECT_EQ(FromProto(wire).load, LoadCounts());
}

GatewayCounts Counted() {
  GatewayCounts counts;
  counts.gateway_id = "gateway-1";
  counts.is_attached = true;
  counts.reports = 1;
  counts.age_seconds = 60.5;
  counts.arrived = 10;
  counts.prompt_tokens = 11;
  counts.prompt_squares = 12;
  counts.cached_prompt_tokens = 13;
  counts.unread = 14;
  counts.refused = 15;
  counts.failed = 16;
  counts.finished = 2;
  counts.output_tokens = 18;
  counts.latencies.Add(Seconds(0.5), Seconds(0.05));
  counts.latencies.Add(Seconds(1e4), std::nullopt);
  counts.waiting = 19;
  counts.waiting_prompt_tokens = 20;
  counts.oldest_waiting_seconds = 1.5;
  return counts;
}

TEST(Convert, TakesTheCountsOfAGatewayThroughTheWireUnchanged) {
  const v1::GatewayCounts wire = ToProto(Counted());
  EXPECT_EQ(FromProto(wire), Counted());
  ExpectAllFieldsTravel(wire);
}

TEST(Convert, ATableOfLatenciesThatCannotBeSaysNothing) {
  const auto read = [](auto&& damage) {
    v1::GatewayCounts wire = ToProto(Counted());
    damage(*wire.mutable_latencies());
    return FromProto(wire).latencies;
  };
  EXPECT_EQ(read([](v1::LatencyPairs&) {}).total(), 2U);
  EXPECT_EQ(read([](auto& pairs) { pairs.add_pairs(7); }), LatencyPairs()) << "without its count";
  EXPECT_EQ(read([](auto& pairs) { pairs.set_pairs(0, 160 * 161); }), LatencyPairs());
  EXPECT_EQ(read([](auto& pairs) {
              for (size_t i = 0; i < LatencyPairs::kMost; ++i) {
                pairs.add_pairs(static_cast<uint32_t>(i));
                pairs.add_counts(1);
              }
            }),
            LatencyPairs());
}

TEST(Convert, OfManyGatewaysTheBoundHoldsAndNoneComesTwice) {
  v1::Statistics wire;
  for (uint32_t i = 0; i < 300; ++i) {
    GatewayCounts one = Counted();
    one.gateway_id = "gateway-" + std::to_string(i % 290);
    one.reports = i;
    *wire.add_gateways() = ToProto(one);
  }
  wire.set_gateways_left_out(3);
  const GatewayReports read = FromProto(wire).gateways;
  ASSERT_EQ(read.gateways.size(), GatewayReports::kMost);
  EXPECT_EQ(read.gateways[0].reports, 290U) << "the newer of two reports";
  EXPECT_EQ(read.left_out, 290 - GatewayReports::kMost);
  v1::Statistics again;
  AddToProto(read, again);
  EXPECT_EQ(GatewaysFromProto(again), read);
}

TEST(Convert, ATimedDeviceComesBackAndFactorsThatDoNotFitAreRefused) {
  const TimedDevice device = {"H200", "deepseek-v3", 64, 8};
  EXPECT_EQ(FromProto(ToProto(device)).value(), device);
  v1::TimedDevice wire = ToProto(device);
  wire.set_scale(1u << 31);
  EXPECT_EQ(FromProto(wire).status().code(), StatusCode::kInvalidArgument);
  wire = ToProto(device);
  wire.set_time_scale(1001);
  EXPECT_EQ(FromProto(wire).status().code(), StatusCode::kInvalidArgument);
}

TEST(Convert, WhatSumsAreAddedByComesBackAndOtherExponentsAreRefused) {
  const FixedPointSums sums{24, {-100, 3}};
  v1::FixedSums wire = ToProto(sums);
  EXPECT_EQ(*FromProto(wire), sums);
  EXPECT_EQ(*FromProto(v1::FixedSums()), FixedPointSums());
  wire.add_exponents(128);
  EXPECT_EQ(FromProto(wire).status().code(), StatusCode::kInvalidArgument);
}

TEST(Convert, LatenciesInMoreBucketsThanThereAreSayNothing) {
  v1::InstanceStatistics wire;
  for (int i = 0; i <= LatencyCounts::kBuckets; ++i) wire.add_tpot_counts(1);
  EXPECT_EQ(FromProto(wire).tpot_counts, LatencyCounts());
}

TEST(Convert, StatisticsNameWhoIsSilent) {
  v1::Statistics wire;
  wire.set_epoch(3);
  wire.add_instances()->set_epoch(3);
  v1::SilentMember& silent = *wire.add_silent();
  silent.set_name("experts-1");
  silent.set_why("no answer");
  const Statistics read = FromProto(wire);
  EXPECT_EQ(read.epoch, 3U);
  ASSERT_EQ(read.instances.size(), 1U);
  ASSERT_EQ(read.silent.size(), 1U);
  EXPECT_EQ(read.silent[0].name, "experts-1");
  EXPECT_EQ(read.silent[0].why, "no answer");
}

TEST(Convert, RoutingComesBackAndWhatIsNoneOfItIsLeftOut) {
  RoutingStatistics routing;
  routing.popularity = {{0, 3, {2, 0, 4}}, {7, uint64_t{1} << 40, {1, 2, 3}}};
  routing.rounds = {{5, uint64_t{1} << 33, 7, 3, 2, {0, 255, 256, 65534}}, {5, 9, 0, 0, 3, {}}};
  routing.rounds_too_large = 2;
  v1::Statistics wire;
  AddToProto(routing, wire);
  EXPECT_EQ(RoutingFromProto(wire), routing);
  EXPECT_EQ(FromProto(wire).routing, routing);

  for (const auto& spoil : std::vector<std::function<void(v1::RoutedRound&)>>{
           [](auto& round) { round.set_top_k(0); },
           [](auto& round) { round.set_top_k(UINT32_MAX); },
           [](auto& round) { round.set_micro_batch(4); },
           [](auto& round) { round.set_layer(1 << 30); },
           [](auto& round) { round.mutable_experts()->pop_back(); },
           [](auto& round) { round.mutable_experts()->append("12"); }}) {
    v1::Statistics bad = wire;
    spoil(*bad.mutable_rounds(0));
    EXPECT_EQ(RoutingFromProto(bad).rounds.size(), 1U);
  }
  wire.mutable_popularity(0)->set_layer(1U << 31);
  EXPECT_EQ(RoutingFromProto(wire).popularity.size(), 1U);
}

TEST(Convert, TracesComeBackAndWhatIsNoneIsLeftOut) {
  const std::vector<StepTrace> traces = {
      {Role::kExperts,
       Rank{3},
       5,
       uint64_t{1} << 33,
       61,
       -5,
       {{StepWork::kExperts, 60, 3, int64_t{1} << 40}, {StepWork::kHost, -1, 0, 0}}},
      {Role::kAttention, Rank{0}, 5, uint64_t{1} << 33, 61, 9, {{StepWork::kAebs, 0, 1, 7}}}};
  v1::Statistics wire;
  AddToProto(traces, wire);
  EXPECT_EQ(TracesFromProto(wire), traces);
  EXPECT_EQ(FromProto(wire).traces, traces);
  for (const auto& spoil : std::vector<std::function<void(v1::StepTrace&)>>{
           [](auto& trace) { trace.set_role(v1::ROLE_UNSPECIFIED); },
           [](auto& trace) { trace.set_rank(UINT32_MAX); },
           [](auto& trace) { trace.set_layers(UINT32_MAX); },
           [](auto& trace) { trace.set_began_ns(INT64_MIN); },
           [](auto& trace) { trace.add_work(1); },
           [](auto& trace) {
             trace.clear_work();
             trace.clear_layer();
             trace.clear_micro_batch();
             trace.clear_took_ns();
           },
           [](auto& trace) { trace.set_work(0, 0); },
           [](auto& trace) { trace.set_work(0, kStepWorks + 1); },
           [](auto& trace) { trace.set_layer(0, 62); },
           [](auto& trace) { trace.set_micro_batch(0, 4); },
           [](auto& trace) { trace.set_took_ns(1, (uint64_t{1} << 50) - (uint64_t{1} << 40)); },
           [](auto& trace) { trace.set_took_ns(1, UINT64_MAX); }}) {
    v1::Statistics bad = wire;
    spoil(*bad.mutable_traces(0));
    EXPECT_EQ(TracesFromProto(bad).size(), 1U);
  }
}

TEST(Convert, KnowsEveryTypeAndPolicy) {
  EXPECT_EQ(ToProto(DType::kFloat32), v1::DTYPE_FLOAT32);
  EXPECT_EQ(ToProto(DType::kBFloat16), v1::DTYPE_BFLOAT16);
  EXPECT_EQ(ToProto(DType::kFloat16), v1::DTYPE_FLOAT16);
  for (const SchedulingPolicy policy : {SchedulingPolicy::kAebs, SchedulingPolicy::kAebsGreedy,
                                        SchedulingPolicy::kRandom, SchedulingPolicy::kStatic}) {
    EXPECT_EQ(*FromProto(ToProto(policy)), policy);
  }
  EXPECT_EQ(*FromProto(v1::SCHEDULING_POLICY_UNSPECIFIED), SchedulingPolicy::kAebs);
  EXPECT_FALSE(FromProto(static_cast<v1::SchedulingPolicy>(9)).ok());
}

TEST(Convert, CodesAreGrpcsBothWays) {
  for (int code = 0; code <= 15; ++code) {
    const Status status = code == 0 ? OkStatus() : Status(static_cast<StatusCode>(code), "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status) << code;
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
  }
  EXPECT_EQ(FromGrpc({grpc::StatusCode::UNAUTHENTICATED, "who"}), PermissionDenied("who"));
  EXPECT_EQ(FromGrpc(99, "?").code(), StatusCode::kUnknown);
}

TEST(Convert, AModelReportComesBackAndIsJudged) {
  ModelReport report;
  report.config_json = "{}";
  report.digest = "0123456789abcdef";
  report.room = {int64_t{64} << 30, true, 16, false, 300};
  const Result<ModelReport> back = FromProto(ToProto(report));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->config_json, report.config_json);
  EXPECT_EQ(back->digest, report.digest);
  EXPECT_EQ(back->room.memory_bytes, report.room.memory_bytes);
  EXPECT_TRUE(back->room.memory_is_limited);
  EXPECT_EQ(back->room.cores, 16);
  EXPECT_FALSE(back->room.cores_are_limited);
  EXPECT_EQ(back->room.device_memory_bytes, 300);
  EXPECT_EQ(back->device, report.device);
  report.device = {"NVIDIA H100 80GB HBM3", CpuSpeed{4, {1e9, 2e9}, {3e9, 4e9}}};
  EXPECT_EQ(FromProto(ToProto(report))->device, report.device);
  report.room.device_memory_bytes.reset();
  EXPECT_FALSE(FromProto(ToProto(report))->room.device_memory_bytes);
  for (const auto& spoil : std::vector<std::function<void(v1::DescribeModelReply&)>>{
           [](auto& reply) { reply.clear_model_digest(); },
           [](auto& reply) { reply.set_model_digest(std::string(65, '0')); },
           [](auto& reply) { reply.set_memory_bytes((uint64_t{1} << 50) + 1); },
           [](auto& reply) { reply.set_device_memory_bytes((uint64_t{1} << 50) + 1); },
           [](auto& reply) { reply.set_cores(0); }, [](auto& reply) { reply.set_cores(1 << 17); },
           [](auto& reply) { reply.set_device_name(std::string(257, 'x')); },
           [](auto& reply) { reply.mutable_cpu_speed()->set_threads(0); },
           [](auto& reply) { reply.mutable_cpu_speed()->mutable_one()->set_bytes(0); },
           [](auto& reply) { reply.mutable_cpu_speed()->mutable_all()->set_operations(-1); },
           [](auto& reply) { reply.mutable_cpu_speed()->mutable_all()->set_bytes(NAN); }}) {
    v1::DescribeModelReply reply = ToProto(report);
    spoil(reply);
    EXPECT_EQ(FromProto(reply).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(Convert, HowFarADownloadIsComesBackAndIsJudged) {
  const FetchProgress progress{5, 7, 1, 2};
  EXPECT_EQ(*FromProto(ToProto(progress)), progress);
  EXPECT_EQ(*FromProto(v1::FetchProgress()), FetchProgress());
  for (const FetchProgress& wrong :
       {FetchProgress{-1, 7, 1, 2}, FetchProgress{8, 7, 1, 2}, FetchProgress{5, 7, -1, 2},
        FetchProgress{5, 7, 3, 2}, FetchProgress{0, -1, 0, 0}}) {
    EXPECT_EQ(FromProto(ToProto(wrong)).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace janus
