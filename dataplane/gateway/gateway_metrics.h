#pragma once

#include <string_view>

#include "common/metrics.h"

namespace janus::gateway {

// The gateway's metrics. Autoscalers and endpoint pickers read those with vllm: names.
struct GatewayMetrics {
  GatewayMetrics(MetricRegistry& registry, std::string_view model_name);

  Gauge& waiting;         // without an instance, or in an instance's queue
  Gauge& running;         // submitted to an instance
  Gauge& kv_usage;        // 0..1, of all attached instances together
  Gauge& instances;       // attached
  Gauge& topology_epoch;  // the highest of the topologies in use
  Gauge& pools;           // with a topology
  Gauge& open_streams;    // HTTP requests being answered
  Gauge& connections;     // open client connections
  Gauge& queue_limit;     // of requests without an instance
  Gauge& memory;          // bytes held for clients
  Gauge& memory_limit;    // bytes held at most
  Gauge& timed_waits;     // of timed devices; else 0
  Gauge& timed_overruns;  // of these
  Histogram& ttft;        // seconds from the request's last byte to its first token
  Histogram& itl;         // seconds between messages with tokens, per token
  Histogram& tpot;        // per request: (last - first token) / (tokens - 1)
  Histogram& e2e;         // seconds from the request's last byte to its last token
  Counter& prompt_tokens;
  Counter& prefix_queries;
  Counter& prefix_hits;
  Counter& generation_tokens;
  Counter& success_stop;
  Counter& success_length;
  Counter& arrived;                // as RequestCounts has them, all that follow with `arrived` or
  Counter& arrived_prompt_tokens;  // `ended`
  Counter& ended_finished;
  Counter& ended_failed;
  Counter& ended_refused;
  Counter& failed;   // 5xx, or an error in mid-stream
  Counter& refused;  // 4xx but 429
  Counter& shed;     // 429
  Counter& client_gone;
  Counter& slow_reader_cut;
  Counter& memory_refused;  // refused, failed or cut: the memory budget was exhausted
  Counter& accept_errors;   // the system had no descriptor or memory for a connection
  Counter& resubmitted;     // moved to another instance
  Counter& stale_dropped;   // messages of an old attempt

 private:
  GatewayMetrics(MetricRegistry& registry, const MetricLabels& model);
};

}  // namespace janus::gateway
