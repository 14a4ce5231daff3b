#include "common/metrics.h"

#include <algorithm>
#include <map>

namespace janus {

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(new std::atomic<uint64_t>[bounds_.size() + 1]()) {}

void Histogram::Observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

HistogramSample Histogram::Sample() const {
  HistogramSample sample;
  sample.bounds = bounds_;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    sample.counts.push_back(counts_[i].load(std::memory_order_relaxed));
  }
  sample.sum = sum_.load(std::memory_order_relaxed);
  return sample;
}

MetricRegistry::Entry& MetricRegistry::Add(std::string_view name, MetricLabels labels,
                                           std::string_view help) {
  const MutexLock lock(mu_);
  Entry& entry = entries_.emplace_back();
  entry.name = name;
  entry.help = help;
  entry.labels = std::move(labels);
  return entry;
}

Counter& MetricRegistry::AddCounter(std::string_view name, MetricLabels labels,
                                    std::string_view help) {
  Entry& entry = Add(name, std::move(labels), help);
  entry.counter = std::make_unique<Counter>();
  return *entry.counter;
}

Gauge& MetricRegistry::AddGauge(std::string_view name, MetricLabels labels, std::string_view help) {
  Entry& entry = Add(name, std::move(labels), help);
  entry.gauge = std::make_unique<Gauge>();
  return *entry.gauge;
}

Histogram& MetricRegistry::AddHistogram(std::string_view name, MetricLabels labels,
                                        std::string_view help, std::vector<double> bounds) {
  Entry& entry = Add(name, std::move(labels), help);
  entry.histogram = std::make_unique<Histogram>(std::move(bounds));
  return *entry.histogram;
}

std::vector<MetricFamily> MetricRegistry::Collect() const {
  const MutexLock lock(mu_);
  std::vector<MetricFamily> families;
  std::map<std::string_view, size_t> family_of;
  for (const Entry& entry : entries_) {
    const auto [at, is_new] = family_of.try_emplace(entry.name, families.size());
    if (is_new) {
      const MetricType type = entry.counter ? MetricType::kCounter
                              : entry.gauge ? MetricType::kGauge
                                            : MetricType::kHistogram;
      families.push_back({entry.name, entry.help, type, {}});
    }
    MetricFamily::Series& series = families[at->second].series.emplace_back();
    series.labels = entry.labels;
    if (entry.counter) series.value = static_cast<double>(entry.counter->value());
    if (entry.gauge) series.value = entry.gauge->value();
    if (entry.histogram) series.histogram = entry.histogram->Sample();
  }
  return families;
}

}  // namespace janus
