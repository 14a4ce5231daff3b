#pragma once

#include <string_view>

#include "common/metrics.h"

namespace janus::gateway {

// What the gateway measures. The vllm: names are those that autoscalers and endpoint pickers read.
struct GatewayMetrics {
  GatewayMetrics(MetricRegistry& registry, std::string_view model_name);

  Gauge& waiting;         // without an instance, or in an instance's queue
  Gauge& running;         // submitted to an instance
  Gauge& kv_usage;        // 0..1, of all attached instances together
  Gauge& instances;       // attached
  Gauge& topology_epoch;  // of the topology that was taken last
  Gauge& open_streams;    // HTTP requests being answered
  Gauge& connections;     // open client connections
  Gauge& queue_limit;     // of requests without an instance
  Gauge& memory;          // bytes held for clients
  Gauge& memory_limit;    // of them at most
  Histogram& ttft;        // seconds from the request's last byte to its first token
  Histogram& itl;         // seconds between messages with tokens, per token
  Histogram& tpot;        // per request: (last - first token) / (tokens - 1)
  Histogram& e2e;         // seconds from the request's last byte to its last token
  Counter& prompt_tokens;
  Counter& generation_tokens;
  Counter& success_stop;
  Counter& success_length;
  Counter& failed;   // 5xx, or an error in mid-stream
  Counter& refused;  // 4xx but 429
  Counter& shed;     // 429
  Counter& client_gone;
  Counter& slow_reader_cut;
  Counter& memory_refused;  // refused, failed or cut because the memory budget was in use
  Counter& accept_errors;   // the system had no room for a connection
  Counter& resubmitted;     // given to another instance
  Counter& stale_dropped;   // messages of an attempt that is not the current one

 private:
  GatewayMetrics(MetricRegistry& registry, const MetricLabels& model);
};

}  // namespace janus::gateway
