#include "dataplane/gateway/gateway_metrics.h"

namespace janus::gateway {

namespace {

// Fine between 5 and 100 ms, where targets lie.
const std::vector<double> kPerToken = {
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05, 0.055,
    0.06,  0.07,   0.08,  0.09,   0.1,  0.125, 0.15, 0.2,   0.3,  0.5,   0.75, 1.0,   2.5,  5.0};
const std::vector<double> kPerRequest = {0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15,
                                         0.2,   0.3,  0.5,  0.75, 1.0,  1.5,   2.5, 5.0,
                                         7.5,   10,   15,   20,   30,   60,    120, 300};

MetricLabels With(MetricLabels labels, const char* name, const char* value) {
  labels.emplace_back(name, value);
  return labels;
}

}  // namespace

GatewayMetrics::GatewayMetrics(MetricRegistry& r, std::string_view model_name)
    : GatewayMetrics(r, MetricLabels{{"model_name", std::string(model_name)}}) {}

GatewayMetrics::GatewayMetrics(MetricRegistry& r, const MetricLabels& model)
    : waiting(r.AddGauge("vllm:num_requests_waiting", model, "Requests that wait to run.")),
      running(r.AddGauge("vllm:num_requests_running", model, "Requests on attention instances.")),
      kv_usage(r.AddGauge("vllm:kv_cache_usage_perc", model, "KV cache in use, 1 is full.")),
      instances(r.AddGauge("janus_gateway_attention_instances", {}, "Attached instances.")),
      topology_epoch(r.AddGauge("janus_gateway_topology_epoch", {},
                                "Epoch of the topology taken last, 0 before the first.")),
      open_streams(r.AddGauge("janus_gateway_open_streams", {}, "Requests being answered.")),
      connections(r.AddGauge("janus_gateway_connections", {}, "Open client connections.")),
      memory(r.AddGauge("janus_gateway_memory_bytes", {}, "Bytes held for clients.")),
      memory_limit(r.AddGauge("janus_gateway_memory_limit_bytes", {},
                              "Bytes that may be held for clients.")),
      ttft(r.AddHistogram("vllm:time_to_first_token_seconds", model, "Seconds to the first token.",
                          kPerRequest)),
      itl(r.AddHistogram("vllm:inter_token_latency_seconds", model,
                         "Seconds between two tokens of a request.", kPerToken)),
      tpot(r.AddHistogram("vllm:request_time_per_output_token_seconds", model,
                          "Seconds per output token of a request, the first left out.", kPerToken)),
      e2e(r.AddHistogram("vllm:e2e_request_latency_seconds", model, "Seconds of a whole request.",
                         kPerRequest)),
      prompt_tokens(r.AddCounter("vllm:prompt_tokens_total", model, "Prompt tokens taken in.")),
      generation_tokens(r.AddCounter("vllm:generation_tokens_total", model, "Tokens generated.")),
      success_stop(r.AddCounter("vllm:request_success_total",
                                With(model, "finished_reason", "stop"),
                                "Requests answered, by finish reason.")),
      success_length(r.AddCounter("vllm:request_success_total",
                                  With(model, "finished_reason", "length"),
                                  "Requests answered, by finish reason.")),
      failed(r.AddCounter("janus_gateway_requests_failed_total", {},
                          "Requests that failed on our side.")),
      refused(r.AddCounter("janus_gateway_requests_refused_total", {},
                           "Requests refused for what they ask.")),
      shed(r.AddCounter("janus_gateway_requests_shed_total", {},
                        "Requests refused because queue or streams were full.")),
      client_gone(r.AddCounter("janus_gateway_client_gone_total", {},
                               "Requests whose client left before the end.")),
      slow_reader_cut(r.AddCounter("janus_gateway_slow_reader_cut_total", {},
                                   "Streams cut because the client did not read.")),
      memory_refused(r.AddCounter("janus_gateway_memory_refused_total", {},
                                  "Requests refused, failed or cut for lack of memory.")),
      accept_errors(r.AddCounter("janus_gateway_accept_errors_total", {},
                                 "Connections that the system had no room for.")),
      resubmitted(r.AddCounter("janus_gateway_resubmitted_total", {},
                               "Requests given to another attention instance.")),
      stale_dropped(r.AddCounter("janus_gateway_stale_messages_total", {},
                                 "Messages dropped because their attempt was over.")) {}

}  // namespace janus::gateway
