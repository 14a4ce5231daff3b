#pragma once

#include "common/metrics.h"

namespace janus::gateway {

// Autoscalers and endpoint pickers read the metrics under their vllm: names.
inline constexpr MetricDeclaration kGatewayMetrics[] = {
    {"vllm:num_requests_waiting", MetricType::kGauge, "model_name", "requests",
     "Requests without a token: at the gateway, in an instance's queue, or in their prompt."},
    {"vllm:num_requests_running", MetricType::kGauge, "model_name", "requests",
     "Requests that have their first token."},
    {"vllm:kv_cache_usage_perc", MetricType::kGauge, "model_name", "ratio",
     "Share of the KV cache in use, over all attached instances; 1 is full."},
    {"vllm:time_to_first_token_seconds", MetricType::kHistogram, "model_name", "seconds",
     "From the last byte of a request to its first token."},
    {"vllm:inter_token_latency_seconds", MetricType::kHistogram, "model_name", "seconds",
     "Between two tokens of a request."},
    {"vllm:request_time_per_output_token_seconds", MetricType::kHistogram, "model_name", "seconds",
     "Per output token of a request, without the first."},
    {"vllm:e2e_request_latency_seconds", MetricType::kHistogram, "model_name", "seconds",
     "From the last byte of a request to its last token."},
    {"vllm:prompt_tokens_total", MetricType::kCounter, "model_name", "tokens",
     "Prompt tokens accepted."},
    {"vllm:generation_tokens_total", MetricType::kCounter, "model_name", "tokens",
     "Tokens generated."},
    {"vllm:request_success_total", MetricType::kCounter, "model_name,finished_reason", "requests",
     "Requests answered, by finish reason."},
    {"janus_gateway_attention_instances", MetricType::kGauge, "", "instances",
     "Attached attention instances."},
    {"janus_gateway_topology_epoch", MetricType::kGauge, "", "epoch",
     "Epoch of the newest topology that the gateway uses; 0 before the first."},
    {"janus_gateway_open_streams", MetricType::kGauge, "", "requests", "Requests being answered."},
    {"janus_gateway_connections", MetricType::kGauge, "", "connections", "Client connections."},
    {"janus_gateway_queued_requests_limit", MetricType::kGauge, "", "requests",
     "Most requests that may wait here for an instance (--queued-requests)."},
    {"janus_gateway_memory_bytes", MetricType::kGauge, "", "bytes",
     "Memory held for clients: bodies, prompts, answers, unread output."},
    {"janus_gateway_memory_limit_bytes", MetricType::kGauge, "", "bytes",
     "Most memory that may be held for clients (--memory-bytes)."},
    {"janus_gateway_requests_arrived_total", MetricType::kCounter, "", "requests",
     "Answers requested, served or not, counted when their prompt was read; scaling uses this."},
    {"janus_gateway_arrived_prompt_tokens_total", MetricType::kCounter, "", "tokens",
     "Prompt tokens of requests that arrived."},
    {"janus_gateway_requests_ended_total", MetricType::kCounter, "how", "requests",
     "Answers that ended: finished, failed on our side, or refused for load. A call that is "
     "refused before its prompts are read counts once."},
    {"janus_gateway_timed_waits", MetricType::kGauge, "", "waits",
     "Timed devices: results that attached attention instances have delayed since their start."},
    {"janus_gateway_timed_overruns", MetricType::kGauge, "", "waits",
     "Of these results, those shown more than 2 ms after they were due."},
    {"janus_gateway_requests_failed_total", MetricType::kCounter, "", "requests",
     "Requests that failed on our side."},
    {"janus_gateway_requests_refused_total", MetricType::kCounter, "", "requests",
     "Requests refused for their content."},
    {"janus_gateway_requests_shed_total", MetricType::kCounter, "", "requests",
     "Requests refused because the queue or the streams were full."},
    {"janus_gateway_client_gone_total", MetricType::kCounter, "", "requests",
     "Requests that ended because the client left."},
    {"janus_gateway_slow_reader_cut_total", MetricType::kCounter, "", "requests",
     "Streams cut because the client did not read."},
    {"janus_gateway_memory_refused_total", MetricType::kCounter, "", "requests",
     "Requests refused, answers ended and slow readers cut because the memory for clients was "
     "full."},
    {"janus_gateway_accept_errors_total", MetricType::kCounter, "", "connections",
     "Times that the system had no descriptor, buffer or memory for a connection; retried after "
     "100 ms."},
    {"janus_gateway_resubmitted_total", MetricType::kCounter, "", "requests",
     "Requests moved to another attention instance."},
    {"janus_gateway_stale_messages_total", MetricType::kCounter, "", "messages",
     "Messages dropped because they belong to an earlier attempt of a request."},
};

}  // namespace janus::gateway
