#include "tests/support/kube/fault_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

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

  // False: the scenario has no call at which the last plan begins, or an assertion failed.
  bool Play(const std::vector<FaultPlan>& plans) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, Describe(plans));
    const CallCounts counts = play_(plans);
    if (counts.failed >= plans.size()) ++runs;
    positions = std::max(positions, counts.calls);
    return counts.calls > plans.back().first && !testing::Test::HasFailure();
  }

  // Both end at the first run with a failed assertion.
  void PlayAllPairs(const std::vector<Fault>& faults) {
    const size_t calls = positions;
    for (const Fault& one : faults) {
      for (const Fault& other : faults) {
        for (size_t first = 0; first < calls; ++first) {
          size_t second = first + 1;
          while (Play({{first, 1, one}, {second, 1, other}})) ++second;
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
  void PlayDrawnPairs(const std::vector<Fault>& faults, size_t count) {
    const int last = static_cast<int>(positions) - 1;
    Random random(MixSeed(TestSeed(), positions));
    const auto draw = [&] {
      return faults[static_cast<size_t>(random.Between(0, static_cast<int>(faults.size()) - 1))];
    };
    for (size_t i = 0; i < count; ++i) {
      const int first = random.Between(0, last - 1);
      const int second = random.Between(first + 1, last);
      Play({{static_cast<size_t>(first), 1, draw()}, {static_cast<size_t>(second), 1, draw()}});
      if (testing::Test::HasFailure()) return;
    }
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
                 FunctionRef<CallCounts(std::vector<FaultPlan>)> play,
                 std::optional<size_t> pairs) {
  Sweep sweep(play);
  for (const Fault& fault : faults) {
    for (const size_t count : {size_t{1}, kInARow}) {
      size_t first = 0;
      while (sweep.Play({{first, count, fault}})) ++first;
      if (testing::Test::HasFailure()) return;
    }
  }
  const std::string name(scenario);
  std::printf("%s: up to %zu positions x %zu faults, alone and %zu in a row: %zu runs\n",
              name.c_str(), sweep.positions, faults.size(), kInARow, sweep.runs);
  if (!Soak()) return;
  sweep.runs = 0;
  if (pairs) {
    sweep.PlayDrawnPairs(faults, *pairs);
  } else {
    sweep.PlayAllPairs(faults);
  }
  std::printf("%s: %s two faults at %s two calls: %zu runs\n", name.c_str(),
              pairs ? "any" : "every", pairs ? "any" : "every", sweep.runs);
}

}  // namespace janus::control
