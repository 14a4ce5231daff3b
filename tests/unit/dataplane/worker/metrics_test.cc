#include <gtest/gtest.h>

#include <httplib.h>

#include <atomic>
#include <set>

#include "common/exposition/metrics_text.h"
#include "common/read_file.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/worker/worker_metric_table.h"
#include "dataplane/worker/worker_metrics.h"
#include "dataplane/worker/worker_pages.h"
#include "rpc/credentials/mutual_tls.h"
#include "tests/support/contains.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

std::set<std::string> NamesOf(Role role) {
  InstanceStatistics statistics;
  statistics.role = role;
  statistics.links = {{Role::kExperts, Rank{0}, "loopback", MeasuredLink{1e-4, 1e9, 1e-5}}};
  statistics.device.device = "mlx5_0";
  statistics.timed = "H200 as deepseek-v3";
  std::set<std::string> names;
  for (const MetricFamily& family : WorkerMetrics(statistics, 1, StepMetrics())) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name << " is told twice";
  }
  return names;
}

TEST(WorkerMetrics, AreAllThatAreDeclared) {
  std::set<std::string> exported = NamesOf(Role::kAttention);
  exported.merge(NamesOf(Role::kExperts));
  std::set<std::string> declared;
  for (const MetricDeclaration& one : kWorkerMetrics) declared.insert(std::string(one.name));
  EXPECT_EQ(exported, declared);
}

TEST(ConnectionsRefused, AreCountedByTheReasonsOfThePage) {
  MetricRegistry registry;
  const RefusalCounts calls(registry);
  const ExchangeRefusalCounts exchange(registry);
  const std::vector<MetricFamily> families = registry.Collect();
  ASSERT_EQ(families.size(), 1u) << "one family, which a page may have once";
  std::set<std::string> counted;
  for (const MetricFamily::Series& one : families[0].series) {
    EXPECT_TRUE(counted.insert(one.labels.at(0).second).second);
  }
  const std::string page = ReadFile(test::SourceDir() + "/docs/metrics.md").value();
  const size_t begin = page.find("## Of refused peers");
  const std::string ours = page.substr(begin, page.find("\n## ", begin) - begin);
  const std::regex row("\\n\\| `([a-z_]+)` \\|");
  std::set<std::string> told;
  for (std::sregex_iterator at(ours.begin(), ours.end(), row), end; at != end; ++at) {
    told.insert((*at)[1]);
  }
  EXPECT_EQ(told, counted);
}

TEST(WorkerMetrics, TellWhatTheInstanceCounted) {
  InstanceStatistics statistics;
  statistics.role = Role::kAttention;
  statistics.rank = Rank{2};
  statistics.detection_seconds = 1.5;
  statistics.messages_dropped = 10;
  statistics.messages_malformed = 3;
  statistics.messages_late = 5;
  statistics.holding = "a peer is gone";
  statistics.swapped = 4;
  statistics.replayed = 6;
  statistics.cached_in_host = 32;
  statistics.saved_to_host = 48;
  statistics.prefix_host_bytes = 4096;
  statistics.links = {{Role::kExperts, Rank{0}, "UCX tcp/lo", MeasuredLink{0.25, 2e6, 0.5}},
                      {Role::kExperts, Rank{1}, "UCX tcp/lo"}};
  statistics.device = {"mlx5_3", 2, "InfiniBand", 400'000'000'000, "same NUMA node 1 as the CPUs"};
  StepMetrics metrics;
  metrics.step.Observe(0.02);
  metrics.wait_coordinator.Observe(0.25);
  metrics.Of(ExchangeMode::kTwoPhaseSingle).send.Observe(0.5);
  const std::string text = PrometheusText(WorkerMetrics(statistics, 7, metrics));
  const std::string self = "{role=\"attention\",rank=\"2\"";
  for (const std::string& line :
       {"janus_topology_epoch" + self + "} 7",
        "janus_holding" + self + "} 1",
        "janus_exchange_link_info" + self + ",peer=\"experts 1\",transport=\"UCX tcp/lo\"} 1",
        "janus_exchange_link_latency_seconds" + self + ",peer=\"experts 0\"} 0.25",
        "janus_exchange_link_bytes_per_second" + self + ",peer=\"experts 0\"} 2000000",
        "janus_exchange_link_message_seconds" + self + ",peer=\"experts 0\"} 0.5",
        "janus_exchange_device_bytes_per_second" + self +
            ",device=\"mlx5_3\",port=\"2\",link_layer=\"InfiniBand\","
            "why=\"same NUMA node 1 as the CPUs\"} 50000000000",
        "janus_messages_dropped_total" + self + ",reason=\"malformed\"} 3",
        "janus_messages_dropped_total" + self + ",reason=\"late\"} 5",
        "janus_messages_dropped_total" + self + ",reason=\"control\"} 2",
        "janus_detection_deadline_seconds" + self + "} 1.5",
        "janus_swapped_sequences" + self + "} 4",
        "janus_replayed_tokens_total" + self + "} 6",
        "janus_prefix_host_cached_tokens_total" + self + "} 32",
        "janus_prefix_host_saved_tokens_total" + self + "} 48",
        "janus_prefix_host_bytes" + self + "} 4096",
        "janus_step_wait_seconds_sum" + self + ",for=\"coordinator\"} 0.25",
        "janus_step_wait_seconds_count" + self + ",for=\"peer\"} 0",
        "janus_exchange_seconds_count" + self + ",phase=\"send\",mode=\"Direct\"} 0",
        "janus_exchange_seconds_sum" + self + ",phase=\"send\",mode=\"TwoPhaseSingle\"} 0.5",
        "janus_step_seconds_bucket" + self + ",le=\"0.02\"} 1",
        "janus_step_seconds_count" + self + "} 1"}) {
    EXPECT_TRUE(Contains(text, line)) << line;
  }
  EXPECT_EQ(text.find("TwoPhaseParallel"), std::string::npos) << "no epoch had that mode";
}

// The value of a series in a worker's metrics; -1: it is missing.
double ValueOf(const std::string& text, const std::string& series) {
  const size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
}

TEST(WorkerMetrics, AServingInstanceAnswersAScrape) {
  ServiceUnderTest service;
  service.Serve();
  TestGateway gateway(service.attention());
  gateway.Hello();
  gateway.Send(TestGateway::Submit(1, {1, 2, 3}, 5));
  gateway.ReadToTheEnd(1);
  gateway.Finish();
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics";
  std::atomic<int> lives = 0;
  const auto attention = *PageServer::Create(
      "unix:" + path,
      WorkerPages([&] { return PrometheusText(service.attention().worker().metrics()); },
                  [&] { ++lives; }));
  const auto experts = *PageServer::Create(
      "127.0.0.1:0",
      WorkerPages([&] { return PrometheusText(service.experts().worker().metrics()); }, [] {}));

  httplib::Client over_unix(path);
  over_unix.set_address_family(AF_UNIX);
  const std::string self = "{role=\"attention\",rank=\"0\"";
  std::string text;
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    return ValueOf(text, "janus_" + name + self + labels + "}");
  };
  // A last step, which has no rows, may still run after the answer.
  const auto settled = [&] {
    const auto got = over_unix.Get("/metrics");
    EXPECT_TRUE(got) << httplib::to_string(got.error());
    if (!got) return true;
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(got->get_header_value("Content-Type"), kPrometheusContentType);
    text = got->body;
    const double steps = value("steps_total");
    return value("step_seconds_count") == steps &&
           value("step_wait_seconds_count", ",for=\"coordinator\"") == steps &&
           value("step_wait_seconds_count", ",for=\"peer\"") == steps;
  };
  const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  bool is_settled = settled();
  while (!is_settled && MonotonicClock::now() < deadline) is_settled = settled();
  ASSERT_TRUE(is_settled) << "every step has its time and its waits: " << text;
  EXPECT_EQ(value("exchange_link_info", ",peer=\"experts 0\",transport=\"shared memory\""), 1);
  EXPECT_GE(value("generated_tokens_total"), 5);
  EXPECT_GT(value("exchange_bytes_total", ",direction=\"sent\""), 0);
  EXPECT_GE(value("steps_total"), 5);
  const double rounds = value("round_seconds_count", ",module=\"attention\"");
  EXPECT_GE(rounds, 5);
  EXPECT_EQ(value("round_seconds_count", ",module=\"combine\""), rounds);
  for (const std::string phase : {"send", "receive"}) {
    EXPECT_EQ(value("exchange_seconds_count", ",phase=\"" + phase + "\",mode=\"Direct\""), rounds);
  }
  EXPECT_EQ(value("swapped_sequences"), 0);
  EXPECT_EQ(value("replayed_tokens_total"), 0);

  httplib::Client over_tcp("http://" + experts->address());
  const auto e = over_tcp.Get("/metrics");
  ASSERT_TRUE(e) << httplib::to_string(e.error());
  const std::string other = "{role=\"experts\",rank=\"0\"";
  // Its last step may still run, and its rounds are counted one by one.
  const double answered = ValueOf(e->body, "janus_rounds_total" + other + "}");
  EXPECT_GT(answered, 0);
  EXPECT_GE(ValueOf(e->body, "janus_aebs_seconds_count" + other + "}"), answered);
  for (const char* const module : {"gate", "experts"}) {
    EXPECT_GE(ValueOf(e->body, "janus_round_seconds_count" + other + ",module=\"" + module + "\"}"),
              answered);
  }
  EXPECT_EQ(ValueOf(e->body, "janus_step_wait_seconds_count" + other + ",for=\"coordinator\"}"), -1)
      << "an expert instance does not know whether there is work";
  EXPECT_EQ(over_tcp.Get("/other")->status, 404);
  for (const char* const probe : {"/startup", "/live", "/ready"}) {
    EXPECT_EQ(over_unix.Get(probe)->status, 200) << probe;
  }
  EXPECT_EQ(lives, 1);
}

TEST(WorkerMetrics, TheGateIsTimedAtTheRoleThatComputesIt) {
  for (const GateSide side : {GateSide::kExperts, GateSide::kAttention}) {
    ServiceUnderTest service;
    service.topology().gate = side;
    service.Serve();
    TestGateway gateway(service.attention());
    gateway.Hello();
    gateway.Send(TestGateway::Submit(1, {1, 2, 3}, 5));
    gateway.ReadToTheEnd(1);
    gateway.Finish();
    const std::string text = PrometheusText(service.attention().worker().metrics());
    const auto rounds = [&](const std::string& module) {
      return ValueOf(text, "janus_round_seconds_count{role=\"attention\",rank=\"0\",module=\"" +
                               module + "\"}");
    };
    if (side == GateSide::kAttention) {
      EXPECT_GE(rounds("gate"), 1) << "its last step may not have ended";
    } else {
      EXPECT_EQ(rounds("gate"), -1);
    }
    EXPECT_GE(rounds("attention"), 1);
  }
}

}  // namespace
}  // namespace janus::dataplane
