#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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
  int max_concurrency = 256;  // open requests; an arrival beyond it is skipped and counted
  Seconds timeout{120};       // without a byte
  double time_scale = 1.0;    // > 1: the arrivals come faster
  double temperature = 0;
  uint64_t seed = 1;          // of the prompts' tokens
  int token_ids_below = 256;  // prompts are random ids from 1 to below this
  bool ignore_eos = false;    // answers of full length; not every server supports it
};

// The result of one request. Times in seconds.
struct RequestOutcome {
  int64_t index = 0;
  Arrival arrival;
  int http_status = 0;
  std::string finish_reason;
  std::string error;  // empty: complete
  int output_tokens = 0;
  std::string answer_hash;  // of the text: equal for equal answers
  double ttft = 0;          // from sending to the first text
  double tpot = 0;          // per token after the first; 0 with fewer than two tokens
  double e2e = 0;
  double late = 0;  // how long after its arrival time it was sent
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
  Histogram itl;  // between two events with text of the same request
  Histogram late;
  // Of timed devices, in the time of the run; 0: there are none, or the endpoint does not say.
  uint64_t timed_waits = 0;
  uint64_t timed_overruns = 0;
};

// Sends every arrival at its time even if earlier requests are still open (open loop), and reads
// the streams. Calls `on_outcome` for each request sent, one call at a time. Returns when all are
// answered, or soon after `stop` returns true (open streams are dropped). Unavailable: the endpoint
// does not answer. NotFound: it serves no model.
Result<LoadSummary> RunLoad(const LoadOptions& options, const std::vector<Arrival>& arrivals,
                            const std::function<void(const RequestOutcome&)>& on_outcome,
                            const std::function<bool()>& stop);

// What a gateway's /metrics says of its timed devices; 0 without such lines.
struct TimedCounts {
  uint64_t waits = 0;
  uint64_t overruns = 0;
};
TimedCounts ReadTimedCounts(std::string_view metrics);

// One JSON object, without a line end.
std::string ToJson(const RequestOutcome& outcome);
// For people: counts, rates, and p50/p90/p99 of TTFT, ITL and TPOT.
std::string Describe(const LoadSummary& summary);

}  // namespace janus::cli
