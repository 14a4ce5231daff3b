#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace janus {

// Typed handles that code counts with, and what a scrape sees of them;
// common/exposition/metrics_text.h prints it. Updates are relaxed atomics: a scrape may see one
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

// What a histogram holds: counts[i] samples lie above bounds[i - 1] and not above bounds[i]; the
// last count is of those above all bounds.
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

// All series of one name, as a scrape sees them.
struct MetricFamily {
  std::string name;
  std::string help;
  MetricType type = MetricType::kCounter;
  struct Series {
    MetricLabels labels;
    double value = 0;           // of a counter or gauge
    HistogramSample histogram;  // of a histogram
  };
  std::vector<Series> series;
};

// Owns metrics; references stay valid as long as it lives. Thread-safe.
class MetricRegistry {
 public:
  // Series of one name have the same type and help, and other labels each.
  Counter& AddCounter(std::string_view name, MetricLabels labels, std::string_view help);
  Gauge& AddGauge(std::string_view name, MetricLabels labels, std::string_view help);
  Histogram& AddHistogram(std::string_view name, MetricLabels labels, std::string_view help,
                          std::vector<double> bounds);

  // Families in the order in which their first series were added.
  std::vector<MetricFamily> Collect() const;

 private:
  struct Entry {
    std::string name;
    std::string help;
    MetricLabels labels;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  Entry& Add(std::string_view name, MetricLabels labels, std::string_view help);

  mutable Mutex mu_;
  std::deque<Entry> entries_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus
