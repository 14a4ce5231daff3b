#pragma once

#include <cstdint>

#include "common/model/description.h"
#include "common/row_format.h"

namespace janus {

// Bytes that a model needs, from its description alone. Weights count as they lie in memory: routed
// experts in ExpertType(model), with their scales, all others in model.dtype. Sizes within the
// bounds of config.h never overflow. Biases of gates and of routed experts, and attention sinks,
// are in Float32.

// The weights of one attention instance, which are everything but routed experts and gates:
// embeddings, output head (0 if tied), projections, norms and sinks of every layer, dense FFNs and
// shared experts with their gates.
int64_t AttentionWeightBytes(const ModelDescription& model);

// The largest tensor of that. If each one is cast on its way to a device, host memory holds one at
// a time.
int64_t LargestAttentionTensorBytes(const ModelDescription& model);

// The gates of all MoE layers, with their biases in Float32. One expert instance holds them beside
// its slots.
int64_t GateWeightBytes(const ModelDescription& model);

// One expert of one layer: the content of one slot.
int64_t ExpertWeightBytes(const ModelDescription& model);

// Memory in which one attention instance computes a step of `rows` rows: residuals, projections,
// the logits of `batch` sequences, sampling on `threads` threads. If the exchange compresses, also
// rows before they are packed and contributions once they are unpacked. `sums`: contributions come
// back as sums (FixedPoint), which are never unpacked, and only the gate unpacks rows.
int64_t AttentionWorkspaceBytes(const ModelDescription& model, int rows, int batch, int threads,
                                Compression compression = Compression::kNone, bool sums = false);

// Memory in which one expert instance computes a round of `rows` rows from each of `senders`
// attention instances: gate logits, assignments, and the hidden activations of every contribution.
// If the exchange compresses, also unpacked rows, and contributions before they are packed; with
// `sums`, contributions in fp32 before they are added.
int64_t ExpertWorkspaceBytes(const ModelDescription& model, int senders, int rows,
                             Compression compression = Compression::kNone, bool sums = false);

// Cache bytes per position over all layers: keys and values, or latent vector and rope key, in
// WireType(model). The Fp8 form uses Float8E4M3 with a scale for each head's key and value, or for
// each latent vector; the rope key keeps 16 bits.
int64_t KvBytesPerToken(const ModelDescription& model);
int64_t Fp8KvBytesPerToken(const ModelDescription& model);

}  // namespace janus
