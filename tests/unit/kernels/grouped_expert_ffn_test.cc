#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/mxfp4_matrix.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF16 = DType::kFloat16;
constexpr DType kF8 = DType::kFloat8E4M3;
constexpr DType kMx4 = DType::kMxfp4;

struct Case {
  const char* name;
  int contributions;
  int experts;
  int hidden;
  int intermediate;
  DType row = kF32;
  DType weight = kF32;
  int misalignment = 0;
  bool as_gpt_oss = false;  // biases and the clamped SwiGLU
  bool as_llama4 = false;   // weighed inputs
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

struct Matrix {
  GuardedArray weights;
  GuardedArray scales;  // of fp8 and mxfp4
};

struct Expert {
  Matrix gate;
  Matrix up;
  Matrix down;
  GuardedArray gate_bias;
  GuardedArray up_bias;
  GuardedArray down_bias;
};

// A row of this problem is one contribution; its expert is row % experts (the last expert has none
// where there are several).
class FfnProblem final : public RowProblem {
 public:
  explicit FfnProblem(const Case& c)
      : case_(c), x_(c.row, int64_t{c.contributions} * c.hidden, c.misalignment) {
    std::mt19937_64 random(static_cast<uint64_t>(c.hidden * 31 + c.intermediate));
    x_.FillNormal(random);
    for (int e = 0; e < c.experts; ++e) {
      experts_.push_back({RandomMatrix(random, c.intermediate, c.hidden),
                          RandomMatrix(random, c.intermediate, c.hidden),
                          RandomMatrix(random, c.hidden, c.intermediate),
                          GuardedArray(kF32, c.intermediate), GuardedArray(kF32, c.intermediate),
                          GuardedArray(kF32, c.hidden)});
      for (GuardedArray* bias :
           {&experts_.back().gate_bias, &experts_.back().up_bias, &experts_.back().down_bias}) {
        bias->FillNormal(random, 0.5f);
      }
    }
  }

  // From here on weights of mxfp4 are the same numbers in bfloat16.
  void WriteOut() {
    case_.weight = kB16;
    for (Expert& expert : experts_) {
      for (Matrix* matrix : {&expert.gate, &expert.up, &expert.down}) {
        GuardedArray out(kB16, int64_t{case_.hidden} * case_.intermediate, case_.misalignment);
        WriteOutMxfp4(matrix->weights, matrix->scales, out);
        matrix->weights = std::move(out);
      }
    }
  }

  int rows() const override { return case_.contributions; }
  int row_elements() const override { return case_.hidden; }
  DType output() const override { return case_.row; }
  double tolerance() const override { return case_.row == kF32 ? 3e-6 : 6e-3; }

  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const auto rows = static_cast<int64_t>(selection.size());
    const int busy = case_.experts > 1 ? case_.experts - 1 : 1;
    GuardedArray y(case_.row, rows * case_.hidden, case_.misalignment);
    const int64_t row_bytes = case_.hidden * SizeOf(case_.row);
    std::vector<ActiveExpert> active;
    std::vector<Contribution> contributions;
    for (int e = 0; e < case_.experts; ++e) {
      const Expert& expert = experts_[static_cast<size_t>(e)];
      ActiveExpert entry{expert.gate.weights.data(), expert.up.weights.data(),
                         expert.down.weights.data(), static_cast<int32_t>(contributions.size()), 0};
      if (case_.weight == kF8 || case_.weight == kMx4) {
        entry.gate_scales = expert.gate.scales.data();
        entry.up_scales = expert.up.scales.data();
        entry.down_scales = expert.down.scales.data();
      }
      if (case_.as_gpt_oss) {
        entry.gate_bias = static_cast<const float*>(expert.gate_bias.data());
        entry.up_bias = static_cast<const float*>(expert.up_bias.data());
        entry.down_bias = static_cast<const float*>(expert.down_bias.data());
      }
      for (int64_t i = 0; i < rows; ++i) {
        const int row = selection[static_cast<size_t>(i)];
        if (row % busy != e) continue;
        contributions.push_back({static_cast<const char*>(x_.data()) + row * row_bytes,
                                 static_cast<char*>(y.data()) + i * row_bytes,
                                 0.1f + 0.05f * static_cast<float>(row % 17)});
        ++entry.count;
      }
      active.push_back(entry);
    }
    const auto needs = GroupedExpertFfnWorkspace::For(rows, case_.intermediate, case_.row);
    GuardedArray workspace(kF32, needs.bytes / 4);
    const Status status = GroupedExpertFfn(stream, {.experts = active.data(),
                                                    .contributions = contributions.data(),
                                                    .num_experts = case_.experts,
                                                    .num_contributions = rows,
                                                    .hidden = case_.hidden,
                                                    .intermediate = case_.intermediate,
                                                    .weight_dtype = case_.weight,
                                                    .row_dtype = case_.row,
                                                    .y_dtype = case_.row,
                                                    .weighs_inputs = case_.as_llama4,
                                                    .has_bias = case_.as_gpt_oss,
                                                    .swiglu_limit = case_.as_gpt_oss ? 1.2f : 0.0f,
                                                    .swiglu_alpha = 1.702f,
                                                    .workspace = workspace.data(),
                                                    .workspace_bytes = needs.bytes});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    const auto* bytes = static_cast<const uint8_t*>(y.data());
    return {bytes, bytes + y.data_bytes()};
  }

 private:
  // Of fp8 the deviation is in the scales, of which no two are alike.
  Matrix RandomMatrix(std::mt19937_64& random, int outputs, int inputs) const {
    const int64_t size = int64_t{outputs} * inputs;
    const float deviation = 1.5f / std::sqrt(static_cast<float>(inputs));
    const bool is_mxfp4 = case_.weight == kMx4;
    Matrix matrix{GuardedArray(is_mxfp4 ? kBytes : case_.weight, is_mxfp4 ? size / 2 : size,
                               case_.misalignment),
                  is_mxfp4 ? GuardedArray(kBytes, size / kMxBlock, case_.misalignment)
                           : GuardedArray(kF32, ScaleBlocks(outputs) * ScaleBlocks(inputs))};
    if (is_mxfp4) {
      FillMxfp4(random, deviation, matrix.weights, matrix.scales);
      return matrix;
    }
    matrix.weights.FillNormal(random, case_.weight == kF8 ? 30.0f : deviation);
    std::uniform_real_distribution<float> factor(0.3f, 1.7f);
    for (int64_t i = 0; i < matrix.scales.count(); ++i) {
      matrix.scales.set(i, factor(random) * deviation / 30.0f);
    }
    return matrix;
  }

  Case case_;
  GuardedArray x_;
  std::vector<Expert> experts_;
};

class GroupedExpertFfnTest : public testing::TestWithParam<Case> {};

TEST_P(GroupedExpertFfnTest, EqualsTheReference) {
  ExpectParity(FfnProblem(GetParam()));
}

TEST_P(GroupedExpertFfnTest, ContributionsDoNotDependOnTheRound) {
  ExpectBatchInvariance(FfnProblem(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    All, GroupedExpertFfnTest,
    testing::Values(
        Case{"One", 1, 1, 4, 3}, Case{"Mxfp4", 37, 5, 384, 256, kB16, kMx4},
        Case{"Mxfp4ManyTilesOfRows", 200, 2, 288, 160, kB16, kMx4},
        Case{"Mxfp4Misaligned", 21, 3, 160, 96, kB16, kMx4, 2},
        Case{"Mxfp4AtAnyByte", 12, 3, 128, 224, kB16, kMx4, 1},
        Case{"Mxfp4OneBlock", 9, 2, 32, 32, kF32, kMx4},
        Case{"Mxfp4Fp32Rows", 90, 2, 256, 96, kF32, kMx4}, Case{"OneExpert", 9, 1, 64, 96},
        Case{"ManyExperts", 40, 9, 48, 80}, Case{"Odd", 13, 4, 33, 19, kF32, kF32, 4},
        Case{"CastBf16", 21, 3, 65, 70, kF32, kB16, 2},
        Case{"CastF16", 21, 3, 65, 70, kF32, kF16, 2}, Case{"Fp8", 37, 5, 384, 256, kB16, kF8},
        Case{"Fp8ManyTilesOfRows", 200, 2, 272, 144, kB16, kF8},
        Case{"Fp8Misaligned", 21, 3, 144, 48, kB16, kF8, 2},
        Case{"Fp8NoWholeBlocks", 21, 3, 200, 150, kB16, kF8},
        Case{"Fp8Odd", 12, 3, 271, 37, kB16, kF8, 1},
        Case{"Fp8LessThanABlock", 9, 2, 40, 24, kF32, kF8},
        Case{"Fp8Fp32Rows", 90, 2, 256, 136, kF32, kF8}, Case{"Bf16", 37, 5, 128, 192, kB16, kB16},
        Case{"Bf16Odd", 12, 3, 71, 37, kB16, kB16, 2},
        Case{"MoreRowsThanAChunk", 150, 2, 32, 32, kB16, kB16},
        Case{"AModelsExpert", 16, 3, 512, 768, kB16, kB16},
        Case{"Bf16NoWholeTiles", 75, 2, 136, 88, kB16, kB16},
        Case{"Bf16ManyTilesOfRows", 200, 2, 40, 72, kB16, kB16},
        Case{"Bf16Misaligned", 21, 3, 72, 40, kB16, kB16, 2},
        Case{"GptOss", 40, 5, 48, 80, kF32, kF32, 0, true},
        Case{"GptOssOdd", 13, 4, 33, 19, kF32, kF32, 4, true},
        Case{"GptOssBf16", 37, 5, 128, 192, kB16, kB16, 0, true},
        Case{"GptOssMxfp4", 37, 5, 160, 96, kB16, kMx4, 1, true},
        Case{"Llama4", 40, 5, 48, 80, kF32, kF32, 0, false, true},
        Case{"Llama4Odd", 13, 4, 33, 19, kF32, kF32, 4, true, true},
        Case{"Llama4Bf16", 37, 5, 128, 192, kB16, kB16, 0, false, true}),
    [](const auto& info) { return info.param.name; });

TEST(GroupedExpertFfnBits, AreTheSameOnEveryIsaInFp32) {
  ExpectSameBitsOnEveryIsa(FfnProblem({"", 20, 3, 67, 130, kF32, kF32}));
  ExpectSameBitsOnEveryIsa(FfnProblem({"", 20, 3, 67, 130, kF32, kB16}));
  ExpectSameBitsOnEveryIsa(FfnProblem({"", 20, 3, 167, 270, kF32, kF8}));
  ExpectSameBitsOnEveryIsa(FfnProblem({"", 20, 3, 160, 288, kF32, kMx4}));
  ExpectSameBitsOnEveryIsa(FfnProblem({"", 20, 3, 67, 130, kF32, kF32, 0, true}));
  ExpectSameBitsOnEveryIsa(FfnProblem({"", 20, 3, 67, 130, kF32, kF32, 0, true, true}));
}

// A weight of mxfp4 is a number of bfloat16, so results have the bits of that number.
TEST(GroupedExpertFfnBits, OfMxfp4AreThoseOfTheSameNumbersInBFloat16) {
  for (const DType row : {kB16, kF32}) {
    for (const int contributions : {1, 5, 40, 150}) {
      const FfnProblem packed({"", contributions, 3, 160, 288, row, kMx4, 1});
      FfnProblem written_out = packed;
      written_out.WriteOut();
      std::vector<int> rows(static_cast<size_t>(contributions));
      std::iota(rows.begin(), rows.end(), 0);
      EXPECT_EQ(packed.Run(Stream{}, rows), written_out.Run(Stream{}, rows));
#ifdef JANUS_TEST_ON_GPU
      if (row == kB16) continue;  // on sm_90a these are two forms, which may add in two orders
#endif
      for (const Isa isa : PresentIsas()) {
        CpuStream cpu(isa, 2);
        EXPECT_EQ(packed.Run(cpu.stream, rows), written_out.Run(cpu.stream, rows))
            << ToString(isa) << ", " << contributions << " rows in " << ToString(row);
      }
    }
  }
}

// One row of one expert, with every number chosen: each side of each limit, and NaN.
TEST(GroupedExpertFfn, ClampsGatesFromAboveAndUpsFromBothSides) {
  constexpr float kLimit = 2.0f;
  constexpr float kAlpha = 1.5f;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  struct Numbers {
    float gate;
    float up;
    float clamped_gate;
    float clamped_up;
  };
  const std::vector<Numbers> all = {{1.0f, 0.5f, 1.0f, 0.5f},   {3.0f, 0.5f, 2.0f, 0.5f},
                                    {-3.0f, 0.5f, -3.0f, 0.5f}, {1.0f, 5.0f, 1.0f, 2.0f},
                                    {1.0f, -5.0f, 1.0f, -2.0f}, {2.0f, -2.0f, 2.0f, -2.0f}};
  const auto compute = [&](const Stream& stream, float gate, float up) {
    const std::vector<float> x = {1.0f}, one = {1.0f};
    // The matrices give 1 each, the biases the rest.
    const std::vector<float> gate_bias = {gate - 1.0f}, up_bias = {up - 1.0f}, down_bias = {0.25f};
    std::vector<float> y = {0.0f};
    GuardedArray workspace(kF32, 16);
    std::vector<ActiveExpert> expert = {{one.data(), one.data(), one.data(), 0, 1}};
    expert[0].gate_bias = gate_bias.data();
    expert[0].up_bias = up_bias.data();
    expert[0].down_bias = down_bias.data();
    const std::vector<Contribution> contribution = {{x.data(), y.data(), 0.5f}};
    const Status status = GroupedExpertFfn(stream, {.experts = expert.data(),
                                                    .contributions = contribution.data(),
                                                    .num_experts = 1,
                                                    .num_contributions = 1,
                                                    .hidden = 1,
                                                    .intermediate = 1,
                                                    .has_bias = true,
                                                    .swiglu_limit = kLimit,
                                                    .swiglu_alpha = kAlpha,
                                                    .workspace = workspace.data(),
                                                    .workspace_bytes = 64});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return y[0];
  };
  const auto check = [&](const Stream& stream) {
    for (const Numbers& n : all) {
      const double h =
          n.clamped_gate / (1.0 + std::exp(-kAlpha * n.clamped_gate)) * (n.clamped_up + 1.0);
      EXPECT_NEAR(compute(stream, n.gate, n.up), 0.5 * (h + 0.25), 1e-6) << n.gate << ' ' << n.up;
    }
    EXPECT_TRUE(std::isnan(compute(stream, kNaN, 1.0f)));
    EXPECT_TRUE(std::isnan(compute(stream, 1.0f, kNaN)));
  };
  check(Stream{});
  for (const Isa isa : PresentIsas()) check(CpuStream(isa, 1).stream);
}

// With all matrices 1 and x = 3: gate and up are 3 times the weight, plus their bias.
TEST(GroupedExpertFfn, AWeighedInputIsMultipliedBeforeTheActivationAndBeforeBiases) {
  const auto compute = [](const Stream& stream, bool weighs_inputs, bool has_bias) {
    const std::vector<float> x = {3.0f}, one = {1.0f}, bias = {0.25f};
    std::vector<float> y = {0.0f};
    GuardedArray workspace(kF32, 16);
    std::vector<ActiveExpert> expert = {{one.data(), one.data(), one.data(), 0, 1}};
    expert[0].gate_bias = expert[0].up_bias = expert[0].down_bias = bias.data();
    const std::vector<Contribution> contribution = {{x.data(), y.data(), 0.5f}};
    const Status status = GroupedExpertFfn(stream, {.experts = expert.data(),
                                                    .contributions = contribution.data(),
                                                    .num_experts = 1,
                                                    .num_contributions = 1,
                                                    .hidden = 1,
                                                    .intermediate = 1,
                                                    .weighs_inputs = weighs_inputs,
                                                    .has_bias = has_bias,
                                                    .workspace = workspace.data(),
                                                    .workspace_bytes = 64});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return y[0];
  };
  const auto h = [](double v) { return v / (1.0 + std::exp(-v)) * v; };
  const auto check = [&](const Stream& stream) {
    EXPECT_NEAR(compute(stream, true, false), h(1.5), 1e-6);
    EXPECT_NEAR(compute(stream, false, false), 0.5 * h(3.0), 1e-6);
    EXPECT_NEAR(compute(stream, true, true), h(1.75) + 0.25, 1e-6);
  };
  check(Stream{});
  for (const Isa isa : PresentIsas()) check(CpuStream(isa, 1).stream);
}

TEST(GroupedExpertFfn, RefusesTooLittleWorkspaceAndContributionsOutOfRange) {
  alignas(64) float workspace[64] = {};
  float v[16] = {};
  const ActiveExpert expert{v, v, v, 0, 1};
  const Contribution contribution{v, v, 1.0f};
  GroupedExpertFfnArgs args{.experts = &expert,
                            .contributions = &contribution,
                            .num_experts = 1,
                            .num_contributions = 1,
                            .hidden = 4,
                            .intermediate = 4,
                            .workspace = workspace,
                            .workspace_bytes = 63};
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).message(),
            "GroupedExpertFfn: workspace_bytes is less than GroupedExpertFfnWorkspace asks for");
  args.workspace_bytes = 64;
  EXPECT_TRUE(GroupedExpertFfn(Stream{}, args).ok());
  const ActiveExpert beyond{v, v, v, 1, 1};
  args.experts = &beyond;
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).code(), StatusCode::kInvalidArgument);
  args.experts = &expert;
  args.weight_dtype = kF8;
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).message(),
            "GroupedExpertFfn: gate_scales of an expert is null");
  args.weight_dtype = kMx4;
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).message(),
            "GroupedExpertFfn: hidden and intermediate are not multiples of 32, as Mxfp4 asks");
  args.weight_dtype = kF32;
  args.has_bias = true;
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).message(),
            "GroupedExpertFfn: gate_bias of an expert is null");
  args.has_bias = false;
  args.swiglu_limit = 7.0f;
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).message(),
            "GroupedExpertFfn: swiglu_alpha is not positive");
  args.swiglu_limit = 0.0f;
  args.workspace = reinterpret_cast<char*>(workspace) + 4;
  EXPECT_EQ(GroupedExpertFfn(Stream{}, args).message(),
            "GroupedExpertFfn: workspace is not 64-byte aligned");
}

}  // namespace
}  // namespace janus::kernels
