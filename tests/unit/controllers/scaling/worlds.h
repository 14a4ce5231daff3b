#pragma once

// Shared by the tests of the scaling decision: a world, and a model that can be computed by hand.

#include <ostream>

#include "controllers/calibrated.h"
#include "controllers/scaling/decide.h"

namespace janus::controllers {

inline void PrintTo(Reason reason, std::ostream* out) {
  *out << ToString(reason);
}

inline World Seen(double time, int m, int n, double requests_per_second) {
  World world;
  world.time_seconds = time;
  world.arrivals = {{60, requests_per_second, 800 * requests_per_second}};
  world.lengths.output_tokens = 400;
  world.current.m = world.attention.ready = m;
  world.current.n = world.experts.ready = n;
  return world;
}

// A model with a step of 20 ms, and 0.1 ms per sequence of an attention instance.
inline Setting ByHand() {
  Setting setting;
  ModelShape& model = setting.model;
  model.name = "by hand";
  model.layers = model.experts = model.top_k = 1;
  model.hidden = model.heads = model.kv_heads = model.intermediate = 1;
  model.head_dim = 128;
  DeviceCosts& device = setting.attention;
  device.hardware = *FindHardware("H100");
  device.grouped = {};
  device.grouped.fixed_seconds = 0.02;
  device.grouped.kv_head_seconds = 1e-4;
  device.grouped.bytes_per_second = device.grouped.cached_bytes_per_second = 1e30;
  device.experts.bytes_per_second = device.experts.operations_per_second = 1e30;
  for (ExchangeCost* cost : {&device.dispatch, &device.combine}) {
    cost->inner_bytes_per_second = cost->network_bytes_per_second = 1e30;
  }
  for (CollectiveCost* cost : {&device.all_gather, &device.all_reduce}) {
    cost->latency.bytes_per_second = cost->bandwidth.bytes_per_second = 1e30;
  }
  setting.experts = device;
  return setting;
}

inline const Predictor& Hand() {
  static const Predictor predictor = *Predictor::Create(ByHand(), {});
  return predictor;
}

}  // namespace janus::controllers
