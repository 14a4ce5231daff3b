#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/hardware.h"
#include "common/status.h"
#include "controllers/fit/coefficients.h"

namespace janus::cli {

// Measurements of one kind, split into those that the fit sees and those that judge it. Whole batch
// sizes, context lengths and one model shape are held back. Single points are not: their neighbours
// would give them away.
template <class Measurement>
struct Split {
  std::vector<Measurement> fit;
  std::vector<Measurement> held;
};

// Measured times of one device. A kind is a kernel; if the shape changes which code runs, a kernel
// and a shape.
struct Calibration {
  ExpertShape expert_shape;
  Split<controllers::ExpertMeasurement> experts;
  // Skewed routing of few tokens. The published rule does not say which experts got them, as it
  // does not define the order of ties in a sort. These are judged, never fitted.
  std::vector<controllers::ExpertMeasurement> unclear_experts;
  std::map<std::string, Split<controllers::GroupedMeasurement>> grouped;
  std::map<std::string, Split<controllers::LatentMeasurement>> latent;
  std::map<std::string, Split<controllers::ExchangeMeasurement>> exchange;
  std::map<std::string, Split<controllers::CollectiveMeasurement>> collective;
};

// Reads <folder>/<device>_*.csv.gz (format: data/calibration/README.md). `device` is "h100" or
// "h200". Errors name the file and the line.
Result<Calibration> ReadCalibration(const std::string& folder, const std::string& device);

// One line of the table "cost model against calibration".
struct CalibrationLine {
  std::string term;                // "experts", "latent attention", ...
  std::string device;              // "H100"; "H100 from H200": coefficients of the H200
  std::string kind;                // kernel and shape
  int fitted = 0;                  // measurements that the fit saw
  controllers::ErrorSummary held;  // error on those held back
  double median_goal = 0;          // 0: no goal
  double p90_goal = 0;
};

// Fits every kind of every device in the folder, and judges each fit on the measurements held back.
Result<std::vector<CalibrationLine>> CheckCalibration(const std::string& folder);

// The table as text: a line per kind, then the share of kinds that meet their goal.
std::string RenderCalibration(const std::vector<CalibrationLine>& lines);

}  // namespace janus::cli
