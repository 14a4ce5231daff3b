#pragma once

#include <memory>

#include "common/clock.h"
#include "common/topology.h"
#include "dataplane/attention/host_sampler.h"
#include "dataplane/attention/layers.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/transport.h"
#include "dataplane/steps/step_control.h"
#include "kernels/device/context.h"
#include "kernels/device/staging.h"
#include "kernels/device/stopwatch.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// What may differ from one epoch to the next.
struct AttentionPace {
  int max_waiting = 4096;    // requests not yet admitted; beyond it new ones are refused
  Seconds prompt_step{0.1};  // a step that computes prompts should take no longer
  StepDeadlines deadlines;
  PrefixSharing prefixes = PrefixSharing::kExact;
};

// What one epoch gives an attention instance: its place among the members, the connections to them,
// and the layers with buffers for the epoch's rounds. AttentionInstance::Enter makes it while
// another epoch runs. Then it is confined to the step thread.
struct AttentionEpoch {
  // Per micro-batch: the rows in this member's GPU memory; empty unless the experts read them
  // there.
  static std::vector<std::byte*> SentRows(AttentionExchange& exchange, int micro_batches) {
    std::vector<std::byte*> sent;
    for (int i = 0; i < micro_batches && exchange.DeviceRows(i) != nullptr; ++i) {
      sent.push_back(exchange.DeviceRows(i));
    }
    return sent;
  }

  AttentionEpoch(const Topology& in, Rank own, Transport& by, AttentionExchange& with,
                 const ModelDescription& model, const AttentionWeights& weights,
                 const KvPagePool& cache, const kernels::Place& on, const Clock& clock,
                 const AttentionPace& at, int most_logits, int vocabulary)
      : topology(in),
        rank(own),
        transport(by),
        exchange(with),
        place(on),
        pace(at),
        layers(model, weights, cache, on,
               {in.max_rows_per_round, in.micro_batches, most_logits, true,
                SentRows(with, in.micro_batches), with.compression(), with.sums(), with.gate(),
                own.value % in.micro_batches}),
        sample_workspace(
            on.context->AllocateOrNote(static_cast<size_t>(kernels::SampleWorkspaceBytes(
                model.vocab, on.stream.team == nullptr ? 1 : on.stream.team->size())))),
        host_sampler(on, model.vocab, vocabulary),
        sampling(*on.context, SampledAt(in.max_rows_per_round, in.max_rows_per_round)),
        timings(*on.context, clock, MaxTimings(model.layers, in.micro_batches)) {}

  // Offsets in `sampling`: first the parameters of each row, then the token drawn for each row.
  static constexpr size_t SampledAt(int max_rows, int row) {
    return static_cast<size_t>(max_rows) * sizeof(kernels::SamplingParams) +
           static_cast<size_t>(row) * sizeof(kernels::SampledToken);
  }

  // Of this instance: micro_batch.h.
  int turn() const { return rank.value % topology.micro_batches; }

  // Per step: six for each round, and a few around all rounds.
  static constexpr size_t MaxTimings(int layers, int micro_batches) {
    return 6 * static_cast<size_t>(layers) * static_cast<size_t>(micro_batches) + 8;
  }

  const Topology topology;
  const Rank rank;
  Transport& transport;
  AttentionExchange& exchange;
  const kernels::Place place;
  const AttentionPace pace;
  AttentionLayers layers;
  kernels::Buffer sample_workspace;
  HostSampler host_sampler;
  kernels::Staging sampling;
  kernels::Stopwatch timings;
  std::unique_ptr<StepControl> control;
};

}  // namespace janus::dataplane
