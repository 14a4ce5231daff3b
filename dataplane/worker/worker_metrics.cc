#include "dataplane/worker/worker_metrics.h"

#include <string>

#include "dataplane/comm/transport.h"

namespace janus::dataplane {
namespace {

// Families of one instance, in the order they are added.
class Collected {
 public:
  explicit Collected(const InstanceStatistics& s)
      : instance_(
            {{"role", std::string(ToString(s.role))}, {"rank", std::to_string(s.rank.value)}}) {}

  // One more series of the family of that name.
  void Counter(const char* name, const char* help, double value, MetricLabels more = {}) {
    Add(name, help, MetricType::kCounter, std::move(more)).value = value;
  }
  void Gauge(const char* name, const char* help, double value, MetricLabels more = {}) {
    Add(name, help, MetricType::kGauge, std::move(more)).value = value;
  }
  void Histogram(const char* name, const char* help, const HistogramSample& sample) {
    Add(name, help, MetricType::kHistogram, {}).histogram = sample;
  }
  std::vector<MetricFamily> families;

 private:
  MetricFamily::Series& Add(const char* name, const char* help, MetricType type,
                            MetricLabels more) {
    if (families.empty() || families.back().name != name) {
      families.push_back({name, help, type, {}});
    }
    MetricFamily::Series& series = families.back().series.emplace_back();
    series.labels = instance_;
    for (auto& label : more) series.labels.push_back(std::move(label));
    return series;
  }

  const MetricLabels instance_;
};

void AddAttention(const InstanceStatistics& s, Collected& to) {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  to.Gauge("janus_sequences_running", "Sequences in the batch.", number(s.running));
  to.Gauge("janus_sequences_waiting", "Sequences not yet admitted.", number(s.waiting));
  to.Gauge("janus_kv_tokens", "Positions in the KV cache.", number(s.kv_tokens_used));
  to.Gauge("janus_kv_tokens_capacity", "Positions that the KV cache has room for.",
           number(s.kv_tokens_capacity));
  to.Counter("janus_generated_tokens_total", "Tokens generated.", number(s.tokens));
  to.Counter("janus_preemptions_total", "Times a sequence gave way for want of pages.",
             number(s.preempted));
  to.Counter("janus_recomputed_tokens_total", "Positions computed that had been before.",
             number(s.recomputed));
  to.Counter("janus_sit_outs_total", "Steps this instance had work for and was left out of.",
             number(s.sit_outs));
}

void AddExperts(const InstanceStatistics& s, Collected& to) {
  to.Counter("janus_rounds_total", "Rounds answered.", static_cast<double>(s.rounds));
  to.Counter("janus_activated_experts_total", "Experts computed here, summed over rounds.",
             static_cast<double>(s.activated_experts));
}

}  // namespace

std::vector<double> StepSecondsBounds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05,
          0.075,  0.1,   0.15,   0.2,   0.3,    0.5,  1,     2.5,  5,    10};
}

std::vector<MetricFamily> WorkerMetrics(const InstanceStatistics& s, uint64_t epoch,
                                        const HistogramSample& step_seconds) {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  Collected to(s);
  to.Gauge("janus_topology_epoch", "Epoch that is served, 0 before the first and after the last.",
           number(epoch));
  to.Gauge("janus_holding",
           "1 while requests are kept and nothing is computed, as the epoch was lost.",
           s.holding.empty() ? 0 : 1);
  for (const PeerLink& link : s.links) {
    to.Gauge("janus_exchange_link_info", "How messages to a peer travel; always 1.", 1,
             {{"peer", ToString(PeerId{link.role, link.rank})}, {"transport", link.transport}});
  }
  constexpr const char* kBytes = "Bytes of rows and contributions, by direction.";
  to.Counter("janus_exchange_bytes_total", kBytes, number(s.bytes_sent), {{"direction", "sent"}});
  to.Counter("janus_exchange_bytes_total", kBytes, number(s.bytes_received),
             {{"direction", "received"}});
  constexpr const char* kDropped = "Messages dropped, by reason.";
  to.Counter("janus_messages_dropped_total", kDropped, number(s.messages_malformed),
             {{"reason", "malformed"}});
  to.Counter("janus_messages_dropped_total", kDropped, number(s.messages_late),
             {{"reason", "late"}});
  to.Counter("janus_messages_dropped_total", kDropped,
             number(s.messages_dropped - s.messages_malformed - s.messages_late),
             {{"reason", "control"}});
  to.Gauge("janus_detection_deadline_seconds",
           "How long a round is waited for here before it is missed.", s.detection_seconds);
  to.Counter("janus_rounds_missed_total", "Rounds and tickets late or unusable, noticed here.",
             number(s.rounds_missed));
  to.Counter("janus_step_repeats_total", "Steps given up before their end and repeated.",
             number(s.steps_aborted));
  to.Counter("janus_steps_total", "Steps ended.", number(s.steps));
  to.Histogram("janus_step_seconds", "Seconds of a step.", step_seconds);
  constexpr const char* kParts = "Seconds of steps, by what they went to.";
  to.Counter("janus_step_part_seconds_total", kParts, s.compute_seconds, {{"part", "busy"}});
  to.Counter("janus_step_part_seconds_total", kParts, s.wait_seconds, {{"part", "wait"}});
  to.Counter("janus_rows_total", "Rows computed.", number(s.rows));
  to.Gauge("process_resident_memory_bytes", "Resident memory size in bytes.",
           number(s.resident_bytes));
  if (s.role == Role::kAttention) AddAttention(s, to);
  if (s.role == Role::kExperts) AddExperts(s, to);
  return std::move(to.families);
}

}  // namespace janus::dataplane
