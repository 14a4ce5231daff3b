// The fast form of projections against its own rules as scalar loops, for every number of rows and
// of outputs at which a tile changes, and against the plain form.

#include "kernels/cuda/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF32 = DType::kFloat32;

// The last tile of activations has one row, some rows or all rows; tiles of 64 follow one another.
constexpr int kRowCounts[] = {1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 130};
constexpr int kFewRowCounts[] = {3, 16, 32, 64};  // a tile of each size
constexpr int kMostRows = 130;

struct Case {
  const char* name;
  int outputs;
  int inputs;
  std::optional<DType> bias = {};
  bool accumulate = false;
  int x_extra = 0;  // elements between rows
  int y_extra = 0;
  int x_misalignment = 0;  // bytes past a 64-byte boundary
  int weight_misalignment = 0;
  std::span<const int> row_counts = kRowCounts;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class Projection {
 public:
  Projection(const Case& c, int most_rows)
      : case_(c),
        x_(kB16, int64_t{most_rows} * x_stride() + kBehind, c.x_misalignment),
        weight_(kB16, int64_t{c.outputs} * c.inputs + kBehind, c.weight_misalignment),
        bias_(c.bias.value_or(kF32), c.outputs),
        residual_(kF32, int64_t{most_rows} * c.outputs) {
    std::mt19937_64 random(11);
    x_.FillNormal(random);
    weight_.FillNormal(random, 1.0f / std::sqrt(static_cast<float>(c.inputs)));
    bias_.FillNormal(random);
    residual_.FillNormal(random);
    // Memory behind an operand is NaN, so that a read of it shows, even if it is multiplied by
    // zeros.
    for (GuardedArray* array : {&x_, &weight_}) {
      for (int64_t i = array->count() - kBehind; i < array->count(); ++i) array->set(i, NAN);
    }
    for (int64_t row = 0; row < most_rows; ++row) {
      for (int64_t k = c.inputs; k < x_stride(); ++k) x_.set(row * x_stride() + k, NAN);
    }
  }

  // [rows,outputs], of the rows from `first` on.
  std::vector<float> Run(LinearForm form, int rows, int first = 0) const {
    NextOrder();
    const int64_t y_stride = case_.outputs + case_.y_extra;
    GuardedArray y(kF32, rows * y_stride);
    y.Fill(-77.0f);
    for (int64_t i = 0; case_.accumulate && i < rows; ++i) {
      for (int64_t n = 0; n < case_.outputs; ++n) {
        y.set(i * y_stride + n, residual_.at((first + i) * case_.outputs + n));
      }
    }
    const LinearArgs args{.x = static_cast<const uint16_t*>(x_.data()) + first * x_stride(),
                          .x_dtype = kB16,
                          .weight = weight_.data(),
                          .weight_dtype = kB16,
                          .bias = case_.bias ? bias_.data() : nullptr,
                          .bias_dtype = case_.bias.value_or(kF32),
                          .y = y.floats(),
                          .accumulate = case_.accumulate,
                          .rows = rows,
                          .outputs = case_.outputs,
                          .inputs = case_.inputs,
                          .x_stride = x_stride(),
                          .y_stride = y_stride};
    EXPECT_EQ(LinearFormFor(args), LinearForm::kFast);
    const Status status = RunLinear(Stream{.device = Device::kCuda}, args, form);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    std::vector<float> out;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t n = 0; n < case_.outputs; ++n) out.push_back(y.at(i * y_stride + n));
      for (int64_t n = case_.outputs; n < y_stride; ++n) EXPECT_EQ(y.at(i * y_stride + n), -77.0f);
    }
    return out;
  }

  // An element by the rules of split_tile.h.
  float Rule(int64_t row, int64_t output) const {
    float splits[4] = {};
    for (int64_t k = 0; k < case_.inputs; ++k) {
      float& sum = splits[k / 16 % 4];
      sum = std::fma(weight_.at(output * case_.inputs + k), x_.at(row * x_stride() + k), sum);
    }
    float sum = ((splits[0] + splits[1]) + splits[2]) + splits[3];
    if (case_.bias) sum += bias_.at(output);
    return case_.accumulate ? residual_.at(row * case_.outputs + output) + sum : sum;
  }

  void Poison(int64_t row) { x_.set(row * x_stride() + case_.inputs / 2, NAN); }

 private:
  static constexpr int64_t kBehind = 64;
  int64_t x_stride() const { return case_.inputs + case_.x_extra; }

  Case case_;
  GuardedArray x_;
  GuardedArray weight_;
  GuardedArray bias_;
  GuardedArray residual_;
};

double RangeOf(const std::vector<float>& values) {
  double range = 0.0;
  for (const float value : values) range = std::max(range, std::abs(static_cast<double>(value)));
  EXPECT_GT(range, 0.0);
  return range;
}

// Of what was computed from the first of what was wanted; infinite where something is not finite.
struct Difference {
  double worst = 0.0;
  int64_t count = 0;
};
Difference Between(const std::vector<float>& got, const std::vector<float>& wanted) {
  Difference difference;
  for (size_t i = 0; i < got.size(); ++i) {
    const double apart = std::isfinite(got[i]) ? std::abs(static_cast<double>(got[i]) - wanted[i])
                                               : std::numeric_limits<double>::infinity();
    difference.worst = std::max(difference.worst, apart);
    difference.count += got[i] != wanted[i] ? 1 : 0;
  }
  return difference;
}

class FastLinearTest : public testing::TestWithParam<Case> {};

TEST_P(FastLinearTest, FollowsItsRule) {
  const Projection projection(GetParam(), kMostRows);
  std::vector<float> rule;
  for (int64_t row = 0; row < kMostRows; ++row) {
    for (int64_t n = 0; n < GetParam().outputs; ++n) rule.push_back(projection.Rule(row, n));
  }
  const double range = RangeOf(rule);
  const int64_t conflicts = BankConflicts();
  for (const int rows : GetParam().row_counts) {
    const std::vector<float> got = projection.Run(LinearForm::kFast, rows);
    ASSERT_EQ(got.size(), static_cast<size_t>(rows) * static_cast<size_t>(GetParam().outputs));
    const Difference difference = Between(got, rule);
    EXPECT_LE(difference.worst, 1e-5 * range) << rows << " rows";
    if (kSameOrder) {
      EXPECT_EQ(difference.count, 0) << rows << " rows";
    }
  }
  EXPECT_EQ(BankConflicts(), conflicts);
}

TEST_P(FastLinearTest, IsNearThePlainForm) {
  const Projection projection(GetParam(), 20);
  const std::vector<float> plain = projection.Run(LinearForm::kPlain, 20);
  EXPECT_LE(Between(projection.Run(LinearForm::kFast, 20), plain).worst, 1e-5 * RangeOf(plain));
}

// A row has the same bits at every place and in every tile, on a GPU too.
TEST_P(FastLinearTest, ARowDoesNotDependOnItsBatch) {
  const Projection projection(GetParam(), kMostRows);
  const auto outputs = static_cast<ptrdiff_t>(GetParam().outputs);
  const std::vector<float> all = projection.Run(LinearForm::kFast, kMostRows);
  for (const int row : {0, 5, 40, 64, 129}) {
    const std::vector<float> wanted(all.begin() + row * outputs, all.begin() + (row + 1) * outputs);
    EXPECT_EQ(projection.Run(LinearForm::kFast, 1, row), wanted) << "row " << row;
  }
  const std::vector<float> some = projection.Run(LinearForm::kFast, 30, 50);
  EXPECT_EQ(some, std::vector<float>(all.begin() + 50 * outputs, all.begin() + 80 * outputs));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FastLinearTest,
    testing::Values(Case{"Least", 1, 8}, Case{"NoWholeTiles", 41, 72},
                    Case{"BiasInBf16", 33, 136, kB16}, Case{"BiasAndResidual", 48, 64, kF32, true},
                    Case{"Strides", 20, 40, {}, true, 8, 3},
                    // Outputs 32 and 64 to a block; the last block has fewer.
                    Case{"ManyOutputs", 4100, 24}, Case{"MostOutputs", 8193, 8},
                    // More steps than stages, for every tile.
                    Case{"LongInner", 18, 3080},
                    Case{"LongInnerOfWideBlocks", 8200, 712, {}, false, 0, 0, 0, 0, kFewRowCounts},
                    // What copies of 16 bytes cannot read.
                    Case{"OddRows", 20, 136, {}, false, 1, 0, 2},
                    Case{"OddWeights", 20, 136, {}, false, 0, 0, 0, 6},
                    Case{"OddStride", 20, 136, {}, false, 4}),
    [](const auto& info) { return info.param.name; });

TEST(FastLinear, ANanStaysInItsRow) {
  Projection projection({"", 40, 72}, 50);
  const std::vector<float> before = projection.Run(LinearForm::kFast, 50);
  projection.Poison(20);
  const std::vector<float> after = projection.Run(LinearForm::kFast, 50);
  for (size_t i = 0; i < before.size(); ++i) {
    if (i / 40 == 20) {
      EXPECT_TRUE(std::isnan(after[i])) << i;
    } else {
      EXPECT_EQ(after[i], before[i]) << i;
    }
  }
}

#ifndef JANUS_TEST_ON_GPU
TEST(FastLinear, CopiesWeightsAndRowsOnceAndNothingElse) {
  const Projection projection({"", 16, 200}, 3);
  const int64_t before = host_copies;
  projection.Run(LinearForm::kFast, 3);
  EXPECT_EQ(host_copies - before, (16 + 3) * 200 / 8);
}
#endif

TEST(FastLinear, IsForBfloat16InChunksWhateverTheRows) {
  LinearArgs a{.x_dtype = kB16, .weight_dtype = kB16, .outputs = 1536, .inputs = 7168};
  for (const int64_t rows : {1, 64, 65, 100000}) {
    a.rows = rows;
    EXPECT_EQ(LinearFormFor(a), LinearForm::kFast);
  }
  const auto with = [&](auto field, auto value) {
    LinearArgs other = a;
    other.*field = value;
    return LinearFormFor(other);
  };
  EXPECT_EQ(with(&LinearArgs::inputs, 7164), LinearForm::kPlain);
  EXPECT_EQ(with(&LinearArgs::x_dtype, kF32), LinearForm::kPlain);
  EXPECT_EQ(with(&LinearArgs::weight_dtype, DType::kFloat16), LinearForm::kPlain);
  EXPECT_EQ(with(&LinearArgs::outputs, 1535), LinearForm::kFast);
}

// A matrix for each head; rows in fp32, which are rounded.
struct HeadCase {
  const char* name;
  int outputs;
  int inputs;
  bool transposed;
  DType y = kF32;
  int heads = 3;
  int x_extra = 0;  // elements between heads
  int x_misalignment = 0;
  int weight_misalignment = 0;
  friend void PrintTo(const HeadCase& c, std::ostream* out) { *out << c.name; }
};

class HeadProjection {
 public:
  explicit HeadProjection(const HeadCase& c)
      : case_(c),
        x_(kF32, int64_t{kMostRows} * x_stride() + kBehind, c.x_misalignment),
        weight_(kB16, c.heads * matrix() + kBehind, c.weight_misalignment) {
    std::mt19937_64 random(12);
    x_.FillNormal(random);
    weight_.FillNormal(random, 1.0f / std::sqrt(static_cast<float>(c.inputs)));
    for (GuardedArray* array : {&x_, &weight_}) {
      for (int64_t i = array->count() - kBehind; i < array->count(); ++i) array->set(i, NAN);
    }
  }

  // [rows,heads,outputs], of the rows from `first` on.
  std::vector<float> Run(LinearForm form, int rows, int first = 0) const {
    NextOrder();
    const int64_t y_stride = int64_t{case_.heads} * case_.outputs;
    GuardedArray y(case_.y, rows * y_stride);
    y.Fill(NAN);
    const HeadLinearArgs args{.x = static_cast<const float*>(x_.data()) + first * x_stride(),
                              .weight = weight_.data(),
                              .weight_dtype = kB16,
                              .transposed = case_.transposed,
                              .y = y.data(),
                              .y_dtype = case_.y,
                              .rows = rows,
                              .heads = case_.heads,
                              .outputs = case_.outputs,
                              .inputs = case_.inputs,
                              .x_row_stride = x_stride(),
                              .x_head_stride = case_.inputs + case_.x_extra,
                              .y_row_stride = y_stride,
                              .y_head_stride = case_.outputs,
                              .weight_head_stride = matrix()};
    EXPECT_EQ(LinearFormFor(args), LinearForm::kFast);
    const Status status = RunHeadLinear(Stream{.device = Device::kCuda}, args, form);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    std::vector<float> out;
    for (int64_t i = 0; i < y.count(); ++i) out.push_back(y.at(i));
    return out;
  }

  std::vector<float> Rule() const {
    std::vector<float> out;
    for (int64_t row = 0; row < kMostRows; ++row) {
      for (int64_t head = 0; head < case_.heads; ++head) {
        for (int64_t n = 0; n < case_.outputs; ++n) out.push_back(Rule(row, head, n));
      }
    }
    return out;
  }

 private:
  static constexpr int64_t kBehind = 64;
  int64_t x_stride() const { return int64_t{case_.heads} * (case_.inputs + case_.x_extra); }
  int64_t matrix() const { return int64_t{case_.outputs} * case_.inputs; }

  float Rule(int64_t row, int64_t head, int64_t output) const {
    float splits[4] = {};
    for (int64_t k = 0; k < case_.inputs; ++k) {
      const float x = x_.at(row * x_stride() + head * (case_.inputs + case_.x_extra) + k);
      const int64_t at = case_.transposed ? k * case_.outputs + output : output * case_.inputs + k;
      float& sum = splits[k / 16 % 4];
      sum = std::fma(weight_.at(head * matrix() + at), FromBFloat16(ToBFloat16(x)), sum);
    }
    const float sum = ((splits[0] + splits[1]) + splits[2]) + splits[3];
    return case_.y == kF32 ? sum : FromBFloat16(ToBFloat16(sum));
  }

  HeadCase case_;
  GuardedArray x_;
  GuardedArray weight_;
};

class FastHeadLinearTest : public testing::TestWithParam<HeadCase> {};

TEST_P(FastHeadLinearTest, FollowsItsRule) {
  const HeadProjection projection(GetParam());
  const std::vector<float> rule = projection.Rule();
  const double range = RangeOf(rule);
  // Rounded results may be a unit apart where sums are added in another order.
  const double bound = (GetParam().y == kF32 ? 1e-5 : 8e-3) * range;
  const int64_t conflicts = BankConflicts();
  for (const int rows : kRowCounts) {
    const std::vector<float> got = projection.Run(LinearForm::kFast, rows);
    const Difference difference = Between(got, rule);
    EXPECT_LE(difference.worst, bound) << rows << " rows";
    if (kSameOrder) {
      EXPECT_EQ(difference.count, 0) << rows << " rows";
    }
  }
  EXPECT_EQ(BankConflicts(), conflicts);
}

// The plain form does not round rows; the fast form does, by 2^-9 of each element at most.
TEST_P(FastHeadLinearTest, IsNearThePlainForm) {
  const HeadProjection projection(GetParam());
  const std::vector<float> plain = projection.Run(LinearForm::kPlain, 20);
  EXPECT_LE(Between(projection.Run(LinearForm::kFast, 20), plain).worst, 8e-3 * RangeOf(plain));
}

TEST_P(FastHeadLinearTest, ARowDoesNotDependOnItsBatch) {
  const HeadProjection projection(GetParam());
  const auto width = static_cast<ptrdiff_t>(GetParam().heads) * GetParam().outputs;
  const std::vector<float> all = projection.Run(LinearForm::kFast, kMostRows);
  for (const int row : {0, 40, 129}) {
    const std::vector<float> wanted(all.begin() + row * width, all.begin() + (row + 1) * width);
    EXPECT_EQ(projection.Run(LinearForm::kFast, 1, row), wanted) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FastHeadLinearTest,
    testing::Values(HeadCase{"Least", 1, 8, false}, HeadCase{"LeastTransposed", 1, 8, true},
                    HeadCase{"NoWholeTiles", 70, 72, false, kB16},
                    HeadCase{"NoWholeTilesTransposed", 72, 40, true},
                    // The last chunk of outputs is no whole one.
                    HeadCase{"NoWholeChunksTransposed", 70, 72, true, kB16},
                    HeadCase{"LongInner", 24, 712, false},
                    HeadCase{"LongInnerTransposed", 24, 712, true},
                    HeadCase{"DeepSeekKey", 512, 128, true, kF32, 2, 64},
                    HeadCase{"DeepSeekValue", 128, 512, false, kB16, 2},
                    HeadCase{"OddRows", 20, 136, true, kF32, 3, 1, 4},
                    HeadCase{"OddWeights", 20, 136, false, kF32, 3, 0, 0, 6},
                    HeadCase{"OddWeightsTransposed", 24, 136, true, kF32, 3, 0, 0, 6}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::kernels::cuda
