#include "operator/scaling/prediction_basis.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "controllers/cpu_costs.h"

namespace janus::control {
namespace {

HardwareProfile Cpu(double of_usual) {
  const ComputeRate rate{of_usual * 1e10, of_usual * 5e10};
  return controllers::CpuHardware({1, rate, rate}, 1, 0);
}

PredictionBasis OnGpus() {
  return {*controllers::FindModel("deepseek-v3"), *FindHardware("H200"), *FindHardware("H20"),
          TimedDevice{"H200", "deepseek-v3", 64, 8}};
}

TEST(PredictionBasis, IsAnotherOneWithAnyOtherFigure) {
  const PredictionBasis basis = OnGpus();
  EXPECT_TRUE(HasSameFactors(basis, basis));
  const std::vector<std::function<void(PredictionBasis&)>> changes = {
      [](auto& b) { b.model.layers += 1; },
      [](auto& b) { b.model.bytes_per_kv_value = 1; },
      [](auto& b) { b.attention.memory_bytes_per_second *= 1.01; },
      [](auto& b) { b.experts.bf16_operations_per_second *= 1.01; },
      [](auto& b) { b.experts.fp8_operations_per_second = 0; },
      [](auto& b) { b.experts.intra_node_bytes_per_second *= 1.01; },
      [](auto& b) { b.experts.inter_node_bytes_per_second *= 1.01; },
      [](auto& b) { b.experts.instances_per_node = 4; },
      [](auto& b) { b.experts = Cpu(1); },
      [](auto& b) { b.timed->hardware = "H100"; },
      [](auto& b) { b.timed->scale = 32; },
      [](auto& b) { b.timed->time_scale = 4; },
      [](auto& b) { b.timed.reset(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    PredictionBasis other = basis;
    changes[i](other);
    EXPECT_FALSE(HasSameFactors(basis, other));
    EXPECT_FALSE(HasSameFactors(other, basis));
  }
}

TEST(PredictionBasis, OfCpusMayDifferByLessThanTwo) {
  PredictionBasis basis = OnGpus();
  basis.attention = basis.experts = Cpu(1);
  for (const auto& [factor, is_same] :
       {std::pair{0.49, false}, {0.51, true}, {1.0, true}, {1.9, true}, {2.1, false}}) {
    SCOPED_TRACE(factor);
    for (const auto of_role : {&PredictionBasis::attention, &PredictionBasis::experts}) {
      PredictionBasis other = basis;
      other.*of_role = Cpu(factor);
      EXPECT_EQ(HasSameFactors(basis, other), is_same);
      other.*of_role = Cpu(1);
      (other.*of_role).bf16_operations_per_second *= factor;
      EXPECT_EQ(HasSameFactors(basis, other), is_same);
    }
  }
}

TEST(ForgetLearned, LeavesWhatWasSeenOfTheLoad) {
  controllers::Memory learned;
  learned.last_time_seconds = 100;
  learned.samples.resize(3);
  learned.output_tokens = 70;
  learned.start_seconds = {20, 30};
  learned.online.corrections.experts = 1.5;
  learned.tails = {1.2, 1.3};
  learned.budget = {.caution = -1, .requests = 30, .seconds = 15};
  controllers::Memory same = learned;
  ForgetLearned(OnGpus(), OnGpus(), same);
  EXPECT_EQ(same, learned);

  PredictionBasis corrected = OnGpus();
  corrected.experts.memory_bytes_per_second *= 1.2;
  controllers::Memory other = learned;
  ForgetLearned(OnGpus(), corrected, other);
  EXPECT_EQ(other.online, controllers::OnlineState());
  EXPECT_TRUE(other.tails.empty());
  EXPECT_EQ(other.budget.caution, 0);
  other.online = learned.online;
  other.tails = learned.tails;
  other.budget.caution = learned.budget.caution;
  EXPECT_EQ(other, learned);
}

}  // namespace
}  // namespace janus::control
