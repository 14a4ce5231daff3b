#pragma once

#include "common/metrics.h"

namespace janus::dataplane {

// The metrics of a worker's instance. All have the labels role and rank before their own.
inline constexpr MetricDeclaration kWorkerMetrics[] = {
    {"janus_topology_epoch", MetricType::kGauge, "", "epoch",
     "Epoch that is served; 0 before the first and after the last."},
    {"janus_holding", MetricType::kGauge, "", "0 or 1",
     "1 while requests wait because the epoch was lost (a peer has gone or hangs) and there is no "
     "new one."},
    {"janus_exchange_link_info", MetricType::kGauge, "peer,transport", "1",
     "How messages to each peer travel (shared memory; shared memory, GPU memory; UCX tcp/eth0; "
     "UCX rc_mlx5/mlx5_0:1, GPU memory); always 1."},
    {"janus_exchange_link_latency_seconds", MetricType::kGauge, "peer", "seconds",
     "One way to a peer on another node, measured while the epoch was prepared."},
    {"janus_exchange_link_bytes_per_second", MetricType::kGauge, "peer", "bytes/s",
     "Bandwidth from that peer."},
    {"janus_exchange_link_message_seconds", MetricType::kGauge, "peer", "seconds",
     "Time of each further small message to it."},
    {"janus_exchange_device_bytes_per_second", MetricType::kGauge, "device,port,link_layer,why",
     "bytes/s",
     "Rate in each direction of the RDMA device for other memory domains, and why it was chosen; "
     "0: unknown."},
    {"janus_exchange_bytes_total", MetricType::kCounter, "direction", "bytes",
     "Rows and contributions, sent and received. In the two-phase modes only between nodes."},
    {"janus_messages_dropped_total", MetricType::kCounter, "reason", "messages",
     "Messages dropped. malformed: wrong tag or impossible size; late: rows or contributions of an "
     "old round, or a repeat; control: tickets and give-up messages that were late, repeated or "
     "unusable."},
    {"janus_detection_deadline_seconds", MetricType::kGauge, "", "seconds",
     "How long this instance waits before a round is missed; it follows from past rounds."},
    {"janus_rounds_missed_total", MetricType::kCounter, "", "rounds",
     "Rounds beyond the detection deadline or corrupted, and unusable tickets, as this instance "
     "saw them."},
    {"janus_step_repeats_total", MetricType::kCounter, "", "steps",
     "Steps given up and repeated; every member counts each."},
    {"janus_steps_total", MetricType::kCounter, "", "steps", "Steps completed."},
    {"janus_step_seconds", MetricType::kHistogram, "", "seconds", "Time of a completed step."},
    {"janus_step_part_seconds_total", MetricType::kCounter, "part", "seconds",
     "Time of steps by part: busy, or waiting for peers."},
    {"janus_step_wait_seconds", MetricType::kHistogram, "for", "seconds",
     "Waits of a completed step. coordinator (attention): from having work to the step's start; "
     "peer: within the step, for contributions or rows of peers."},
    {"janus_round_seconds", MetricType::kHistogram, "module", "seconds",
     "Computation in a round of a completed step, by module; on a GPU by its clock. Attention "
     "instances: attention, gate if they compute it, shared_experts, combine (adding "
     "contributions). Expert instances: gate (and top-k), experts."},
    {"janus_exchange_seconds", MetricType::kHistogram, "phase,mode", "seconds",
     "A round's messages as one side sees them. send: handing them to the transport; receive: "
     "waiting for the peers, including their computation."},
    {"janus_aebs_seconds", MetricType::kHistogram, "", "seconds",
     "Experts: assigning a round's experts to instances (AEBS)."},
    {"janus_timed_waits_total", MetricType::kCounter, "", "waits",
     "Timed devices: results that waited until they were due."},
    {"janus_timed_overruns_total", MetricType::kCounter, "", "waits",
     "Timed devices: results shown more than 2 ms after they were due. Above 1 % of the waits the "
     "run is void."},
    {"janus_rows_total", MetricType::kCounter, "", "rows", "Rows computed."},
    {"process_resident_memory_bytes", MetricType::kGauge, "", "bytes", "Resident memory."},
    {"janus_sequences_running", MetricType::kGauge, "", "sequences",
     "Attention: sequences in the batch."},
    {"janus_sequences_waiting", MetricType::kGauge, "", "sequences",
     "Attention: sequences not admitted yet or preempted."},
    {"janus_waiting_prompt_tokens", MetricType::kGauge, "", "tokens",
     "Attention: positions that requests still have to compute before they decode."},
    {"janus_oldest_waiting_seconds", MetricType::kGauge, "", "seconds",
     "Attention: age of the oldest request without a token; 0: no such request."},
    {"janus_kv_tokens", MetricType::kGauge, "", "tokens", "Attention: positions in the KV cache."},
    {"janus_kv_tokens_capacity", MetricType::kGauge, "", "tokens",
     "Attention: most positions that fit into the KV cache."},
    {"janus_generated_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: tokens generated."},
    {"janus_preemptions_total", MetricType::kCounter, "", "sequences",
     "Attention: sequences preempted for lack of pages."},
    {"janus_prefix_cached_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: positions taken from the prefix cache."},
    {"janus_prefix_host_cached_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: of these, positions copied back from host memory."},
    {"janus_prefix_host_saved_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: positions of shared blocks copied to host memory."},
    {"janus_prefix_host_bytes", MetricType::kGauge, "", "bytes",
     "Attention: host memory that holds shared blocks."},
    {"janus_recomputed_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: positions computed again."},
    {"janus_replayed_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: tokens that requests brought from another instance."},
    {"janus_swapped_sequences", MetricType::kGauge, "", "sequences",
     "Attention: preempted sequences with keys and values in host memory."},
    {"janus_sit_outs_total", MetricType::kCounter, "", "steps",
     "Attention: steps that left this instance out although it had work."},
    {"janus_rounds_total", MetricType::kCounter, "", "rounds", "Experts: rounds answered."},
    {"janus_activated_experts_total", MetricType::kCounter, "", "experts",
     "Experts: experts computed here, summed over rounds."},
    {"janus_clamped_elements_total", MetricType::kCounter, "", "elements",
     "Experts: too large elements of contributions (FixedPoint)."},
};

}  // namespace janus::dataplane
