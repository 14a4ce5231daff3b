#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;

struct Case {
  const char* name;
  int rows;
  int experts;
  int top_k;
  int hidden;
  bool renormalize = false;
  DType x = kF32;
  DType weight = kF32;
  int groups = 1;
  int top_groups = 1;
  float scale = 1.0f;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// Output of a row: ids (as numbers), weights, logits.
class GateProblem final : public RowProblem {
 public:
  explicit GateProblem(const Case& c)
      : case_(c),
        x_(c.x, int64_t{c.rows} * c.hidden, 2),
        weight_(c.weight, int64_t{c.experts} * c.hidden, 2) {
    std::mt19937_64 random(static_cast<uint64_t>(c.experts));
    x_.FillNormal(random);
    weight_.FillNormal(random, 2.0f / std::sqrt(static_cast<float>(c.hidden)));
  }
  int rows() const override { return case_.rows; }
  int row_elements() const override { return 2 * case_.top_k + case_.experts; }
  DType output() const override { return kF32; }
  // In bfloat16 tensor cores, which only a GPU has, cut 17 terms to the width of the largest.
  double tolerance() const override {
#ifdef JANUS_TEST_ON_GPU
    if (case_.x == kB16 && case_.weight == kB16) return 1e-5;
#endif
    return 1e-6;
  }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const auto rows = static_cast<int64_t>(selection.size());
    std::vector<const void*> x_rows;
    for (const int t : selection) {
      x_rows.push_back(static_cast<const char*>(x_.data()) + t * case_.hidden * SizeOf(case_.x));
    }
    GuardedArray logits(kF32, rows * case_.experts);
    GuardedArray weights(kF32, rows * case_.top_k);
    GuardedArray ids(kB16, rows * case_.top_k);
    const Status status = GateTopK(stream, {.x_rows = x_rows.data(),
                                            .x_dtype = case_.x,
                                            .weight = weight_.data(),
                                            .weight_dtype = case_.weight,
                                            .logits = logits.floats(),
                                            .ids = static_cast<uint16_t*>(ids.data()),
                                            .weights = weights.floats(),
                                            .rows = rows,
                                            .hidden = case_.hidden,
                                            .experts = case_.experts,
                                            .top_k = case_.top_k,
                                            .renormalize = case_.renormalize,
                                            .weight_scale = case_.scale,
                                            .groups = case_.groups,
                                            .top_groups = case_.top_groups});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(logits.GuardsAreIntact() && weights.GuardsAreIntact() && ids.GuardsAreIntact());
    std::vector<float> out;
    for (int64_t t = 0; t < rows; ++t) {
      for (int j = 0; j < case_.top_k; ++j) {
        out.push_back(static_cast<const uint16_t*>(ids.data())[t * case_.top_k + j]);
      }
      for (int j = 0; j < case_.top_k; ++j) out.push_back(weights.at(t * case_.top_k + j));
      for (int e = 0; e < case_.experts; ++e) out.push_back(logits.at(t * case_.experts + e));
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(out.data());
    return {bytes, bytes + out.size() * 4};
  }

 private:
  Case case_;
  GuardedArray x_;
  GuardedArray weight_;
};

class GateTopKTest : public testing::TestWithParam<Case> {};

TEST_P(GateTopKTest, EqualsTheReference) {
  ExpectParity(GateProblem(GetParam()));
}

TEST_P(GateTopKTest, RowsDoNotDependOnTheirBatch) {
  ExpectBatchInvariance(GateProblem(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    All, GateTopKTest,
    testing::Values(Case{"OneExpert", 3, 1, 1, 8}, Case{"Mixtral", 33, 8, 2, 256, true, kB16, kB16},
                    Case{"Softmax", 20, 60, 4, 65}, Case{"All", 9, 6, 6, 32},
                    Case{"DeepSeekV2", 21, 160, 6, 96, false, kB16, kB16, 8, 3, 16.0f},
                    Case{"Groups", 30, 12, 3, 40, false, kF32, kF32, 4, 2},
                    Case{"AllGroups", 9, 12, 3, 40, true, kF32, kF32, 6, 6},
                    Case{"Many", 17, 256, 8, 128, true},
                    Case{"LongRows", 70, 96, 6, 1032, true, kB16, kB16, 8, 4},
                    Case{"CastWeights", 5, 33, 3, 40, false, kF32, kB16}),
    [](const auto& info) { return info.param.name; });

TEST(GateTopKBits, AreTheSameOnEveryIsaInFp32) {
  ExpectSameBitsOnEveryIsa(GateProblem({"", 20, 60, 4, 65}));
  ExpectSameBitsOnEveryIsa(GateProblem({"", 20, 256, 8, 65, true}));
}

struct Routed {
  std::vector<uint16_t> ids;
  std::vector<float> weights;
};

// The router on logits as they are: one hidden dimension, x = 1.
Routed Route(const Stream& stream, const std::vector<float>& logits, int top_k, bool renormalize) {
  const std::vector<float> one = {1.0f};  // on the heap, which every device reads
  const std::vector<const void*> row = {one.data()};
  std::vector<float> out(logits.size());
  Routed routed{std::vector<uint16_t>(static_cast<size_t>(top_k)),
                std::vector<float>(static_cast<size_t>(top_k))};
  EXPECT_TRUE(GateTopK(stream, {.x_rows = row.data(),
                                .weight = logits.data(),
                                .logits = out.data(),
                                .ids = routed.ids.data(),
                                .weights = routed.weights.data(),
                                .rows = 1,
                                .hidden = 1,
                                .experts = static_cast<int>(logits.size()),
                                .top_k = top_k,
                                .renormalize = renormalize})
                  .ok());
  return routed;
}

class GateTopKOnEveryDevice : public testing::Test {
 protected:
  template <class Check>
  void ForEachStream(Check check) {
    check(Stream{});
    for (const Isa isa : PresentIsas()) {
      CpuStream cpu(isa, 1);
      check(cpu.stream);
    }
  }
};

TEST_F(GateTopKOnEveryDevice, TiesGoToTheLowerId) {
  ForEachStream([](const Stream& stream) {
    const Routed routed = Route(stream, {1, 3, 2, 3, 0.5f, 2, 3}, 5, false);
    EXPECT_EQ(routed.ids, (std::vector<uint16_t>{1, 3, 6, 2, 5}));
    const Routed zeros = Route(stream, {0.0f, -0.0f, 0.0f}, 2, false);
    EXPECT_EQ(zeros.ids, (std::vector<uint16_t>{0, 1}));
  });
}

TEST_F(GateTopKOnEveryDevice, WeightsSumToOneWhenRenormalized) {
  ForEachStream([](const Stream& stream) {
    const Routed plain = Route(stream, {std::log(1.0f), std::log(2.0f), std::log(5.0f)}, 2, false);
    EXPECT_NEAR(plain.weights[0], 0.625, 1e-6);
    EXPECT_NEAR(plain.weights[1], 0.25, 1e-6);
    const Routed scaled = Route(stream, {std::log(1.0f), std::log(2.0f), std::log(5.0f)}, 2, true);
    EXPECT_NEAR(scaled.weights[0], 5.0 / 7.0, 1e-6);
    EXPECT_NEAR(scaled.weights[1], 2.0 / 7.0, 1e-6);
  });
}

TEST_F(GateTopKOnEveryDevice, NanLogitsGiveDistinctIdsAndNanWeights) {
  ForEachStream([](const Stream& stream) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Routed routed = Route(stream, {nan, 1, nan, nan, 2}, 4, true);
    EXPECT_EQ(routed.ids, (std::vector<uint16_t>{0, 2, 3, 4}));
    for (const float w : routed.weights) EXPECT_TRUE(std::isnan(w));
  });
}

TEST(GateTopK, RefusesMoreChoicesThanExperts) {
  float v[4] = {};
  const void* row = v;
  uint16_t ids[4] = {};
  EXPECT_EQ(GateTopK(Stream{}, {.x_rows = &row,
                                .weight = v,
                                .logits = v,
                                .ids = ids,
                                .weights = v,
                                .rows = 1,
                                .hidden = 1,
                                .experts = 2,
                                .top_k = 3})
                .message(),
            "GateTopK: top_k is 3, wanted 1..2");
}

}  // namespace
}  // namespace janus::kernels
