#include "operator/kube/metrics.h"

#include <cstdint>
#include <vector>

#include "operator/kube/event_book.h"
#include "operator/kube/metric_table.h"
#include "operator/kube/reflector.h"

namespace janus::control {
namespace {

// Seconds, as in component-base's rest client metrics and client-go's work queue metrics.
const std::vector<double> kCallBounds{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};
const std::vector<double> kQueueBounds{1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3,
                                       1e-2, 1e-1, 1,    10,   100,  1000};

consteval Metric Of(std::string_view name) {
  return {kKubeMetrics, name};
}

std::string CodeText(std::optional<int> code) {
  return code ? std::to_string(*code) : "<error>";
}

// Copies a count that is kept elsewhere and never decreases.
void Raise(Counter& counter, int64_t to) {
  counter.Add(static_cast<uint64_t>(to) - counter.value());
}

}  // namespace

ClientMetrics::ClientMetrics(MetricRegistry& registry, std::string host)
    : registry_(registry),
      host_(std::move(host)),
      warnings_(registry.AddCounter(Of("janus_client_warnings_total"), {{"host", host_}})) {}

Counter& ClientMetrics::In(std::map<Key, Counter*>& counters, Metric metric,
                           const char* method_label, std::string_view method,
                           std::optional<int> code) {
  Counter*& counter = counters[{std::string(method), CodeText(code)}];
  if (counter == nullptr) {
    counter = &registry_.AddCounter(
        metric, {{"code", CodeText(code)}, {method_label, std::string(method)}, {"host", host_}});
  }
  return *counter;
}

Histogram& ClientMetrics::In(std::map<std::string, Histogram*, std::less<>>& histograms,
                             Metric metric, std::string_view method) {
  const auto found = histograms.find(method);
  if (found != histograms.end()) return *found->second;
  Histogram& made =
      registry_.AddHistogram(metric, {{"verb", std::string(method)}, {"host", host_}}, kCallBounds);
  histograms.emplace(method, &made);
  return made;
}

void ClientMetrics::Attempted(std::string_view method, std::optional<int> code,
                              std::optional<Seconds> took) {
  const MutexLock lock(mu_);
  In(requests_, Of("rest_client_requests_total"), "method", method, code).Add();
  if (!took) return;
  In(durations_, Of("rest_client_request_duration_seconds"), method).Observe(took->count());
}

void ClientMetrics::Retried(std::string_view method, std::optional<int> code) {
  const MutexLock lock(mu_);
  In(retries_, Of("rest_client_request_retries_total"), "verb", method, code).Add();
}

void ClientMetrics::Warned() {
  warnings_.Add();
}

void ClientMetrics::Waited(std::string_view method, Seconds wait) {
  const MutexLock lock(mu_);
  In(waits_, Of("rest_client_rate_limiter_duration_seconds"), method).Observe(wait.count());
}

WorkQueueMetrics::WorkQueueMetrics(MetricRegistry& r, const std::string& name)
    : depth(r.AddGauge(Of("workqueue_depth"), {{"name", name}})),
      adds(r.AddCounter(Of("workqueue_adds_total"), {{"name", name}})),
      retries(r.AddCounter(Of("workqueue_retries_total"), {{"name", name}})),
      queue_duration(
          r.AddHistogram(Of("workqueue_queue_duration_seconds"), {{"name", name}}, kQueueBounds)),
      work_duration(
          r.AddHistogram(Of("workqueue_work_duration_seconds"), {{"name", name}}, kQueueBounds)),
      unfinished_work(r.AddGauge(Of("workqueue_unfinished_work_seconds"), {{"name", name}})),
      longest_running(
          r.AddGauge(Of("workqueue_longest_running_processor_seconds"), {{"name", name}})) {}

ReflectorMetrics::ReflectorMetrics(MetricRegistry& r, const std::string& name,
                                   const std::string& ns)
    : ReflectorMetrics(r, ns.empty() ? MetricLabels{{"name", name}}
                                     : MetricLabels{{"name", name}, {"namespace", ns}}) {}

ReflectorMetrics::ReflectorMetrics(MetricRegistry& r, const MetricLabels& labels)
    : lists_(r.AddCounter(Of("reflector_lists_total"), labels)),
      streams_(r.AddCounter(Of("janus_reflector_streamed_lists_total"), labels)),
      relists_(r.AddCounter(Of("janus_reflector_relists_total"), labels)),
      pages_(r.AddCounter(Of("janus_reflector_pages_total"), labels)),
      watches_(r.AddCounter(Of("reflector_watches_total"), labels)),
      events_(r.AddCounter(Of("janus_reflector_events_total"), labels)),
      bookmarks_(r.AddCounter(Of("janus_reflector_bookmarks_total"), labels)),
      unchanged_(r.AddCounter(Of("janus_reflector_unchanged_total"), labels)),
      deltas_(r.AddCounter(Of("janus_reflector_deltas_total"), labels)),
      failures_(r.AddCounter(Of("janus_reflector_failures_total"), labels)),
      synced_(r.AddGauge(Of("janus_reflector_synced"), labels)),
      told_at_(r.AddGauge(Of("janus_reflector_last_told_timestamp_seconds"), labels)) {}

void ReflectorMetrics::Publish(const ReflectorStatistics& now, std::optional<WallTime> told_at) {
  Raise(lists_, now.lists);
  Raise(streams_, now.streams);
  Raise(relists_, now.relists);
  Raise(pages_, now.pages);
  Raise(watches_, now.watches);
  Raise(events_, now.events);
  Raise(bookmarks_, now.bookmarks);
  Raise(unchanged_, now.unchanged);
  Raise(deltas_, now.deltas);
  Raise(failures_, now.failures);
  synced_.Set(now.lists > 0 ? 1 : 0);
  if (told_at) told_at_.Set(Seconds(told_at->time_since_epoch()).count());
}

EventMetrics::EventMetrics(MetricRegistry& r)
    : recorded_(r.AddCounter(Of("janus_events_recorded_total"), {})),
      repeats_(r.AddCounter(Of("janus_events_repeats_total"), {})),
      created_(r.AddCounter(Of("janus_events_written_total"), {{"type", "create"}})),
      patched_(r.AddCounter(Of("janus_events_written_total"), {{"type", "patch"}})),
      dropped_limited_(r.AddCounter(Of("janus_events_dropped_total"), {{"reason", "limited"}})),
      dropped_full_(r.AddCounter(Of("janus_events_dropped_total"), {{"reason", "full"}})),
      dropped_failed_(r.AddCounter(Of("janus_events_dropped_total"), {{"reason", "failed"}})),
      depth_(r.AddGauge(Of("janus_events_waiting"), {})) {}

void EventMetrics::Publish(const EventStatistics& now, size_t depth) {
  Raise(recorded_, now.recorded);
  Raise(repeats_, now.repeats);
  Raise(created_, now.created);
  Raise(patched_, now.patched);
  Raise(dropped_limited_, now.dropped_limited);
  Raise(dropped_full_, now.dropped_full);
  Raise(dropped_failed_, now.dropped_failed);
  depth_.Set(static_cast<double>(depth));
}

Gauge& LeaderGauge(MetricRegistry& registry, const std::string& lease) {
  return registry.AddGauge(Of("leader_election_master_status"), {{"name", lease}});
}

}  // namespace janus::control
