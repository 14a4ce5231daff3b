#pragma once

#include <string>
#include <vector>

#include "common/metrics.h"

namespace janus {

// Prints the families in the Prometheus text format 0.0.4.
std::string PrometheusText(const std::vector<MetricFamily>& families);
inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace janus
