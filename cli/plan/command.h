#pragma once

#include <string>

#include "cli/plan/inputs.h"
#include "common/status.h"
#include "controllers/plan/goal.h"
#include "controllers/plan/mixserve.h"

namespace janus::cli {

// Options of `janusctl plan`.
struct PlanOptions {
  std::string check_calibration;  // folder: print only how far the cost model is off
  SettingOptions setting;
  double tpot_milliseconds = 100;
  double batch = 0;  // sequences decoding at once; 0: the most that the target allows
  // Mean keys of a sequence; 0: a prompt and half an answer of the traffic, or 1024.
  double context = 0;
  int max_attention_gpus = 128;
  int max_expert_gpus = 256;
  int max_gpus = 0;  // of both; 0: no other limit
  int max_batch_per_attention = 1024;
  bool survivable = false;
  int instances_per_pod = 1;
  bool whole_pods = false;     // all pods full, of the given size
  bool fixed_point = false;    // also try this sum rule
  bool all_modes = false;      // also try this, and fp8 on the wire
  bool served = false;         // only plans that this version can run
  int max_pools = 64;          // copies of mAnE side by side
  controllers::PlanPins pins;  // values that the user fixes; not searched for
  ExchangeOptions exchange;
  bool shared_node = false;  // attention and experts may share a node
  // With requests_per_second the output has times to the first token. Without a batch, the plan is
  // the cheapest that carries this traffic.
  controllers::Traffic traffic;
  std::string trace;        // gives the traffic; a rate in `traffic` overrides it
  double ttft_seconds = 0;  // target; judged if the traffic is known; 0: no target
  double ttft_percentile = 0.95;
  bool json = false;
};

// Returns the text to print. InvalidArgument, FailedPrecondition, NotFound: what is wrong and what
// to do.
Result<std::string> Plan(const PlanOptions& options);

}  // namespace janus::cli
