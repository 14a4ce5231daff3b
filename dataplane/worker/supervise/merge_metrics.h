#pragma once

#include <map>
#include <string>

namespace janus::dataplane {

// Joins the metrics of several instances, in Prometheus's text format, into one text: every sample
// gets the label index="i" before its own, and the samples of a metric stand together below one
// HELP and one TYPE line. `texts`: by index. Other comments and malformed lines are left out.
std::string MergeMetrics(const std::map<int, std::string>& texts);

}  // namespace janus::dataplane
