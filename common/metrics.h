#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace janus {

// Typed handles for counting, the declarations of metrics, and the values for a scrape;
// common/exposition/metrics_text.h prints them. Updates are relaxed atomics: a scrape may see a
// sample of a histogram before its sum. Handles are thread-safe.

class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double n) { value_.fetch_add(n, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

// A histogram's content: counts[i] samples lie above bounds[i - 1] and not above bounds[i]. The
// last count is for samples above all bounds.
struct HistogramSample {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;  // one more than bounds
  double sum = 0;
};

class Histogram {
 public:
  // `bounds`: upper bounds of the buckets, ascending, without infinity.
  explicit Histogram(std::vector<double> bounds);

  void Observe(double value);
  HistogramSample Sample() const;

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;  // one more than bounds_: infinity
  std::atomic<double> sum_ = 0;
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;  // name, value

enum class MetricType { kCounter, kGauge, kHistogram };

// The declaration of a metric, once, in a table of the folder that exports it. docs/metrics.md is
// printed from these tables (tests/unit/docs/metrics_page_test.cc).
struct MetricDeclaration {
  std::string_view name;
  MetricType type;
  // Names of its labels in their order, separated by ","; "?" behind one that not every series has.
  // A table may prepend common labels to all its metrics.
  std::string_view labels;
  std::string_view unit;  // "seconds", "bytes"; otherwise the things counted: "requests"
  std::string_view help;  // sentences for the HELP line of a scrape and for the page
};

// A declaration from one of the tables. It is the only way to make a metric, so the page lists all.
class Metric {
 public:
  // Does not compile if the table lacks that name.
  template <size_t kSize>
  consteval Metric(const MetricDeclaration (&table)[kSize], std::string_view name)
      : declaration_(Find(table, name)) {}

  const MetricDeclaration& operator*() const { return *declaration_; }
  const MetricDeclaration* operator->() const { return declaration_; }

 private:
  static void ThereIsNoSuchMetric() {}
  static consteval const MetricDeclaration* Find(std::span<const MetricDeclaration> table,
                                                 std::string_view name) {
    for (const MetricDeclaration& one : table) {
      if (one.name == name) return &one;
    }
    ThereIsNoSuchMetric();  // not a constant expression
    return nullptr;
  }

  const MetricDeclaration* declaration_;
};

// Whether the labels are the declared ones, in their order.
bool AreDeclared(const MetricLabels& labels, std::string_view declared);

// All series of one metric, as a scrape sees them.
struct MetricFamily {
  explicit MetricFamily(Metric metric);

  std::string name;
  std::string help;
  MetricType type;
  std::string_view label_names;  // as declared
  struct Series {
    MetricLabels labels;
    double value = 0;           // for a counter or gauge
    HistogramSample histogram;  // for a histogram
  };
  std::vector<Series> series;
};

// Owns metrics; references stay valid as long as it lives. Thread-safe.
class MetricRegistry {
 public:
  // Each series of a metric needs different values of its labels.
  Counter& AddCounter(Metric metric, MetricLabels labels);
  Gauge& AddGauge(Metric metric, MetricLabels labels);
  // A gauge that calls `read` at each scrape, on the scraping thread. NaN: no sample this time.
  // `read` must not call the registry.
  void AddGauge(Metric metric, MetricLabels labels, std::function<double()> read);
  Histogram& AddHistogram(Metric metric, MetricLabels labels, std::vector<double> bounds);

  // Families in the order in which their first series were added.
  std::vector<MetricFamily> Collect() const;

 private:
  struct Entry {
    Metric metric;
    MetricLabels labels;
    std::unique_ptr<Counter> counter = {};
    std::unique_ptr<Gauge> gauge = {};
    std::function<double()> read = {};  // for a gauge that is read at each scrape
    std::unique_ptr<Histogram> histogram = {};
  };
  Entry& Add(Entry entry, MetricType type);

  mutable Mutex mu_;
  std::deque<Entry> entries_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus
