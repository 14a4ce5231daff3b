#include "bench/simulate/extent.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "controllers/simulate/compare.h"
#include "controllers/simulate/steady.h"
#include "controllers/simulate/whole_policies.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

// Computed from the demand alone: a policy with a backlog would ask for more.
int PeakOfCopies(const Setting& setting, const ScalingPolicy& scaling,
                 const std::vector<SimulatedRequest>& requests) {
  constexpr double kWindow_s = 60;
  const std::vector<Demand> demands = DemandByWindow(requests, kWindow_s);
  ShapeBook book(setting, {}, scaling, MeanPromptKeys(requests));
  WholeInputs inputs;
  inputs.book = &book;
  inputs.tpot_seconds = scaling.tpot.seconds;
  inputs.aim = scaling.aim;
  inputs.pool = std::numeric_limits<int>::max();
  const std::vector<WholeConfiguration> ways = {{16}, {32}, {64}};
  const auto how = CheapestWhole(inputs, demands, ways);
  if (!how) return 0;
  inputs.how = *how;
  int most = 0;
  for (const Demand& demand : demands) most = std::max(most, CopiesFor(inputs, demand));
  return most * inputs.how.gpus;
}

}  // namespace

Result<Extent> ExtentOf(const cli::SimulateOptions& options) {
  JANUS_ASSIGN_OR_RETURN(Setting setting, cli::ReadSetting(options.setting));
  JANUS_ASSIGN_OR_RETURN(const cli::DemandRead demand, cli::ReadDemand(options.demand));
  const std::vector<SimulatedRequest>& requests = demand.requests;
  setting.context = DemandOf(requests, requests.back().arrival + 1).context;
  PredictorOptions few;
  few.max_attention = 1;
  few.max_experts = 64;
  JANUS_ASSIGN_OR_RETURN(const Predictor predictor, Predictor::Create(setting, few));
  return Extent{PeakOfCopies(setting, options.scaling, requests),
                predictor.GpusOf(1, predictor.FewestExperts())};
}

}  // namespace janus::bench
