#include "dataplane/gateway/metrics.h"

#include <algorithm>
#include <cstdio>

namespace janus::gateway {

namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  return text;
}

void PrintSample(std::string_view name, std::string_view suffix, std::string_view labels,
                 std::string_view more, const std::string& value, std::string* out) {
  out->append(name).append(suffix);
  if (!labels.empty() || !more.empty()) {
    out->append("{").append(labels);
    if (!labels.empty() && !more.empty()) out->append(",");
    out->append(more).append("}");
  }
  out->append(" ").append(value).append("\n");
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(new std::atomic<uint64_t>[bounds_.size() + 1]()) {}

void Histogram::Observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::Print(std::string_view name, std::string_view labels, std::string* out) const {
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? Number(bounds_[i]) : "+Inf";
    PrintSample(name, "_bucket", labels, "le=\"" + bound + "\"", std::to_string(count), out);
  }
  PrintSample(name, "_sum", labels, "", Number(sum_.load(std::memory_order_relaxed)), out);
  PrintSample(name, "_count", labels, "", std::to_string(count), out);
}

MetricRegistry::Entry& MetricRegistry::Add(std::string_view name, std::string_view labels,
                                           std::string_view help) {
  MutexLock lock(mu_);
  Entry& entry = entries_.emplace_back();
  entry.name = name;
  entry.labels = labels;
  entry.help = help;
  return entry;
}

Counter& MetricRegistry::AddCounter(std::string_view name, std::string_view labels,
                                    std::string_view help) {
  Entry& entry = Add(name, labels, help);
  entry.counter = std::make_unique<Counter>();
  return *entry.counter;
}

Gauge& MetricRegistry::AddGauge(std::string_view name, std::string_view labels,
                                std::string_view help) {
  Entry& entry = Add(name, labels, help);
  entry.gauge = std::make_unique<Gauge>();
  return *entry.gauge;
}

Histogram& MetricRegistry::AddHistogram(std::string_view name, std::string_view labels,
                                        std::string_view help, std::vector<double> bounds) {
  Entry& entry = Add(name, labels, help);
  entry.histogram = std::make_unique<Histogram>(std::move(bounds));
  return *entry.histogram;
}

std::string MetricRegistry::Print() const {
  MutexLock lock(mu_);
  std::string out;
  std::string_view last;
  for (const Entry& entry : entries_) {
    if (entry.name != last) {
      const char* type = entry.counter ? "counter" : entry.gauge ? "gauge" : "histogram";
      out += "# HELP " + entry.name + " " + entry.help + "\n";
      out += "# TYPE " + entry.name + " " + type + "\n";
      last = entry.name;
    }
    if (entry.counter) {
      PrintSample(entry.name, "", entry.labels, "", std::to_string(entry.counter->value()), &out);
    } else if (entry.gauge) {
      PrintSample(entry.name, "", entry.labels, "", Number(entry.gauge->value()), &out);
    } else {
      entry.histogram->Print(entry.name, entry.labels, &out);
    }
  }
  return out;
}

}  // namespace janus::gateway
