#include "tests/support/kube/fault_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/random.h"

namespace janus::control {
namespace {

constexpr size_t kInARow = 4;

std::string Describe(const std::vector<FaultPlan>& plans) {
  std::string out;
  for (const FaultPlan& plan : plans) {
    out += (out.empty() ? "" : " and ") + plan.fault.ToString() + " at call " +
           std::to_string(plan.first) +
           (plan.count > 1 ? " and the " + std::to_string(plan.count - 1) + " after it" : "");
  }
  return out;
}

class Sweep {
 public:
  explicit Sweep(FunctionRef<CallCounts(std::vector<FaultPlan>)> play) : play_(play) {}

  // False: the scenario has no call where the last plan begins, or something is wrong.
  bool Play(const std::vector<FaultPlan>& plans) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, Describe(plans));
    const CallCounts counts = play_(plans);
    if (counts.failed >= plans.size()) ++runs;
    positions = std::max(positions, counts.calls);
    return counts.calls > plans.back().first && !testing::Test::HasFailure();
  }

  size_t runs = 0;
  size_t positions = 0;

 private:
  const FunctionRef<CallCounts(std::vector<FaultPlan>)> play_;
};

}  // namespace

uint32_t SweepSeed(uint32_t part) {
  Random random(TestSeed() + part);
  return static_cast<uint32_t>(random.Next()) | 1;
}

void SweepFaults(std::string_view scenario, const std::vector<Fault>& faults,
                 FunctionRef<CallCounts(std::vector<FaultPlan>)> play) {
  Sweep sweep(play);
  for (const Fault& fault : faults) {
    for (const size_t count : {size_t{1}, kInARow}) {
      size_t first = 0;
      while (sweep.Play({{first, count, fault}})) ++first;
      if (testing::Test::HasFailure()) return;
    }
  }
  std::printf("%s: up to %zu positions x %zu faults, alone and %zu in a row: %zu runs\n",
              std::string(scenario).c_str(), sweep.positions, faults.size(), kInARow, sweep.runs);
  if (std::getenv("JANUS_SOAK") == nullptr) return;
  const size_t positions = sweep.positions;
  sweep.runs = 0;
  for (const Fault& one : faults) {
    for (const Fault& other : faults) {
      for (size_t first = 0; first < positions; ++first) {
        size_t second = first + 1;
        while (sweep.Play({{first, 1, one}, {second, 1, other}})) ++second;
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  std::printf("%s: every two faults at every two calls: %zu runs\n", std::string(scenario).c_str(),
              sweep.runs);
}

}  // namespace janus::control
