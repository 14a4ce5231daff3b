#pragma once

#include <string>
#include <vector>

#include "controllers/simulate/simulate.h"

namespace janus::cli {

// The context of a report, besides the runs.
struct SimulationReport {
  std::string title;     // model, devices, targets
  std::string workload;  // files, scale, requests
  double tpot_seconds = 0;
  double ttft_seconds = 0;
  double window_s = 600;
  std::vector<controllers::SimulationRun> runs;
};

// A table with one line per policy.
std::string RenderText(const SimulationReport& report);
// Everything, with windows and decisions, for programs.
std::string RenderJson(const SimulationReport& report);
// A self-contained page: the table, plots as SVG, decisions with their reasons.
std::string RenderHtml(const SimulationReport& report);

}  // namespace janus::cli
