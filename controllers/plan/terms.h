#pragma once

#include "controllers/plan/setting.h"

namespace janus::controllers {

// The terms of a layer's time (performance.h composes them): kernels of one instance, and the
// exchange between all. Seconds. Rows and counts may be fractional (expected values). Pure.

// Rows of one attention instance in a step.
struct AttentionRows {
  double decode = 0;   // each with `context` keys
  double context = 1;  // the busiest instance's mean
  double prompt = 0;   // prompt positions, each with `prompt_keys` keys
  double prompt_keys = 0;

  double all() const { return decode + prompt; }
};

// Attention of one layer with its projections, on a group of `tensor_parallel` GPUs. Prompt rows
// share the reads of weights but add arithmetic: projections, and keys in the expanded form (also
// for latent models), at the efficiency of the fitted expert kernel.
double AttentionSeconds(const Setting& setting, int tensor_parallel, const AttentionRows& rows);

// Seconds of a GPU for one prompt position over one of its keys, for all heads of a layer.
double PromptKeySeconds(const Setting& setting, int tensor_parallel);

// Shared experts of one layer, on the attention side.
double SharedSeconds(const Setting& setting, int tensor_parallel, double rows);

// The feed-forward part of one dense layer before the MoE layers.
double DenseFeedForwardSeconds(const Setting& setting, int tensor_parallel, double rows);

// The output head over the rows that need a token.
double OutputHeadSeconds(const Setting& setting, int tensor_parallel, double rows);

// The layers before the MoE layers, and the output head. They have no micro-batches.
double DenseStepSeconds(const Setting& setting, int tensor_parallel, const AttentionRows& rows);

// The step waits for the instance with most keys. This is its load over the mean: the expected
// maximum of m sums of rows_of_one sequences (normal approximation).
double BusiestKeysFactor(const Setting& setting, int instances, double rows_of_one);

// A round of the busiest expert instance over `rows` rows. Stores the number of experts that it
// activates in `activated_busiest` unless that is null.
double ExpertSeconds(const Setting& setting, const Configuration& how, double rows,
                     double* activated_busiest);

// Only the kernels of ExpertSeconds, on an instance with `slots` experts of a layer.
double ExpertKernelSeconds(const Setting& setting, const Configuration& how, double slots,
                           double rows, double* activated_busiest);

// An all-reduce of `bytes` over a group of GPUs; 0 for one GPU. A group larger than a node reduces
// within nodes first, then between them over all cards.
double AllReduceSeconds(const DeviceCosts& device, int gpus, double bytes);

// One direction between nodes: the start, the messages, and the bytes of the busiest card.
double HopSeconds(const ExchangeCost& cost, double messages, double card_bytes);

// Expected number of expert instances that a row needs, of n, if its top_k experts are uniform: n
// times 1 - C(E - E/n, K) / C(E, K).
double InstancesNeeded(const ModelShape& model, int n);

struct ExchangeTimes {
  double out = 0;
  double back = 0;
};
// Both directions of the exchange for one round of `rows` rows.
ExchangeTimes TimesOfExchange(const Setting& setting, const Configuration& how, double rows);

// A lower bound, in each direction, over all numbers of attention instances from `fewest` to how.m.
// A search can then skip them without evaluating each. It falls as how.m grows. The times
// themselves need not fall: messages and nodes grow with how.m.
ExchangeTimes LeastExchange(const Setting& setting, const Configuration& how, int fewest,
                            double rows);

// How many nodes the instances of a role take in the exchange.
int NodesOf(int instances, int tensor_parallel, int per_node);

// Bytes of one row's activations: in bf16, and in the wire format.
double RowBytes(const ModelShape& model);
double WireBytes(const ModelShape& model, WireFormat wire);

// Slots per layer of an expert instance: the requested number or, if it is 0, as many as fit; at
// least as many as hold the model.
double SlotsOf(const Setting& setting, const Configuration& how);

// Slots per layer that fit on an expert instance beside everything else; at most E.
int SlotsPerInstance(const Setting& setting, const Configuration& how);

}  // namespace janus::controllers
