#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <sstream>

#include "common/connections_refused.h"
#include "common/metrics.h"
#include "common/read_file.h"
#include "dataplane/gateway/gateway_metric_table.h"
#include "dataplane/worker/supervise/supervisor_metric_table.h"
#include "dataplane/worker/worker_metric_table.h"
#include "operator/kube/metric_table.h"
#include "operator/manager/metric_table.h"
#include "rpc/credentials/certificate.h"
#include "rpc/credentials/own_certificate.h"
#include "tests/support/contains.h"
#include "tests/support/paths.h"

// docs/metrics.md: its tables are printed from the declarations; the text between them is written
// by hand.
namespace janus {
namespace {

struct Table {
  std::string_view name;     // of the array
  std::string_view heading;  // the heading above it
  std::span<const MetricDeclaration> metrics;
};

const Table kTables[] = {
    {"kGatewayMetrics", "## Of the gateway", gateway::kGatewayMetrics},
    {"kWorkerMetrics", "## Of the workers", dataplane::kWorkerMetrics},
    {"kSupervisorMetrics", "### Of a pod with several instances", dataplane::kSupervisorMetrics},
    {"kRefusalMetrics", "## Of refused peers", kRefusalMetrics},
    {"kCertificateMetrics", "## Of certificates", kCertificateMetrics},
    {"kServiceMetrics", "### Of its services", control::kServiceMetrics},
    {"kManagerMetrics", "### Of its loop", control::kManagerMetrics},
    {"kKubeMetrics", "### Of its Kubernetes client", control::kKubeMetrics},
};

constexpr std::string_view kHead = "| metric | type | unit | meaning |";

std::string_view ToString(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') {
      out += "\\|";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Printed(std::span<const MetricDeclaration> metrics) {
  std::string out = std::string(kHead) + "\n|---|---|---|---|\n";
  for (const MetricDeclaration& one : metrics) {
    std::string labels(one.labels);
    std::erase(labels, '?');
    if (!labels.empty()) labels = "{" + labels + "}";
    out += "| `" + std::string(one.name) + labels + "` | " + std::string(ToString(one.type)) +
           " | " + std::string(one.unit) + " | " + Escaped(one.help) + " |\n";
  }
  return out;
}

// The page with every table printed again from the declarations. `placed`: the headings above the
// tables.
std::string Fresh(const std::string& page, std::multiset<std::string>& placed) {
  std::string out;
  std::string heading;
  bool in_table = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) heading = line;
    if (in_table && line.starts_with("|")) continue;
    in_table = line == kHead;
    const auto table =
        std::ranges::find_if(kTables, [&](const Table& one) { return one.heading == heading; });
    if (!in_table || table == std::end(kTables)) {
      out += line + "\n";
      continue;
    }
    placed.insert(heading);
    out += Printed(table->metrics);
  }
  return out;
}

std::string Page() {
  return ReadFile(test::SourceDir() + "/docs/metrics.md").value();
}

TEST(MetricsPage, ShowsTheMetricsAsTheyAreDeclared) {
  const std::string page = Page();
  std::multiset<std::string> placed;
  const std::string fresh = Fresh(page, placed);
  std::multiset<std::string> wanted;
  for (const Table& table : kTables) wanted.insert(std::string(table.heading));
  EXPECT_EQ(placed, wanted) << "each under its heading, begun by: " << kHead;
  if (page == fresh) return;
  const std::string path = testing::TempDir() + "metrics.md";
  std::ofstream(path) << fresh;
  ADD_FAILURE() << "docs/metrics.md is older than the declarations; cp " << path
                << " docs/metrics.md";
}

// The text of every source of the programs, without comments.
std::string Sources() {
  std::string out;
  for (const char* room :
       {"common", "kernels", "proto", "rpc", "controllers", "dataplane", "operator", "cli"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(test::SourceDir() + "/" + room)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        out += line.substr(0, line.find("//")) + "\n";
      }
    }
  }
  return out;
}

TEST(MetricsPage, ShowsEveryTableThereIs) {
  const std::string sources = Sources();
  const std::regex array("MetricDeclaration\\s+(\\w+)\\s*\\[");
  std::set<std::string> declared;
  for (std::sregex_iterator at(sources.begin(), sources.end(), array), end; at != end; ++at) {
    declared.insert((*at)[1]);
  }
  std::set<std::string> shown;
  for (const Table& table : kTables) shown.insert(std::string(table.name));
  EXPECT_EQ(declared, shown);
}

// The other direction: every declared metric is exported by code.
TEST(MetricsPage, ShowsNoMetricThatNobodyExports) {
  const std::string sources = Sources();
  const auto uses = [&](std::string_view name) {
    const std::string quoted = "\"" + std::string(name) + "\"";
    int count = 0;
    for (size_t at = sources.find(quoted); at != std::string::npos;
         at = sources.find(quoted, at + 1)) {
      ++count;
    }
    return count;
  };
  std::map<std::string_view, int> declarations;
  for (const Table& table : kTables) {
    for (const MetricDeclaration& one : table.metrics) ++declarations[one.name];
  }
  for (const auto& [name, times] : declarations) EXPECT_GE(uses(name), 2 * times) << name;
}

// Names from client-go, controller-runtime and vLLM stay as they are.
TEST(MetricsPage, NamesAndUnitsFollowPrometheus) {
  const auto ends_with = [](std::string_view name, std::string_view unit) {
    if (name.ends_with("_total")) name.remove_suffix(6);
    return name.ends_with(unit) && name.size() > unit.size() &&
           name[name.size() - unit.size() - 1] == '_';
  };
  for (const Table& table : kTables) {
    std::set<std::string_view> names;
    for (const MetricDeclaration& one : table.metrics) {
      SCOPED_TRACE(one.name);
      EXPECT_TRUE(names.insert(one.name).second) << "declared twice";
      EXPECT_EQ(one.name.ends_with("_total"), one.type == MetricType::kCounter);
      EXPECT_TRUE(
          std::regex_match(std::string(one.name), std::regex("[a-z][a-z0-9_]*(:[a-z0-9_]+)?")));
      EXPECT_TRUE(
          std::regex_match(std::string(one.labels), std::regex("([a-z_]+[?]?(,[a-z_]+[?]?)*)?")));
      EXPECT_TRUE(one.help.ends_with(".")) << one.help;
      EXPECT_FALSE(one.unit.empty());
      for (const std::string_view unit : {"seconds", "bytes"}) {
        EXPECT_EQ(ends_with(one.name, unit), one.unit.ends_with(unit));
      }
      for (const std::string_view unit : {"milliseconds", "microseconds", "percent", "kilobytes"}) {
        EXPECT_FALSE(ends_with(one.name, unit)) << "not a base unit";
      }
    }
  }
}

TEST(MetricsPage, SaysWhatEveryRefusalIs) {
  for (const Refusal refusal : kRefusals) {
    const std::string row = "| `" + std::string(ToString(refusal)) + "` | ";
    EXPECT_TRUE(Contains(Page(), row)) << row;
  }
}

}  // namespace
}  // namespace janus
