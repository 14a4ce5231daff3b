#pragma once

#include "common/metrics.h"

namespace janus::control {

// Metrics of the reconcile loop, with controller-runtime's names where it has them.
inline constexpr MetricDeclaration kManagerMetrics[] = {
    {"controller_runtime_reconcile_time_seconds", MetricType::kHistogram, "controller", "seconds",
     "Time of a pass over a service, from 0.1 ms."},
    {"controller_runtime_reconcile_total", MetricType::kCounter, "controller,result", "passes",
     "Passes over services. success; requeue_after: with a time for the next one; error: will be "
     "retried."},
    {"controller_runtime_reconcile_errors_total", MetricType::kCounter, "controller", "passes",
     "Passes that failed and will be retried."},
    {"controller_runtime_active_workers", MetricType::kGauge, "controller", "workers",
     "Workers in a pass."},
    {"controller_runtime_max_concurrent_reconciles", MetricType::kGauge, "controller", "workers",
     "Workers of the loop."},
    {"janus_operator_synced", MetricType::kGauge, "", "0 or 1",
     "1 once every informer has had a complete list; passes start then."},
    {"janus_operator_terms_total", MetricType::kCounter, "", "terms",
     "Terms of leadership that this process started."},
    {"process_resident_memory_bytes", MetricType::kGauge, "", "bytes", "Resident memory."},
};

// Metrics of each service, from the leader.
inline constexpr MetricDeclaration kServiceMetrics[] = {
    {"janus_role_desired_replicas", MetricType::kGauge, "namespace,service,role", "instances",
     "Instances that a role should have."},
    {"janus_role_ready_replicas", MetricType::kGauge, "namespace,service,role", "instances",
     "Ready members of a role."},
    {"janus_topology_epoch", MetricType::kGauge, "namespace,service", "epoch",
     "Epoch of the committed topology; with several pools, of the first."},
    {"janus_exchange_info", MetricType::kGauge, "namespace,service,mode,gate,why", "1",
     "How instances exchange rows, and why; always 1."},
    {"janus_pools", MetricType::kGauge, "namespace,service,state", "pools",
     "Pools of a service whose spec names pools, by state: Starting, Serving, Lost or Draining."},
    {"janus_slo_target_seconds", MetricType::kGauge, "namespace,service,slo", "seconds",
     "Target of the spec, at the percentile that the spec names. tpot: time per output token; "
     "ttft: time to first token."},
    {"janus_tpot_observed_seconds", MetricType::kGauge, "namespace,service", "seconds",
     "Time per output token at the percentile of spec.slo.tpot, over the last minute in which "
     "requests ended, measured at attention instances."},
    {"janus_ttft_observed_seconds", MetricType::kGauge, "namespace,service", "seconds",
     "Time from arrival at an attention instance to the first token, at the percentile of "
     "spec.slo.ttft, over the last minute with requests; without the wait at the gateway."},
    {"janus_tpot_predicted_seconds", MetricType::kGauge, "namespace,service", "seconds",
     "Time per output token at the same percentile, as the last decision on counts predicts it for "
     "the wanted counts; absent for fixed counts."},
    {"janus_slo_attainment_ratio", MetricType::kGauge, "namespace,service", "ratio",
     "Share of the requests of the last five minutes that kept the targets of spec.slo."},
    {"janus_scaling_decisions_total", MetricType::kCounter, "namespace,service,action,reason",
     "decisions",
     "Decisions since this process leads. action: ScaleUp, ScaleDown, Split (other micro-batches) "
     "or Hold; reason: as in ScalingReady."},
    {"janus_model_error_ratio", MetricType::kGauge, "namespace,service", "ratio",
     "Median error of predicted step times, over measurements that the predictor had not learned "
     "from."},
    {"janus_placement_busiest_experts", MetricType::kGauge, "namespace,service,placement",
     "experts",
     "Experts of a layer that the busiest instance reads in a step, by the routing that the last "
     "search of placement sampled. placement: before or after the search."},
    {"janus_activation_imbalance", MetricType::kGauge, "namespace,service", "ratio",
     "Work of the busiest expert instance over the mean, by how often each expert was chosen in "
     "the last minute with requests; 1 is even."},
    {"janus_gpu_seconds_total", MetricType::kCounter, "namespace,service", "GPU seconds",
     "GPU limit of the pods of the committed topology, times duration; since this leader started."},
    {"janus_service_condition", MetricType::kGauge, "namespace,service,condition,reason",
     "1, 0 or -1",
     "A condition of a service with its current reason: 1 True, 0 False, -1 Unknown."},
};

}  // namespace janus::control
