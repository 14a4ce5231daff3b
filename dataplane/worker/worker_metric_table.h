#pragma once

#include "common/metrics.h"

namespace janus::dataplane {

// What a worker tells of its instance. All have role and rank before their own labels.
inline constexpr MetricDeclaration kWorkerMetrics[] = {
    {"janus_topology_epoch", MetricType::kGauge, "", "epoch",
     "Epoch that is served, 0 before the first and after the last."},
    {"janus_holding", MetricType::kGauge, "", "0 or 1",
     "1 while requests are kept and nothing is computed: the epoch was lost (a peer has gone or "
     "hangs), and there is no other yet."},
    {"janus_exchange_link_info", MetricType::kGauge, "peer,transport", "1",
     "How messages to each peer travel (shared memory; shared memory, GPU memory; UCX tcp/eth0; "
     "UCX rc_mlx5/mlx5_0:1, GPU memory); "
     "always 1."},
    {"janus_exchange_device_bytes_per_second", MetricType::kGauge, "device,port,link_layer,why",
     "bytes/s",
     "Rate, in each direction, of the RDMA device that messages to other memory domains may go "
     "through, and why it was chosen; 0: it does not say."},
    {"janus_exchange_bytes_total", MetricType::kCounter, "direction", "bytes",
     "Rows and contributions, sent and received."},
    {"janus_messages_dropped_total", MetricType::kCounter, "reason", "messages",
     "Messages dropped. malformed: another tag or an impossible size; late: rows or contributions "
     "of a round that was over, also those sent twice; control: tickets and words of giving up "
     "that were late, twice or unusable."},
    {"janus_detection_deadline_seconds", MetricType::kGauge, "", "seconds",
     "How long this instance waits for a round before it is missed, by the rounds it has seen."},
    {"janus_rounds_missed_total", MetricType::kCounter, "", "rounds",
     "Rounds that this instance found late beyond the detection deadline or falsified, and tickets "
     "it could not use."},
    {"janus_step_repeats_total", MetricType::kCounter, "", "steps",
     "Steps left before their end and repeated; every member counts each."},
    {"janus_steps_total", MetricType::kCounter, "", "steps", "Steps ended."},
    {"janus_step_seconds", MetricType::kHistogram, "", "seconds", "Time of a step that ended."},
    {"janus_step_part_seconds_total", MetricType::kCounter, "part", "seconds",
     "Time of steps, by what it went to: busy, or wait for peers."},
    {"janus_step_wait_seconds", MetricType::kHistogram, "for", "seconds",
     "What a step that ended waited for. coordinator (attention): from having work to the step's "
     "beginning; peer: within the step, for contributions of expert instances or rows of attention "
     "instances."},
    {"janus_round_seconds", MetricType::kHistogram, "module", "seconds",
     "Computing in a round of a step that ended, by module, on a GPU by its clock. attention, "
     "shared_experts, combine (adding up the "
     "contributions) at attention instances; gate (and top-k) and experts at expert instances."},
    {"janus_exchange_seconds", MetricType::kHistogram, "phase,mode", "seconds",
     "A round's messages, as one side sees them. send: handing its own to the transport; receive: "
     "waiting for those of its peers, with what these still compute."},
    {"janus_aebs_seconds", MetricType::kHistogram, "", "seconds",
     "Experts: deciding which instance computes which expert of a round (AEBS)."},
    {"janus_rows_total", MetricType::kCounter, "", "rows", "Rows computed."},
    {"process_resident_memory_bytes", MetricType::kGauge, "", "bytes", "Resident memory."},
    {"janus_sequences_running", MetricType::kGauge, "", "sequences",
     "Attention: sequences in the batch."},
    {"janus_sequences_waiting", MetricType::kGauge, "", "sequences",
     "Attention: sequences not admitted yet, or preempted."},
    {"janus_kv_tokens", MetricType::kGauge, "", "tokens", "Attention: positions in the KV cache."},
    {"janus_kv_tokens_capacity", MetricType::kGauge, "", "tokens",
     "Attention: positions that the KV cache has room for."},
    {"janus_generated_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: tokens generated."},
    {"janus_preemptions_total", MetricType::kCounter, "", "sequences",
     "Attention: times that a sequence gave way for want of pages."},
    {"janus_recomputed_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: positions computed that had been computed before."},
    {"janus_replayed_tokens_total", MetricType::kCounter, "", "tokens",
     "Attention: generated tokens that requests came with from another instance, to go on behind "
     "them."},
    {"janus_swapped_sequences", MetricType::kGauge, "", "sequences",
     "Attention: preempted sequences whose keys and values are in host memory."},
    {"janus_sit_outs_total", MetricType::kCounter, "", "steps",
     "Attention: steps that this instance had work for and was left out of."},
    {"janus_rounds_total", MetricType::kCounter, "", "rounds", "Experts: rounds answered."},
    {"janus_activated_experts_total", MetricType::kCounter, "", "experts",
     "Experts: experts computed here, summed over rounds."},
};

}  // namespace janus::dataplane
