// Operations that go over rows once: embedding, norm, rotary embedding, combine.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF16 = DType::kFloat16;

std::vector<uint8_t> BytesOf(const GuardedArray& array) {
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  return {bytes, bytes + array.data_bytes()};
}

// Copies the selected rows of `all`, one after the other.
GuardedArray Select(const GuardedArray& all, int64_t row, std::span<const int> selection) {
  GuardedArray some(all.type(), row * static_cast<int64_t>(selection.size()));
  for (size_t i = 0; i < selection.size(); ++i) {
    for (int64_t j = 0; j < row; ++j) {
      some.set(static_cast<int64_t>(i) * row + j, all.at(selection[i] * row + j));
    }
  }
  return some;
}

class EmbedProblem final : public RowProblem {
 public:
  EmbedProblem(DType type, int hidden) : hidden_(hidden), table_(type, int64_t{50} * hidden, 2) {
    std::mt19937_64 random(1);
    table_.FillNormal(random);
  }
  int rows() const override { return 33; }
  int row_elements() const override { return hidden_; }
  DType output() const override { return kF32; }
  double tolerance() const override { return 0.0; }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    std::vector<int32_t> tokens;
    for (const int row : selection) tokens.push_back(row * 7 % 50);
    GuardedArray y(kF32, static_cast<int64_t>(selection.size()) * hidden_);
    const Status status = Embed(stream, {.tokens = tokens.data(),
                                         .table = table_.data(),
                                         .table_dtype = table_.type(),
                                         .y = y.floats(),
                                         .rows = static_cast<int64_t>(selection.size()),
                                         .vocab = 50,
                                         .hidden = hidden_});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    return BytesOf(y);
  }

 private:
  int hidden_;
  GuardedArray table_;
};

TEST(Embed, EqualsTheReferenceExactly) {
  for (const DType type : {kF32, kB16, kF16}) {
    for (const int hidden : {1, 16, 37, 300}) {
      ExpectParity(EmbedProblem(type, hidden));
      ExpectBatchInvariance(EmbedProblem(type, hidden));
    }
  }
}

TEST(Embed, RefusesATokenOutsideTheVocabulary) {
  float v[8] = {};
  for (const int32_t token : {-1, 2}) {
    const int32_t tokens[2] = {1, token};
    const Status status = Embed(
        Stream{}, {.tokens = tokens, .table = v, .y = v + 4, .rows = 2, .vocab = 2, .hidden = 2});
    EXPECT_EQ(status.message(),
              "Embed: token " + std::to_string(token) + " of row 1 is outside the vocabulary of 2");
  }
}

class RmsNormProblem final : public RowProblem {
 public:
  RmsNormProblem(int rows, int hidden, DType weight, DType out, int groups = 1)
      : rows_(rows),
        hidden_(hidden),
        groups_(groups),
        out_(out),
        x_(kF32, int64_t{rows} * groups * hidden),
        weight_(weight, hidden, 2) {
    std::mt19937_64 random(2);
    x_.FillNormal(random, 3.0f);
    weight_.FillNormal(random);
  }
  int rows() const override { return rows_; }
  int row_elements() const override { return groups_ * hidden_; }
  DType output() const override { return out_; }
  double tolerance() const override { return out_ == kF32 ? 1e-6 : 4e-3; }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    GuardedArray x = Select(x_, row_elements(), selection);
    GuardedArray y(out_, x.count());
    const RmsNormArgs args{.x = x.floats(),
                           .weight = weight_.data(),
                           .weight_dtype = weight_.type(),
                           .y = y.data(),
                           .y_dtype = out_,
                           .rows = static_cast<int64_t>(selection.size()),
                           .groups = groups_,
                           .hidden = hidden_,
                           .epsilon = 1e-5f};
    EXPECT_TRUE(RmsNorm(stream, args).ok());
    EXPECT_TRUE(y.GuardsAreIntact());
    if (out_ == kF32) {
      RmsNormArgs in_place = args;
      in_place.y = x.data();
      EXPECT_TRUE(RmsNorm(stream, in_place).ok());
      EXPECT_EQ(BytesOf(x), BytesOf(y)) << "in place";
    }
    return BytesOf(y);
  }

 private:
  int rows_;
  int hidden_;
  int groups_;
  DType out_;
  GuardedArray x_;
  GuardedArray weight_;
};

TEST(RmsNorm, EqualsTheReferenceAndRowsDoNotDependOnTheirBatch) {
  for (const auto& [rows, hidden, weight, out] :
       {std::tuple{1, 1, kF32, kF32}, std::tuple{5, 64, kF32, kF32}, std::tuple{9, 71, kB16, kB16},
        std::tuple{17, 130, kF16, kF32}, std::tuple{33, 2048, kB16, kB16}}) {
    ExpectParity(RmsNormProblem(rows, hidden, weight, out));
    ExpectBatchInvariance(RmsNormProblem(rows, hidden, weight, out));
    ExpectSameBitsOnEveryIsa(RmsNormProblem(rows, hidden, weight, out));
  }
}

TEST(RmsNorm, NormsThePiecesOfARowByThemselves) {
  ExpectParity(RmsNormProblem(7, 20, kB16, kF32, 5));
  ExpectBatchInvariance(RmsNormProblem(7, 20, kB16, kF32, 5));
}

// Changes a part of each row in place, as for latent vectors. The rest stays.
TEST(RmsNorm, LeavesWhatLiesBesideThePieces) {
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 2);
    for (const Stream& stream : {Stream{}, cpu.stream}) {
      GuardedArray x(kF32, 3 * 10);
      x.Fill(2.0f);
      GuardedArray weight(kF32, 7);
      weight.Fill(3.0f);
      ASSERT_TRUE(RmsNorm(stream, {.x = x.floats(),
                                   .weight = weight.data(),
                                   .y = x.data(),
                                   .rows = 3,
                                   .hidden = 7,
                                   .x_stride = 10,
                                   .y_stride = 10,
                                   .epsilon = 0.0f})
                      .ok());
      for (int64_t i = 0; i < x.count(); ++i) EXPECT_EQ(x.at(i), i % 10 < 7 ? 3.0f : 2.0f) << i;
    }
  }
}

TEST(RmsNorm, RefusesFloat16RowsAndANanEpsilon) {
  float v[4] = {};
  RmsNormArgs args{.x = v, .weight = v, .y = v, .y_dtype = kF16, .rows = 1, .hidden = 4};
  EXPECT_EQ(RmsNorm(Stream{}, args).message(), "RmsNorm: y_dtype is Float16");
  args.y_dtype = kF32;
  args.epsilon = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(RmsNorm(Stream{}, args).message(), "RmsNorm: epsilon is negative or NaN");
}

// Rows of 1.5 times as many elements, of which the first are computed.
class PointwiseProblem final : public RowProblem {
 public:
  PointwiseProblem(PointFunction function, int columns)
      : function_(function), columns_(columns), x_(kF32, int64_t{kRows} * Stride()) {
    std::mt19937_64 random(4);
    x_.FillNormal(random, 4.0f);
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return Stride(); }
  DType output() const override { return kF32; }
  double tolerance() const override { return function_ == PointFunction::kClip ? 0.0 : 1e-6; }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    GuardedArray x = Select(x_, Stride(), selection);
    EXPECT_TRUE(Pointwise(stream, {.x = x.floats(),
                                   .function = function_,
                                   .limit = 2.5f,
                                   .rows = static_cast<int64_t>(selection.size()),
                                   .columns = columns_,
                                   .row_stride = Stride()})
                    .ok());
    EXPECT_TRUE(x.GuardsAreIntact());
    for (size_t i = 0; i < selection.size(); ++i) {
      for (int n = columns_; n < Stride(); ++n) {
        EXPECT_EQ(x.at(static_cast<int64_t>(i) * Stride() + n), x_.at(selection[i] * Stride() + n));
      }
    }
    return BytesOf(x);
  }

 private:
  static constexpr int kRows = 23;
  int Stride() const { return columns_ + (columns_ + 1) / 2; }
  PointFunction function_;
  int columns_;
  GuardedArray x_;
};

TEST(Pointwise, EqualsTheReferenceAndRowsDoNotDependOnTheirBatch) {
  for (const PointFunction function : {PointFunction::kSigmoid, PointFunction::kClip}) {
    for (const int columns : {1, 16, 37, 600}) {
      ExpectParity(PointwiseProblem(function, columns));
      ExpectBatchInvariance(PointwiseProblem(function, columns));
      ExpectSameBitsOnEveryIsa(PointwiseProblem(function, columns));
    }
  }
}

TEST(Pointwise, KeepsNanAndHasTheLimitsOfItsFunctions) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 1);
    for (const Stream& stream : {Stream{}, cpu.stream}) {
      for (const PointFunction function : {PointFunction::kSigmoid, PointFunction::kClip}) {
        std::vector<float> x = {NAN, -kInfinity, kInfinity, -200.0f, 200.0f, 0.0f};
        ASSERT_TRUE(
            Pointwise(stream,
                      {.x = x.data(), .function = function, .limit = 3.0f, .rows = 1, .columns = 6})
                .ok());
        const bool clips = function == PointFunction::kClip;
        EXPECT_TRUE(std::isnan(x[0]));
        for (const size_t i : {1, 3}) EXPECT_EQ(x[i], clips ? -3.0f : 0.0f);
        for (const size_t i : {2, 4}) EXPECT_EQ(x[i], clips ? 3.0f : 1.0f);
        EXPECT_EQ(x[5], clips ? 0.0f : 0.5f);
      }
    }
  }
}

TEST(Pointwise, RefusesALimitThatIsNotAboveZeroAndRowsThatOverlap) {
  float x[4] = {};
  const PointwiseArgs args{
      .x = x, .function = PointFunction::kClip, .limit = 0.0f, .rows = 2, .columns = 2};
  EXPECT_EQ(Pointwise(Stream{}, args).message(), "Pointwise: limit is not above 0");
  const PointwiseArgs overlapping{.x = x, .rows = 2, .columns = 2, .row_stride = 1};
  EXPECT_EQ(Pointwise(Stream{}, overlapping).message(),
            "Pointwise: row_stride is shorter than a row");
}

// Rows of 1.5 times as many elements, of which the first are computed.
class ScaleByPositionProblem final : public RowProblem {
 public:
  explicit ScaleByPositionProblem(int columns)
      : columns_(columns), x_(kF32, int64_t{kRows} * Stride()) {
    std::mt19937_64 random(4);
    x_.FillNormal(random, 4.0f);
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return Stride(); }
  DType output() const override { return kF32; }
  double tolerance() const override { return 0.0; }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    GuardedArray x = Select(x_, Stride(), selection);
    // On the heap, which every device reads. The last rows are beyond the last factor.
    const std::vector<float> factors = {1.0f, 1.375f, 0.7f, 3.1f};
    std::vector<int32_t> positions;
    for (const int row : selection) positions.push_back(row);
    EXPECT_TRUE(ScaleByPosition(stream, {.x = x.floats(),
                                         .positions = positions.data(),
                                         .factors = factors.data(),
                                         .num_factors = std::ssize(factors),
                                         .step = 5,
                                         .rows = static_cast<int64_t>(selection.size()),
                                         .columns = columns_,
                                         .row_stride = Stride()})
                    .ok());
    EXPECT_TRUE(x.GuardsAreIntact());
    for (size_t i = 0; i < selection.size(); ++i) {
      const size_t step = static_cast<size_t>(selection[i] + 1) / 5;
      const float factor = factors[std::min(step, factors.size() - 1)];
      for (int n = 0; n < Stride(); ++n) {
        const float from = x_.at(selection[i] * Stride() + n);
        EXPECT_EQ(x.at(static_cast<int64_t>(i) * Stride() + n),
                  n < columns_ ? from * factor : from);
      }
    }
    return BytesOf(x);
  }

 private:
  static constexpr int kRows = 23;
  int Stride() const { return columns_ + (columns_ + 1) / 2; }
  int columns_;
  GuardedArray x_;
};

TEST(ScaleByPosition, EqualsTheReferenceAndRowsDoNotDependOnTheirBatch) {
  for (const int columns : {1, 16, 37, 600}) {
    ExpectParity(ScaleByPositionProblem(columns));
    ExpectBatchInvariance(ScaleByPositionProblem(columns));
    ExpectSameBitsOnEveryIsa(ScaleByPositionProblem(columns));
  }
}

TEST(ScaleByPosition, RefusesNoStepNoFactorsAndRowsThatOverlap) {
  float x[4] = {};
  const int32_t positions[2] = {};
  ScaleByPositionArgs args{.x = x,
                           .positions = positions,
                           .factors = x,
                           .num_factors = 1,
                           .step = 1,
                           .rows = 2,
                           .columns = 2};
  EXPECT_EQ(ScaleByPosition(Stream{}, args).message(), "");
  args.step = 0;
  EXPECT_NE(ScaleByPosition(Stream{}, args).message().find("step"), std::string::npos);
  args.step = 1;
  args.num_factors = 0;
  EXPECT_NE(ScaleByPosition(Stream{}, args).message().find("num_factors"), std::string::npos);
  args.num_factors = 1;
  args.row_stride = 1;
  EXPECT_EQ(ScaleByPosition(Stream{}, args).message(),
            "ScaleByPosition: row_stride is shorter than a row");
}

class RopeProblem final : public RowProblem {
 public:
  RopeProblem(int heads, int head_dim, int rotary_dim, int position_step,
              RopePairing pairing = RopePairing::kHalves)
      : heads_(heads),
        head_dim_(head_dim),
        rotary_dim_(rotary_dim),
        step_(position_step),
        pairing_(pairing),
        x_(kF32, int64_t{kRows} * heads * head_dim) {
    std::mt19937_64 random(3);
    x_.FillNormal(random);
    for (int i = 0; i < rotary_dim / 2; ++i) {
      inv_freq_.push_back(
          std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotary_dim)));
    }
    inv_freq_.push_back(0.0f);
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return heads_ * head_dim_; }
  DType output() const override { return kF32; }
  double tolerance() const override { return 5e-7; }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const int64_t row = row_elements();
    GuardedArray x = Select(x_, row, selection);
    std::vector<int32_t> positions;
    for (const int t : selection) positions.push_back(t * step_);
    EXPECT_TRUE(Rope(stream, {.x = x.floats(),
                              .positions = positions.data(),
                              .inv_freq = inv_freq_.data(),
                              .attention_factor = 0.9f,
                              .rows = static_cast<int64_t>(selection.size()),
                              .heads = heads_,
                              .head_dim = head_dim_,
                              .rotary_dim = rotary_dim_,
                              .pairing = pairing_})
                    .ok());
    EXPECT_TRUE(x.GuardsAreIntact());
    return BytesOf(x);
  }

 private:
  static constexpr int kRows = 21;
  int heads_;
  int head_dim_;
  int rotary_dim_;
  int step_;
  RopePairing pairing_;
  GuardedArray x_;
  std::vector<float> inv_freq_;
};

TEST(Rope, EqualsTheReferenceAndRowsDoNotDependOnTheirBatch) {
  for (const auto& [heads, head_dim, rotary, step] :
       {std::tuple{1, 2, 2, 1}, std::tuple{3, 16, 16, 7}, std::tuple{6, 128, 128, 1000},
        std::tuple{2, 40, 24, 3}, std::tuple{2, 20, 20, 50000}}) {
    for (const RopePairing pairing : {RopePairing::kHalves, RopePairing::kInterleaved}) {
      ExpectParity(RopeProblem(heads, head_dim, rotary, step, pairing));
      ExpectBatchInvariance(RopeProblem(heads, head_dim, rotary, step, pairing));
      ExpectSameBitsOnEveryIsa(RopeProblem(heads, head_dim, rotary, step, pairing));
    }
  }
}

TEST(Rope, RefusesOddRotationsAndNegativePositions) {
  float v[8] = {};
  int32_t position = 0;
  RopeArgs args{.x = v,
                .positions = &position,
                .inv_freq = v,
                .rows = 1,
                .heads = 1,
                .head_dim = 4,
                .rotary_dim = 3};
  EXPECT_EQ(Rope(Stream{}, args).message(), "Rope: rotary_dim is odd");
  args.rotary_dim = 2;
  position = -5;
  EXPECT_EQ(Rope(Stream{}, args).message(), "Rope: position -5 of row 0 is negative");
}

class CombineProblem final : public RowProblem {
 public:
  CombineProblem(DType type, int hidden, int top_k, bool local = false)
      : hidden_(hidden),
        top_k_(top_k),
        local_(local),
        slots_(type, int64_t{kRows} * top_k * hidden, 2),
        residual_(kF32, int64_t{kRows} * hidden),
        beside_(kF32, int64_t{kRows} * hidden) {
    std::mt19937_64 random(4);
    beside_.FillNormal(random);
    slots_.FillNormal(random);
    residual_.FillNormal(random);
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return hidden_; }
  DType output() const override { return kF32; }
  double tolerance() const override { return 0.0; }  // the order of the sum is the specification
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    std::vector<const void*> contributions;
    for (const int t : selection) {
      for (int j = 0; j < top_k_; ++j) {
        contributions.push_back(static_cast<const char*>(slots_.data()) +
                                (t * top_k_ + j) * hidden_ * SizeOf(slots_.type()));
      }
    }
    GuardedArray y = Select(residual_, hidden_, selection);
    GuardedArray beside = Select(beside_, hidden_, selection);
    EXPECT_TRUE(CombineSlots(stream, {.contributions = contributions.data(),
                                      .dtype = slots_.type(),
                                      .local = local_ ? beside.floats() : nullptr,
                                      .residual = y.floats(),
                                      .y = y.floats(),
                                      .rows = static_cast<int64_t>(selection.size()),
                                      .hidden = hidden_,
                                      .top_k = top_k_})
                    .ok());
    EXPECT_TRUE(y.GuardsAreIntact());
    return BytesOf(y);
  }

 private:
  static constexpr int kRows = 19;
  int hidden_;
  int top_k_;
  bool local_;
  GuardedArray slots_;
  GuardedArray residual_;
  GuardedArray beside_;
};

TEST(CombineSlots, GivesTheReferencesBitsOnEveryIsa) {
  for (const DType type : {kF32, kB16}) {
    for (const auto& [hidden, top_k] : {std::pair{1, 1}, std::pair{64, 2}, std::pair{1037, 8}}) {
      ExpectParity(CombineProblem(type, hidden, top_k));
      ExpectBatchInvariance(CombineProblem(type, hidden, top_k));
      ExpectParity(CombineProblem(type, hidden, top_k, true));
      ExpectParity(CombineProblem(type, hidden, 0, true));
    }
  }
}

TEST(CombineSlots, AddsSlotsInOrderBeforeTheResidual) {
  // (1e8 + -1e8) + 1 = 1, then + 1e8; any other order loses the 1.
  const std::vector<float> slots = {1e8f, -1e8f, 1.0f};
  const std::vector<const void*> contributions = {&slots[0], &slots[1], &slots[2]};
  const std::vector<float> residual = {0.5f};
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 1);
    for (const Stream& stream : {Stream{}, cpu.stream}) {
      std::vector<float> y(1);
      ASSERT_TRUE(CombineSlots(stream, {.contributions = contributions.data(),
                                        .residual = residual.data(),
                                        .y = y.data(),
                                        .rows = 1,
                                        .hidden = 1,
                                        .top_k = 3})
                      .ok());
      EXPECT_EQ(y[0], 1.5f);
    }
  }
}

}  // namespace
}  // namespace janus::kernels
