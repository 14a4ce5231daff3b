#pragma once

#include "controllers/plan/setting.h"

namespace janus::controllers {

// The terms that a layer's time is composed of (performance.h composes them): kernels of one
// instance and the exchange between all. Seconds; rows and counts may be fractional (expected
// values). Pure.

// Rows of one attention instance in a step.
struct AttentionRows {
  double decode = 0;   // each with `context` keys
  double context = 1;  // the busiest instance's mean
  double prompt = 0;   // prompt positions, each with `prompt_keys` keys
  double prompt_keys = 0;

  double all() const { return decode + prompt; }
};

// Attention of one layer with its projections on a group of `tensor_parallel` GPUs. Prompt rows
// share the weights that are read and add arithmetic: projections, and keys in the expanded form
// (latent models too), at the efficiency of the fitted expert kernel.
double AttentionSeconds(const Setting& setting, int tensor_parallel, const AttentionRows& rows);

// Operations of a prompt position over one of its keys, all heads of a layer, in seconds of a GPU.
double PromptKeySeconds(const Setting& setting, int tensor_parallel);

// Shared experts of one layer, on the attention side.
double SharedSeconds(const Setting& setting, int tensor_parallel, double rows);

// Feed-forward part of one of the dense layers before the MoE ones.
double DenseFeedForwardSeconds(const Setting& setting, int tensor_parallel, double rows);

// The output head over the rows that draw a token.
double OutputHeadSeconds(const Setting& setting, int tensor_parallel, double rows);

// Layers before the MoE ones, and the output head; no micro-batches.
double DenseStepSeconds(const Setting& setting, int tensor_parallel, const AttentionRows& rows);

// The step waits for the instance with most keys: its load over the mean, the expected maximum of m
// sums of rows_of_one sequences (normal approximation).
double BusiestKeysFactor(const Setting& setting, int instances, double rows_of_one);

// A round of the busiest expert instance over `rows` rows; how many experts it activates goes to
// `activated_busiest` unless null.
double ExpertSeconds(const Setting& setting, const Configuration& how, double rows,
                     double* activated_busiest);

// The kernels of it alone, on an instance with `slots` experts of a layer.
double ExpertKernelSeconds(const Setting& setting, const Configuration& how, double slots,
                           double rows, double* activated_busiest);

// Sum over a group of GPUs of a message of `bytes`, everyone gets it; 0 for one GPU. A group larger
// than a node reduces inside nodes first, then between them over all cards.
double AllReduceSeconds(const DeviceCosts& device, int gpus, double bytes);

// One direction between nodes: starting, posting messages, and the bytes of the busiest card.
double HopSeconds(const ExchangeCost& cost, double messages, double card_bytes);

// Expected expert instances that a row needs, of n, for top_k of experts drawn evenly: n times
// 1 - C(E - E/n, K) / C(E, K).
double InstancesNeeded(const ModelShape& model, int n);

struct ExchangeTimes {
  double out = 0;
  double back = 0;
};
// Both directions of one round of `rows` rows.
ExchangeTimes TimesOfExchange(const Setting& setting, const Configuration& how, double rows);

// No more, in either direction, than with any number of attention instances from `fewest` to how.m:
// what a search may leave out without asking each. Falls as how.m grows, which times themselves do
// not: messages and nodes grow with it.
ExchangeTimes LeastExchange(const Setting& setting, const Configuration& how, int fewest,
                            double rows);

// Instances of a role by nodes of the exchange.
int NodesOf(int instances, int tensor_parallel, int per_node);

// Bytes of one row's activations: in bf16, and as the wire has them.
double RowBytes(const ModelShape& model);
double WireBytes(const ModelShape& model, WireFormat wire);

// Slots per layer of an expert instance: what is asked for, else what it has room for; no fewer
// than hold the model.
double SlotsOf(const Setting& setting, const Configuration& how);

// Slots per layer an expert instance has room for once everything else is in; at most E.
int SlotsPerInstance(const Setting& setting, const Configuration& how);

}  // namespace janus::controllers
