#include "proto/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace janus {
namespace {

v1::Role ToProto(Role role) {
  return role == Role::kAttention ? v1::ROLE_ATTENTION : v1::ROLE_EXPERTS;
}

void Fill(const Instance& from, v1::Instance& to) {
  to.set_role(ToProto(from.role));
  to.set_pod_uid(from.pod_uid);
  to.set_index(static_cast<uint32_t>(from.index));
  to.set_incarnation(static_cast<uint32_t>(from.incarnation));
  to.set_node(from.node);
  to.set_domain(from.domain);
  to.set_address(from.address);
  to.set_exchange_address(from.exchange_address);
  to.set_slots(static_cast<uint32_t>(from.slots));
  if (from.role != Role::kAttention) return;
  v1::SequenceRoom& room = *to.mutable_sequences();
  room.set_max_batch_size(static_cast<uint32_t>(from.sequences.max_batch_size));
  room.set_max_model_len(static_cast<uint64_t>(from.sequences.max_model_len));
  room.set_kv_bytes(static_cast<uint64_t>(from.sequences.kv_bytes));
  room.set_swap_bytes(static_cast<uint64_t>(from.sequences.swap_bytes));
  room.set_prefix_host_bytes(static_cast<uint64_t>(from.sequences.prefix_host_bytes));
}

// For numbers that our structs hold as int.
Result<int> ToInt(uint32_t value, const std::string& field) {
  if (value > INT32_MAX) return InvalidArgument("topology: " + field + " " + std::to_string(value));
  return static_cast<int>(value);
}

Result<SequenceRoom> FromProto(const v1::SequenceRoom& from, const std::string& field) {
  SequenceRoom to;
  JANUS_ASSIGN_OR_RETURN(to.max_batch_size,
                         ToInt(from.max_batch_size(), field + ".max_batch_size"));
  for (const uint64_t number :
       {from.max_model_len(), from.kv_bytes(), from.swap_bytes(), from.prefix_host_bytes()}) {
    if (number <= INT64_MAX) continue;
    return InvalidArgument("topology: " + field + " has " + std::to_string(number) +
                           ", more than this version can hold");
  }
  to.max_model_len = static_cast<int64_t>(from.max_model_len());
  to.kv_bytes = static_cast<int64_t>(from.kv_bytes());
  to.swap_bytes = static_cast<int64_t>(from.swap_bytes());
  to.prefix_host_bytes = static_cast<int64_t>(from.prefix_host_bytes());
  return to;
}

Result<Instance> FromProto(const v1::Instance& from, Role role, const std::string& field) {
  if (from.role() != ToProto(role)) {
    return InvalidArgument("topology: " + field + " is of role " + v1::Role_Name(from.role()));
  }
  Instance to;
  to.role = role;
  to.pod_uid = from.pod_uid();
  JANUS_ASSIGN_OR_RETURN(to.index, ToInt(from.index(), field + ".index"));
  JANUS_ASSIGN_OR_RETURN(to.incarnation, ToInt(from.incarnation(), field + ".incarnation"));
  to.node = from.node();
  to.domain = from.domain();
  to.address = from.address();
  to.exchange_address = from.exchange_address();
  JANUS_ASSIGN_OR_RETURN(to.slots, ToInt(from.slots(), field + ".slots"));
  JANUS_ASSIGN_OR_RETURN(to.sequences, FromProto(from.sequences(), field + ".sequences"));
  return to;
}

template <class Enum>
Status Unknown(const char* field, Enum value) {
  return InvalidArgument(std::string("topology: ") + field + " " +
                         std::to_string(static_cast<int>(value)) + " is unknown to this version");
}

Result<Placement> FromProto(const v1::Placement& from) {
  Placement to;
  JANUS_ASSIGN_OR_RETURN(to.layers, ToInt(from.layers(), "placement.layers"));
  uint64_t slots = 0;
  for (const uint32_t count : from.slots_of_instance()) {
    JANUS_ASSIGN_OR_RETURN(const int c, ToInt(count, "placement.slots_of_instance"));
    to.slots_of_instance.push_back(c);
    slots += count;
  }
  // The bound of the API: layers x slots <= 196,608.
  constexpr uint64_t kMostCells = 196'608;
  if (uint64_t{from.layers()} * slots > kMostCells ||
      from.expert_of().size() != uint64_t{from.layers()} * slots * sizeof(uint16_t)) {
    return InvalidArgument("topology: placement of " + std::to_string(from.layers()) +
                           " layers x " + std::to_string(slots) + " slots in " +
                           std::to_string(from.expert_of().size()) + " bytes");
  }
  to.expert_of.resize(from.expert_of().size() / sizeof(uint16_t));
  if (!to.expert_of.empty()) {  // nothing has no address that memcpy takes
    std::memcpy(to.expert_of.data(), from.expert_of().data(), from.expert_of().size());
  }
  return to;
}

}  // namespace

v1::Topology ToProto(const Topology& topology) {
  v1::Topology to;
  to.set_epoch(topology.epoch);
  for (const Instance& instance : topology.attention) Fill(instance, *to.add_attention());
  for (const Instance& instance : topology.experts) Fill(instance, *to.add_experts());
  to.set_mode(static_cast<v1::ExchangeMode>(static_cast<int>(topology.mode) + 1));
  to.set_transport(static_cast<v1::ExchangeTransport>(static_cast<int>(topology.transport) + 1));
  to.set_gate(static_cast<v1::GateSide>(static_cast<int>(topology.gate) + 1));
  to.set_sum(static_cast<v1::SumRule>(static_cast<int>(topology.sum) + 1));
  to.set_micro_batches(static_cast<uint32_t>(topology.micro_batches));
  to.set_max_rows_per_round(static_cast<uint32_t>(topology.max_rows_per_round));
  v1::Placement& placement = *to.mutable_placement();
  placement.set_layers(static_cast<uint32_t>(topology.placement.layers));
  for (const int slots : topology.placement.slots_of_instance) {
    placement.add_slots_of_instance(static_cast<uint32_t>(slots));
  }
  placement.set_expert_of(topology.placement.expert_of.data(),
                          topology.placement.expert_of.size() * sizeof(uint16_t));
  to.set_config_hash(topology.config_hash);
  return to;
}

Result<Topology> FromProto(const v1::Topology& from) {
  Topology to;
  to.epoch = from.epoch();
  for (int i = 0; i < from.attention_size(); ++i) {
    JANUS_ASSIGN_OR_RETURN(Instance instance, FromProto(from.attention(i), Role::kAttention,
                                                        "attention[" + std::to_string(i) + "]"));
    to.attention.push_back(std::move(instance));
  }
  for (int i = 0; i < from.experts_size(); ++i) {
    JANUS_ASSIGN_OR_RETURN(Instance instance, FromProto(from.experts(i), Role::kExperts,
                                                        "experts[" + std::to_string(i) + "]"));
    to.experts.push_back(std::move(instance));
  }
  const int mode = static_cast<int>(from.mode()) - 1;
  if (mode < 0 || mode > static_cast<int>(ExchangeMode::kTwoPhaseParallel))
    return Unknown("mode", from.mode());
  to.mode = static_cast<ExchangeMode>(mode);
  const int transport = static_cast<int>(from.transport()) - 1;
  if (transport < 0 || transport > static_cast<int>(ExchangeTransport::kRdma))
    return Unknown("transport", from.transport());
  to.transport = static_cast<ExchangeTransport>(transport);
  const int gate = static_cast<int>(from.gate()) - 1;
  if (gate < 0 || gate > static_cast<int>(GateSide::kAttention))
    return Unknown("gate", from.gate());
  to.gate = static_cast<GateSide>(gate);
  const int sum = static_cast<int>(from.sum()) - 1;
  if (sum < 0 || sum > static_cast<int>(SumRule::kFixedPoint)) return Unknown("sum", from.sum());
  to.sum = static_cast<SumRule>(sum);
  JANUS_ASSIGN_OR_RETURN(to.micro_batches, ToInt(from.micro_batches(), "micro_batches"));
  JANUS_ASSIGN_OR_RETURN(to.max_rows_per_round,
                         ToInt(from.max_rows_per_round(), "max_rows_per_round"));
  JANUS_ASSIGN_OR_RETURN(to.placement, FromProto(from.placement()));
  to.config_hash = from.config_hash();
  return to;
}

// Leaves out the zeros behind the last count.
void ToProto(const LatencyCounts& latency, google::protobuf::RepeatedField<uint64_t>& to) {
  size_t size = latency.counts.size();
  while (size > 0 && latency.counts[size - 1] == 0) --size;
  to.Add(latency.counts.begin(), latency.counts.begin() + static_cast<ptrdiff_t>(size));
}

// More entries than buckets come from another version, and are ignored.
LatencyCounts FromProto(const google::protobuf::RepeatedField<uint64_t>& counts) {
  LatencyCounts to;
  if (counts.size() <= LatencyCounts::kBuckets) std::ranges::copy(counts, to.counts.begin());
  return to;
}

namespace {

void Fill(const LoadCounts& from, v1::LoadCounts& to) {
  to.set_process(from.process);
  to.set_decode_rows(from.decode_rows);
  to.set_decode_keys(from.decode_keys);
  to.set_prompt_rows(from.prompt_rows);
  to.set_prompt_keys(from.prompt_keys);
  to.set_attention_seconds(from.attention_seconds);
  to.set_exchange_seconds(from.exchange_seconds);
  to.set_step_seconds(from.step_seconds);
  to.set_gate_seconds(from.gate_seconds);
  to.set_aebs_seconds(from.aebs_seconds);
  to.set_expert_seconds(from.expert_seconds);
  to.set_decoding(from.decoding);
  to.set_decoding_kv_tokens(from.decoding_kv_tokens);
  to.set_awaiting(from.awaiting);
  to.set_waiting_prompt_tokens(from.waiting_prompt_tokens);
  to.set_oldest_waiting_seconds(from.oldest_waiting_seconds);
}

LoadCounts FromProto(const v1::LoadCounts& from) {
  LoadCounts to;
  to.process = from.process();
  to.decode_rows = from.decode_rows();
  to.decode_keys = from.decode_keys();
  to.prompt_rows = from.prompt_rows();
  to.prompt_keys = from.prompt_keys();
  to.attention_seconds = from.attention_seconds();
  to.exchange_seconds = from.exchange_seconds();
  to.step_seconds = from.step_seconds();
  to.gate_seconds = from.gate_seconds();
  to.aebs_seconds = from.aebs_seconds();
  to.expert_seconds = from.expert_seconds();
  to.decoding = from.decoding();
  to.decoding_kv_tokens = from.decoding_kv_tokens();
  to.awaiting = from.awaiting();
  to.waiting_prompt_tokens = from.waiting_prompt_tokens();
  to.oldest_waiting_seconds = from.oldest_waiting_seconds();
  return to;
}

constexpr uint32_t kPairWidth = LatencyPairs::kNoTpot + 1;

void Fill(const LatencyPairs& from, v1::LatencyPairs& to) {
  for (const auto& [pair, count] : from.counts()) {
    to.add_pairs(static_cast<uint32_t>(pair.ttft) * kPairWidth + static_cast<uint32_t>(pair.tpot));
    to.add_counts(count);
  }
}

LatencyPairs FromProto(const v1::LatencyPairs& from) {
  LatencyPairs to;
  if (from.pairs_size() != from.counts_size()) return {};
  if (static_cast<size_t>(from.pairs_size()) > LatencyPairs::kMost) return {};
  for (int i = 0; i < from.pairs_size(); ++i) {
    const LatencyPairs::Pair pair{static_cast<int>(from.pairs(i) / kPairWidth),
                                  static_cast<int>(from.pairs(i) % kPairWidth)};
    if (!to.Put(pair, from.counts(i))) return {};
  }
  return to;
}

}  // namespace

v1::InstanceStatistics ToProto(const InstanceStatistics& s) {
  v1::InstanceStatistics to;
  to.set_role(ToProto(s.role));
  to.set_rank(static_cast<uint32_t>(s.rank.value));
  to.set_steps(s.steps);
  to.set_rows(s.rows);
  to.set_tokens(s.tokens);
  to.set_running(s.running);
  to.set_waiting(s.waiting);
  to.set_kv_tokens_used(s.kv_tokens_used);
  to.set_kv_tokens_capacity(s.kv_tokens_capacity);
  to.set_step_seconds_median(s.step_seconds_median);
  to.set_compute_seconds(s.compute_seconds);
  to.set_wait_seconds(s.wait_seconds);
  to.set_host_seconds(s.host_seconds);
  to.set_spin_seconds(s.spin_seconds);
  to.set_rounds(s.rounds);
  to.set_activated_experts(s.activated_experts);
  to.set_preempted(s.preempted);
  to.set_recomputed(s.recomputed);
  to.set_cached(s.cached);
  to.set_sit_outs(s.sit_outs);
  to.set_steps_aborted(s.steps_aborted);
  to.set_rounds_missed(s.rounds_missed);
  to.set_detection_seconds(s.detection_seconds);
  to.set_messages_dropped(s.messages_dropped);
  to.set_messages_malformed(s.messages_malformed);
  to.set_messages_late(s.messages_late);
  to.set_bytes_sent(s.bytes_sent);
  to.set_bytes_received(s.bytes_received);
  to.set_tpot_seconds_median(s.tpot_seconds_median);
  ToProto(s.tpot_counts, *to.mutable_tpot_counts());
  ToProto(s.ttft_counts, *to.mutable_ttft_counts());
  to.set_replayed(s.replayed);
  to.set_swapped(s.swapped);
  to.set_resident_bytes(s.resident_bytes);
  to.set_holding(s.holding);
  to.set_timed(s.timed);
  to.set_timed_waits(s.timed_waits);
  to.set_timed_overruns(s.timed_overruns);
  to.set_epoch(s.epoch);
  for (const PeerLink& link : s.links) {
    v1::PeerLink& out = *to.add_links();
    out.set_role(ToProto(link.role));
    out.set_rank(static_cast<uint32_t>(link.rank.value));
    out.set_transport(link.transport);
    out.set_not_measured(link.not_measured);
    if (!link.measured) continue;
    v1::MeasuredLink& measured = *out.mutable_measured();
    measured.set_latency_seconds(link.measured->latency_seconds);
    measured.set_bytes_per_second(link.measured->bytes_per_second);
    measured.set_message_seconds(link.measured->message_seconds);
  }
  if (!s.device.device.empty()) {
    v1::ExchangeDevice& out = *to.mutable_device();
    out.set_device(s.device.device);
    out.set_port(static_cast<uint32_t>(s.device.port));
    out.set_link_layer(s.device.link_layer);
    out.set_bits_per_second(s.device.bits_per_second);
    out.set_why(s.device.why);
  }
  if (s.load) Fill(*s.load, *to.mutable_load());
  return to;
}

InstanceStatistics FromProto(const v1::InstanceStatistics& s) {
  const auto role_of = [](v1::Role role) {
    return role == v1::ROLE_EXPERTS ? Role::kExperts : Role::kAttention;
  };
  InstanceStatistics to;
  to.role = role_of(s.role());
  to.rank = Rank{static_cast<int32_t>(s.rank())};
  to.steps = s.steps();
  to.rows = s.rows();
  to.tokens = s.tokens();
  to.running = s.running();
  to.waiting = s.waiting();
  to.kv_tokens_used = s.kv_tokens_used();
  to.kv_tokens_capacity = s.kv_tokens_capacity();
  to.step_seconds_median = s.step_seconds_median();
  to.compute_seconds = s.compute_seconds();
  to.wait_seconds = s.wait_seconds();
  to.host_seconds = s.host_seconds();
  to.spin_seconds = s.spin_seconds();
  to.rounds = s.rounds();
  to.activated_experts = s.activated_experts();
  to.preempted = s.preempted();
  to.recomputed = s.recomputed();
  to.cached = s.cached();
  to.sit_outs = s.sit_outs();
  to.steps_aborted = s.steps_aborted();
  to.rounds_missed = s.rounds_missed();
  to.detection_seconds = s.detection_seconds();
  to.messages_dropped = s.messages_dropped();
  to.messages_malformed = s.messages_malformed();
  to.messages_late = s.messages_late();
  to.bytes_sent = s.bytes_sent();
  to.bytes_received = s.bytes_received();
  to.tpot_seconds_median = s.tpot_seconds_median();
  to.tpot_counts = FromProto(s.tpot_counts());
  to.ttft_counts = FromProto(s.ttft_counts());
  to.replayed = s.replayed();
  to.swapped = s.swapped();
  to.resident_bytes = s.resident_bytes();
  to.holding = s.holding();
  to.timed = s.timed();
  to.timed_waits = s.timed_waits();
  to.timed_overruns = s.timed_overruns();
  to.epoch = s.epoch();
  for (const v1::PeerLink& link : s.links()) {
    PeerLink& out = to.links.emplace_back();
    out = {role_of(link.role()), Rank{static_cast<int32_t>(link.rank())}, link.transport()};
    out.not_measured = link.not_measured();
    if (!link.has_measured()) continue;
    out.measured = {link.measured().latency_seconds(), link.measured().bytes_per_second(),
                    link.measured().message_seconds()};
  }
  to.device = {s.device().device(), static_cast<int>(s.device().port()), s.device().link_layer(),
               s.device().bits_per_second(), s.device().why()};
  if (s.has_load()) to.load = FromProto(s.load());
  return to;
}

v1::GatewayCounts ToProto(const GatewayCounts& counts) {
  v1::GatewayCounts to;
  to.set_gateway_id(counts.gateway_id);
  to.set_is_attached(counts.is_attached);
  to.set_reports(counts.reports);
  to.set_age_seconds(counts.age_seconds);
  to.set_arrived(counts.arrived);
  to.set_prompt_tokens(counts.prompt_tokens);
  to.set_prompt_squares(counts.prompt_squares);
  to.set_cached_prompt_tokens(counts.cached_prompt_tokens);
  to.set_unread(counts.unread);
  to.set_refused(counts.refused);
  to.set_failed(counts.failed);
  to.set_finished(counts.finished);
  to.set_output_tokens(counts.output_tokens);
  if (!counts.latencies.counts().empty()) Fill(counts.latencies, *to.mutable_latencies());
  to.set_waiting(counts.waiting);
  to.set_waiting_prompt_tokens(counts.waiting_prompt_tokens);
  to.set_oldest_waiting_seconds(counts.oldest_waiting_seconds);
  return to;
}

GatewayCounts FromProto(const v1::GatewayCounts& counts) {
  GatewayCounts to;
  to.gateway_id = counts.gateway_id();
  to.is_attached = counts.is_attached();
  to.reports = counts.reports();
  to.age_seconds = counts.age_seconds();
  to.arrived = counts.arrived();
  to.prompt_tokens = counts.prompt_tokens();
  to.prompt_squares = counts.prompt_squares();
  to.cached_prompt_tokens = counts.cached_prompt_tokens();
  to.unread = counts.unread();
  to.refused = counts.refused();
  to.failed = counts.failed();
  to.finished = counts.finished();
  to.output_tokens = counts.output_tokens();
  to.latencies = FromProto(counts.latencies());
  to.waiting = counts.waiting();
  to.waiting_prompt_tokens = counts.waiting_prompt_tokens();
  to.oldest_waiting_seconds = counts.oldest_waiting_seconds();
  return to;
}

v1::TimedDevice ToProto(const TimedDevice& device) {
  v1::TimedDevice to;
  to.set_hardware(device.hardware);
  to.set_model(device.model);
  to.set_scale(static_cast<uint32_t>(device.scale));
  to.set_time_scale(static_cast<uint32_t>(device.time_scale));
  return to;
}

Result<TimedDevice> FromProto(const v1::TimedDevice& device) {
  TimedDevice to;
  to.hardware = device.hardware();
  to.model = device.model();
  if (device.scale() > kMostTimedScale || device.time_scale() > kMostTimeScale) {
    return InvalidArgument("config.timed: scale " + std::to_string(device.scale()) +
                           ", time_scale " + std::to_string(device.time_scale()) +
                           "; want at most " + std::to_string(kMostTimedScale) + " and " +
                           std::to_string(kMostTimeScale));
  }
  to.scale = static_cast<int>(device.scale());
  to.time_scale = static_cast<int>(device.time_scale());
  return to;
}

v1::Stamp ToProto(const Stamp& stamp) {
  v1::Stamp to;
  to.set_service_uid(stamp.service_uid);
  to.set_fence(stamp.fence);
  to.set_epoch(stamp.epoch);
  to.set_pool(stamp.pool);
  return to;
}

Stamp FromProto(const v1::Stamp& stamp) {
  return {stamp.service_uid(), stamp.fence(), stamp.epoch(), stamp.pool()};
}

v1::PrepareProgress ToProto(const PrepareProgress& progress) {
  v1::PrepareProgress to;
  to.set_phase(progress.phase);
  to.set_bytes_done(progress.bytes_done);
  to.set_bytes_total(progress.bytes_total);
  return to;
}

PrepareProgress FromProto(const v1::PrepareProgress& progress) {
  return {progress.phase(), progress.bytes_done(), progress.bytes_total()};
}

Statistics FromProto(const v1::Statistics& statistics) {
  Statistics to;
  to.epoch = statistics.epoch();
  for (const v1::InstanceStatistics& instance : statistics.instances()) {
    to.instances.push_back(FromProto(instance));
  }
  for (const v1::SilentMember& one : statistics.silent()) {
    to.silent.push_back({one.name(), one.why()});
  }
  to.routing = RoutingFromProto(statistics);
  to.gateways = GatewaysFromProto(statistics);
  to.traces = TracesFromProto(statistics);
  return to;
}

void AddToProto(const GatewayReports& reports, v1::Statistics& to) {
  for (const GatewayCounts& one : reports.gateways) *to.add_gateways() = ToProto(one);
  to.set_gateways_left_out(reports.left_out);
}

GatewayReports GatewaysFromProto(const v1::Statistics& statistics) {
  GatewayReports came;
  for (const v1::GatewayCounts& one : statistics.gateways())
    came.gateways.push_back(FromProto(one));
  came.left_out = statistics.gateways_left_out();
  GatewayReports to;
  JoinGateways(came, to);
  return to;
}

void AddToProto(const RoutingStatistics& routing, v1::Statistics& to) {
  for (const LayerPopularity& one : routing.popularity) {
    v1::LayerPopularity& out = *to.add_popularity();
    out.set_layer(static_cast<uint32_t>(one.layer));
    out.set_rows(one.rows);
    out.mutable_tokens()->Add(one.tokens.begin(), one.tokens.end());
  }
  for (const RoutedRound& one : routing.rounds) {
    v1::RoutedRound& out = *to.add_rounds();
    out.set_epoch(one.epoch);
    out.set_step(one.step);
    out.set_layer(static_cast<uint32_t>(one.layer));
    out.set_micro_batch(static_cast<uint32_t>(one.micro_batch));
    out.set_top_k(static_cast<uint32_t>(one.top_k));
    std::string& bytes = *out.mutable_experts();
    bytes.reserve(one.experts.size() * 2);
    for (const uint16_t expert : one.experts) {
      bytes += static_cast<char>(expert & 0xff);
      bytes += static_cast<char>(expert >> 8);
    }
  }
  to.set_rounds_too_large(to.rounds_too_large() + routing.rounds_too_large);
}

void AddToProto(const std::vector<StepTrace>& traces, v1::Statistics& to) {
  for (const StepTrace& one : traces) {
    v1::StepTrace& out = *to.add_traces();
    out.set_role(ToProto(one.role));
    out.set_rank(static_cast<uint32_t>(one.rank.value));
    out.set_epoch(one.epoch);
    out.set_step(one.step);
    out.set_layers(static_cast<uint32_t>(one.layers));
    out.set_began_ns(one.began_ns);
    for (const StepSpan& span : one.spans) {
      out.add_work(static_cast<uint32_t>(span.work));
      out.add_layer(static_cast<uint32_t>(span.layer + 1));
      out.add_micro_batch(static_cast<uint32_t>(span.micro_batch));
      out.add_took_ns(static_cast<uint64_t>(std::max<int64_t>(span.took_ns, 0)));
    }
  }
}

std::vector<StepTrace> TracesFromProto(const v1::Statistics& statistics) {
  constexpr uint32_t kMostLayers = 1 << 16;
  constexpr uint32_t kMostRank = 1 << 16;
  constexpr uint64_t kMostTime = uint64_t{1} << 50;  // of a step, in nanoseconds: 13 days
  constexpr int64_t kMostClock = int64_t{1} << 60;
  std::vector<StepTrace> to;
  for (const v1::StepTrace& one : statistics.traces()) {
    const int spans = one.work_size();
    const bool is_role = one.role() == v1::ROLE_ATTENTION || one.role() == v1::ROLE_EXPERTS;
    if (!is_role || spans == 0 || one.rank() >= kMostRank || one.layers() >= kMostLayers ||
        std::abs(one.began_ns() / 2) > kMostClock / 2 || one.layer_size() != spans ||
        one.micro_batch_size() != spans || one.took_ns_size() != spans) {
      continue;
    }
    StepTrace out;
    out.role = one.role() == v1::ROLE_EXPERTS ? Role::kExperts : Role::kAttention;
    out.rank = Rank{static_cast<int32_t>(one.rank())};
    out.epoch = one.epoch();
    out.step = one.step();
    out.layers = static_cast<int>(one.layers());
    out.began_ns = one.began_ns();
    bool is_sound = true;
    uint64_t took = 0;
    for (int i = 0; i < spans; ++i) {
      is_sound = is_sound && one.work(i) >= 1 && one.work(i) <= uint32_t{kStepWorks} &&
                 one.layer(i) <= one.layers() && one.micro_batch(i) < uint32_t{kMaxMicroBatches} &&
                 one.took_ns(i) < kMostTime && (took += one.took_ns(i)) < kMostTime;
      if (!is_sound) break;
      out.spans.push_back({static_cast<StepWork>(one.work(i)), static_cast<int>(one.layer(i)) - 1,
                           static_cast<int>(one.micro_batch(i)),
                           static_cast<int64_t>(one.took_ns(i))});
    }
    if (is_sound) to.push_back(std::move(out));
  }
  return to;
}

RoutingStatistics RoutingFromProto(const v1::Statistics& statistics) {
  constexpr uint32_t kMostLayers = 1 << 16;
  constexpr int kMostExperts = Placement::kEmpty;
  constexpr uint32_t kMostTopK = 1 << 10;
  RoutingStatistics to;
  to.rounds_too_large = statistics.rounds_too_large();
  for (const v1::LayerPopularity& one : statistics.popularity()) {
    if (one.layer() >= kMostLayers || one.tokens_size() > kMostExperts) continue;
    to.popularity.push_back(
        {static_cast<int>(one.layer()), one.rows(), {one.tokens().begin(), one.tokens().end()}});
  }
  for (const v1::RoutedRound& one : statistics.rounds()) {
    const std::string& bytes = one.experts();
    const bool is_sound = one.layer() < kMostLayers &&
                          one.micro_batch() < uint32_t{kMaxMicroBatches} && one.top_k() > 0 &&
                          one.top_k() <= kMostTopK && bytes.size() % (size_t{2} * one.top_k()) == 0;
    if (!is_sound) continue;
    RoutedRound& out = to.rounds.emplace_back();
    out.epoch = one.epoch();
    out.step = one.step();
    out.layer = static_cast<int>(one.layer());
    out.micro_batch = static_cast<int>(one.micro_batch());
    out.top_k = static_cast<int>(one.top_k());
    out.experts.reserve(bytes.size() / 2);
    for (size_t i = 0; i < bytes.size(); i += 2) {
      out.experts.push_back(static_cast<uint16_t>(static_cast<unsigned char>(bytes[i]) |
                                                  static_cast<unsigned char>(bytes[i + 1]) << 8));
    }
  }
  return to;
}

namespace {

v1::ComputeRate ToProto(const ComputeRate& rate) {
  v1::ComputeRate out;
  out.set_bytes(rate.bytes);
  out.set_operations(rate.operations);
  return out;
}

v1::CpuSpeed ToProto(const CpuSpeed& speed) {
  v1::CpuSpeed out;
  out.set_threads(static_cast<uint32_t>(speed.threads));
  *out.mutable_one() = ToProto(speed.one);
  *out.mutable_all() = ToProto(speed.all);
  return out;
}

// Positive, and what some machine could do.
Result<ComputeRate> FromProto(const v1::ComputeRate& rate, const std::string& field) {
  constexpr double kMost = 1e18;
  for (const double value : {rate.bytes(), rate.operations()}) {
    if (std::isfinite(value) && value > 0 && value <= kMost) continue;
    return InvalidArgument("cpu_speed." + field + ": is " + std::to_string(value) +
                           " per second; want a positive number");
  }
  return ComputeRate{rate.bytes(), rate.operations()};
}

Result<CpuSpeed> FromProto(const v1::CpuSpeed& speed) {
  constexpr uint32_t kMostThreads = 1 << 16;
  if (speed.threads() < 1 || speed.threads() > kMostThreads) {
    return InvalidArgument("cpu_speed.threads: is " + std::to_string(speed.threads()) +
                           "; want 1 to " + std::to_string(kMostThreads));
  }
  CpuSpeed out;
  out.threads = static_cast<int>(speed.threads());
  JANUS_ASSIGN_OR_RETURN(out.one, FromProto(speed.one(), "one"));
  JANUS_ASSIGN_OR_RETURN(out.all, FromProto(speed.all(), "all"));
  return out;
}

}  // namespace

v1::DescribeModelReply ToProto(const ModelReport& report) {
  v1::DescribeModelReply out;
  out.set_config_json(report.config_json);
  out.set_model_digest(report.digest);
  out.set_text_digest(report.text_digest);
  out.set_memory_bytes(static_cast<uint64_t>(report.room.memory_bytes));
  out.set_memory_is_limited(report.room.memory_is_limited);
  out.set_cores(static_cast<uint32_t>(report.room.cores));
  out.set_cores_are_limited(report.room.cores_are_limited);
  if (report.room.device_memory_bytes) {
    out.set_device_memory_bytes(static_cast<uint64_t>(*report.room.device_memory_bytes));
  }
  out.set_device_name(report.device.name);
  if (report.device.cpu) *out.mutable_cpu_speed() = ToProto(*report.device.cpu);
  return out;
}

Result<ModelReport> FromProto(const v1::DescribeModelReply& reply) {
  // A digest has 64 bits, and no machine is larger.
  constexpr size_t kLongestDigest = 64;
  constexpr uint64_t kMostMemory = uint64_t{1} << 50;
  constexpr uint32_t kMostCores = 1 << 16;
  if (reply.model_digest().empty() || reply.model_digest().size() > kLongestDigest) {
    return InvalidArgument("model_digest: " + std::to_string(reply.model_digest().size()) +
                           " characters; want 1 to " + std::to_string(kLongestDigest));
  }
  if (reply.text_digest().size() > kLongestDigest) {
    return InvalidArgument("text_digest: " + std::to_string(reply.text_digest().size()) +
                           " characters; want at most " + std::to_string(kLongestDigest));
  }
  if (reply.memory_bytes() > kMostMemory || reply.cores() < 1 || reply.cores() > kMostCores) {
    return InvalidArgument("memory_bytes " + std::to_string(reply.memory_bytes()) + ", cores " +
                           std::to_string(reply.cores()) + ": no machine has as many");
  }
  if (reply.device_memory_bytes() > kMostMemory) {
    return InvalidArgument("device_memory_bytes " + std::to_string(reply.device_memory_bytes()) +
                           ": no GPU has as many");
  }
  ModelReport out;
  out.config_json = reply.config_json();
  out.digest = reply.model_digest();
  out.text_digest = reply.text_digest();
  out.room.memory_bytes = static_cast<int64_t>(reply.memory_bytes());
  out.room.memory_is_limited = reply.memory_is_limited();
  out.room.cores = static_cast<int>(reply.cores());
  out.room.cores_are_limited = reply.cores_are_limited();
  if (reply.has_device_memory_bytes()) {
    out.room.device_memory_bytes = static_cast<int64_t>(reply.device_memory_bytes());
  }
  constexpr size_t kLongestName = 256;
  if (reply.device_name().size() > kLongestName) {
    return InvalidArgument("device_name: " + std::to_string(reply.device_name().size()) +
                           " characters; want at most " + std::to_string(kLongestName));
  }
  out.device.name = reply.device_name();
  if (reply.has_cpu_speed()) {
    JANUS_ASSIGN_OR_RETURN(out.device.cpu, FromProto(reply.cpu_speed()));
  }
  return out;
}

v1::FetchProgress ToProto(const FetchProgress& progress) {
  v1::FetchProgress out;
  out.set_bytes_done(progress.bytes_done);
  out.set_bytes_total(progress.bytes_total);
  out.set_files_done(progress.files_done);
  out.set_files_total(progress.files_total);
  return out;
}

Result<FetchProgress> FromProto(const v1::FetchProgress& progress) {
  const FetchProgress out{progress.bytes_done(), progress.bytes_total(), progress.files_done(),
                          progress.files_total()};
  if (out.bytes_done < 0 || out.bytes_done > out.bytes_total || out.files_done < 0 ||
      out.files_done > out.files_total) {
    return InvalidArgument("a download of " + std::to_string(out.bytes_done) + " of " +
                           std::to_string(out.bytes_total) + " bytes and " +
                           std::to_string(out.files_done) + " of " +
                           std::to_string(out.files_total) + " files: no download is so far");
  }
  return out;
}

v1::DType ToProto(DType dtype) {
  return static_cast<v1::DType>(static_cast<int>(dtype) + 1);
}

v1::SchedulingPolicy ToProto(SchedulingPolicy policy) {
  return static_cast<v1::SchedulingPolicy>(static_cast<int>(policy) + 1);
}

Result<SchedulingPolicy> FromProto(v1::SchedulingPolicy policy) {
  switch (policy) {
    case v1::SCHEDULING_POLICY_UNSPECIFIED:
    case v1::SCHEDULING_POLICY_AEBS:
      return SchedulingPolicy::kAebs;
    case v1::SCHEDULING_POLICY_AEBS_GREEDY:
      return SchedulingPolicy::kAebsGreedy;
    case v1::SCHEDULING_POLICY_RANDOM:
      return SchedulingPolicy::kRandom;
    case v1::SCHEDULING_POLICY_STATIC:
      return SchedulingPolicy::kStatic;
    default:
      return Unknown("scheduling", policy);
  }
}

v1::Compression ToProto(Compression compression) {
  return compression == Compression::kFp8 ? v1::COMPRESSION_FP8 : v1::COMPRESSION_NONE;
}

v1::FixedSums ToProto(const FixedPointSums& sums) {
  v1::FixedSums out;
  out.set_bits(static_cast<uint32_t>(sums.bits));
  for (const int8_t exponent : sums.exponents) out.add_exponents(exponent);
  return out;
}

Result<FixedPointSums> FromProto(const v1::FixedSums& sums) {
  FixedPointSums out;
  out.bits = static_cast<int>(std::min(sums.bits(), 255u));
  for (const int32_t exponent : sums.exponents()) {
    if (exponent < INT8_MIN || exponent > INT8_MAX) return Unknown("exponent", exponent);
    out.exponents.push_back(static_cast<int8_t>(exponent));
  }
  return out;
}

Result<Compression> FromProto(v1::Compression compression) {
  switch (compression) {
    case v1::COMPRESSION_UNSPECIFIED:
    case v1::COMPRESSION_NONE:
      return Compression::kNone;
    case v1::COMPRESSION_FP8:
      return Compression::kFp8;
    default:
      return Unknown("compression", compression);
  }
}

v1::PrefixSharing ToProto(PrefixSharing sharing) {
  return static_cast<v1::PrefixSharing>(static_cast<int>(sharing) + 1);
}

Result<PrefixSharing> FromProto(v1::PrefixSharing sharing) {
  switch (sharing) {
    case v1::PREFIX_SHARING_UNSPECIFIED:
    case v1::PREFIX_SHARING_EXACT:
      return PrefixSharing::kExact;
    case v1::PREFIX_SHARING_REUSE:
      return PrefixSharing::kReuse;
    case v1::PREFIX_SHARING_DISABLED:
      return PrefixSharing::kDisabled;
    default:
      return Unknown("prefix_sharing", sharing);
  }
}

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

Status FromGrpc(const grpc::Status& status) {
  return FromGrpc(static_cast<uint32_t>(status.error_code()), status.error_message());
}

Status FromGrpc(uint32_t code, std::string message) {
  if (code == grpc::StatusCode::OK) return OkStatus();
  if (code == grpc::StatusCode::UNAUTHENTICATED) return PermissionDenied(std::move(message));
  const bool known = code <= static_cast<uint32_t>(StatusCode::kDataLoss);
  return {known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, std::move(message)};
}

}  // namespace janus
