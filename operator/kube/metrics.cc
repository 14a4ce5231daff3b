#include "operator/kube/metrics.h"

#include <cstdint>
#include <vector>

#include "operator/kube/event_book.h"
#include "operator/kube/reflector.h"

namespace janus::control {
namespace {

// Seconds: those of component-base's rest client metrics, and of client-go's work queue metrics.
const std::vector<double> kCallBounds{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};
const std::vector<double> kQueueBounds{1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3,
                                       1e-2, 1e-1, 1,    10,   100,  1000};

std::string CodeText(std::optional<int> code) {
  return code ? std::to_string(*code) : "<error>";
}

// A counter that somebody else counts, and nobody counts down.
void Raise(Counter& counter, int64_t to) {
  counter.Add(static_cast<uint64_t>(to) - counter.value());
}

}  // namespace

ClientMetrics::ClientMetrics(MetricRegistry& registry, std::string host)
    : registry_(registry), host_(std::move(host)) {}

Counter& ClientMetrics::In(std::map<Key, Counter*>& counters, const char* name, const char* help,
                           const char* method_label, std::string_view method,
                           std::optional<int> code) {
  Counter*& counter = counters[{std::string(method), CodeText(code)}];
  if (counter == nullptr) {
    counter = &registry_.AddCounter(
        name, {{"code", CodeText(code)}, {method_label, std::string(method)}, {"host", host_}},
        help);
  }
  return *counter;
}

Histogram& ClientMetrics::In(std::map<std::string, Histogram*, std::less<>>& histograms,
                             const char* name, const char* help, std::string_view method) {
  const auto found = histograms.find(method);
  if (found != histograms.end()) return *found->second;
  Histogram& made = registry_.AddHistogram(name, {{"verb", std::string(method)}, {"host", host_}},
                                           help, kCallBounds);
  histograms.emplace(method, &made);
  return made;
}

void ClientMetrics::Attempted(std::string_view method, std::optional<int> code,
                              std::optional<Seconds> took) {
  const MutexLock lock(mu_);
  In(requests_, "rest_client_requests_total", "Requests to the API server, every attempt.",
     "method", method, code)
      .Add();
  if (!took) return;
  In(durations_, "rest_client_request_duration_seconds", "Time of an attempt, watches left out.",
     method)
      .Observe(took->count());
}

void ClientMetrics::Retried(std::string_view method, std::optional<int> code) {
  const MutexLock lock(mu_);
  In(retries_, "rest_client_request_retries_total", "Calls that were tried again, by why.", "verb",
     method, code)
      .Add();
}

void ClientMetrics::Waited(std::string_view method, Seconds wait) {
  const MutexLock lock(mu_);
  In(waits_, "rest_client_rate_limiter_duration_seconds",
     "Time a call waited for its turn under the client's own limit.", method)
      .Observe(wait.count());
}

WorkQueueMetrics::WorkQueueMetrics(MetricRegistry& r, const std::string& name)
    : depth(r.AddGauge("workqueue_depth", {{"name", name}}, "Keys that wait for a worker.")),
      adds(r.AddCounter("workqueue_adds_total", {{"name", name}}, "Keys that began to wait.")),
      retries(r.AddCounter("workqueue_retries_total", {{"name", name}},
                           "Keys given back to be tried later.")),
      queue_duration(r.AddHistogram("workqueue_queue_duration_seconds", {{"name", name}},
                                    "Time a key waited for a worker.", kQueueBounds)),
      work_duration(r.AddHistogram("workqueue_work_duration_seconds", {{"name", name}},
                                   "Time a worker had a key.", kQueueBounds)),
      unfinished_work(r.AddGauge("workqueue_unfinished_work_seconds", {{"name", name}},
                                 "For how long workers have had their keys, summed up.")),
      longest_running(r.AddGauge("workqueue_longest_running_processor_seconds", {{"name", name}},
                                 "For how long the slowest worker has had its key.")) {}

ReflectorMetrics::ReflectorMetrics(MetricRegistry& r, const std::string& name,
                                   const std::string& ns)
    : ReflectorMetrics(r, ns.empty() ? MetricLabels{{"name", name}}
                                     : MetricLabels{{"name", name}, {"namespace", ns}}) {}

ReflectorMetrics::ReflectorMetrics(MetricRegistry& r, const MetricLabels& labels)
    : lists_(r.AddCounter("reflector_lists_total", labels, "Complete lists.")),
      streams_(r.AddCounter("janus_reflector_streamed_lists_total", labels,
                            "Of the complete lists, those that came as a stream.")),
      relists_(r.AddCounter("janus_reflector_relists_total", labels,
                            "Lists begun although one was complete before.")),
      pages_(r.AddCounter("janus_reflector_pages_total", labels, "Pages of lists.")),
      watches_(r.AddCounter("reflector_watches_total", labels, "Watches begun.")),
      events_(r.AddCounter("janus_reflector_events_total", labels,
                           "Events of watches, bookmarks among them.")),
      bookmarks_(r.AddCounter("janus_reflector_bookmarks_total", labels, "Bookmarks.")),
      unchanged_(r.AddCounter("janus_reflector_unchanged_total", labels,
                              "Events that changed nothing that is kept.")),
      deltas_(r.AddCounter("janus_reflector_deltas_total", labels, "Changes handed on.")),
      failures_(
          r.AddCounter("janus_reflector_failures_total", labels, "Failed lists and watches.")),
      synced_(
          r.AddGauge("janus_reflector_synced", labels, "1: the store has held everything once.")),
      told_at_(r.AddGauge("janus_reflector_last_told_timestamp_seconds", labels,
                          "When the server last told something; it does about once a minute.")) {}

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
    : recorded_(r.AddCounter("janus_events_recorded_total", {}, "Happenings recorded.")),
      repeats_(
          r.AddCounter("janus_events_repeats_total", {}, "Of them, those counted into a series.")),
      created_(r.AddCounter("janus_events_written_total", {{"type", "create"}},
                            "Events made, and series written on.")),
      patched_(r.AddCounter("janus_events_written_total", {{"type", "patch"}},
                            "Events made, and series written on.")),
      dropped_limited_(r.AddCounter(
          "janus_events_dropped_total", {{"reason", "limited"}},
          "Not written: too many of an object, too many waiting, given up after failures.")),
      dropped_full_(r.AddCounter(
          "janus_events_dropped_total", {{"reason", "full"}},
          "Not written: too many of an object, too many waiting, given up after failures.")),
      dropped_failed_(r.AddCounter(
          "janus_events_dropped_total", {{"reason", "failed"}},
          "Not written: too many of an object, too many waiting, given up after failures.")),
      depth_(r.AddGauge("janus_events_waiting", {}, "Series with something not written yet.")) {}

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
  return registry.AddGauge("leader_election_master_status", {{"name", lease}},
                           "1 while this process leads.");
}

}  // namespace janus::control
