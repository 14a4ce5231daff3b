#include "cli/plan/command.h"

#include <cstdio>

#include "cli/plan/calibration.h"

namespace janus::cli {

Status Plan(const PlanOptions& options) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<CalibrationLine> lines,
                         CheckCalibration(options.check_calibration));
  std::fputs(RenderCalibration(lines).c_str(), stdout);
  return OkStatus();
}

}  // namespace janus::cli
