#include "operator/kube/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "operator/kube/client.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/leader_election.h"
#include "operator/kube/reflector.h"
#include "operator/kube/work_queue.h"
#include "tests/support/kube/scripted_server.h"
#include "tests/support/kube/watched_objects.h"
#include "tests/support/passing_timeline.h"

namespace janus::control {
namespace {

const Resource kPods{"", "v1", "pods", "Pod", true};
const ObjectKey kKey{"prod", "a"};

// Every series as "name{a=b,c=d}" with its value; for a histogram, the number of samples.
std::map<std::string, double> Values(const MetricRegistry& registry) {
  std::map<std::string, double> out;
  for (const MetricFamily& family : registry.Collect()) {
    for (const MetricFamily::Series& series : family.series) {
      std::string name = family.name;
      char separator = '{';
      for (const auto& [label, value] : series.labels) {
        name += separator + label + "=" + value;
        separator = ',';
      }
      if (separator == ',') name += '}';
      EXPECT_FALSE(out.contains(name)) << name;
      out[name] = series.value;
      for (const uint64_t count : series.histogram.counts) out[name] += static_cast<double>(count);
    }
  }
  return out;
}

constexpr MetricDeclaration kMetrics[] = {
    {"a_total", MetricType::kCounter, "x", "calls", "A."},
    {"b", MetricType::kGauge, "", "levels", "B."},
};

TEST(MetricRegistry, ANameIsOneFamilyWhereverItsSeriesWereAdded) {
  MetricRegistry registry;
  registry.AddCounter({kMetrics, "a_total"}, {{"x", "1"}});
  registry.AddGauge({kMetrics, "b"}, {});
  registry.AddCounter({kMetrics, "a_total"}, {{"x", "2"}}).Add(3);
  const std::vector<MetricFamily> families = registry.Collect();
  ASSERT_EQ(families.size(), 2U);
  EXPECT_EQ(families[0].name, "a_total");
  ASSERT_EQ(families[0].series.size(), 2U);
  EXPECT_EQ(families[0].series[1].value, 3);
  EXPECT_EQ(families[1].name, "b");
}

TEST(ClientMetrics, EveryAttemptIsCountedByItsAnswerAndEveryRetryByItsReason) {
  int request = 0;
  ScriptedServer server([&](const SeenRequest& seen, Peer& peer) {
    if (seen.target.find("watch=true") != std::string::npos) {
      peer.BeginChunks();
      peer.SendChunk(
          "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\","
          "\"resourceVersion\":\"2\"}}}\n");
      peer.HoldUntilClosed();
      return false;
    }
    switch (++request) {
      case 1:
        peer.Reply(503, "");
        return true;
      case 2:
        peer.Reset();
        return false;
      case 3:
        peer.Reply(200, R"({"metadata":{"name":"a"}})",
                   "Warning: 299 - \"old\"\r\nWarning: 299 - \"older\", 299 - \"oldest\"\r\n");
        return true;
      default:
        peer.Reply(404, "");
        return true;
    }
  });
  MetricRegistry registry;
  ClientMetrics metrics(registry, "api:443");
  const PassingTimeline timeline;
  KubeClientOptions options;
  options.transport.metrics = &metrics;
  KubeClient client(server.config(), options, timeline);
  EXPECT_TRUE(client.Get(kPods, kKey, Subresource::kNone, {}).ok());
  EXPECT_FALSE(client.Delete(kPods, kKey, {}, {}).ok());
  EXPECT_TRUE(client.Watch(kPods, {{}, "1"}, [](const WatchEvent&) { return false; }, {}).ok());
  const std::map<std::string, double> seen = Values(registry);
  const std::map<std::string, double> wanted = {
      {"rest_client_requests_total{code=503,method=GET,host=api:443}", 1},
      {"rest_client_requests_total{code=<error>,method=GET,host=api:443}", 1},
      {"rest_client_requests_total{code=200,method=GET,host=api:443}", 2},
      {"rest_client_requests_total{code=404,method=DELETE,host=api:443}", 1},
      {"rest_client_request_retries_total{code=503,verb=GET,host=api:443}", 1},
      {"rest_client_request_retries_total{code=<error>,verb=GET,host=api:443}", 1},
      {"rest_client_request_duration_seconds{verb=GET,host=api:443}", 3},
      {"rest_client_request_duration_seconds{verb=DELETE,host=api:443}", 1},
      {"janus_client_warnings_total{host=api:443}", 3},
      {"rest_client_rate_limiter_duration_seconds{verb=GET,host=api:443}", 4},
      {"rest_client_rate_limiter_duration_seconds{verb=DELETE,host=api:443}", 1}};
  EXPECT_EQ(seen, wanted);
}

TEST(WorkQueueMetrics, TellOfWaitingWorkAndRetries) {
  MetricRegistry registry;
  WorkQueueMetrics metrics(registry, "q");
  WorkQueueOptions options;
  options.metrics = &metrics;
  WorkQueue queue(options);
  FakeClock clock;
  ASSERT_TRUE(queue.Add(kKey, clock.Now()).ok());
  ASSERT_TRUE(queue.Add({"prod", "b"}, clock.Now()).ok());
  ASSERT_TRUE(queue.Add({"prod", "b"}, clock.Now()).ok());  // waits already
  EXPECT_EQ(metrics.depth.value(), 2);
  clock.Advance(Seconds(5));
  ASSERT_EQ(queue.TryTake(clock.Now()), kKey);
  EXPECT_EQ(metrics.depth.value(), 1);
  EXPECT_EQ(metrics.queue_duration.Sample().sum, 5);
  clock.Advance(Seconds(2));
  ASSERT_TRUE(queue.TryTake(clock.Now()).has_value());
  clock.Advance(Seconds(1));
  queue.Measure(clock.Now());
  EXPECT_EQ(metrics.unfinished_work.value(), 4);
  EXPECT_EQ(metrics.longest_running.value(), 3);
  queue.Done(kKey, clock.Now());
  EXPECT_EQ(metrics.work_duration.Sample().sum, 3);
  queue.Retry({"prod", "b"}, clock.Now());
  queue.Measure(clock.Now());
  EXPECT_EQ(metrics.unfinished_work.value(), 0);
  EXPECT_EQ(metrics.longest_running.value(), 0);
  // A delayed key waits from its time on, not from the next call.
  clock.Advance(Seconds(10.005));
  ASSERT_TRUE(queue.TryTake(clock.Now()).has_value());
  EXPECT_NEAR(metrics.queue_duration.Sample().sum, 5 + 7 + 10, 1e-6);
  const std::map<std::string, double> seen = Values(registry);
  EXPECT_EQ(seen.at("workqueue_adds_total{name=q}"), 3);
  EXPECT_EQ(seen.at("workqueue_retries_total{name=q}"), 1);
  EXPECT_EQ(seen.at("workqueue_depth{name=q}"), 0);
}

TEST(ReflectorMetrics, AreItsStatistics) {
  MetricRegistry registry;
  ReflectorMetrics metrics(registry, "configmaps");
  ReflectorMetrics others(registry, "pods");  // the same names under other labels
  WatchedObjects api;
  api.Put("a", "1");
  api.Put("b", "1");
  std::stop_source stop;
  int quiet = 0;
  api.on_quiet = [&] {
    if (++quiet == 1) {
      api.Put("a", "2");
      api.Bookmark();
      return WatchedObjects::Fault::kNone;
    }
    if (quiet == 2) return WatchedObjects::Fault::kExpire;
    stop.request_stop();
    return WatchedObjects::Fault::kNone;
  };
  const PassingTimeline timeline;
  ReflectorOptions options;
  options.page_size = 1;
  options.metrics = &metrics;
  ObjectStore store{ObjectStoreOptions{}};
  Reflector reflector(api, {"", "v1", "configmaps", "ConfigMap", true}, options, store, nullptr,
                      timeline);
  EXPECT_EQ(Values(registry).at("janus_reflector_synced{name=configmaps}"), 0);
  reflector.Run(stop.get_token());
  const ReflectorStatistics statistics = reflector.statistics();
  const std::map<std::string, double> seen = Values(registry);
  const auto value = [&](const std::string& name) { return seen.at(name + "{name=configmaps}"); };
  EXPECT_EQ(value("reflector_lists_total"), 2);
  EXPECT_EQ(value("janus_reflector_relists_total"), 1);
  EXPECT_EQ(value("janus_reflector_pages_total"), 4);
  EXPECT_EQ(value("reflector_watches_total"), 3);  // one requested a stream
  EXPECT_EQ(value("janus_reflector_streamed_lists_total"), 0);
  EXPECT_EQ(value("janus_reflector_events_total"), 2);
  EXPECT_EQ(value("janus_reflector_bookmarks_total"), 1);
  EXPECT_EQ(value("janus_reflector_deltas_total"), 3);
  EXPECT_EQ(value("janus_reflector_deltas_total"), static_cast<double>(statistics.deltas));
  EXPECT_EQ(value("janus_reflector_failures_total"), 1);
  EXPECT_EQ(value("janus_reflector_synced"), 1);
  EXPECT_EQ(value("janus_reflector_last_told_timestamp_seconds"),
            Seconds(timeline.WallNow().time_since_epoch()).count());
  EXPECT_EQ(seen.at("reflector_lists_total{name=pods}"), 0);
}

// Every write fails.
class NoApi final : public UnimplementedApi {};

TEST(EventMetrics, TellWhatWasRecordedWrittenAndDropped) {
  MetricRegistry registry;
  EventMetrics metrics(registry);
  NoApi api;
  const PassingTimeline timeline;
  EventRecorderOptions options;
  options.book.controller = "serving.janus.dev/operator";
  options.book.instance = "operator-0";
  options.book.object_burst = 1;
  options.metrics = &metrics;
  EventRecorder recorder(api, options, timeline);
  Happening happening;
  happening.regarding = {"v1", "Pod", kKey, "uid"};
  happening.reason = happening.action = "Test";
  recorder.Record(happening);
  recorder.Record(happening);
  happening.note = "another";
  recorder.Record(happening);
  EXPECT_EQ(Values(registry).at("janus_events_waiting"), 1);
  recorder.Step({});
  const std::map<std::string, double> seen = Values(registry);
  EXPECT_EQ(seen.at("janus_events_recorded_total"), 3);
  EXPECT_EQ(seen.at("janus_events_repeats_total"), 1);
  EXPECT_EQ(seen.at("janus_events_dropped_total{reason=limited}"), 1);
  EXPECT_EQ(seen.at("janus_events_dropped_total{reason=failed}"), 1);  // Unimplemented
  EXPECT_EQ(seen.at("janus_events_waiting"), 0);
  EXPECT_EQ(recorder.statistics().dropped_failed, 1);
}

}  // namespace
}  // namespace janus::control
