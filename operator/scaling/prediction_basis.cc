#include "operator/scaling/prediction_basis.h"

#include <cmath>

namespace janus::control {
namespace {

constexpr double kMostJitter = 2;

bool IsNear(double one, double other) {
  return one == other || std::abs(std::log(one / other)) < std::log(kMostJitter);
}

bool IsSameDevice(const HardwareProfile& one, const HardwareProfile& other) {
  if (!one.is_cpu || !other.is_cpu) return one == other;
  return IsNear(one.memory_bytes_per_second, other.memory_bytes_per_second) &&
         IsNear(one.bf16_operations_per_second, other.bf16_operations_per_second);
}

}  // namespace

bool HasSameFactors(const PredictionBasis& one, const PredictionBasis& other) {
  return one.model == other.model && one.timed == other.timed &&
         IsSameDevice(one.attention, other.attention) && IsSameDevice(one.experts, other.experts);
}

void ForgetLearned(const PredictionBasis& before, const PredictionBasis& now,
                   controllers::Memory& memory) {
  if (HasSameFactors(before, now)) return;
  memory.online = {};
  memory.tails.clear();
  memory.budget.caution = 0;
}

}  // namespace janus::control
