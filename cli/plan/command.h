#pragma once

#include <string>

#include "common/status.h"

namespace janus::cli {

// `janusctl plan`.
struct PlanOptions {
  std::string check_calibration;  // folder; empty: none
};

Status Plan(const PlanOptions& options);

}  // namespace janus::cli
