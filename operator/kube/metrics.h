#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/clock.h"
#include "common/metrics.h"
#include "common/mutex.h"

namespace janus::control {

struct EventStatistics;
struct ReflectorStatistics;

// Metrics of this folder (metric_table.h) in a registry. Create each of these once. It outlives the
// object that it counts for, and the registry outlives it.

// Calls to one API server. Thread-safe.
class ClientMetrics {
 public:
  // `host`: "10.96.0.1:443".
  ClientMetrics(MetricRegistry& registry, std::string host);

  // Counts one attempt. `code`: nothing if there was no reply ("<error>", as in client-go). `took`:
  // nothing for a watch.
  void Attempted(std::string_view method, std::optional<int> code, std::optional<Seconds> took);
  // Counts a retry because of `code`.
  void Retried(std::string_view method, std::optional<int> code);
  // A reply contained a warning.
  void Warned();
  // How long a call waited for the client's own rate limit.
  void Waited(std::string_view method, Seconds wait);

 private:
  using Key = std::pair<std::string, std::string>;  // method, code
  Counter& In(std::map<Key, Counter*>& counters, Metric metric, const char* method_label,
              std::string_view method, std::optional<int> code) JANUS_REQUIRES(mu_);
  Histogram& In(std::map<std::string, Histogram*, std::less<>>& histograms, Metric metric,
                std::string_view method) JANUS_REQUIRES(mu_);

  MetricRegistry& registry_;
  const std::string host_;
  Counter& warnings_;
  // Series are created on first use, one per method and code.
  Mutex mu_;
  std::map<Key, Counter*> requests_ JANUS_GUARDED_BY(mu_);
  std::map<Key, Counter*> retries_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, Histogram*, std::less<>> durations_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, Histogram*, std::less<>> waits_ JANUS_GUARDED_BY(mu_);
};

// Metrics of a WorkQueue. Handles: thread-safe.
struct WorkQueueMetrics {
  // `name`: of the queue, such as "moeservice".
  WorkQueueMetrics(MetricRegistry& registry, const std::string& name);

  Gauge& depth;               // keys that are ready and not yet taken
  Counter& adds;              // keys that became ready
  Counter& retries;           // keys put back for a later retry
  Histogram& queue_duration;  // from ready to taken
  Histogram& work_duration;   // from taken to done
  Gauge& unfinished_work;     // sum of the ages of keys at workers
  Gauge& longest_running;     // the longest of these ages
};

// Metrics of a Reflector. One caller of Publish at a time.
class ReflectorMetrics {
 public:
  // `name`: of the resource, such as "pods". `ns`: the namespace, if each has its reflector.
  ReflectorMetrics(MetricRegistry& registry, const std::string& name, const std::string& ns = "");
  void Publish(const ReflectorStatistics& now, std::optional<WallTime> told_at);

 private:
  ReflectorMetrics(MetricRegistry& registry, const MetricLabels& labels);

  Counter& lists_;
  Counter& streams_;
  Counter& relists_;
  Counter& pages_;
  Counter& watches_;
  Counter& events_;
  Counter& bookmarks_;
  Counter& unchanged_;
  Counter& deltas_;
  Counter& failures_;
  Gauge& synced_;
  Gauge& told_at_;
};

// Metrics of an EventRecorder. One caller of Publish at a time.
class EventMetrics {
 public:
  explicit EventMetrics(MetricRegistry& registry);
  void Publish(const EventStatistics& now, size_t depth);

 private:
  Counter& recorded_;
  Counter& repeats_;
  Counter& created_;
  Counter& patched_;
  Counter& dropped_limited_;
  Counter& dropped_full_;
  Counter& dropped_failed_;
  Gauge& depth_;
};

// 1 while this process leads: leader_election_master_status.
Gauge& LeaderGauge(MetricRegistry& registry, const std::string& lease);

}  // namespace janus::control
