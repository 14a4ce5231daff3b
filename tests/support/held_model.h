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

// A model whose weights lie in memory once; the experts of any placement are looked up in it, so
// that a thousand placements cost no load.
struct HeldModel {
  ModelDescription model;
  AttentionWeights attention;
  ExpertWeights experts;  // every expert: slot e holds expert e
  std::shared_ptr<void> keep;

  // What each instance of a placement holds. The tensors stay this model's.
  std::vector<ExpertWeights> Shares(const Placement& placement) const;
};

// Pointers to each share, as LoopbackCluster takes them.
std::vector<const ExpertWeights*> PointersTo(const std::vector<ExpertWeights>& shares);

// A model of that shape (dtype Float32 or BFloat16) with random weights, scaled so that all of them
// matter.
HeldModel RandomModel(const ModelDescription& model, uint64_t seed);
// The same with tensors of a maker, which outlives it; `keep` is null.
HeldModel RandomModel(const ModelDescription& model, TensorMaker& make);

// A small one: sizes that are no multiple of a vector's and three experts per token, so that the
// order of a sum shows.
HeldModel SmallRandomModel(DType dtype, uint64_t seed);

// The shape of SmallRandomModel.
ModelDescription SmallModelDescription(DType dtype);

// The same with experts in fp8, of two blocks each way, the last not whole.
HeldModel SmallFp8Model(DType dtype, uint64_t seed);

// The same with experts in mxfp4.
HeldModel SmallMxfp4Model(DType dtype, uint64_t seed);

// The same with latent attention, a latent query, YaRN, groups of experts, shared experts and a
// dense layer between two MoE layers: everything that a family may have beside Mixtral's parts.
HeldModel SmallLatentModel(DType dtype, uint64_t seed);

// A layer of SmallRandomModel whose heads, two for each of keys and values, have 64 elements: GPUs
// have a fast form for them.
HeldModel GroupedHeadsModel(DType dtype, uint64_t seed);

// A layer of SmallLatentModel whose two heads have the sizes of DeepSeek's, which GPUs have fast
// forms for.
HeldModel DeepSeekHeadsModel(DType dtype, uint64_t seed);

// SmallLatentModel whose experts are scored by the sigmoid and chosen with a bias.
HeldModel SmallSigmoidModel(DType dtype, uint64_t seed);

// Of these by name: SmallRandomModel for "small", SmallLatentModel for "small_latent",
// DeepSeekHeadsModel for "deepseek_heads" and so on; nothing for any other name.
std::optional<HeldModel> HeldByName(const std::string& name, DType dtype, uint64_t seed);

}  // namespace janus::dataplane
