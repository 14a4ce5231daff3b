#include "operator/reconcile/epochs/imbalance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace janus::control {

std::optional<std::vector<double>> ExpectedLoads(const Placement& placement,
                                                 std::span<const LayerPopularity> popularity) {
  const size_t n = placement.slots_of_instance.size();
  std::vector<double> loads(static_cast<size_t>(placement.layers) * n);
  for (const LayerPopularity& one : popularity) {
    if (one.layer < 0 || one.layer >= placement.layers) return std::nullopt;
    std::vector<int> replicas(one.tokens.size());
    for (int slot = 0; slot < placement.total_slots(); ++slot) {
      const uint16_t expert = placement.at(one.layer, slot);
      if (expert == Placement::kEmpty) continue;
      if (expert >= replicas.size()) return std::nullopt;
      ++replicas[expert];
    }
    int slot = 0;
    for (size_t j = 0; j < n; ++j) {
      double& load = loads[static_cast<size_t>(one.layer) * n + j];
      for (const int end = slot + placement.slots_of_instance[j]; slot < end; ++slot) {
        const uint16_t expert = placement.at(one.layer, slot);
        if (expert == Placement::kEmpty) continue;
        load += static_cast<double>(one.tokens[expert]) / replicas[expert];
      }
    }
  }
  return loads;
}

std::optional<int64_t> ImbalancePermille(std::span<const double> loads, size_t instances) {
  double largest = 0;
  for (size_t at = 0; at + instances <= loads.size() && instances > 0; at += instances) {
    largest += std::ranges::max(loads.subspan(at, instances));
  }
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (all <= 0) return std::nullopt;
  return std::llround(1000 * largest * static_cast<double>(instances) / all);
}

std::optional<std::vector<double>> Since(std::span<const double> before,
                                         std::span<const double> now) {
  if (before.size() != now.size()) return std::nullopt;
  std::vector<double> out(now.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = now[i] - before[i];
    // Allows for rounded sums; one token is far more than that.
    if (out[i] < -0.01) return std::nullopt;
    out[i] = std::max(out[i], 0.0);
  }
  return out;
}

}  // namespace janus::control
