#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"

namespace janus::gateway {

// The gateway's metrics and how they are printed (Prometheus text format 0.0.4). Thread-safe:
// updates are relaxed atomics, so a scrape may see one sample of a histogram before its sum.

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

class Histogram {
 public:
  // `bounds`: upper bounds of the buckets, ascending, without infinity.
  explicit Histogram(std::vector<double> bounds);

  void Observe(double value);
  void Print(std::string_view name, std::string_view labels, std::string* out) const;

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;  // one more than bounds_: infinity
  std::atomic<double> sum_ = 0;
};

// Owns metrics; references stay valid as long as it lives.
class MetricRegistry {
 public:
  // `labels` as printed: `code="200"`, or empty. A name's help is said once, by its first metric.
  Counter& AddCounter(std::string_view name, std::string_view labels, std::string_view help);
  Gauge& AddGauge(std::string_view name, std::string_view labels, std::string_view help);
  Histogram& AddHistogram(std::string_view name, std::string_view labels, std::string_view help,
                          std::vector<double> bounds);

  std::string Print() const;

 private:
  struct Entry {
    std::string name, labels, help;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  Entry& Add(std::string_view name, std::string_view labels, std::string_view help);

  mutable Mutex mu_;
  std::deque<Entry> entries_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::gateway
