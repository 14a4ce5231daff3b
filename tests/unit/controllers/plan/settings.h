#pragma once

#include "controllers/calibrated.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// A known model with attention and experts on one known device.
inline Setting On(const char* model, const char* device, double context = 1024) {
  Setting setting;
  setting.model = *FindModel(model);
  setting.attention = setting.experts =
      *CostsOf(*FindHardware(device), setting.model.bytes_per_weight);
  setting.context = context;
  return setting;
}

inline Configuration Make(int m, int n, int micro_batches = 1) {
  Configuration how;
  how.m = m;
  how.n = n;
  how.micro_batches = micro_batches;
  return how;
}

}  // namespace janus::controllers
