#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/topology.h"
#include "controllers/calibrated.h"
#include "controllers/plan/model_shape.h"

namespace janus::controllers {

// How many distinct experts a round activates, by its rows. Points ascend by rows; between points
// the curve is linear in the logarithm of rows. Empty: uniform routing, E (1 - (1 - K/E)^rows),
// which overestimates real routing.
struct ActivationCurve {
  struct Point {
    double rows = 0;
    double activated = 0;
  };
  std::vector<Point> points;
};
// Experts that `rows` rows activate under the curve.
double ActivatedExperts(const ActivationCurve& curve, const ModelShape& model, double rows);

// The format of rows and contributions between the modules. fp8 takes one byte per value, and four
// for the scale of 128 values. FixedPoint's sums are integers whatever the format of rows.
enum class WireFormat : uint8_t { kBf16 = 0, kFp8 = 1 };

// One way to run a model: pools of m attention instances with tp_a GPUs and n expert instances with
// tp_e. Times, loads and memory are those of one pool unless a comment says otherwise.
struct Configuration {
  int m = 1;
  int n = 1;
  int tp_attention = 1;
  int tp_experts = 1;
  int micro_batches = 1;  // b
  int slots = 0;          // of a layer on an expert instance; 0: as many as fit
  ExchangeMode mode = ExchangeMode::kDirect;
  // Where the gate runs. On the experts: every instance or node gets every row. On attention: those
  // that hold a chosen expert, and each gets the choices of all rows.
  GateSide gate = GateSide::kExperts;
  SumRule sum = SumRule::kContributions;
  int sum_bits = 32;       // of an element of a sum, with FixedPoint; 24 or 32
  bool is_random = false;  // random replicas instead of AEBS, as in JANUS's DisAgg
  WireFormat wire = WireFormat::kBf16;
  // Identical copies side by side. Each has all experts and a share of the sequences, and exchanges
  // rows only within itself.
  int pools = 1;

  int AttentionGpus() const { return pools * m * tp_attention; }  // of all pools
  int ExpertGpus() const { return pools * n * tp_experts; }
  int Gpus() const { return AttentionGpus() + ExpertGpus(); }

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

// "12A12E", "4 x 12A12E".
std::string NameOf(const Configuration& how);

struct Setting {
  ModelShape model;
  DeviceCosts attention;  // the device of attention instances
  DeviceCosts experts;    // of expert instances
  ActivationCurve activation;
  double context = 1024;           // mean keys of a running sequence
  double context_deviation = 0.5;  // standard deviation of a sequence's keys, relative to the mean
  double memory_share = 0.9;       // of a GPU, for weights, cache and buffers
  int spare_slots = 2;             // one expert of one layer each
  // Instances of both modules may share a node (or NVLink domain): a plan that fits into one
  // exchanges rows over its inner links. Otherwise rows always cross the network.
  bool shares_node = false;
  // Instances of one role that share memory: a pod, or a machine. The two-phase modes gather there.
  // 0: as many as a node of the hardware has GPUs for.
  int attention_per_node = 0;
  int experts_per_node = 0;
};

// What this version cannot run in the plan; empty: it can run it. Other plans only show their
// value.
std::vector<std::string> WhyNotServed(const Setting& setting, const Configuration& how);
inline bool IsServed(const Setting& setting, const Configuration& how) {
  return WhyNotServed(setting, how).empty();
}

}  // namespace janus::controllers
