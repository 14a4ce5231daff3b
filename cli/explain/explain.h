#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::cli {

// Texts for people from the records of a service (operator/records/service_page.h). Pure.

// Why the service has these counts: targets and load, the last decision and the last change, what
// else was weighed and why it lost, how good the last predictions were, and the placement.
// InvalidArgument: it is no such record.
Result<std::string> ExplainText(const std::string& records);

// One line per service: counts, load, latency against its target, attainment, last decision.
Result<std::string> TopText(const std::vector<std::string>& records);

}  // namespace janus::cli
