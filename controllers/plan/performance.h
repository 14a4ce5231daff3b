#pragma once

#include <vector>

#include "common/topology.h"
#include "controllers/calibrated.h"
#include "controllers/plan/model_shape.h"

namespace janus::controllers {

// How many distinct experts a round activates, by its rows. Points ascend by rows; between them the
// curve is read in the logarithm of rows. Empty: uniform routing, E (1 - (1 - K/E)^rows), which
// overstates what real routing activates.
struct ActivationCurve {
  struct Point {
    double rows = 0;
    double activated = 0;
  };
  std::vector<Point> points;
};
double ActivatedExperts(const ActivationCurve& curve, const ModelShape& model, double rows);

// One way to run a model: m attention instances of tp_a GPUs, n expert instances of tp_e.
struct Configuration {
  int m = 1;
  int n = 1;
  int tp_attention = 1;
  int tp_experts = 1;
  int micro_batches = 1;  // b
  ExchangeMode mode = ExchangeMode::kDirect;
  // On the experts every instance gets every row; on attention only instances that a row needs get
  // it, after one more hop for the ids (direct mode only).
  GateSide gate = GateSide::kExperts;
  bool is_random = false;  // replicas chosen at random instead of by AEBS, as in JANUS's DisAgg

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

struct Setting {
  ModelShape model;
  DeviceCosts attention;  // the device of attention instances
  DeviceCosts experts;    // of expert instances
  ActivationCurve activation;
  double context = 1024;           // mean keys of a running sequence
  double context_deviation = 0.5;  // of a sequence's keys, relative to the mean
  double memory_share = 0.9;       // of a GPU that weights, cache and buffers may take
  int spare_slots = 2;             // one expert of one layer each
};

// Where the time of a MoE layer goes, of one micro-batch; seconds.
struct LayerTimes {
  double attention = 0;  // T_a, shared experts in it when b > 1
  double experts = 0;    // T_e
  double out = 0;        // rows to the experts
  double back = 0;       // contributions
  double layer = 0;      // max(b T_a, b T_e, b T_out, b T_back, T_a + T_e + T_out + T_back)
  double activated_busiest = 0;
};

LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, double batch);

// Time per output token with `batch` sequences decoding: all layers, dense ones and the output
// head.
double TimePerOutputToken(const Setting& setting, const Configuration& how, double batch);

// MegaScale-Infer, eq. 5: the same where its constraints 1-3 hold and T_c is that of one direction.
double MegaScaleIterationSeconds(double attention, double experts, double communication,
                                 int micro_batches, int layers);

// The whole model on k GPUs, data-parallel attention and expert-parallel experts on the same GPUs,
// for the question whether to separate them at all.
double MonolithicTimePerOutputToken(const Setting& setting, int gpus, double batch);

struct MemoryUse {
  double attention_bytes = 0;  // of one GPU: weights, cache of its share of the batch, buffers
  double expert_bytes = 0;     // of one GPU: slots (those that hold the model, and spare), buffers
  bool fits_attention = false;
  bool fits_experts = false;
};
MemoryUse MemoryOf(const Setting& setting, const Configuration& how, double batch);
bool MonolithicFits(const Setting& setting, int gpus, double batch);

// Slots per layer an expert instance has room for once everything else is in; at most E.
int SlotsPerInstance(const Setting& setting, const Configuration& how);

}  // namespace janus::controllers
