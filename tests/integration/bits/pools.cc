#include "tests/integration/bits/pools.h"

#include <map>
#include <tuple>
#include <utility>

#include "tests/support/random.h"

namespace janus::dataplane {

const HeldModel& Held(const std::string& weights, DType dtype) {
  static std::map<std::pair<std::string, DType>, HeldModel> models;
  const auto at = models.find({weights, dtype});
  if (at != models.end()) return at->second;
  return models
      .emplace(std::pair{weights, dtype}, HoldByName(weights, dtype, MixSeed(TestSeed(), 1)))
      .first->second;
}

const RequestPool& Pool(const std::string& weights, DType dtype, KernelChoice kernels) {
  using Key = std::tuple<std::string, DType, kernels::Device, bool, Compression, int>;
  static std::map<Key, RequestPool> pools;
  const Key key{weights,         dtype, kernels.device, kernels.fp8_cache, kernels.compression,
                kernels.sum_bits};
  const auto at = pools.find(key);
  if (at != pools.end()) return at->second;
  const int size = HowMany({.sanitized = 8, .gate = 12, .nightly = 40, .soak = 400});
  return pools
      .emplace(key, MakeRequestPool(Held(weights, dtype), kernels, size, MixSeed(TestSeed(), 2)))
      .first->second;
}

}  // namespace janus::dataplane
