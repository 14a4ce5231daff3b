#include "dataplane/worker/worker_metrics.h"

#include <string>

#include "common/check.h"
#include "dataplane/comm/transport/transport.h"
#include "dataplane/worker/worker_metric_table.h"

namespace janus::dataplane {
namespace {

consteval Metric Of(std::string_view name) {
  return {kWorkerMetrics, name};
}

// The families of one instance, in the order in which they are added.
class Collected {
 public:
  explicit Collected(const InstanceStatistics& s)
      : instance_(
            {{"role", std::string(ToString(s.role))}, {"rank", std::to_string(s.rank.value)}}) {}

  // Adds a series to the family of that name.
  void Counter(Metric metric, double value, MetricLabels more = {}) {
    Add(metric, MetricType::kCounter, std::move(more)).value = value;
  }
  void Gauge(Metric metric, double value, MetricLabels more = {}) {
    Add(metric, MetricType::kGauge, std::move(more)).value = value;
  }
  void Histogram(Metric metric, const janus::Histogram& histogram, MetricLabels more = {}) {
    Add(metric, MetricType::kHistogram, std::move(more)).histogram = histogram.Sample();
  }
  std::vector<MetricFamily> families;

 private:
  MetricFamily::Series& Add(Metric metric, MetricType type, MetricLabels more) {
    JANUS_CHECK(metric->type == type, metric->name);
    JANUS_CHECK(AreDeclared(more, metric->labels), metric->name);
    if (families.empty() || families.back().name != metric->name) families.emplace_back(metric);
    MetricFamily::Series& series = families.back().series.emplace_back();
    series.labels = instance_;
    for (auto& label : more) series.labels.push_back(std::move(label));
    return series;
  }

  const MetricLabels instance_;
};

void AddAttention(const InstanceStatistics& s, Collected& to) {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  to.Gauge(Of("janus_sequences_running"), number(s.running));
  to.Gauge(Of("janus_sequences_waiting"), number(s.waiting));
  const LoadCounts load = s.load.value_or(LoadCounts());
  to.Gauge(Of("janus_waiting_prompt_tokens"), number(load.waiting_prompt_tokens));
  to.Gauge(Of("janus_oldest_waiting_seconds"), load.oldest_waiting_seconds);
  to.Gauge(Of("janus_kv_tokens"), number(s.kv_tokens_used));
  to.Gauge(Of("janus_kv_tokens_capacity"), number(s.kv_tokens_capacity));
  to.Counter(Of("janus_generated_tokens_total"), number(s.tokens));
  to.Counter(Of("janus_preemptions_total"), number(s.preempted));
  to.Counter(Of("janus_prefix_cached_tokens_total"), number(s.cached));
  to.Counter(Of("janus_prefix_host_cached_tokens_total"), number(s.cached_in_host));
  to.Counter(Of("janus_prefix_host_saved_tokens_total"), number(s.saved_to_host));
  to.Gauge(Of("janus_prefix_host_bytes"), number(s.prefix_host_bytes));
  to.Counter(Of("janus_recomputed_tokens_total"), number(s.recomputed));
  to.Counter(Of("janus_replayed_tokens_total"), number(s.replayed));
  to.Gauge(Of("janus_swapped_sequences"), number(s.swapped));
  to.Counter(Of("janus_sit_outs_total"), number(s.sit_outs));
}

void AddExperts(const InstanceStatistics& s, Collected& to) {
  to.Counter(Of("janus_rounds_total"), static_cast<double>(s.rounds));
  to.Counter(Of("janus_activated_experts_total"), static_cast<double>(s.activated_experts));
  to.Counter(Of("janus_clamped_elements_total"), static_cast<double>(s.clamped_elements));
}

void AddTimes(Role role, const StepMetrics& metrics, Collected& to) {
  const bool attends = role == Role::kAttention;
  constexpr Metric kWait = Of("janus_step_wait_seconds");
  if (attends) to.Histogram(kWait, metrics.wait_coordinator, {{"for", "coordinator"}});
  to.Histogram(kWait, metrics.wait_peer, {{"for", "peer"}});
  constexpr Metric kRound = Of("janus_round_seconds");
  if (attends) {
    to.Histogram(kRound, metrics.attention, {{"module", "attention"}});
    to.Histogram(kRound, metrics.shared_experts, {{"module", "shared_experts"}});
    to.Histogram(kRound, metrics.combine, {{"module", "combine"}});
    if (metrics.gate.Sample().sum > 0) to.Histogram(kRound, metrics.gate, {{"module", "gate"}});
  } else {
    to.Histogram(kRound, metrics.gate, {{"module", "gate"}});
    to.Histogram(kRound, metrics.experts, {{"module", "experts"}});
  }
  constexpr Metric kExchange = Of("janus_exchange_seconds");
  for (size_t i = 0; i < StepMetrics::kModes; ++i) {
    const StepMetrics::Exchange& one = metrics.exchange[i];
    const auto mode = static_cast<ExchangeMode>(i);
    // A mode that was never used has no series.
    if (mode != ExchangeMode::kDirect && one.send.Sample().sum == 0) continue;
    const std::string name(ToString(mode));
    to.Histogram(kExchange, one.send, {{"phase", "send"}, {"mode", name}});
    to.Histogram(kExchange, one.receive, {{"phase", "receive"}, {"mode", name}});
  }
  if (!attends) to.Histogram(Of("janus_aebs_seconds"), metrics.aebs);
}

}  // namespace

std::vector<MetricFamily> WorkerMetrics(const InstanceStatistics& s, uint64_t epoch,
                                        const StepMetrics& metrics) {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  Collected to(s);
  to.Gauge(Of("janus_topology_epoch"), number(epoch));
  to.Gauge(Of("janus_holding"), s.holding.empty() ? 0 : 1);
  for (const PeerLink& link : s.links) {
    to.Gauge(Of("janus_exchange_link_info"), 1,
             {{"peer", ToString(PeerId{link.role, link.rank})}, {"transport", link.transport}});
  }
  const auto measured = [&](Metric metric, double MeasuredLink::*value) {
    for (const PeerLink& link : s.links) {
      if (!link.measured) continue;
      to.Gauge(metric, (*link.measured).*value, {{"peer", ToString(PeerId{link.role, link.rank})}});
    }
  };
  measured(Of("janus_exchange_link_latency_seconds"), &MeasuredLink::latency_seconds);
  measured(Of("janus_exchange_link_bytes_per_second"), &MeasuredLink::bytes_per_second);
  measured(Of("janus_exchange_link_message_seconds"), &MeasuredLink::message_seconds);
  if (!s.device.device.empty()) {
    to.Gauge(Of("janus_exchange_device_bytes_per_second"),
             static_cast<double>(s.device.bits_per_second) / 8,
             {{"device", s.device.device},
              {"port", std::to_string(s.device.port)},
              {"link_layer", s.device.link_layer},
              {"why", s.device.why}});
  }
  to.Counter(Of("janus_exchange_bytes_total"), number(s.bytes_sent), {{"direction", "sent"}});
  to.Counter(Of("janus_exchange_bytes_total"), number(s.bytes_received),
             {{"direction", "received"}});
  to.Counter(Of("janus_messages_dropped_total"), number(s.messages_malformed),
             {{"reason", "malformed"}});
  to.Counter(Of("janus_messages_dropped_total"), number(s.messages_late), {{"reason", "late"}});
  to.Counter(Of("janus_messages_dropped_total"),
             number(s.messages_dropped - s.messages_malformed - s.messages_late),
             {{"reason", "control"}});
  to.Gauge(Of("janus_detection_deadline_seconds"), s.detection_seconds);
  to.Counter(Of("janus_rounds_missed_total"), number(s.rounds_missed));
  to.Counter(Of("janus_step_repeats_total"), number(s.steps_aborted));
  to.Counter(Of("janus_steps_total"), number(s.steps));
  to.Histogram(Of("janus_step_seconds"), metrics.step);
  to.Counter(Of("janus_step_part_seconds_total"), s.compute_seconds, {{"part", "busy"}});
  to.Counter(Of("janus_step_part_seconds_total"), s.wait_seconds, {{"part", "wait"}});
  AddTimes(s.role, metrics, to);
  if (!s.timed.empty()) {
    to.Counter(Of("janus_timed_waits_total"), number(s.timed_waits));
    to.Counter(Of("janus_timed_overruns_total"), number(s.timed_overruns));
  }
  to.Counter(Of("janus_rows_total"), number(s.rows));
  to.Gauge(Of("process_resident_memory_bytes"), number(s.resident_bytes));
  if (s.role == Role::kAttention) AddAttention(s, to);
  if (s.role == Role::kExperts) AddExperts(s, to);
  return std::move(to.families);
}

}  // namespace janus::dataplane
