#include "common/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/check.h"

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

bool AreDeclared(const MetricLabels& labels, std::string_view declared) {
  auto label = labels.begin();
  while (!declared.empty()) {
    const size_t end = std::min(declared.find(','), declared.size());
    std::string_view name = declared.substr(0, end);
    declared.remove_prefix(std::min(end + 1, declared.size()));
    const bool may_be_absent = name.ends_with('?');
    if (may_be_absent) name.remove_suffix(1);
    if (label != labels.end() && label->first == name) {
      ++label;
    } else if (!may_be_absent) {
      return false;
    }
  }
  return label == labels.end();
}

MetricFamily::MetricFamily(Metric metric)
    : name(metric->name), help(metric->help), type(metric->type), label_names(metric->labels) {}

MetricRegistry::Entry& MetricRegistry::Add(Entry entry, MetricType type) {
  JANUS_CHECK(entry.metric->type == type, entry.metric->name);
  JANUS_CHECK(AreDeclared(entry.labels, entry.metric->labels), entry.metric->name);
  const MutexLock lock(mu_);
  return entries_.emplace_back(std::move(entry));
}

Counter& MetricRegistry::AddCounter(Metric metric, MetricLabels labels) {
  Entry entry{metric, std::move(labels)};
  entry.counter = std::make_unique<Counter>();
  return *Add(std::move(entry), MetricType::kCounter).counter;
}

Gauge& MetricRegistry::AddGauge(Metric metric, MetricLabels labels) {
  Entry entry{metric, std::move(labels)};
  entry.gauge = std::make_unique<Gauge>();
  return *Add(std::move(entry), MetricType::kGauge).gauge;
}

void MetricRegistry::AddGauge(Metric metric, MetricLabels labels, std::function<double()> read) {
  Entry entry{metric, std::move(labels)};
  entry.read = std::move(read);
  Add(std::move(entry), MetricType::kGauge);
}

Histogram& MetricRegistry::AddHistogram(Metric metric, MetricLabels labels,
                                        std::vector<double> bounds) {
  Entry entry{metric, std::move(labels)};
  entry.histogram = std::make_unique<Histogram>(std::move(bounds));
  return *Add(std::move(entry), MetricType::kHistogram).histogram;
}

std::vector<MetricFamily> MetricRegistry::Collect() const {
  const MutexLock lock(mu_);
  std::vector<MetricFamily> families;
  std::map<std::string_view, size_t> family_of;
  for (const Entry& entry : entries_) {
    const double read = entry.read ? entry.read() : 0;
    if (std::isnan(read)) continue;
    const auto [at, is_new] = family_of.try_emplace(entry.metric->name, families.size());
    if (is_new) families.emplace_back(entry.metric);
    MetricFamily::Series& series = families[at->second].series.emplace_back();
    series.labels = entry.labels;
    if (entry.counter) series.value = static_cast<double>(entry.counter->value());
    if (entry.gauge) series.value = entry.gauge->value();
    if (entry.read) series.value = read;
    if (entry.histogram) series.histogram = entry.histogram->Sample();
  }
  return families;
}

}  // namespace janus
