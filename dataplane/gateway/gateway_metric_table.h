#pragma once

#include "common/metrics.h"

namespace janus::gateway {

// The vllm: names are those that autoscalers and endpoint pickers read.
inline constexpr MetricDeclaration kGatewayMetrics[] = {
    {"vllm:num_requests_waiting", MetricType::kGauge, "model_name", "requests",
     "Requests that wait to run: here without an instance, or in an instance's queue."},
    {"vllm:num_requests_running", MetricType::kGauge, "model_name", "requests",
     "Requests that run on attention instances."},
    {"vllm:kv_cache_usage_perc", MetricType::kGauge, "model_name", "ratio",
     "KV cache in use, of all attached instances together; 1 is full."},
    {"vllm:time_to_first_token_seconds", MetricType::kHistogram, "model_name", "seconds",
     "From the last byte of a request to its first token."},
    {"vllm:inter_token_latency_seconds", MetricType::kHistogram, "model_name", "seconds",
     "Between two tokens of a request."},
    {"vllm:request_time_per_output_token_seconds", MetricType::kHistogram, "model_name", "seconds",
     "Per output token of a request, the first left out."},
    {"vllm:e2e_request_latency_seconds", MetricType::kHistogram, "model_name", "seconds",
     "From the last byte of a request to its last token."},
    {"vllm:prompt_tokens_total", MetricType::kCounter, "model_name", "tokens",
     "Prompt tokens taken in."},
    {"vllm:generation_tokens_total", MetricType::kCounter, "model_name", "tokens",
     "Tokens generated."},
    {"vllm:request_success_total", MetricType::kCounter, "model_name,finished_reason", "requests",
     "Requests answered, by why they ended."},
    {"janus_gateway_attention_instances", MetricType::kGauge, "", "instances",
     "Attached attention instances."},
    {"janus_gateway_topology_epoch", MetricType::kGauge, "", "epoch",
     "Epoch of the committed topology that was taken last, 0 before the first."},
    {"janus_gateway_open_streams", MetricType::kGauge, "", "requests", "Requests being answered."},
    {"janus_gateway_connections", MetricType::kGauge, "", "connections", "Client connections."},
    {"janus_gateway_queued_requests_limit", MetricType::kGauge, "", "requests",
     "How many may wait for an instance here (--queued-requests)."},
    {"janus_gateway_memory_bytes", MetricType::kGauge, "", "bytes",
     "Held for clients: bodies, prompts, answers, unread output."},
    {"janus_gateway_memory_limit_bytes", MetricType::kGauge, "", "bytes",
     "How many may be held for clients (--memory-bytes)."},
    {"janus_gateway_requests_failed_total", MetricType::kCounter, "", "requests",
     "Requests that failed on our side."},
    {"janus_gateway_requests_refused_total", MetricType::kCounter, "", "requests",
     "Requests refused for what they ask."},
    {"janus_gateway_requests_shed_total", MetricType::kCounter, "", "requests",
     "Requests refused because queue or streams were full."},
    {"janus_gateway_client_gone_total", MetricType::kCounter, "", "requests",
     "Requests whose client left before the end."},
    {"janus_gateway_slow_reader_cut_total", MetricType::kCounter, "", "requests",
     "Streams cut because nobody read them."},
    {"janus_gateway_memory_refused_total", MetricType::kCounter, "", "requests",
     "Requests refused, answers ended and slow readers cut because the memory for clients was in "
     "use."},
    {"janus_gateway_accept_errors_total", MetricType::kCounter, "", "connections",
     "Times that the system had no descriptor, buffer or memory for a connection; tried again "
     "after 100 ms."},
    {"janus_gateway_resubmitted_total", MetricType::kCounter, "", "requests",
     "Requests given to another attention instance."},
    {"janus_gateway_stale_messages_total", MetricType::kCounter, "", "messages",
     "Messages dropped because they were of an attempt that was over."},
};

}  // namespace janus::gateway
