#include "common/exposition/metrics_text.h"

#include <prometheus/text_serializer.h>

namespace janus {
namespace {

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric MetricOf(MetricType type, const MetricFamily::Series& series) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : series.labels) metric.label.push_back({name, value});
  switch (type) {
    case MetricType::kCounter:
      metric.counter.value = series.value;
      break;
    case MetricType::kGauge:
      metric.gauge.value = series.value;
      break;
    case MetricType::kHistogram: {
      uint64_t count = 0;
      const HistogramSample& sample = series.histogram;
      for (size_t i = 0; i < sample.counts.size(); ++i) {
        count += sample.counts[i];
        // The serializer adds the last bucket, up to infinity, by itself.
        if (i < sample.bounds.size()) metric.histogram.bucket.push_back({count, sample.bounds[i]});
      }
      metric.histogram.sample_count = count;
      metric.histogram.sample_sum = sample.sum;
      break;
    }
  }
  return metric;
}

}  // namespace

std::string PrometheusText(const std::vector<MetricFamily>& families) {
  std::vector<prometheus::MetricFamily> out;
  for (const MetricFamily& family : families) {
    prometheus::MetricFamily& to = out.emplace_back();
    to.name = family.name;
    to.help = family.help;
    to.type = TypeOf(family.type);
    for (const MetricFamily::Series& series : family.series) {
      to.metric.push_back(MetricOf(family.type, series));
    }
  }
  return prometheus::TextSerializer().Serialize(out);
}

}  // namespace janus
