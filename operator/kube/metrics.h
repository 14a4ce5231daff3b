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

// What this room counts (metric_table.h), as series of a registry. Each of these is made once for
// what it counts, outlives it, and needs the registry.

// Calls to one API server. Thread-safe.
class ClientMetrics {
 public:
  // `host`: "10.96.0.1:443".
  ClientMetrics(MetricRegistry& registry, std::string host);

  // One attempt. `code`: nothing where no answer came ("<error>", as client-go has it). A watch's
  // time is not one of a request.
  void Attempted(std::string_view method, std::optional<int> code, std::optional<Seconds> took);
  // It was tried again, because of `code`.
  void Retried(std::string_view method, std::optional<int> code);
  // The server warned of something in an answer.
  void Warned();
  // How long a call waited for its turn under the client's own limit.
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
  // Series are made as they come: there are as many as methods and codes.
  Mutex mu_;
  std::map<Key, Counter*> requests_ JANUS_GUARDED_BY(mu_);
  std::map<Key, Counter*> retries_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, Histogram*, std::less<>> durations_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, Histogram*, std::less<>> waits_ JANUS_GUARDED_BY(mu_);
};

// A WorkQueue. Handles: thread-safe.
struct WorkQueueMetrics {
  // `name`: the queue's, as "moeservice".
  WorkQueueMetrics(MetricRegistry& registry, const std::string& name);

  Gauge& depth;               // keys that are ready and wait
  Counter& adds;              // keys that began to wait
  Counter& retries;           // keys that were given back to be tried later
  Histogram& queue_duration;  // from ready to taken
  Histogram& work_duration;   // from taken to done
  Gauge& unfinished_work;     // ages of those that are worked on, summed up
  Gauge& longest_running;     // the greatest of them
};

// One Reflector. Publish is one caller's at a time.
class ReflectorMetrics {
 public:
  // `name`: the resource's, as "pods". `ns`: the namespace, where each has a reflector of its own.
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

// One EventRecorder. Publish is one caller's at a time.
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
