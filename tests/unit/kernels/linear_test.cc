#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

struct Case {
  const char* name;
  int rows;
  int outputs;
  int inputs;
  DType x = DType::kFloat32;
  DType weight = DType::kFloat32;
  bool bias = false;
  bool accumulate = false;
  int misalignment = 0;
  int stride_extra = 0;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class LinearProblem final : public RowProblem {
 public:
  explicit LinearProblem(const Case& c)
      : case_(c),
        x_(c.x, int64_t{c.rows} * c.inputs, c.misalignment),
        weight_(c.weight, int64_t{c.outputs} * c.inputs, c.misalignment),
        bias_(c.weight, c.outputs, c.misalignment),
        residual_(DType::kFloat32, int64_t{c.rows} * c.outputs) {
    std::mt19937_64 random(static_cast<uint64_t>(c.outputs * 31 + c.inputs));
    x_.FillNormal(random);
    weight_.FillNormal(random, 1.0f / std::sqrt(static_cast<float>(c.inputs)));
    bias_.FillNormal(random);
    residual_.FillNormal(random);
  }

  int rows() const override { return case_.rows; }
  int row_elements() const override { return case_.outputs; }
  DType output() const override { return DType::kFloat32; }
  double tolerance() const override { return 2e-6; }

  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const auto rows = static_cast<int64_t>(selection.size());
    const int64_t x_stride = case_.inputs + case_.stride_extra;
    const int64_t y_stride = case_.outputs + case_.stride_extra;
    GuardedArray x(case_.x, rows * x_stride, case_.misalignment);
    GuardedArray y(DType::kFloat32, rows * y_stride, case_.misalignment / 4 * 4);
    y.Fill(-77.0f);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = selection[static_cast<size_t>(i)];
      for (int64_t k = 0; k < case_.inputs; ++k)
        x.set(i * x_stride + k, x_.at(row * case_.inputs + k));
      if (!case_.accumulate) continue;
      for (int64_t n = 0; n < case_.outputs; ++n) {
        y.set(i * y_stride + n, residual_.at(row * case_.outputs + n));
      }
    }
    const Status status = Linear(stream, {.x = x.data(),
                                          .x_dtype = case_.x,
                                          .weight = weight_.data(),
                                          .weight_dtype = case_.weight,
                                          .bias = case_.bias ? bias_.data() : nullptr,
                                          .bias_dtype = case_.weight,
                                          .y = y.floats(),
                                          .accumulate = case_.accumulate,
                                          .rows = rows,
                                          .outputs = case_.outputs,
                                          .inputs = case_.inputs,
                                          .x_stride = x_stride,
                                          .y_stride = y_stride});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    std::vector<uint8_t> out;
    for (int64_t i = 0; i < rows; ++i) {
      const auto* row = reinterpret_cast<const uint8_t*>(y.floats() + i * y_stride);
      out.insert(out.end(), row, row + case_.outputs * 4);
      for (int64_t n = case_.outputs; n < y_stride; ++n) EXPECT_EQ(y.at(i * y_stride + n), -77.0f);
    }
    return out;
  }

 private:
  Case case_;
  GuardedArray x_;
  GuardedArray weight_;
  GuardedArray bias_;
  GuardedArray residual_;
};

class LinearTest : public testing::TestWithParam<Case> {};

TEST_P(LinearTest, EqualsTheReference) {
  ExpectParity(LinearProblem(GetParam()));
}

TEST_P(LinearTest, RowsDoNotDependOnTheirBatch) {
  ExpectBatchInvariance(LinearProblem(GetParam()));
}

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF16 = DType::kFloat16;

INSTANTIATE_TEST_SUITE_P(
    All, LinearTest,
    testing::Values(Case{"OneByOneByOne", 1, 1, 1}, Case{"Tiny", 3, 2, 5},
                    Case{"OddEverything", 7, 19, 33, kF32, kF32, true},
                    Case{"OnePastATile", 9, 17, 65, kF32, kF32, false, true},
                    Case{"ManyRows", 70, 40, 96, kF32, kF32, true, true, 4, 3},
                    Case{"SixtyFourRows", 64, 48, 256},
                    Case{"CastBf16Weights", 13, 50, 257, kF32, kB16, true, false, 2},
                    Case{"CastF16Weights", 13, 50, 257, kF32, kF16, true, false, 2},
                    Case{"Bf16", 65, 64, 512, kB16, kB16, false, true},
                    Case{"Bf16Odd", 11, 21, 97, kB16, kB16, true, false, 2, 5},
                    Case{"Bf16RowsF16Weights", 6, 35, 130, kB16, kF16, false, false, 2},
                    Case{"Bf16RowsF32Weights", 6, 35, 130, kB16, kF32, true},
                    Case{"AModelsProjection", 16, 768, 2048, kB16, kB16}),
    [](const auto& info) { return info.param.name; });

TEST(LinearBits, AreTheSameOnEveryIsaInFp32) {
  ExpectSameBitsOnEveryIsa(LinearProblem({"", 33, 65, 1001, kF32, kF32, true, true}));
  ExpectSameBitsOnEveryIsa(LinearProblem({"", 33, 65, 1001, kF32, kB16, true, true}));
  ExpectSameBitsOnEveryIsa(LinearProblem({"", 33, 65, 1001, kF32, kF16, true, true}));
}

TEST(Linear, CarriesNanAndInfinityToItsOwnRowOnly) {
  GuardedArray weight(kF32, 20 * 40);
  weight.Fill(1.0f);
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 1);
    GuardedArray x(kF32, 3 * 40);
    GuardedArray y(kF32, 3 * 20);
    x.Fill(1.0f);
    x.set(40 + 39, std::numeric_limits<float>::quiet_NaN());
    x.set(80 + 3, std::numeric_limits<float>::infinity());
    ASSERT_TRUE(Linear(cpu.stream, {.x = x.data(),
                                    .weight = weight.data(),
                                    .y = y.floats(),
                                    .rows = 3,
                                    .outputs = 20,
                                    .inputs = 40})
                    .ok());
    for (int n = 0; n < 20; ++n) {
      EXPECT_EQ(y.at(n), 40.0f);
      EXPECT_TRUE(std::isnan(y.at(20 + n)));
      EXPECT_EQ(y.at(40 + n), std::numeric_limits<float>::infinity());
    }
  }
}

TEST(Linear, RefusesWhatItCannotRun) {
  float x[4] = {};
  float w[8] = {};
  float y[2] = {};
  const LinearArgs good{.x = x, .weight = w, .y = y, .rows = 1, .outputs = 2, .inputs = 4};
  ASSERT_TRUE(Linear(Stream{}, good).ok());
  const auto refused = [&](auto change) {
    LinearArgs args = good;
    change(args);
    const Status status = Linear(Stream{}, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refused([](LinearArgs& a) { a.rows = -1; }),
            "Linear: rows is -1, wanted 0..2147483648");
  EXPECT_EQ(refused([](LinearArgs& a) { a.x = nullptr; }), "Linear: x is null");
  EXPECT_EQ(refused([](LinearArgs& a) { a.inputs = 0; }),
            "Linear: inputs is 0, wanted 1..2147483648");
  EXPECT_EQ(refused([](LinearArgs& a) { a.x_dtype = kF16; }), "Linear: x_dtype is Float16");
  EXPECT_EQ(refused([](LinearArgs& a) { a.y_stride = 1; }),
            "Linear: y_stride is shorter than a row");
}

TEST(Linear, RefusesACpuStreamWithoutATeamAndADeviceThatIsNotBuiltIn) {
  float v[4] = {};
  const LinearArgs args{.x = v, .weight = v, .y = v, .rows = 1, .outputs = 1, .inputs = 1};
  EXPECT_EQ(Linear(Stream{.device = Device::kCpu}, args).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Linear(Stream{.device = Device::kCuda}, args).code(), StatusCode::kUnimplemented);
}

TEST(Linear, NoRowsAreANoOp) {
  EXPECT_TRUE(Linear(Stream{}, {}).ok());
}

}  // namespace
}  // namespace janus::kernels
