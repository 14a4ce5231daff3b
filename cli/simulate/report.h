#pragma once

#include <string>
#include <vector>

#include "controllers/simulate/simulate.h"

namespace janus::cli {

// What the reader of a report wants to know besides the runs.
struct SimulationReport {
  std::string title;     // model, devices, targets
  std::string workload;  // files, scale, requests
  double tpot_seconds = 0;
  double ttft_seconds = 0;
  double window_s = 600;
  std::vector<controllers::SimulationRun> runs;
};

// A table, one policy a line.
std::string RenderText(const SimulationReport& report);
// Everything, windows and decisions too, for programs.
std::string RenderJson(const SimulationReport& report);
// One page that needs nothing else: the table, plots as SVG, decisions with their reasons.
std::string RenderHtml(const SimulationReport& report);

}  // namespace janus::cli
