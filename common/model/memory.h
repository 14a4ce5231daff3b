#pragma once

#include <cstdint>

#include "common/model/description.h"

namespace janus {

// Bytes that a model takes, from its description alone; weights count as they lie in memory:
// routed experts in ExpertType(model), with their scales, all others in model.dtype. Sizes within
// the bounds of config.h never overflow.

// Everything but routed experts and gates: embeddings, output head (none of its own when tied),
// projections and norms of every layer, dense FFNs and shared experts. One attention instance holds
// this.
int64_t AttentionWeightBytes(const ModelDescription& model);

// The largest tensor of that: what lies in the host's memory of it at a time where each one is cast
// on its way to a device.
int64_t LargestAttentionTensorBytes(const ModelDescription& model);

// The gates of all MoE layers, with their biases in Float32. One expert instance holds this besides
// its slots.
int64_t GateWeightBytes(const ModelDescription& model);

// One expert of one layer: the content of one slot.
int64_t ExpertWeightBytes(const ModelDescription& model);

// What one attention instance computes a step of `rows` rows in: residuals, projections, the logits
// of `batch` sequences, sampling on `threads` threads.
int64_t AttentionWorkspaceBytes(const ModelDescription& model, int rows, int batch, int threads);

// What one expert instance computes a round in, to which `senders` attention instances send `rows`
// rows each: gate logits, assignments, and the hidden activations of every contribution.
int64_t ExpertWorkspaceBytes(const ModelDescription& model, int senders, int rows);

// What the cache holds of one position over all layers: keys and values, or latent vector and rope
// key, in WireType(model); in Float8E4M3 with a scale for each head's key and value, or for each
// latent vector, beside which the rope key keeps 16 bits.
int64_t KvBytesPerToken(const ModelDescription& model);
int64_t Fp8KvBytesPerToken(const ModelDescription& model);

}  // namespace janus
