#pragma once

#include <memory>

#include "common/aligned_buffer.h"
#include "common/clock.h"
#include "common/topology.h"
#include "dataplane/attention/layers.h"
#include "dataplane/comm/exchange.h"
#include "dataplane/comm/step_control.h"
#include "dataplane/comm/transport.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// What one epoch may have another of than the one before it.
struct AttentionPace {
  int max_waiting = 4096;    // requests not yet admitted; beyond it new ones are refused
  Seconds tpot_target{0.1};  // a step that computes prompts should take no longer
  StepDeadlines deadlines;
};

// What one epoch gives an attention instance: its place among the members, the way to them, and the
// layers with buffers cut for the epoch's rounds. Made by AttentionInstance::Enter while another
// epoch runs; then confined to the step thread.
struct AttentionEpoch {
  AttentionEpoch(const Topology& in, Rank own, Transport& by, AttentionExchange& with,
                 const ModelDescription& model, const AttentionWeights& weights,
                 const KvCache& cache, const kernels::Stream& on, const AttentionPace& at)
      : topology(in),
        rank(own),
        transport(by),
        exchange(with),
        stream(on),
        pace(at),
        layers(model, weights, cache, on, in.max_rows_per_round),
        sample_workspace(static_cast<size_t>(kernels::SampleWorkspaceBytes(
            model.vocab, on.team == nullptr ? 1 : on.team->size()))) {}

  const Topology topology;
  const Rank rank;
  Transport& transport;
  AttentionExchange& exchange;
  const kernels::Stream stream;
  const AttentionPace pace;
  AttentionLayers layers;
  AlignedBuffer sample_workspace;
  std::unique_ptr<StepControl> control;
};

}  // namespace janus::dataplane
