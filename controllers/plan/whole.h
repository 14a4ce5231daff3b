#pragma once

#include <string>

#include "controllers/plan/performance.h"

namespace janus::controllers {

// One way to run the whole model on one set of GPUs, in MixServe's grammar (III-B1): every stage of
// a pipeline runs attention in tensor-parallel groups with data parallelism between them, and its
// experts in groups of theirs with expert parallelism between. A group fills a node before it
// crosses to another. Degrees of GPUs need not be powers of two here; an attention group across
// nodes with data parallelism inside them is left out, because the same degree inside costs less.
struct WholeConfiguration {
  int gpus = 1;          // of all stages
  int stages = 1;        // PP
  int tp_attention = 1;  // GPUs of a group; DP is what is left of the stage
  int tp_experts = 1;    // likewise; EP is what is left
  // The grammar's other order: experts are split over nodes and expert-parallel inside each.
  bool splits_experts_across_nodes = false;

  int StageGpus() const { return gpus / stages; }
  int DataParallel() const { return StageGpus() / tp_attention; }
  int ExpertParallel() const { return StageGpus() / tp_experts; }

  friend bool operator==(const WholeConfiguration&, const WholeConfiguration&) = default;
};

// "DP8 EP8", "TP8 TP8", "TP4xDP2 EP8 PP2": attention, experts, stages.
std::string NameOf(const WholeConfiguration& how);

// Where the time of a MoE layer of one stage goes, of the rows that are in it at once; seconds.
struct WholeLayerTimes {
  double attention = 0;  // with its all-reduce, and shared experts
  double experts = 0;    // kernels
  double exchange = 0;   // rows to the experts of other GPUs and back, sums of split experts

  double layer() const { return attention + experts + exchange; }
};

// `load` is of all stages: each works on its share of the sequences, of which there are as many
// groups in flight as stages.
WholeLayerTimes TimesOfWholeLayer(const Setting& setting, const WholeConfiguration& how,
                                  const StepLoad& load);

// One token of every sequence: through all stages, each as slow as the one of most layers, and the
// hops between them. Costs are those of setting.attention's device and setting.experts', which are
// to be the same.
double WholeStepSeconds(const Setting& setting, const WholeConfiguration& how,
                        const StepLoad& load);

// Decode alone, `batch` sequences of setting.context keys.
double WholeTimePerOutputToken(const Setting& setting, const WholeConfiguration& how, double batch);

// Of one GPU (eq. 8 of MixServe and MegaScale-Infer): its share of weights, keys and buffers.
double WholeBytes(const Setting& setting, const WholeConfiguration& how, double batch);

// Keys that one copy has room for beside weights and buffers, all its GPUs together; 0: it does not
// fit. setting.context does not count.
double WholeKvTokens(const Setting& setting, const WholeConfiguration& how);

// Sequences of setting.context keys that memory has room for; 0: the weights do not fit.
double WholeRoom(const Setting& setting, const WholeConfiguration& how);

}  // namespace janus::controllers
