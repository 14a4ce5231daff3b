#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/hardware.h"
#include "common/status.h"
#include "controllers/fit/coefficients.h"

namespace janus::cli {

// Measurements of one kind, dealt into what a fit sees and what it is judged on: whole batch
// sizes, context lengths and one model shape are held back, never single points between neighbours.
template <class Measurement>
struct Split {
  std::vector<Measurement> fit;
  std::vector<Measurement> held;
};

// Measured times of one device; kinds by kernel and, where that changes the code that runs, shape.
struct Calibration {
  ExpertShape expert_shape;
  Split<controllers::ExpertMeasurement> experts;
  // Skewed routing of so few tokens that the published rule leaves open which experts got them
  // (the order of ties in a sort); judged, never fitted.
  std::vector<controllers::ExpertMeasurement> unclear_experts;
  std::map<std::string, Split<controllers::GroupedMeasurement>> grouped;
  std::map<std::string, Split<controllers::LatentMeasurement>> latent;
  std::map<std::string, Split<controllers::ExchangeMeasurement>> exchange;
  std::map<std::string, Split<controllers::CollectiveMeasurement>> collective;
};

// Reads <folder>/<device>_*.csv.gz as data/calibration/README.md describes them; device "h100" or
// "h200". Errors name the file and the line.
Result<Calibration> ReadCalibration(const std::string& folder, const std::string& device);

// One line of the table "cost model against calibration".
struct CalibrationLine {
  std::string term;                // "experts", "latent attention", ...
  std::string device;              // "H100"; "H100 from H200" where coefficients were carried over
  std::string kind;                // kernel and shape
  int fitted = 0;                  // measurements the fit saw
  controllers::ErrorSummary held;  // on those it did not
  double median_goal = 0;          // 0: none stated
  double p90_goal = 0;
};

// Fits every kind of every device of the folder and judges each on what was held back.
Result<std::vector<CalibrationLine>> CheckCalibration(const std::string& folder);

// The table as text, a line per kind, then what share of kinds meets its goal.
std::string RenderCalibration(const std::vector<CalibrationLine>& lines);

}  // namespace janus::cli
