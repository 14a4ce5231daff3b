#pragma once

#include <string>

#include "cli/plan/inputs.h"
#include "common/status.h"
#include "controllers/plan/goal.h"
#include "controllers/plan/mixserve.h"

namespace janus::cli {

// `janusctl plan`.
struct PlanOptions {
  std::string check_calibration;  // folder: print how far the cost model is off, nothing else
  SettingOptions setting;
  double tpot_milliseconds = 100;
  double batch = 0;  // sequences decoding at once; 0: as many as the target allows
  // Mean keys of a sequence; 0: a prompt and half an answer of what is said of requests, or 1024.
  double context = 0;
  int max_attention_gpus = 128;
  int max_expert_gpus = 256;
  int max_gpus = 0;  // of both; 0: no other limit
  int max_batch_per_attention = 1024;
  bool survivable = false;
  int instances_per_pod = 1;
  bool whole_pods = false;     // exactly so many in each
  bool fixed_point = false;    // try that sum rule too
  bool all_modes = false;      // and fp8 on the wire
  bool served = false;         // nothing that this version cannot run
  int max_pools = 64;          // copies of mAnE side by side
  controllers::PlanPins pins;  // what is said and not searched for
  bool shared_node = false;    // both modules may sit in one node
  // With requests_per_second: times to the first token are told, and without a batch the plan is
  // the cheapest that carries it.
  controllers::Traffic traffic;
  std::string trace;        // says the traffic; a rate in `traffic` counts more
  double ttft_seconds = 0;  // target of it, judged where the traffic is said; 0: none
  double ttft_percentile = 0.95;
  bool json = false;
};

// The text to print. InvalidArgument, FailedPrecondition, NotFound: what is wrong and what to do.
Result<std::string> Plan(const PlanOptions& options);

}  // namespace janus::cli
