#include "dataplane/gateway/gateway_metrics.h"

#include "dataplane/gateway/gateway_metric_table.h"

namespace janus::gateway {

namespace {

// Fine between 5 and 100 ms, where targets lie.
const std::vector<double> kPerToken = {
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05, 0.055,
    0.06,  0.07,   0.08,  0.09,   0.1,  0.125, 0.15, 0.2,   0.3,  0.5,   0.75, 1.0,   2.5,  5.0};
const std::vector<double> kPerRequest = {0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15,
                                         0.2,   0.3,  0.5,  0.75, 1.0,  1.5,   2.5, 5.0,
                                         7.5,   10,   15,   20,   30,   60,    120, 300};

consteval Metric Of(std::string_view name) {
  return {kGatewayMetrics, name};
}

MetricLabels With(MetricLabels labels, const char* name, const char* value) {
  labels.emplace_back(name, value);
  return labels;
}

}  // namespace

GatewayMetrics::GatewayMetrics(MetricRegistry& r, std::string_view model_name)
    : GatewayMetrics(r, MetricLabels{{"model_name", std::string(model_name)}}) {}

GatewayMetrics::GatewayMetrics(MetricRegistry& r, const MetricLabels& model)
    : waiting(r.AddGauge(Of("vllm:num_requests_waiting"), model)),
      running(r.AddGauge(Of("vllm:num_requests_running"), model)),
      kv_usage(r.AddGauge(Of("vllm:kv_cache_usage_perc"), model)),
      instances(r.AddGauge(Of("janus_gateway_attention_instances"), {})),
      topology_epoch(r.AddGauge(Of("janus_gateway_topology_epoch"), {})),
      pools(r.AddGauge(Of("janus_gateway_pools"), {})),
      open_streams(r.AddGauge(Of("janus_gateway_open_streams"), {})),
      connections(r.AddGauge(Of("janus_gateway_connections"), {})),
      queue_limit(r.AddGauge(Of("janus_gateway_queued_requests_limit"), {})),
      memory(r.AddGauge(Of("janus_gateway_memory_bytes"), {})),
      memory_limit(r.AddGauge(Of("janus_gateway_memory_limit_bytes"), {})),
      timed_waits(r.AddGauge(Of("janus_gateway_timed_waits"), {})),
      timed_overruns(r.AddGauge(Of("janus_gateway_timed_overruns"), {})),
      ttft(r.AddHistogram(Of("vllm:time_to_first_token_seconds"), model, kPerRequest)),
      itl(r.AddHistogram(Of("vllm:inter_token_latency_seconds"), model, kPerToken)),
      tpot(r.AddHistogram(Of("vllm:request_time_per_output_token_seconds"), model, kPerToken)),
      e2e(r.AddHistogram(Of("vllm:e2e_request_latency_seconds"), model, kPerRequest)),
      prompt_tokens(r.AddCounter(Of("vllm:prompt_tokens_total"), model)),
      prefix_queries(r.AddCounter(Of("vllm:prefix_cache_queries_total"), model)),
      prefix_hits(r.AddCounter(Of("vllm:prefix_cache_hits_total"), model)),
      generation_tokens(r.AddCounter(Of("vllm:generation_tokens_total"), model)),
      success_stop(
          r.AddCounter(Of("vllm:request_success_total"), With(model, "finished_reason", "stop"))),
      success_length(
          r.AddCounter(Of("vllm:request_success_total"), With(model, "finished_reason", "length"))),
      arrived(r.AddCounter(Of("janus_gateway_requests_arrived_total"), {})),
      arrived_prompt_tokens(r.AddCounter(Of("janus_gateway_arrived_prompt_tokens_total"), {})),
      ended_finished(r.AddCounter(Of("janus_gateway_requests_ended_total"), {{"how", "finished"}})),
      ended_failed(r.AddCounter(Of("janus_gateway_requests_ended_total"), {{"how", "failed"}})),
      ended_refused(r.AddCounter(Of("janus_gateway_requests_ended_total"), {{"how", "refused"}})),
      failed(r.AddCounter(Of("janus_gateway_requests_failed_total"), {})),
      refused(r.AddCounter(Of("janus_gateway_requests_refused_total"), {})),
      shed(r.AddCounter(Of("janus_gateway_requests_shed_total"), {})),
      client_gone(r.AddCounter(Of("janus_gateway_client_gone_total"), {})),
      slow_reader_cut(r.AddCounter(Of("janus_gateway_slow_reader_cut_total"), {})),
      memory_refused(r.AddCounter(Of("janus_gateway_memory_refused_total"), {})),
      accept_errors(r.AddCounter(Of("janus_gateway_accept_errors_total"), {})),
      resubmitted(r.AddCounter(Of("janus_gateway_resubmitted_total"), {})),
      stale_dropped(r.AddCounter(Of("janus_gateway_stale_messages_total"), {})) {}

}  // namespace janus::gateway
