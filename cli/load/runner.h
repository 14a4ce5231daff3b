#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/load/arrivals.h"
#include "cli/load/histogram.h"
#include "common/clock.h"
#include "common/status.h"

namespace janus::cli {

struct LoadOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;        // empty: none is sent
  std::string model;          // empty: the first of /v1/models
  int max_concurrency = 256;  // requests open at once; an arrival beyond it is skipped, counted
  Seconds timeout{120};       // without a byte
  double time_scale = 1.0;    // > 1: the arrivals come faster
  double temperature = 0;
  uint64_t seed = 1;          // of the prompts' tokens
  int token_ids_below = 256;  // prompts are random ids in [1, this)
  bool ignore_eos = false;    // answers of full length; not every server knows it
};

// What became of one request. Times in seconds.
struct RequestOutcome {
  int64_t index = 0;
  Arrival arrival;
  int http_status = 0;
  std::string finish_reason;
  std::string error;  // empty: complete
  int output_tokens = 0;
  double ttft = 0;  // sent to first text
  double tpot = 0;  // per token after the first; 0 with fewer than two
  double e2e = 0;
  double late = 0;  // sent behind its arrival time
};

struct LoadSummary {
  int64_t sent = 0;
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t skipped = 0;  // all connections were busy
  int64_t output_tokens = 0;
  double seconds = 0;
  Histogram ttft;
  Histogram tpot;
  Histogram itl;  // between two events with text of one request
  Histogram late;
};

// Sends every arrival at its time, whatever became of the ones before (open loop), and reads the
// streams. `on_outcome` is called for each request sent, one call at a time. Ends when all are
// answered, or soon after `stop` says true (open streams are left).
// Unavailable, NotFound: the endpoint does not answer, or serves no model.
Result<LoadSummary> RunLoad(const LoadOptions& options, const std::vector<Arrival>& arrivals,
                            const std::function<void(const RequestOutcome&)>& on_outcome,
                            const std::function<bool()>& stop);

// One JSON object, without a line end.
std::string ToJson(const RequestOutcome& outcome);
// For people: counts, rates, and p50/p90/p99 of TTFT, ITL and TPOT.
std::string Describe(const LoadSummary& summary);

}  // namespace janus::cli
