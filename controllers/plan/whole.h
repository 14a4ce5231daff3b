#pragma once

#include <string>

#include "controllers/plan/performance.h"

namespace janus::controllers {

// One way to run the whole model on one set of GPUs, in MixServe's grammar (III-B1). Every stage of
// a pipeline runs attention in tensor-parallel groups with data parallelism between them. It runs
// experts in other groups, with expert parallelism between these. A group fills a node before it
// extends to another. Degrees need not be powers of two. Attention groups across nodes with data
// parallelism inside the nodes are left out: the same degree inside a node costs less.
struct WholeConfiguration {
  int gpus = 1;          // of all stages
  int stages = 1;        // PP
  int tp_attention = 1;  // GPUs of a group; the rest of the stage is DP
  int tp_experts = 1;    // GPUs of a group; the rest of the stage is EP
  // The other order in the grammar: experts are split over nodes, and expert-parallel inside each.
  bool splits_experts_across_nodes = false;

  int StageGpus() const { return gpus / stages; }
  int DataParallel() const { return StageGpus() / tp_attention; }
  int ExpertParallel() const { return StageGpus() / tp_experts; }

  friend bool operator==(const WholeConfiguration&, const WholeConfiguration&) = default;
};

// "DP8 EP8", "TP8 TP8", "TP4xDP2 EP8 PP2": attention, experts, stages.
std::string NameOf(const WholeConfiguration& how);

// The times of a MoE layer of one stage, for the rows in it at once, in seconds.
struct WholeLayerTimes {
  double attention = 0;  // with its all-reduce and shared experts
  double experts = 0;    // kernels
  double exchange = 0;   // rows to experts on other GPUs and back; sums of split experts

  double layer() const { return attention + experts + exchange; }
};

// `load` is over all stages. There are as many groups of sequences in flight as stages; each stage
// works on one.
WholeLayerTimes TimesOfWholeLayer(const Setting& setting, const WholeConfiguration& how,
                                  const StepLoad& load);

// One token of every sequence: all stages, each as slow as the one with most layers, and the hops
// between them. setting.attention and setting.experts must have the same device.
double WholeStepSeconds(const Setting& setting, const WholeConfiguration& how,
                        const StepLoad& load);

// Decode alone: `batch` sequences of setting.context keys.
double WholeTimePerOutputToken(const Setting& setting, const WholeConfiguration& how, double batch);

// Bytes of one GPU (eq. 8 of MixServe and MegaScale-Infer): its share of weights, keys and buffers.
double WholeBytes(const Setting& setting, const WholeConfiguration& how, double batch);

// Keys for which one copy has room beside weights and buffers, over all its GPUs; 0: it does not
// fit. Does not use setting.context.
double WholeKvTokens(const Setting& setting, const WholeConfiguration& how);

// Sequences of setting.context keys that fit in memory; 0: the weights do not fit.
double WholeRoom(const Setting& setting, const WholeConfiguration& how);

}  // namespace janus::controllers
