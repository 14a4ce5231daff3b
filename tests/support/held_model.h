#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/model/description.h"
#include "common/topology.h"
#include "dataplane/weights/attention_weights.h"
#include "dataplane/weights/expert_weights.h"
#include "tests/support/tensor_maker.h"

namespace janus::dataplane {

// A model with its weights in memory once. The experts of any placement are looked up in it, so
// that a thousand placements need no load.
struct HeldModel {
  ModelDescription model;
  AttentionWeights attention;
  ExpertWeights experts;  // every expert: slot e holds expert e
  std::shared_ptr<void> keep;

  // The share of each instance of a placement. The tensors stay this model's.
  std::vector<ExpertWeights> Shares(const Placement& placement) const;
};

// Pointers to each share, for LoopbackCluster.
std::vector<const ExpertWeights*> PointersTo(const std::vector<ExpertWeights>& shares);

// A model with this description (dtype Float32 or BFloat16) and random weights, scaled so that all
// of them matter.
HeldModel RandomModel(const ModelDescription& model, uint64_t seed);
// The same with the tensors of a maker, which must outlive it; `keep` is null.
HeldModel RandomModel(const ModelDescription& model, TensorMaker& make);

// A small model: its sizes are no multiples of vector widths, and it has three experts per token,
// so that the order of a sum matters.
HeldModel SmallRandomModel(DType dtype, uint64_t seed);

// The shape of SmallRandomModel.
ModelDescription SmallModelDescription(DType dtype);

// The same with experts in fp8: two blocks in each direction, the last one partial.
HeldModel SmallFp8Model(DType dtype, uint64_t seed);

// The same with experts in mxfp4.
HeldModel SmallMxfp4Model(DType dtype, uint64_t seed);

// The same with latent attention, a latent query, YaRN, groups of experts, shared experts and a
// dense layer between two MoE layers: everything that a family may have beside Mixtral's parts.
HeldModel SmallLatentModel(DType dtype, uint64_t seed);

// A layer of SmallRandomModel with heads of 64 elements, two each for keys and values. GPUs have a
// fast kernel for them.
HeldModel GroupedHeadsModel(DType dtype, uint64_t seed);

// A layer of SmallLatentModel with two heads of DeepSeek's sizes. GPUs have fast kernels for them.
HeldModel DeepSeekHeadsModel(DType dtype, uint64_t seed);

// SmallLatentModel with experts that are scored by the sigmoid and chosen with a bias.
HeldModel SmallSigmoidModel(DType dtype, uint64_t seed);

// SmallRandomModel with what other families add to grouped-query attention: biases, norms over all
// heads, clipped queries, keys and values, rope over a part of each head. Its shared experts have a
// gate, and its first layer is dense.
HeldModel SmallGatedModel(DType dtype, uint64_t seed);

// SmallRandomModel with what gpt-oss adds: attention sinks, one full layer between two with a
// sliding window, biases of all projections, gates and experts, and a clamped SwiGLU.
HeldModel SmallSinksModel(DType dtype, uint64_t seed);

// SmallRandomModel with what Llama-4 adds: rope, chunks and norms behind rope in all layers but
// one, which has a temperature; a dense layer; experts whose inputs are weighed, and a shared one.
HeldModel SmallChunksModel(DType dtype, uint64_t seed);

// One of these by name: SmallRandomModel for "small", SmallLatentModel for "small_latent",
// DeepSeekHeadsModel for "deepseek_heads" and so on; nothing for any other name.
std::optional<HeldModel> HeldByName(const std::string& name, DType dtype, uint64_t seed);

}  // namespace janus::dataplane
