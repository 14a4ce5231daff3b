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
constexpr GateScore kSigmoid = GateScore::kSigmoid;
constexpr GateScore kOfChosen = GateScore::kSigmoidOfChosen;

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
  GateScore score = GateScore::kSoftmax;
  bool logit_bias = false;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// Output of a row: ids (as numbers), weights, logits.
class GateProblem final : public RowProblem {
 public:
  explicit GateProblem(const Case& c)
      : case_(c),
        x_(c.x, int64_t{c.rows} * c.hidden, 2),
        weight_(c.weight, int64_t{c.experts} * c.hidden, 2),
        bias_(kF32, c.experts, 4) {
    std::mt19937_64 random(static_cast<uint64_t>(c.experts));
    x_.FillNormal(random);
    weight_.FillNormal(random, 2.0f / std::sqrt(static_cast<float>(c.hidden)));
    bias_.FillNormal(random, 0.3f);
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
    const bool has_bias = case_.score == GateScore::kSigmoid || case_.logit_bias;
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
                                            .score = case_.score,
                                            .bias = has_bias ? bias_.floats() : nullptr,
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
  mutable GuardedArray bias_;
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
    testing::Values(
        Case{"OneExpert", 3, 1, 1, 8}, Case{"Mixtral", 33, 8, 2, 256, true, kB16, kB16},
        Case{"Softmax", 20, 60, 4, 65}, Case{"All", 9, 6, 6, 32},
        Case{"DeepSeekV2", 21, 160, 6, 96, false, kB16, kB16, 8, 3, 16.0f},
        Case{"Groups", 30, 12, 3, 40, false, kF32, kF32, 4, 2},
        Case{"AllGroups", 9, 12, 3, 40, true, kF32, kF32, 6, 6},
        Case{"Many", 17, 256, 8, 128, true},
        Case{"LongRows", 70, 96, 6, 1032, true, kB16, kB16, 8, 4},
        Case{"CastWeights", 5, 33, 3, 40, false, kF32, kB16},
        Case{"DeepSeekV3", 21, 256, 8, 96, true, kB16, kB16, 8, 4, 2.5f, kSigmoid},
        Case{"SigmoidGroups", 30, 12, 3, 40, true, kF32, kF32, 4, 2, 2.5f, kSigmoid},
        Case{"SigmoidPairs", 30, 12, 4, 40, true, kF32, kF32, 6, 2, 1.0f, kSigmoid},
        Case{"SigmoidPlain", 20, 61, 4, 65, false, kF32, kF32, 1, 1, 1.7f, kSigmoid},
        Case{"SigmoidOneExpert", 3, 1, 1, 8, true, kF32, kF32, 1, 1, 2.5f, kSigmoid},
        Case{"LogitBias", 33, 60, 4, 65, true, kF32, kF32, 1, 1, 1.0f, GateScore::kSoftmax, true},
        Case{"GptOss", 33, 32, 4, 96, true, kB16, kB16, 1, 1, 1.0f, GateScore::kSoftmax, true},
        Case{"Llama4", 33, 16, 1, 96, false, kB16, kB16, 1, 1, 1.0f, kOfChosen},
        Case{"OfChosen", 21, 60, 5, 65, false, kF32, kF32, 1, 1, 1.7f, kOfChosen},
        Case{"OfChosenGroups", 30, 12, 3, 40, false, kF32, kF32, 4, 2, 1.0f, kOfChosen}),
    [](const auto& info) { return info.param.name; });

TEST(GateTopKBits, AreTheSameOnEveryIsaInFp32) {
  ExpectSameBitsOnEveryIsa(GateProblem({"", 20, 60, 4, 65}));
  ExpectSameBitsOnEveryIsa(GateProblem({"", 20, 256, 8, 65, true}));
  ExpectSameBitsOnEveryIsa(
      GateProblem({"", 20, 60, 4, 65, true, kF32, kF32, 6, 3, 2.5f, kSigmoid}));
  ExpectSameBitsOnEveryIsa(
      GateProblem({"", 20, 60, 4, 65, true, kF32, kF32, 1, 1, 1.0f, GateScore::kSoftmax, true}));
  ExpectSameBitsOnEveryIsa(
      GateProblem({"", 20, 60, 4, 65, false, kF32, kF32, 1, 1, 1.0f, kOfChosen}));
}

struct Routed {
  std::vector<uint16_t> ids;
  std::vector<float> weights;
};

// The gate on logits as they are: one hidden dimension, x = 1; the rest as `args` says.
Routed Route(const Stream& stream, const std::vector<float>& logits, GateTopKArgs args) {
  const std::vector<float> one = {1.0f};  // on the heap, which every device reads
  const std::vector<const void*> row = {one.data()};
  std::vector<float> out(logits.size());
  Routed routed{std::vector<uint16_t>(static_cast<size_t>(args.top_k)),
                std::vector<float>(static_cast<size_t>(args.top_k))};
  args.x_rows = row.data();
  args.weight = logits.data();
  args.logits = out.data();
  args.ids = routed.ids.data();
  args.weights = routed.weights.data();
  args.rows = args.hidden = 1;
  args.experts = static_cast<int>(logits.size());
  const Status status = GateTopK(stream, args);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return routed;
}
Routed Route(const Stream& stream, const std::vector<float>& logits, int top_k, bool renormalize) {
  return Route(stream, logits, {.top_k = top_k, .renormalize = renormalize});
}

// The logit with sigmoid `score`.
float LogitOf(float score) {
  return std::log(score / (1.0f - score));
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

TEST_F(GateTopKOnEveryDevice, ABiasOfLogitsChoosesAndWeighs) {
  const std::vector<float> bias = {std::log(4.0f), 0.0f, std::log(0.1f)};
  ForEachStream([&](const Stream& stream) {
    const Routed routed = Route(stream, {std::log(1.0f), std::log(2.0f), std::log(5.0f)},
                                {.top_k = 2, .bias = bias.data(), .renormalize = true});
    EXPECT_EQ(routed.ids, (std::vector<uint16_t>{0, 1}));
    EXPECT_NEAR(routed.weights[0], 4.0 / 6.0, 1e-6);
    EXPECT_NEAR(routed.weights[1], 2.0 / 6.0, 1e-6);
  });
}

// In fp32 the sigmoids of 30 and 40 are both 1.
TEST_F(GateTopKOnEveryDevice, TheLogitChoosesWhereSigmoidsOfTheChosenAreEqual) {
  ForEachStream([](const Stream& stream) {
    const Routed routed =
        Route(stream, {30.0f, 40.0f, LogitOf(0.25f)}, {.top_k = 3, .score = kOfChosen});
    EXPECT_EQ(routed.ids, (std::vector<uint16_t>{1, 0, 2}));
    EXPECT_EQ(routed.weights[0], 1.0f);
    EXPECT_EQ(routed.weights[1], 1.0f);
    EXPECT_NEAR(routed.weights[2], 0.25, 1e-6) << "by itself, not as a share";
  });
}

TEST_F(GateTopKOnEveryDevice, ANanLogitHasItsOwnNanSigmoid) {
  ForEachStream([](const Stream& stream) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Routed routed = Route(stream, {0.0f, nan, -1.0f}, {.top_k = 2, .score = kOfChosen});
    EXPECT_EQ(routed.ids, (std::vector<uint16_t>{1, 0}));
    EXPECT_TRUE(std::isnan(routed.weights[0]));
    EXPECT_EQ(routed.weights[1], 0.5f);
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

// The bias affects the choice but not the weights, which are scaled in any case.
TEST_F(GateTopKOnEveryDevice, ABiasChoosesAndDoesNotWeigh) {
  const std::vector<float> logits = {LogitOf(0.9f), LogitOf(0.5f), LogitOf(0.2f), LogitOf(0.8f)};
  const std::vector<float> bias = {-0.75f, 0.0f, 0.7f, -0.1f};  // sums 0.15, 0.5, 0.9, 0.7
  ForEachStream([&](const Stream& stream) {
    GateTopKArgs args{.top_k = 2, .score = kSigmoid, .bias = bias.data(), .weight_scale = 2.5f};
    const Routed plain = Route(stream, logits, args);
    EXPECT_EQ(plain.ids, (std::vector<uint16_t>{2, 3}));
    EXPECT_NEAR(plain.weights[0], 0.2 * 2.5, 1e-6);
    EXPECT_NEAR(plain.weights[1], 0.8 * 2.5, 1e-6);
    args.renormalize = true;
    const Routed shares = Route(stream, logits, args);
    EXPECT_EQ(shares.ids, plain.ids);
    EXPECT_NEAR(shares.weights[0], 0.2 * 2.5, 1e-6);
    EXPECT_NEAR(shares.weights[1], 0.8 * 2.5, 1e-6);
    args.top_k = 3;
    const Routed three = Route(stream, logits, args);
    EXPECT_EQ(three.ids, (std::vector<uint16_t>{2, 3, 1}));
    EXPECT_NEAR(three.weights[2], 0.5 / 1.5 * 2.5, 1e-6);
  });
}

// Group 0 has the best expert, group 1 the best two, group 2 the best three.
TEST_F(GateTopKOnEveryDevice, AGroupIsAsGoodAsItsTwoBestScores) {
  std::vector<float> logits;
  for (const float score : {0.9f, 0.1f, 0.1f, 0.7f, 0.1f, 0.6f, 0.5f, 0.55f, 0.52f}) {
    logits.push_back(LogitOf(score));
  }
  std::vector<float> bias(9, 0.0f);
  ForEachStream([&](const Stream& stream) {
    GateTopKArgs args{.top_k = 2, .score = kSigmoid, .bias = bias.data(), .groups = 3};
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{3, 5}));
    args.top_groups = 2;
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{3, 5}));
    bias[7] = bias[8] = 0.5f;  // now the third's
    args.top_groups = 1;
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{7, 8}));
    bias[7] = bias[8] = 0.0f;
  });
}

TEST_F(GateTopKOnEveryDevice, TiedSumsGoToTheLowerIdAndGroup) {
  ForEachStream([](const Stream& stream) {
    // Scores of 1/2, so sums are exact; the best two of a group in any order.
    const std::vector<float> logits(8, 0.0f);
    const std::vector<float> bias = {0.0f, 0.25f, 0.5f, 0.0f, 0.25f, 0.25f, 0.0f, 0.5f};
    GateTopKArgs args{.top_k = 3, .score = kSigmoid, .bias = bias.data()};
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{2, 7, 1}));
    args.top_k = 2;
    args.groups = 4;
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{2, 3}));
    args.top_k = 4;
    args.top_groups = 2;
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{2, 4, 5, 3}));
  });
}

// A closed group stays closed even if all sums are negative.
TEST_F(GateTopKOnEveryDevice, ChoosesAmongNegativeSums) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> logits(6, 0.0f);
    const std::vector<float> bias = {-3.0f, -1.0f, -2.0f, -4.0f, -5.0f, -1.5f};
    const GateTopKArgs args{
        .top_k = 3, .score = kSigmoid, .bias = bias.data(), .groups = 2, .top_groups = 1};
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{1, 2, 0}));
  });
}

// Scores of 0 give weights of 0, not a division by 0.
TEST_F(GateTopKOnEveryDevice, VanishingScoresGiveNoNan) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> bias = {0.5f, 0.25f, 1.0f};
    const GateTopKArgs args{
        .top_k = 2, .score = kSigmoid, .bias = bias.data(), .renormalize = true};
    const Routed routed = Route(stream, {-1000, -1000, -1000}, args);
    EXPECT_EQ(routed.ids, (std::vector<uint16_t>{2, 0}));
    for (const float w : routed.weights) EXPECT_EQ(w, 0.0f);
  });
}

TEST_F(GateTopKOnEveryDevice, NanScoresComeFirstAndAreSaidByTheWeights) {
  ForEachStream([](const Stream& stream) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> bias = {0, 0, 9, 9, 0, 0};
    GateTopKArgs args{.top_k = 3, .score = kSigmoid, .bias = bias.data()};
    const std::vector<float> logits = {1, nan, 2, 3, nan, 0};
    const Routed plain = Route(stream, logits, args);
    EXPECT_EQ(plain.ids, (std::vector<uint16_t>{1, 4, 3}));
    EXPECT_TRUE(std::isnan(plain.weights[0]) && std::isnan(plain.weights[1]));
    EXPECT_FALSE(std::isnan(plain.weights[2]));
    args.renormalize = true;
    for (const float w : Route(stream, logits, args).weights) EXPECT_TRUE(std::isnan(w));
    args.groups = 3;
    args.top_groups = 2;
    EXPECT_EQ(Route(stream, logits, args).ids, (std::vector<uint16_t>{1, 4, 0}));
  });
}

// One row of four experts, and what is refused of it.
class GateTopKRefuses : public testing::Test {
 protected:
  std::string Refused() const { return GateTopK(Stream{}, args_).message(); }

  float v_[4] = {};
  const void* row_ = v_;
  uint16_t ids_[4] = {};
  GateTopKArgs args_{.x_rows = &row_,
                     .weight = v_,
                     .logits = v_,
                     .ids = ids_,
                     .weights = v_,
                     .rows = 1,
                     .hidden = 1,
                     .experts = 4,
                     .top_k = 1};
};

TEST_F(GateTopKRefuses, ABiasAndAShareOfSigmoidsOfTheChosen) {
  args_.score = kOfChosen;
  args_.bias = v_;
  EXPECT_EQ(Refused(), "GateTopK: bias or renormalize is not of kSigmoidOfChosen");
  args_.bias = nullptr;
  EXPECT_EQ(Refused(), "");
  args_.renormalize = true;
  EXPECT_EQ(Refused(), "GateTopK: bias or renormalize is not of kSigmoidOfChosen");
}

TEST_F(GateTopKRefuses, SigmoidWithoutABias) {
  args_.score = kSigmoid;
  EXPECT_EQ(Refused(), "GateTopK: bias is null; kSigmoid wants it");
}

TEST_F(GateTopKRefuses, GroupsWithoutTwoBestUnlessAllAreKept) {
  args_.score = kSigmoid;
  args_.bias = v_;
  args_.groups = 4;
  EXPECT_EQ(Refused(), "GateTopK: groups of one expert have no two best");
  args_.top_groups = 4;
  EXPECT_EQ(Refused(), "");
}

TEST_F(GateTopKRefuses, MoreChoicesThanExperts) {
  args_.experts = 2;
  args_.top_k = 3;
  EXPECT_EQ(Refused(), "GateTopK: top_k is 3, wanted 1..2");
}

}  // namespace
}  // namespace janus::kernels
