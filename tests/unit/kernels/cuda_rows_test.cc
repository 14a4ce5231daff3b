// The fast forms of operations over rows: norm and rotary embedding against their own rules as
// scalar loops, embedding and combine against their plain forms, latent vectors against the
// reference, bit for bit, on a GPU too; and how often they move words together.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/norm_fast.h"
#include "kernels/cuda/pack_fp8.h"
#include "kernels/cuda/permute_rows.h"
#include "kernels/cuda/rope_fast.h"
#include "kernels/cuda/row_forms.h"
#include "kernels/cuda/rows_fast.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/guarded_array.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF16 = DType::kFloat16;

const Stream kCuda{.device = Device::kCuda};

using Bits = std::vector<uint32_t>;

// Of every element, whatever its format; a gap's too.
Bits BitsOf(const GuardedArray& array) {
  Bits bits;
  for (int64_t i = 0; i < array.count(); ++i) bits.push_back(std::bit_cast<uint32_t>(array.at(i)));
  return bits;
}

void FillGap(GuardedArray& array, int64_t row, int64_t width) {
  for (int64_t i = 0; i < array.count(); ++i) {
    if (i % row >= width) array.set(i, NAN);
  }
}

// ---- RMSNorm

struct NormCase {
  int hidden;
  int rows = 2;
  int groups = 1;
  DType weight = kF32;
  DType y = kF32;
  int x_extra = 0;
  int y_extra = 0;
  int misalignment = 0;  // in bytes, of those that `operands` names
  int operands = kX | kY | kWeight;
  static constexpr int kX = 1;
  static constexpr int kY = 2;
  static constexpr int kWeight = 4;
  int MisalignmentOf(int operand) const { return (operands & operand) != 0 ? misalignment : 0; }
};

class Norm {
 public:
  explicit Norm(const NormCase& c)
      : case_(c),
        x_(kF32, c.rows * x_stride(), c.MisalignmentOf(NormCase::kX)),
        weight_(c.weight, c.hidden, c.MisalignmentOf(NormCase::kWeight)) {
    std::mt19937_64 random(1);
    x_.FillNormal(random, 3.0f);
    weight_.FillNormal(random);
    FillGap(x_, x_stride(), Width());
  }

  Bits Run(RowForm form, bool in_place = false) {
    NextOrder();
    GuardedArray y(case_.y, case_.rows * y_stride(), case_.MisalignmentOf(NormCase::kY));
    y.Fill(-7.0f);
    if (in_place) {
      for (int64_t i = 0; i < x_.count(); ++i) y.set(i, x_.at(i));
    }
    const RmsNormArgs args{.x = in_place ? y.floats() : x_.floats(),
                           .weight = weight_.data(),
                           .weight_dtype = case_.weight,
                           .y = y.data(),
                           .y_dtype = case_.y,
                           .rows = case_.rows,
                           .groups = case_.groups,
                           .hidden = case_.hidden,
                           .x_stride = x_stride(),
                           .y_stride = y_stride(),
                           .epsilon = 1e-5f};
    const Status status = RunRmsNorm(kCuda, args, form);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    return BitsOf(y);
  }

  // The rules of norm_fast.h.
  Bits Rule() const {
    GuardedArray y(case_.y, case_.rows * y_stride());
    y.Fill(-7.0f);
    for (int64_t t = 0; t < case_.rows; ++t) {
      for (int64_t g = 0; g < case_.groups; ++g) {
        const int64_t x = t * x_stride() + g * case_.hidden;
        const float sum = SumOfSquares(x);
        const float scale = 1.0f / std::sqrt(sum / static_cast<float>(case_.hidden) + 1e-5f);
        for (int64_t h = 0; h < case_.hidden; ++h) {
          y.set(t * y_stride() + g * case_.hidden + h, x_.at(x + h) * scale * weight_.at(h));
        }
      }
    }
    return BitsOf(y);
  }

 private:
  int64_t Width() const { return int64_t{case_.groups} * case_.hidden; }
  int64_t x_stride() const { return Width() + case_.x_extra; }
  int64_t y_stride() const { return Width() + case_.y_extra; }

  float SumOfSquares(int64_t x) const {
    const int lanes = case_.hidden <= 64 ? 16 : case_.hidden <= 1024 ? 32 : 256;
    std::vector<float> sums(static_cast<size_t>(lanes));
    for (int64_t h = 0; h < case_.hidden; ++h) {
      float& sum = sums[static_cast<size_t>(h / 4 % lanes)];
      sum = std::fma(x_.at(x + h), x_.at(x + h), sum);
    }
    float all = 0.0f;
    for (int first = 0; first < lanes; first += 32) {
      for (int m = std::min(lanes, 32) / 2; m > 0; m /= 2) {
        for (int l = 0; l < m; ++l) {
          sums[static_cast<size_t>(first + l)] += sums[static_cast<size_t>(first + l + m)];
        }
      }
      all = first == 0 ? sums[0] : all + sums[static_cast<size_t>(first)];
    }
    return all;
  }

  NormCase case_;
  GuardedArray x_;
  GuardedArray weight_;
};

void ExpectNormFollowsItsRule(const NormCase& c) {
  Norm norm(c);
  EXPECT_EQ(norm.Run(RowForm::kFast), norm.Rule())
      << c.rows << " rows of " << c.groups << " pieces of " << c.hidden << ", misaligned by "
      << c.misalignment;
}

// Every length at which a lane, a warp, a turn or a form ends.
TEST(FastNorm, FollowsItsRule) {
  for (const int hidden :
       {1,   3,    4,    5,    63,   64,   65,   128,  129,  132,  255,  256,  257,  511,  512,
        513, 1023, 1024, 1025, 1027, 2048, 4100, 7168, 8191, 8192, 8193, 8196, 9219, 12288}) {
    ExpectNormFollowsItsRule({hidden});
    ExpectNormFollowsItsRule({.hidden = hidden, .weight = kB16, .y = kB16});
    ExpectNormFollowsItsRule({.hidden = hidden, .weight = kF16, .misalignment = 4});
  }
}

// More and fewer pieces than a warp and a block have.
TEST(FastNorm, FollowsItsRuleForEveryNumberOfPieces) {
  for (const int hidden : {20, 64, 100, 128, 192, 256, 500, 576, 1024, 1100}) {
    for (const auto& [rows, groups] :
         {std::pair{1, 1}, std::pair{1, 3}, std::pair{3, 5}, std::pair{8, 8}, std::pair{13, 5}}) {
      ExpectNormFollowsItsRule({.hidden = hidden, .rows = rows, .groups = groups, .y = kB16});
    }
  }
}

TEST(FastNorm, FollowsItsRuleWhereverRowsLie) {
  for (const int hidden : {64, 65, 128, 512, 576, 1536, 7168}) {
    for (const DType y : {kF32, kB16}) {
      for (const int misalignment : {2, 4, 8}) {
        ExpectNormFollowsItsRule(
            {.hidden = hidden, .weight = kB16, .y = y, .misalignment = misalignment});
      }
      for (const int operand : {NormCase::kX, NormCase::kY, NormCase::kWeight}) {
        ExpectNormFollowsItsRule({hidden, 3, 2, kB16, y, 0, 0, 4, operand});
      }
      ExpectNormFollowsItsRule({hidden, 3, 2, kF32, y, 0, 3});
      ExpectNormFollowsItsRule({hidden, 3, 2, kF32, y, 1, 3});
      ExpectNormFollowsItsRule({hidden, 3, 1, kB16, y, 64, 4});
    }
  }
}

TEST(FastNorm, MayReplaceItsRows) {
  for (const int hidden : {64, 129, 1024, 7168, 9219}) {
    Norm norm({.hidden = hidden, .rows = 3, .groups = 2});
    EXPECT_EQ(norm.Run(RowForm::kFast, true), norm.Run(RowForm::kFast)) << hidden;
  }
}

TEST(FastNorm, IsNearThePlainForm) {
  for (const int hidden : {1, 64, 128, 512, 1000, 7168, 12288}) {
    Norm norm({.hidden = hidden, .rows = 3});
    const Bits fast = norm.Run(RowForm::kFast);
    const Bits plain = norm.Run(RowForm::kPlain);
    for (size_t i = 0; i < fast.size(); ++i) {
      const auto wanted = std::bit_cast<float>(plain[i]);
      EXPECT_NEAR(std::bit_cast<float>(fast[i]), wanted, 1e-6f * std::abs(wanted)) << hidden;
    }
  }
}

// ---- Rotary embedding

// pi/2 in three parts, by long double, to check the kernel's double.
TEST(FastRope, CosineAndSineAreWithinTheRoundingOfFloats) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 200000; ++i) {
    const double exponent = static_cast<double>(random() % 4200) / 100.0 - 11.0;
    auto angle = static_cast<float>(std::exp2(exponent) * (1.0 + static_cast<double>(i % 64) / 64));
    if (i % 9 == 0) angle = static_cast<float>(std::round(angle / M_PI_2) * M_PI_2);
    if (i % 2 == 0) angle = -angle;
    if (!(std::abs(angle) < 0x1p31f)) continue;
    double c = 0.0;
    double s = 0.0;
    CosSin(angle, &c, &s);
    ASSERT_NEAR(c, static_cast<double>(std::cos(static_cast<long double>(angle))), 1e-13) << angle;
    ASSERT_NEAR(s, static_cast<double>(std::sin(static_cast<long double>(angle))), 1e-13) << angle;
  }
}

TEST(FastRope, MakesNanOfAnglesBeyondItsOwn) {
  for (const float angle : {0x1p31f, -0x1p31f, std::numeric_limits<float>::infinity(), NAN}) {
    double c = 0.0;
    double s = 0.0;
    CosSin(angle, &c, &s);
    EXPECT_TRUE(std::isnan(c) && std::isnan(s)) << angle;
  }
}

struct RopeCase {
  int rows;
  int heads;
  int head_dim;
  int rotary;
  RopePairing pairing;
  int extra = 0;         // between rows
  int misalignment = 0;  // bytes
};

class Rotation {
 public:
  explicit Rotation(const RopeCase& c) : case_(c), x_(kF32, c.rows * stride(), c.misalignment) {
    std::mt19937_64 random(7);
    x_.FillNormal(random);
    FillGap(x_, stride(), int64_t{c.heads} * c.head_dim);
    for (int i = 0; i < c.rotary / 2; ++i) {
      inv_freq_.push_back(
          std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(c.rotary)));
    }
    inv_freq_.push_back(NAN);
    for (int t = 0; t < c.rows; ++t) {
      positions_.push_back(static_cast<int32_t>(random() % (t % 3 == 0 ? 100 : 200000)));
    }
  }

  Bits Run(RowForm form) {
    NextOrder();
    GuardedArray x(kF32, x_.count(), case_.misalignment);
    for (int64_t i = 0; i < x_.count(); ++i) x.set(i, x_.at(i));
    const Status status = RunRope(kCuda,
                                  {.x = x.floats(),
                                   .positions = positions_.data(),
                                   .inv_freq = inv_freq_.data(),
                                   .attention_factor = kFactor,
                                   .rows = case_.rows,
                                   .heads = case_.heads,
                                   .head_dim = case_.head_dim,
                                   .rotary_dim = case_.rotary,
                                   .pairing = case_.pairing,
                                   .row_stride = stride()},
                                  form);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(x.GuardsAreIntact());
    return BitsOf(x);
  }

  // The rules of rope_fast.h.
  Bits Rule() const {
    GuardedArray x(kF32, x_.count());
    for (int64_t i = 0; i < x_.count(); ++i) x.set(i, x_.at(i));
    const int half = case_.rotary / 2;
    for (int64_t t = 0; t < case_.rows; ++t) {
      for (int i = 0; i < half; ++i) {
        const auto at = static_cast<size_t>(i);
        const float angle = static_cast<float>(positions_[static_cast<size_t>(t)]) * inv_freq_[at];
        double cosine = 0.0;
        double sine = 0.0;
        CosSin(angle, &cosine, &sine);
        const auto c = static_cast<float>(cosine * kFactor);
        const auto s = static_cast<float>(sine * kFactor);
        const bool neighbours = case_.pairing == RopePairing::kInterleaved;
        for (int64_t h = 0; h < case_.heads; ++h) {
          const int64_t head = t * stride() + h * case_.head_dim;
          const int64_t first = head + (neighbours ? 2 * i : i);
          const int64_t second = head + (neighbours ? 2 * i + 1 : i + half);
          const float u = x.at(first);
          const float v = x.at(second);
          x.set(first, std::fma(u, c, -(v * s)));
          x.set(second, std::fma(v, c, u * s));
        }
      }
    }
    return BitsOf(x);
  }

 private:
  static constexpr float kFactor = 0.9f;
  int64_t stride() const { return int64_t{case_.heads} * case_.head_dim + case_.extra; }

  RopeCase case_;
  GuardedArray x_;
  std::vector<float> inv_freq_;
  std::vector<int32_t> positions_;
};

// One row and several in a block, one block and several for a row, units that are no vectors.
TEST(FastRope, FollowsItsRule) {
  for (const RopePairing pairing : {RopePairing::kHalves, RopePairing::kInterleaved}) {
    for (const RopeCase& c :
         {RopeCase{1, 1, 2, 2, pairing}, RopeCase{5, 1, 64, 64, pairing},
          RopeCase{37, 1, 64, 64, pairing}, RopeCase{9, 2, 16, 16, pairing},
          RopeCase{3, 68, 128, 128, pairing}, RopeCase{2, 128, 192, 64, pairing},
          RopeCase{7, 8, 128, 128, pairing}, RopeCase{4, 3, 40, 24, pairing},
          RopeCase{4, 3, 42, 22, pairing}, RopeCase{4, 5, 31, 30, pairing},
          RopeCase{3, 2, 300, 300, pairing}, RopeCase{6, 4, 64, 64, pairing, 4},
          RopeCase{6, 4, 64, 64, pairing, 3}, RopeCase{6, 4, 64, 64, pairing, 0, 4},
          RopeCase{6, 4, 64, 64, pairing, 2, 8}, RopeCase{2, 3, 12300, 12288, pairing}}) {
      Rotation rotation(c);
      EXPECT_EQ(rotation.Run(RowForm::kFast), rotation.Rule())
          << c.rows << " rows, " << c.heads << " heads of " << c.head_dim << ", rotary " << c.rotary
          << ", pairing " << static_cast<int>(pairing) << ", misaligned by " << c.misalignment;
    }
  }
}

// The plain form takes cosines from a library; they may round to another float.
TEST(FastRope, IsNearThePlainForm) {
  for (const RopePairing pairing : {RopePairing::kHalves, RopePairing::kInterleaved}) {
    Rotation rotation({20, 6, 128, 128, pairing});
    const Bits fast = rotation.Run(RowForm::kFast);
    const Bits plain = rotation.Run(RowForm::kPlain);
    for (size_t i = 0; i < fast.size(); ++i) {
      ASSERT_NEAR(std::bit_cast<float>(fast[i]), std::bit_cast<float>(plain[i]), 1e-6f);
    }
  }
}

TEST(FastRope, LeavesWhatFindsNoRoomToThePlainForm) {
  const RopeArgs args{
      .rows = 1, .heads = 1, .head_dim = kMostFastRotary + 2, .rotary_dim = kMostFastRotary};
  EXPECT_TRUE(HasFastRope(args));
  EXPECT_TRUE(CanLaunch(PlanFastRope(args)));
  Rotation rotation({1, 1, kMostFastRotary + 2, kMostFastRotary + 2, RopePairing::kHalves});
  EXPECT_EQ(rotation.Run(RowForm::kFast), rotation.Run(RowForm::kPlain));
}

TEST(FastRope, HasNothingToDoWithoutRotation) {
  Rotation rotation({3, 2, 8, 0, RopePairing::kHalves});
  EXPECT_EQ(rotation.Run(RowForm::kFast), rotation.Rule());
}

// ---- Embedding

struct EmbedCase {
  DType table;
  int hidden;
  int table_misalignment = 0;
  int y_misalignment = 0;
};

void ExpectEmbedIsThePlainForm(const EmbedCase& c) {
  GuardedArray table(c.table, int64_t{20} * c.hidden, c.table_misalignment);
  std::mt19937_64 random(8);
  table.FillNormal(random);
  const std::vector<int32_t> tokens = {19, 0, -1, 7, 20, 7, 3};
  const auto run = [&](RowForm form) {
    NextOrder();
    GuardedArray y(kF32, static_cast<int64_t>(tokens.size()) * c.hidden, c.y_misalignment);
    const EmbedArgs args{.tokens = tokens.data(),
                         .table = table.data(),
                         .table_dtype = c.table,
                         .y = y.floats(),
                         .rows = static_cast<int64_t>(tokens.size()),
                         .vocab = 20,
                         .hidden = c.hidden};
    EXPECT_TRUE(RunEmbed(kCuda, args, form).ok());
    EXPECT_TRUE(y.GuardsAreIntact());
    return BitsOf(y);
  };
  EXPECT_EQ(run(RowForm::kFast), run(RowForm::kPlain)) << c.hidden;
}

TEST(FastEmbed, GivesThePlainFormsBits) {
  for (const DType table : {kF32, kB16, kF16}) {
    for (const int hidden : {1, 4, 127, 128, 130, 512, 513, 516, 1100}) {
      ExpectEmbedIsThePlainForm({table, hidden});
      ExpectEmbedIsThePlainForm({table, hidden, 2, 0});
      ExpectEmbedIsThePlainForm({table, hidden, 8, 4});
    }
  }
}

TEST(FastEmbed, TakesEveryHalf) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    ASSERT_EQ(std::bit_cast<uint32_t>(FloatOfHalf(bits)),
              std::bit_cast<uint32_t>(FromFloat16(static_cast<uint16_t>(bits))))
        << bits;
  }
}

// ---- Combine

struct CombineCase {
  DType type;
  int hidden;
  int top_k;
  bool has_local = false;
  int slot_misalignment = 0;  // of one of a row's slots
  int misalignment = 0;       // of those that `operands` names, bit by bit: local, residual, y
  int operands = 7;
};

void ExpectCombineIsThePlainForm(const CombineCase& c) {
  constexpr int kRows = 3;
  std::mt19937_64 random(9);
  const auto draw = [&](DType type, int64_t count, int misalignment) {
    GuardedArray array(type, count, misalignment);
    array.FillNormal(random);
    // A sum of zeros keeps their sign.
    for (int64_t i = 0; i < count; i += 3) array.set(i, -0.0f);
    return array;
  };
  const int slots = kRows * c.top_k;
  std::vector<GuardedArray> contributions;
  std::vector<const void*> pointers;
  for (int i = 0; i < slots; ++i) {
    contributions.push_back(draw(c.type, c.hidden, i % 4 == 1 ? c.slot_misalignment : 0));
    pointers.push_back(contributions.back().data());
  }
  const auto of = [&](int operand) { return (c.operands & operand) != 0 ? c.misalignment : 0; };
  GuardedArray local = draw(kF32, kRows * c.hidden, of(1));
  GuardedArray residual = draw(kF32, kRows * c.hidden, of(2));
  const auto run = [&](RowForm form, bool in_place) {
    NextOrder();
    GuardedArray y(kF32, kRows * c.hidden, of(4));
    for (int64_t i = 0; in_place && i < y.count(); ++i) y.set(i, residual.at(i));
    const CombineSlotsArgs args{.contributions = pointers.data(),
                                .dtype = c.type,
                                .local = c.has_local ? local.floats() : nullptr,
                                .residual = in_place ? y.floats() : residual.floats(),
                                .y = y.floats(),
                                .rows = kRows,
                                .hidden = c.hidden,
                                .top_k = c.top_k};
    EXPECT_TRUE(RunCombineSlots(kCuda, args, form).ok());
    EXPECT_TRUE(y.GuardsAreIntact());
    return BitsOf(y);
  };
  const Bits plain = run(RowForm::kPlain, false);
  EXPECT_EQ(run(RowForm::kFast, false), plain) << c.hidden << ", " << c.top_k << " slots";
  EXPECT_EQ(run(RowForm::kFast, true), plain) << c.hidden << ", " << c.top_k << " slots, in place";
}

TEST(FastCombine, GivesThePlainFormsBits) {
  for (const DType type : {kF32, kB16}) {
    for (const int top_k : {1, 2, 4, 5, 8, 9, 17, 32}) {
      for (const bool has_local : {false, true}) {
        ExpectCombineIsThePlainForm({type, 260, top_k, has_local});
      }
    }
    for (const int hidden : {1, 4, 5, 128, 255, 256, 257, 1037}) {
      ExpectCombineIsThePlainForm({type, hidden, 8, true});
      ExpectCombineIsThePlainForm({type, hidden, 0, true});
      ExpectCombineIsThePlainForm({type, hidden, 6, true, 2});
      ExpectCombineIsThePlainForm({type, hidden, 6, true, 0, 4});
      ExpectCombineIsThePlainForm({type, hidden, 6, true, 0, 8});
      for (const int operand : {1, 2, 4}) {
        ExpectCombineIsThePlainForm({type, hidden, 6, true, 0, 4, operand});
      }
    }
  }
}

// ---- Latent vectors

TEST(FastLatentWrite, GivesTheReferencesBitsWhereverEntriesAndPagesLie) {
  constexpr int kRows = 21;
  for (const DType type : {kF32, kB16}) {
    for (const auto& [extra, page_extra, misalignment] :
         {std::tuple{0, 0, 0}, std::tuple{4, 64, 0}, std::tuple{3, 0, 0}, std::tuple{0, 4, 0},
          std::tuple{0, 0, 4}}) {
      constexpr int kRank = 260;
      constexpr int kRope = 24;
      const int64_t stride = kRank + kRope + extra;
      GuardedArray entries(kF32, kRows * stride, misalignment);
      std::mt19937_64 random(10);
      entries.FillNormal(random);
      const int64_t page = LatentPageBytes(type, kRank, kRope) + page_extra;
      const std::vector<int32_t> table = {1, 0};
      std::vector<KvRow> rows;
      for (int t = 0; t < kRows; ++t) rows.push_back({table.data(), t});
      const auto run = [&](const Stream& stream) {
        NextOrder();
        GuardedArray pages(type, 2 * page / SizeOf(type));
        pages.Fill(5.0f);
        const LatentWriteArgs args{.cache = {.pages = pages.data(),
                                             .num_pages = 2,
                                             .page_stride_bytes = page,
                                             .dtype = type,
                                             .rank = kRank,
                                             .rope = kRope},
                                   .rows = rows.data(),
                                   .entries = entries.floats(),
                                   .num_rows = kRows,
                                   .entry_stride = stride};
        EXPECT_TRUE(LatentWrite(stream, args).ok());
        EXPECT_TRUE(pages.GuardsAreIntact());
        return BitsOf(pages);
      };
      EXPECT_EQ(run(kCuda), run(Stream{})) << extra << ' ' << page_extra << ' ' << misalignment;
    }
  }
}

// ---- Permute

// Only the device sees row numbers beyond the last.
TEST(PermuteRowsOnCuda, LeavesWhatHasNoPlace) {
  const std::vector<uint32_t> x = {1, 2, 3};
  std::vector<uint32_t> y(4, 9);
  const std::vector<int32_t> x_map = {3, 2, 0, 1};
  const std::vector<int32_t> y_map = {0, 1, 4, 3};
  const PermuteRowsArgs args{.x = x.data(),
                             .y = y.data(),
                             .x_map = x_map.data(),
                             .y_map = y_map.data(),
                             .rows = 4,
                             .x_rows = 3,
                             .y_rows = 4,
                             .row_bytes = 4};
  ASSERT_TRUE(PermuteRows(kCuda, args).ok());
  EXPECT_EQ(y, (std::vector<uint32_t>{9, 3, 9, 2}));
}

// ---- fp8

// Each side by itself, by its address and by its stride.
TEST(PackFp8OnCuda, GivesTheReferencesBitsWhicheverSideLiesOdd) {
  constexpr int kRows = 3;
  constexpr int kHidden = 260;
  for (const DType type : {kF32, kB16}) {
    for (const auto& [odd_rows, odd_packed, rows_extra, packed_extra] :
         {std::tuple{2, 0, 0, 0}, std::tuple{0, 1, 0, 0}, std::tuple{0, 0, 2, 0},
          std::tuple{0, 0, 0, 2}}) {
      const int64_t stride = kHidden + rows_extra;
      const int64_t packed_stride = kHidden + packed_extra;
      GuardedArray x(type, kRows * stride, odd_rows);
      std::mt19937_64 random(11);
      x.FillNormal(random);
      const auto run = [&](const Stream& stream) {
        NextOrder();
        GuardedArray packed(DType::kFloat8E4M3, kRows * packed_stride, odd_packed);
        std::vector<float> scales(kRows * 3);
        GuardedArray y(type, kRows * stride, odd_rows);
        EXPECT_TRUE(PackFp8(stream, {.x = x.data(),
                                     .x_dtype = type,
                                     .packed = static_cast<uint8_t*>(packed.data()),
                                     .scales = scales.data(),
                                     .rows = kRows,
                                     .hidden = kHidden,
                                     .x_stride = stride,
                                     .packed_stride = packed_stride})
                        .ok());
        EXPECT_TRUE(UnpackFp8(stream, {.packed = static_cast<const uint8_t*>(packed.data()),
                                       .scales = scales.data(),
                                       .y = y.data(),
                                       .y_dtype = type,
                                       .rows = kRows,
                                       .hidden = kHidden,
                                       .packed_stride = packed_stride,
                                       .y_stride = stride})
                        .ok());
        EXPECT_TRUE(packed.GuardsAreIntact() && y.GuardsAreIntact());
        Bits bits = BitsOf(packed);
        const Bits unpacked = BitsOf(y);
        bits.insert(bits.end(), unpacked.begin(), unpacked.end());
        return bits;
      };
      EXPECT_EQ(run(kCuda), run(Stream{})) << odd_rows << ' ' << odd_packed << ' ' << rows_extra;
    }
  }
}

// ---- What is moved together

#ifndef JANUS_TEST_ON_GPU

template <class Call>
int64_t VectorsOf(Call call) {
  const int64_t before = host_vectors;
  EXPECT_TRUE(call().ok());
  return host_vectors - before;
}

// At widths where a warp's part is not full, all but single elements go by vectors, once.
TEST(FastRows, MoveAllThatIsAlignedByVectors) {
  constexpr int kRows = 3;
  constexpr int kHidden = 644;  // 161 fours
  std::vector<int32_t> tokens(kRows, 1);
  GuardedArray table(kB16, 2 * kHidden);
  GuardedArray x(kF32, kRows * kHidden);
  GuardedArray half(kB16, kRows * kHidden);
  GuardedArray weight(kB16, kHidden);
  std::vector<const void*> slots(kRows * 6, half.data());
  std::vector<float> inv_freq(64, 1.0f);
  EXPECT_EQ(VectorsOf([&] {
              return RunEmbed(kCuda,
                              {.tokens = tokens.data(),
                               .table = table.data(),
                               .table_dtype = kB16,
                               .y = x.floats(),
                               .rows = kRows,
                               .vocab = 2,
                               .hidden = kHidden},
                              RowForm::kFast);
            }),
            kRows * 161 * 2);
  EXPECT_EQ(VectorsOf([&] {
              return RunCombineSlots(kCuda,
                                     {.contributions = slots.data(),
                                      .dtype = kB16,
                                      .residual = x.floats(),
                                      .y = x.floats(),
                                      .rows = kRows,
                                      .hidden = kHidden,
                                      .top_k = 6},
                                     RowForm::kFast);
            }),
            kRows * 161 * (6 + 2));
  const auto norm = [&](int hidden, int groups) {
    return VectorsOf([&] {
      return RunRmsNorm(kCuda,
                        {.x = x.floats(),
                         .weight = weight.data(),
                         .weight_dtype = kB16,
                         .y = half.data(),
                         .y_dtype = kB16,
                         .rows = 1,
                         .groups = groups,
                         .hidden = hidden},
                        RowForm::kFast);
    });
  };
  EXPECT_EQ(norm(644, 3), 3 * 161 * 3);
  EXPECT_EQ(norm(64, 3), 3 * 16 * 3);
  EXPECT_EQ(norm(128, 5), 5 * 32 * 3);
  const auto rope = [&](RopePairing pairing) {
    return VectorsOf([&] {
      return RunRope(kCuda,
                     {.x = x.floats(),
                      .positions = tokens.data(),
                      .inv_freq = inv_freq.data(),
                      .rows = kRows,
                      .heads = 4,
                      .head_dim = 160,
                      .rotary_dim = 128,
                      .pairing = pairing},
                     RowForm::kFast);
    });
  };
  EXPECT_EQ(rope(RopePairing::kHalves), kRows * 4 * 32 * 2);
  EXPECT_EQ(rope(RopePairing::kInterleaved), kRows * 4 * 32 * 2);
}

TEST(FastRows, BetweenInstancesMoveAllThatIsAlignedByVectors) {
  constexpr int kRows = 3;
  constexpr int kHidden = 644;
  GuardedArray x(kB16, kRows * kHidden);
  GuardedArray y(kB16, kRows * kHidden);
  std::vector<uint8_t> codes(kRows * kHidden);
  std::vector<float> scales(kRows * 6);
  EXPECT_EQ(VectorsOf([&] {
              return PackFp8(kCuda, {.x = x.data(),
                                     .x_dtype = kB16,
                                     .packed = codes.data(),
                                     .scales = scales.data(),
                                     .rows = kRows,
                                     .hidden = kHidden});
            }),
            kRows * 161 * 2);
  EXPECT_EQ(VectorsOf([&] {
              return UnpackFp8(kCuda, {.packed = codes.data(),
                                       .scales = scales.data(),
                                       .y = y.data(),
                                       .y_dtype = kB16,
                                       .rows = kRows,
                                       .hidden = kHidden});
            }),
            kRows * 161 * 2);
  const auto permute = [&](int64_t row_bytes, int64_t stride) {
    return VectorsOf([&] {
      return PermuteRows(kCuda, {.x = x.data(),
                                 .y = y.data(),
                                 .rows = 1,
                                 .x_rows = 1,
                                 .y_rows = 1,
                                 .row_bytes = row_bytes,
                                 .x_stride_bytes = stride});
    });
  };
  EXPECT_EQ(permute(2048 + 512, 0), 2 * 160);
  EXPECT_EQ(permute(2048 + 520, 0), 2 * (160 + 2));
  EXPECT_EQ(permute(2048 + 521, 0), 2 * (160 + 2));
}

// Four elements of a sum are a vector in 32 bits, three words in 24.
TEST(FastRows, OfExactSumsMoveAllThatIsAlignedByVectors) {
  constexpr int kRows = 3;
  constexpr int kHidden = 644;
  GuardedArray terms(kF32, 4 * kHidden);
  GuardedArray sums(kF32, kRows * kHidden);
  GuardedArray y(kF32, kRows * kHidden);
  const std::vector<int32_t> ends = {1, 3, 4};
  const std::vector<const void*> parts(kRows * 2, sums.data());
  for (const auto& [bits, words] : {std::pair{32, 1}, std::pair{24, 3}}) {
    EXPECT_EQ(VectorsOf([&] {
                return AddTerms(kCuda, {.terms = terms.floats(),
                                        .ends = ends.data(),
                                        .sums = sums.data(),
                                        .bits = bits,
                                        .limit = 1,
                                        .rows = kRows,
                                        .hidden = kHidden});
              }),
              161 * (4 + kRows * words));
    EXPECT_EQ(VectorsOf([&] {
                return CombineSums(kCuda, {.sums = parts.data(),
                                           .bits = bits,
                                           .residual = y.floats(),
                                           .y = y.floats(),
                                           .rows = kRows,
                                           .hidden = kHidden,
                                           .top_k = 2});
              }),
              kRows * 161 * (2 + 2 * words));
  }
}

#endif

}  // namespace
}  // namespace janus::kernels::cuda
