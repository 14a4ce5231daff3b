// The fast forms of the experts against the plain one, expert by expert, with every number of rows
// at which a tile changes; what the parity cases cannot choose.

#include "kernels/cuda/expert_ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/expert_ffn_wgmma.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/mxfp4_matrix.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF8 = DType::kFloat8E4M3;
constexpr DType kMx4 = DType::kMxfp4;

struct Shape {
  int hidden;
  int intermediate;
};

// A form, and how it deals a call into blocks. `has`: whether the device here runs it.
struct Way {
  ExpertForm form = ExpertForm::kFast;
  WgmmaTiles tiles = WgmmaTiles::kByRows;
  int64_t wide_blocks = 0;
  bool has() const { return form != ExpertForm::kWgmma || DeviceHasWgmma(); }
};
constexpr Way kFastWay{ExpertForm::kFast};
constexpr Way kNarrowWay{ExpertForm::kWgmma, WgmmaTiles::kNarrow};
constexpr Way kWideWay{ExpertForm::kWgmma, WgmmaTiles::kWide};

// The ways that the device here has.
std::vector<Way> WaysHere() {
  std::vector<Way> ways = {kFastWay};
  if (DeviceHasWgmma()) ways.insert(ways.end(), {kNarrowWay, kWideWay});
  return ways;
}
const char* NameOf(const Way& way) {
  return way.form == ExpertForm::kFast    ? "fast"
         : way.tiles == WgmmaTiles::kWide ? "wide"
                                          : "narrow";
}

// An expert for each of `counts`, with as many rows.
class Experts {
 public:
  // `misalignment`: bytes past a 64-byte boundary, of rows, of weights and more of `up`; scales of
  // mxfp4 lie as far from it as weights.
  Experts(Shape shape, std::span<const int> counts, DType y_dtype, DType weight_dtype,
          int row_misalignment = 0, int weight_misalignment = 0, int up_misalignment = 0)
      : shape_(shape),
        weight_dtype_(weight_dtype),
        counts_(counts.begin(), counts.end()),
        y_dtype_(y_dtype),
        total_(std::accumulate(counts_.begin(), counts_.end(), 0)),
        x_(kB16, int64_t{total_} * shape.hidden + kBehind, row_misalignment) {
    std::mt19937_64 random(7);
    const auto fill = [&](GuardedArray& array, float deviation) {
      array.FillNormal(random, deviation);
      for (int64_t i = array.count() - kBehind; i < array.count(); ++i) array.set(i, NAN);
    };
    fill(x_, 1.0f);
    const int64_t size = int64_t{shape.hidden} * shape.intermediate + kBehind;
    for (size_t e = 0; e < counts_.size(); ++e) {
      for (const int inner : {shape.hidden, shape.hidden, shape.intermediate}) {
        const float deviation = 1.5f / std::sqrt(static_cast<float>(inner));
        const int misalignment =
            weight_misalignment + (weights_.size() % 3 == 1 ? up_misalignment : 0);
        if (weight_dtype == kMx4) {
          const int64_t elements = size - kBehind;
          weights_.emplace_back(kBytes, elements / 2, misalignment);
          scales_.emplace_back(kBytes, elements / kMxBlock, misalignment);
          FillMxfp4(random, deviation, weights_.back(), scales_.back());
          continue;
        }
        weights_.emplace_back(weight_dtype, size, misalignment);
        if (weight_dtype != kF8) {
          fill(weights_.back(), deviation);
          continue;
        }
        // Subnormals too; the deviation is in the scales, of which no two are alike.
        weights_.back().FillNormal(random, 0.25f);
        const int64_t blocks = ScaleBlocks(shape.hidden) * ScaleBlocks(shape.intermediate);
        scales_.emplace_back(DType::kFloat32, blocks + kBehind).Fill(NAN);
        std::uniform_real_distribution<float> factor(0.3f, 1.7f);
        for (int64_t i = 0; i < blocks; ++i) {
          scales_.back().set(i, factor(random) * deviation * 4.0f);
        }
      }
    }
  }

  // The bytes of y, contribution after contribution.
  std::vector<uint8_t> Run(ExpertForm form) const { return Run(Way{form}); }
  std::vector<uint8_t> Run(const Way& way) const {
    NextOrder();
    GuardedArray y(y_dtype_, int64_t{total_} * shape_.hidden);
    y.Fill(NAN);
    std::vector<ActiveExpert> experts;
    std::vector<Contribution> contributions;
    for (size_t e = 0; e < counts_.size(); ++e) {
      experts.push_back({weights_[3 * e].data(), weights_[3 * e + 1].data(),
                         weights_[3 * e + 2].data(), static_cast<int32_t>(contributions.size()),
                         counts_[e]});
      if (weight_dtype_ == kF8 || weight_dtype_ == kMx4) {
        experts.back().gate_scales = Scales(3 * e);
        experts.back().up_scales = Scales(3 * e + 1);
        experts.back().down_scales = Scales(3 * e + 2);
      }
      for (int i = 0; i < counts_[e]; ++i) {
        const auto number = static_cast<int64_t>(contributions.size());
        const int64_t row = number * shape_.hidden;
        contributions.push_back({static_cast<const char*>(x_.data()) + RowAt(number) * SizeOf(kB16),
                                 static_cast<char*>(y.data()) + row * SizeOf(y_dtype_),
                                 0.1f + 0.05f * static_cast<float>(row % 17)});
      }
    }
    const auto needs = GroupedExpertFfnWorkspace::For(total_, shape_.intermediate, kB16);
    GuardedArray workspace(DType::kFloat32, needs.bytes / 4);
    workspace.Fill(NAN);
    const Status status = RunGroupedExpertFfn(Stream{.device = Device::kCuda},
                                              {.experts = experts.data(),
                                               .contributions = contributions.data(),
                                               .num_experts = static_cast<int64_t>(experts.size()),
                                               .num_contributions = total_,
                                               .hidden = shape_.hidden,
                                               .intermediate = shape_.intermediate,
                                               .weight_dtype = weight_dtype_,
                                               .row_dtype = kB16,
                                               .y_dtype = y_dtype_,
                                               .workspace = workspace.data(),
                                               .workspace_bytes = needs.bytes},
                                              way.form, way.tiles, way.wide_blocks);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    const auto* bytes = static_cast<const uint8_t*>(y.data());
    return {bytes, bytes + y.data_bytes()};
  }

  // One row becomes NaN.
  void Poison(int row) {
    for (int64_t k = 0; k < shape_.hidden; ++k) x_.set(RowAt(row) + k, NAN);
  }
  // From here on rows lie 0 to 14 bytes past multiples of 16. Neighbours, and rows 16 or 32 apart,
  // have different offsets.
  void Stagger() {
    GuardedArray apart(kB16, int64_t{total_} * (shape_.hidden + kChunk) + kBehind);
    apart.Fill(NAN);
    for (int64_t row = 0; row < total_; ++row) {
      for (int64_t k = 0; k < shape_.hidden; ++k) {
        apart.set(StaggeredRowAt(row) + k, x_.at(RowAt(row) + k));
      }
    }
    x_ = std::move(apart);
    is_staggered_ = true;
  }
  size_t row_bytes() const { return static_cast<size_t>(shape_.hidden * SizeOf(y_dtype_)); }
  // Of element `index` of a matrix of an expert; the scale of its block.
  void SetWeight(size_t matrix, int64_t index, float value) { weights_[matrix].set(index, value); }
  void SetScale(size_t matrix, int64_t index, float value) { scales_[matrix].set(index, value); }
  // Of mxfp4: a byte of two weights; a block's scale.
  void SetBytes(size_t matrix, int64_t index, uint8_t two) {
    BytesIn(weights_[matrix])[index] = two;
  }
  void SetE8M0(size_t matrix, int64_t index, uint8_t scale) {
    BytesIn(scales_[matrix])[index] = scale;
  }
  // From here on weights of mxfp4 are the same numbers in bfloat16.
  void WriteOut() {
    weight_dtype_ = kB16;
    for (size_t matrix = 0; matrix < weights_.size(); ++matrix) {
      GuardedArray out(kB16, 2 * weights_[matrix].count());
      WriteOutMxfp4(weights_[matrix], scales_[matrix], out);
      weights_[matrix] = std::move(out);
    }
  }

 private:
  const void* Scales(size_t matrix) const { return scales_[matrix].data(); }
  // The element of x at which a row begins.
  int64_t RowAt(int64_t row) const {
    return is_staggered_ ? StaggeredRowAt(row) : row * shape_.hidden;
  }
  int64_t StaggeredRowAt(int64_t row) const {
    return row * (shape_.hidden + kChunk) + (row + row / 16) * 5 % kChunk;
  }

  // Elements behind the last row of each array, all NaN. A read of them shows, even if they are
  // multiplied by zeros of the other operand.
  static constexpr int64_t kBehind = 64;

  Shape shape_;
  DType weight_dtype_;
  std::vector<int> counts_;
  DType y_dtype_;
  int total_;
  GuardedArray x_;
  bool is_staggered_ = false;
  std::vector<GuardedArray> weights_;
  std::vector<GuardedArray> scales_;  // of fp8 and mxfp4
};

// Every number of rows at which the tile changes, or the last of several tiles is not full. Experts
// without rows are at either end and in between.
constexpr int kCounts[] = {0, 1, 7, 8, 9, 16, 17, 32, 0, 33, 63, 64, 65, 200, 0};
// The same of wide tiles.
constexpr int kWideCounts[] = {0, 1, 9, 32, 33, 65, 0, 0, 128, 129, 192, 193, 256, 257, 530, 0};
// More tiles of rows than a band has, in two experts.
constexpr int kBandCounts[] = {7, 4200, 0, 5000};

struct Case {
  const char* name;
  Shape shape;
  DType y_dtype;
  DType weight_dtype = kB16;
  std::span<const int> counts = kCounts;
  Way way = kFastWay;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class FastExpertsTest : public testing::TestWithParam<Case> {};

TEST_P(FastExpertsTest, GiveThePlainFormsResult) {
  const auto& [name, shape, y_dtype, weight_dtype, counts, way] = GetParam();
  if (!way.has()) GTEST_SKIP() << "no wgmma here";
  const Experts experts(shape, counts, y_dtype, weight_dtype);
  const std::vector<uint8_t> wanted = experts.Run(ExpertForm::kPlain);
  const int64_t conflicts = BankConflicts();
  const std::vector<uint8_t> got = experts.Run(way);
  EXPECT_EQ(BankConflicts(), conflicts);
  ASSERT_EQ(got.size(), wanted.size());
  const auto count = static_cast<int64_t>(got.size()) / SizeOf(y_dtype);
  double range = 0.0;
  double worst = 0.0;
  int64_t different = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = ReadElement(got.data(), y_dtype, i);
    const float plain = ReadElement(wanted.data(), y_dtype, i);
    ASSERT_TRUE(std::isfinite(value) && std::isfinite(plain)) << "element " << i;
    range = std::max(range, std::abs(static_cast<double>(plain)));
    worst = std::max(worst, std::abs(static_cast<double>(value) - plain));
    different += value != plain ? 1 : 0;
  }
  ASSERT_GT(range, 0.0);
  EXPECT_LE(worst, 6e-3 * range);
  if (kSameOrder) {
    EXPECT_EQ(different, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FastExpertsTest,
                         testing::Values(Case{"Least", {8, 8}, kB16},
                                         Case{"NoWholeTiles", {136, 88}, kB16},
                                         Case{"InFp32", {136, 88}, DType::kFloat32},
                                         // More steps than stages, of up and of down.
                                         Case{"LongRows", {712, 40}, kB16},
                                         Case{"LongInner", {40, 712}, kB16},
                                         Case{"Fp8Least", {16, 16}, kB16, kF8},
                                         // Blocks of scales that end in the midst of tiles and
                                         // steps.
                                         Case{"Fp8NoWholeBlocks", {208, 144}, kB16, kF8},
                                         Case{"Fp8WholeBlocks", {256, 384}, kB16, kF8},
                                         Case{"Fp8InFp32", {336, 80}, DType::kFloat32, kF8},
                                         Case{"Fp8LongRows", {1328, 48}, kB16, kF8},
                                         Case{"Fp8LongInner", {48, 1328}, kB16, kF8},
                                         Case{"Mxfp4Least", {32, 32}, kB16, kMx4},
                                         // Steps that end in the midst, scales no copy can read.
                                         Case{"Mxfp4NoWholeSteps", {224, 160}, kB16, kMx4},
                                         Case{"Mxfp4WholeSteps", {256, 384}, kB16, kMx4},
                                         Case{"Mxfp4InFp32", {352, 96}, DType::kFloat32, kMx4},
                                         Case{"Mxfp4LongRows", {2176, 64}, kB16, kMx4},
                                         Case{"Mxfp4LongInner", {64, 2080}, kB16, kMx4}),
                         [](const auto& info) { return info.param.name; });
// Inner axes of more steps than any tile has stages, so that each stage is filled again after it
// was read. Of mxfp4 there are two: copies can read the scales of the first only.
constexpr int kLong = 904;
constexpr int kFp8Long = 1552;
constexpr int kMxfp4Long = 2176;
constexpr int kMxfp4LongTail = 2208;
template <int kGroups, int kBits, int... kRows>
constexpr bool FillsStagesAgain(int inner, std::integer_sequence<int, kRows...>) {
  const auto again = [inner](auto tile) {
    using Tile = decltype(tile);
    return inner > Tile::kStages * Tile::kSteps * Tile::kStep;
  };
  return (again(WgmmaTile<kGroups, kRows, kBits>{}) && ...);
}
using NarrowTiles = std::integer_sequence<int, 8, 16, 32, 64>;
static_assert(FillsStagesAgain<1, 16>(kLong, NarrowTiles{}) &&
              FillsStagesAgain<1, 8>(kFp8Long, NarrowTiles{}) &&
              FillsStagesAgain<1, 4>(kMxfp4Long, NarrowTiles{}));
static_assert(FillsStagesAgain<2, 16>(kLong,
                                      std::integer_sequence<int, 8, 16, 32, 64, 128, 192, 256>{}) &&
              FillsStagesAgain<2, 8>(kFp8Long, std::integer_sequence<int, 32, 64, 128>{}) &&
              FillsStagesAgain<2, 4>(kMxfp4Long, std::integer_sequence<int, 32, 64, 128, 192>{}));
static_assert(kMxfp4Long % kScaleBlock == 0 && kMxfp4LongTail > kMxfp4Long &&
              kMxfp4LongTail % kScaleBlock != 0);
// Few rows of each narrow tile, for short cases.
constexpr int kTileCounts[] = {8, 9, 17, 33};

INSTANTIATE_TEST_SUITE_P(
    Wgmma, FastExpertsTest,
    testing::Values(Case{"Least", {8, 8}, kB16, kB16, kCounts, kNarrowWay},
                    Case{"NoWholeTiles", {136, 88}, kB16, kB16, kCounts, kNarrowWay},
                    Case{"InFp32", {136, 88}, DType::kFloat32, kB16, kCounts, kNarrowWay},
                    Case{"LongRows", {kLong, 40}, kB16, kB16, kCounts, kNarrowWay},
                    Case{"LongInner", {40, kLong}, kB16, kB16, kCounts, kNarrowWay},
                    Case{"AgainRows", {kLong, 8}, kB16, kB16, kTileCounts, kNarrowWay},
                    Case{"WideAgainRows", {kLong, 8}, kB16, kB16, kTileCounts, kWideWay},
                    Case{"WideLeast", {8, 8}, kB16, kB16, kWideCounts, kWideWay},
                    Case{"WideNoWholeTiles", {200, 136}, kB16, kB16, kWideCounts, kWideWay},
                    Case{"WideInFp32", {136, 72}, DType::kFloat32, kB16, kWideCounts, kWideWay},
                    Case{"WideLongRows", {kLong, 40}, kB16, kB16, kCounts, kWideWay},
                    Case{"WideLongInner", {40, kLong}, kB16, kB16, kCounts, kWideWay},
                    Case{"WideBands", {136, 72}, kB16, kB16, kBandCounts, kWideWay}),
    [](const auto& info) { return info.param.name; });
// Inner axes of an odd and an even number of steps, whole and not whole, with fewer steps than
// copies run ahead and with more than there are stages.
INSTANTIATE_TEST_SUITE_P(
    WgmmaFp8, FastExpertsTest,
    testing::Values(Case{"Least", {16, 16}, kB16, kF8, kCounts, kNarrowWay},
                    Case{"NoWholeBlocks", {208, 144}, kB16, kF8, kCounts, kNarrowWay},
                    Case{"WholeBlocks", {256, 384}, kB16, kF8, kCounts, kNarrowWay},
                    Case{"OddSteps", {192, 320}, kB16, kF8, kCounts, kNarrowWay},
                    Case{"InFp32", {336, 80}, DType::kFloat32, kF8, kCounts, kNarrowWay},
                    Case{"LongRows", {kFp8Long, 48}, kB16, kF8, kCounts, kNarrowWay},
                    Case{"LongInner", {48, kFp8Long}, kB16, kF8, kCounts, kNarrowWay},
                    Case{"AgainRows", {kFp8Long, 16}, kB16, kF8, kTileCounts, kNarrowWay},
                    Case{"AgainInner", {16, kFp8Long}, kB16, kF8, kTileCounts, kNarrowWay},
                    Case{"WideAgainRows", {kFp8Long, 16}, kB16, kF8, kTileCounts, kWideWay},
                    Case{"WideLeast", {16, 16}, kB16, kF8, kWideCounts, kWideWay},
                    Case{"WideNoWholeTiles", {208, 144}, kB16, kF8, kWideCounts, kWideWay},
                    Case{"WideWholeBlocks", {256, 128}, kB16, kF8, kWideCounts, kWideWay},
                    Case{"WideOddSteps", {192, 320}, kB16, kF8, kWideCounts, kWideWay},
                    Case{"WideInFp32", {336, 80}, DType::kFloat32, kF8, kWideCounts, kWideWay},
                    Case{"WideLongRows", {kFp8Long, 48}, kB16, kF8, kCounts, kWideWay},
                    Case{"WideLongInner", {48, kFp8Long}, kB16, kF8, kCounts, kWideWay},
                    Case{"WideBands", {144, 80}, kB16, kF8, kBandCounts, kWideWay}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    WgmmaMxfp4, FastExpertsTest,
    testing::Values(Case{"Least", {32, 32}, kB16, kMx4, kCounts, kNarrowWay},
                    Case{"NoWholeSteps", {224, 160}, kB16, kMx4, kCounts, kNarrowWay},
                    Case{"WholeSteps", {256, 384}, kB16, kMx4, kCounts, kNarrowWay},
                    Case{"OddSteps", {192, 320}, kB16, kMx4, kCounts, kNarrowWay},
                    Case{"InFp32", {352, 96}, DType::kFloat32, kMx4, kCounts, kNarrowWay},
                    Case{"LongRows", {kMxfp4Long, 64}, kB16, kMx4, kCounts, kNarrowWay},
                    Case{"LongInner", {64, kMxfp4LongTail}, kB16, kMx4, kCounts, kNarrowWay},
                    Case{"AgainRows", {kMxfp4Long, 32}, kB16, kMx4, kTileCounts, kNarrowWay},
                    Case{"AgainInner", {32, kMxfp4Long}, kB16, kMx4, kTileCounts, kNarrowWay},
                    Case{"WideAgainRows", {kMxfp4Long, 32}, kB16, kMx4, kTileCounts, kWideWay},
                    Case{"WideLeast", {32, 32}, kB16, kMx4, kWideCounts, kWideWay},
                    Case{"WideNoWholeTiles", {224, 160}, kB16, kMx4, kWideCounts, kWideWay},
                    Case{"WideWholeSteps", {256, 128}, kB16, kMx4, kWideCounts, kWideWay},
                    Case{"WideOddSteps", {192, 320}, kB16, kMx4, kWideCounts, kWideWay},
                    Case{"WideInFp32", {352, 96}, DType::kFloat32, kMx4, kWideCounts, kWideWay},
                    Case{"WideLongRows", {kMxfp4Long, 64}, kB16, kMx4, kCounts, kWideWay},
                    Case{"WideLongInner", {64, kMxfp4LongTail}, kB16, kMx4, kCounts, kWideWay},
                    Case{"WideBands", {160, 96}, kB16, kMx4, kBandCounts, kWideWay}),
    [](const auto& info) { return info.param.name; });

// The deal of a call into blocks changes no bit, on a GPU as well.
TEST(WgmmaExperts, HaveTheSameBitsInNarrowAndInWideTilesOfAnyNumberOfBlocks) {
  if (!DeviceHasWgmma()) GTEST_SKIP() << "no wgmma here";
  const auto expect = [](Shape shape, DType weights, std::span<const int> counts = kWideCounts) {
    const Experts experts(shape, counts, DType::kFloat32, weights);
    const std::vector<uint8_t> narrow = experts.Run(kNarrowWay);
    for (const int64_t blocks : {0, 1, 5}) {
      EXPECT_EQ(experts.Run(Way{ExpertForm::kWgmma, WgmmaTiles::kWide, blocks}), narrow)
          << ToString(weights) << ' ' << blocks;
    }
    EXPECT_EQ(experts.Run(ExpertForm::kWgmma), narrow) << ToString(weights);
  };
  for (const Shape shape : {Shape{264, 200}, Shape{64, 392}}) expect(shape, kB16);
  for (const Shape shape : {Shape{272, 208}, Shape{64, 400}}) expect(shape, kF8);
  for (const Shape shape : {Shape{288, 224}, Shape{64, 416}}) expect(shape, kMx4);
  expect({kLong, 16}, kB16, kTileCounts);
  expect({kFp8Long, 16}, kF8, kTileCounts);
  expect({kMxfp4Long, 32}, kMx4, kTileCounts);
}

// As many experts as a call of wide tiles takes. A block must find the tiles of each.
TEST(WgmmaExperts, AreFoundAmongAsManyAsThereMayBe) {
  if (!DeviceHasWgmma()) GTEST_SKIP() << "no wgmma here";
  std::vector<int> counts(kMostWideExperts);
  for (size_t e = 0; e < counts.size(); ++e) counts[e] = static_cast<int>(e % 4);
  const Experts experts({136, 72}, counts, kB16, kB16);  // two tiles across of up and of down
  const std::vector<uint8_t> narrow = experts.Run(kNarrowWay);
  for (const int64_t blocks : {0, 1, 5}) {
    EXPECT_EQ(experts.Run(Way{ExpertForm::kWgmma, WgmmaTiles::kWide, blocks}), narrow) << blocks;
  }
}

#ifdef JANUS_TEST_ON_GPU
// Too long for the host form.
constexpr int kFewCounts[] = {1, 16, 32, 40};
constexpr int kManyCounts[] = {1, 40, 700};
INSTANTIATE_TEST_SUITE_P(
    Models, FastExpertsTest,
    testing::Values(Case{"DeepSeekV3", {7168, 2048}, kB16, kB16, kFewCounts},
                    Case{"WgmmaDeepSeekV3", {7168, 2048}, kB16, kB16, kFewCounts, kNarrowWay},
                    Case{"WideDeepSeekV3", {7168, 2048}, kB16, kB16, kManyCounts, kWideWay},
                    Case{"DeepSeekV2", {5120, 1536}, kB16, kB16, kFewCounts},
                    Case{"Fp8DeepSeekV3", {7168, 2048}, kB16, kF8, kFewCounts},
                    Case{"Fp8DeepSeekV2", {5120, 1536}, kB16, kF8, kFewCounts},
                    Case{"Fp8WgmmaDeepSeekV3", {7168, 2048}, kB16, kF8, kFewCounts, kNarrowWay},
                    Case{"Fp8WideDeepSeekV3", {7168, 2048}, kB16, kF8, kManyCounts, kWideWay},
                    Case{"Mxfp4DeepSeekV3", {7168, 2048}, kB16, kMx4, kFewCounts},
                    Case{"Mxfp4DeepSeekV2", {5120, 1536}, kB16, kMx4, kFewCounts},
                    Case{"Mxfp4WgmmaDeepSeekV3", {7168, 2048}, kB16, kMx4, kFewCounts, kNarrowWay},
                    Case{"Mxfp4WideDeepSeekV3", {7168, 2048}, kB16, kMx4, kManyCounts, kWideWay}),
    [](const auto& info) { return info.param.name; });
#endif

struct Kind {
  DType weights;
  Way way = kFastWay;
  std::string name() const {
    return std::string(way.form == ExpertForm::kFast    ? ""
                       : way.tiles == WgmmaTiles::kWide ? "Wide"
                                                        : "Wgmma") +
           std::string(ToString(weights));
  }
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name(); }
};
class FastExpertsOf : public testing::TestWithParam<Kind> {
  void SetUp() override {
    if (!GetParam().way.has()) GTEST_SKIP() << "no wgmma here";
  }
};
INSTANTIATE_TEST_SUITE_P(Weights, FastExpertsOf,
                         testing::Values(Kind{kB16}, Kind{kF8}, Kind{kMx4}, Kind{kB16, kNarrowWay},
                                         Kind{kB16, kWideWay}, Kind{kF8, kNarrowWay},
                                         Kind{kF8, kWideWay}, Kind{kMx4, kNarrowWay},
                                         Kind{kMx4, kWideWay}),
                         [](const auto& info) { return info.param.name(); });

// The place of rows and weights does not change bits. 16-byte copies cannot read all of these.
TEST_P(FastExpertsOf, ReadRowsAndWeightsAtAnyAddress) {
  const auto& [weights, way] = GetParam();
  const bool is_mxfp4 = weights == kMx4;
  const Shape shape = is_mxfp4 ? Shape{256, 128} : Shape{208, 144};
  constexpr int counts[] = {3, 20, 40};
  const auto bits = [&](int row_misalignment, int weight_misalignment, int up_misalignment = 0) {
    return Experts(shape, counts, kB16, GetParam().weights, row_misalignment, weight_misalignment,
                   up_misalignment)
        .Run(GetParam().way);
  };
  const std::vector<uint8_t> aligned = bits(0, 0);
  EXPECT_EQ(bits(2, 0), aligned);
  EXPECT_EQ(bits(0, 14), aligned);
  EXPECT_EQ(bits(8, 8), aligned);
  EXPECT_EQ(bits(0, 1), aligned);
  EXPECT_EQ(bits(0, 0, 2), aligned);
  if (!is_mxfp4) return;
  EXPECT_EQ(bits(0, 4), aligned);  // scales that copies read, weights that they do not
  EXPECT_EQ(bits(0, 0, 3), aligned);
}

// Each row has another address: of the rows that a thread copies, only one may be unreadable for
// copies, the first or the last.
TEST_P(FastExpertsOf, ReadRowsOfWhichEachLiesOtherwise) {
  const auto& [weights, way] = GetParam();
  const bool is_mxfp4 = weights == kMx4;
  const Shape shape = is_mxfp4 ? Shape{160, 64} : Shape{144, 48};
  constexpr int narrow_counts[] = {40, 64};
  constexpr int wide_counts[] = {200, 256};
  const bool is_wide = way.tiles == WgmmaTiles::kWide;
  Experts experts(shape, is_wide ? wide_counts : narrow_counts, kB16, weights);
  const std::vector<uint8_t> aligned = experts.Run(way);
  experts.Stagger();
  EXPECT_EQ(experts.Run(way), aligned);
}

TEST_P(FastExpertsOf, ARowOfNaNsStaysAlone) {
  constexpr int counts[] = {9, 50};
  const auto& [weights, way] = GetParam();
  const Shape shape = weights == kMx4 ? Shape{160, 64} : Shape{144, 48};
  Experts experts(shape, counts, kB16, weights);
  const std::vector<uint8_t> before = experts.Run(way);
  experts.Poison(20);
  const std::vector<uint8_t> after = experts.Run(way);
  for (size_t row = 0; row < 59; ++row) {
    const auto begin = row * experts.row_bytes();
    const std::vector<uint8_t> was(&before[begin], &before[begin] + experts.row_bytes());
    const std::vector<uint8_t> is(&after[begin], &after[begin] + experts.row_bytes());
    EXPECT_EQ(was == is, row != 20) << "row " << row;
  }
}

#ifndef JANUS_TEST_ON_GPU
// Up to 64 rows each weight is copied once. Elements behind a matrix or a row are never copied:
// results would not show it, because they are multiplied by zeros or not stored.
TEST_P(FastExpertsOf, CopyEachWeightOnce) {
  const auto& [weight_dtype, way] = GetParam();
  const bool is_mxfp4 = weight_dtype == kMx4;
  const int64_t hidden = is_mxfp4 ? 384 : 272;
  const int64_t intermediate = is_mxfp4 ? 256 : 208;
  for (const int rows : {1, 8, 9, 16, 17, 32, 33, 64}) {
    const int counts[] = {rows};
    const int64_t words_before = host_word_copies;
    const Experts experts({static_cast<int>(hidden), static_cast<int>(intermediate)}, counts, kB16,
                          weight_dtype);
    const int64_t before = host_copies;
    (void)experts.Run(way);
    int64_t wide = rows > (weight_dtype == kB16 ? 32 : 8) ? 2 : 1;
    if (is_mxfp4 && rows > 16 && rows <= 32) wide = 4;
    if (way.form == ExpertForm::kWgmma) wide = way.tiles == WgmmaTiles::kWide ? 2 : 1;
    const int64_t rows_read = CeilDiv(intermediate, 32 * wide) * (rows * hidden / 8) +
                              CeilDiv(hidden, 64 * wide) * (rows * intermediate / 8);
    const int64_t weights = 3 * hidden * intermediate;
    EXPECT_EQ(host_copies - before, BytesOf(weight_dtype, weights) / kCopyBytes + rows_read)
        << rows << " rows";
    const bool is_fp8_wgmma = weight_dtype == kF8 && way.form == ExpertForm::kWgmma;
    const int64_t scales =  // of fp8 one of each half, a block and tile
        is_mxfp4       ? weights / kMxBlock / kWordBytes
        : is_fp8_wgmma ? 2 * (CeilDiv(intermediate, 32 * wide) * ScaleBlocks(hidden) +
                              CeilDiv(hidden, 64 * wide) * ScaleBlocks(intermediate))
                       : 0;
    EXPECT_EQ(host_word_copies - words_before, scales) << rows << " rows";
  }
}
#endif

// The scale of a block applies to its rows and columns alone. All weights are 1 and all other
// scales 0, so only the outputs of the block's rows are not 0.
TEST(FastExperts, AScaleIsOfItsBlockAlone) {
  const int hidden = 272;        // blocks of 128, 128 and 16
  const int intermediate = 144;  // of 128 and 16
  constexpr int counts[] = {3, 20, 40};
  for (int block = 0; block < 6; ++block) {
    Experts experts({hidden, intermediate}, counts, DType::kFloat32, kF8);
    for (size_t matrix = 0; matrix < 9; ++matrix) {
      for (int i = 0; i < hidden * intermediate; ++i) experts.SetWeight(matrix, i, 1.0f);
      if (matrix % 3 != 2) continue;
      for (int i = 0; i < 6; ++i) experts.SetScale(matrix, i, i == block ? 2.0f : 0.0f);
    }
    const std::vector<uint8_t> y = experts.Run(ExpertForm::kPlain);
    for (int64_t row = 0; row < 63; ++row) {
      for (int64_t n = 0; n < hidden; ++n) {
        const float value = ReadElement(y.data(), DType::kFloat32, row * hidden + n);
        EXPECT_EQ(value != 0.0f, n / 128 == block / 2) << block << ' ' << row << ' ' << n;
      }
    }
    for (const Way& way : WaysHere()) EXPECT_EQ(experts.Run(way), y) << NameOf(way) << block;
  }
}

// With every weight and every scale: each multiplication has the operands of the same numbers in
// bfloat16, so the results are the same too, on a GPU as well.
TEST(FastExperts, OfMxfp4HaveTheBitsOfTheSameNumbersInBFloat16) {
  for (const Shape shape : {Shape{32, 32}, Shape{224, 160}, Shape{384, 256}}) {
    for (const DType y_dtype : {kB16, DType::kFloat32}) {
      Experts experts(shape, kCounts, y_dtype, kMx4);
      std::vector<std::vector<uint8_t>> packed;
      for (const Way& way : WaysHere()) packed.push_back(experts.Run(way));
      experts.WriteOut();
      size_t i = 0;
      for (const Way& way : WaysHere()) {
        EXPECT_EQ(packed[i++], experts.Run(way)) << NameOf(way) << shape.hidden;
      }
    }
  }
}

// Scales of all sizes that leave sums finite, in each of an expert's matrices. Some give weights
// that are subnormal in bfloat16, and some need the second factor.
TEST(FastExperts, TakeEveryScaleOfMxfp4) {
  const Shape shape{256, 64};
  constexpr int counts[] = {3, 12, 20, 40};
  const int blocks = shape.hidden * shape.intermediate / kMxBlock;
  for (size_t which = 0; which < 3; ++which) {
    for (const int from : {0, 64, 127, 187, 238}) {
      Experts experts(shape, counts, DType::kFloat32, kMx4);
      for (size_t matrix = 0; matrix < 12; ++matrix) {
        for (int i = 0; i < blocks; ++i) {
          const int scale = matrix % 3 == which ? from + (i % 7 == 0 ? 2 : 0) : 110;
          experts.SetE8M0(matrix, i, static_cast<uint8_t>(scale));
        }
        for (int i = 0; i < 128; ++i) experts.SetBytes(matrix, i, 0x17);  // 6 and 0.5 alone
      }
      std::vector<std::vector<uint8_t>> packed;
      for (const Way& way : WaysHere()) packed.push_back(experts.Run(way));
      experts.WriteOut();
      size_t i = 0;
      for (const Way& way : WaysHere()) {
        EXPECT_EQ(packed[i], experts.Run(way)) << NameOf(way) << which << ' ' << from;
        if (kSameOrder) {
          EXPECT_EQ(packed[i], experts.Run(ExpertForm::kPlain)) << which << ' ' << from;
        }
        ++i;
      }
    }
  }
}

// One scale of 2 or more among smaller ones, at any place: in either half of a tile, in every row
// of an operand and every block of a step.
TEST(FastExperts, TakeOneLargeScaleOfMxfp4Anywhere) {
  const Shape shape{256, 256};
  constexpr int counts[] = {2, 9, 17, 33};
  const int blocks = shape.hidden * shape.intermediate / kMxBlock;
  for (int i = 0; i < 24; ++i) {
    Experts experts(shape, counts, DType::kFloat32, kMx4);
    for (size_t matrix = 0; matrix < 12; ++matrix) {
      for (int block = 0; block < blocks; ++block) experts.SetE8M0(matrix, block, 118);
      if (matrix % 3 == static_cast<size_t>(i % 3))
        experts.SetE8M0(matrix, i * 37 % 256 * 8 + i / 3 % 8, 140);
    }
    std::vector<std::vector<uint8_t>> packed;
    for (const Way& way : WaysHere()) packed.push_back(experts.Run(way));
    experts.WriteOut();
    size_t number = 0;
    for (const Way& way : WaysHere()) {
      EXPECT_EQ(packed[number++], experts.Run(way)) << NameOf(way) << i;
    }
  }
}

// The scale of a block applies to its 32 weights alone. All other scales are the least there is, so
// only these weights show, with one activation after the other set to 1.
TEST(FastExperts, AScaleOfMxfp4IsOfItsBlockAlone) {
  const Shape shape{160, 288};
  constexpr int counts[] = {2, 12, 25, 40};
  const int blocks = shape.hidden * shape.intermediate / kMxBlock;
  for (const int block : {0, 4, 5, 8, 9, 700, blocks - 10, blocks - 1}) {
    Experts experts(shape, counts, DType::kFloat32, kMx4);
    for (size_t matrix = 2; matrix < 12; matrix += 3) {
      for (int i = 0; i < 16 * blocks; ++i) experts.SetBytes(matrix, i, 0x22);
      for (int i = 0; i < blocks; ++i) experts.SetE8M0(matrix, i, i == block ? 127 : 0);
    }
    const std::vector<uint8_t> y = experts.Run(ExpertForm::kFast);
    std::vector<std::vector<uint8_t>> packed;
    for (const Way& way : WaysHere()) {
      packed.push_back(experts.Run(way));
      if (kSameOrder) {
        EXPECT_EQ(packed.back(), y) << NameOf(way) << block;
      }
    }
    const int of_row = shape.intermediate / kMxBlock;
    for (int64_t row = 0; row < 79; ++row) {
      for (int64_t n = 0; n < shape.hidden; ++n) {
        const float value = ReadElement(y.data(), DType::kFloat32, row * shape.hidden + n);
        EXPECT_EQ(std::abs(value) > 1e-20f, n == block / of_row) << block << ' ' << row << ' ' << n;
      }
    }
    experts.WriteOut();
    size_t number = 0;
    for (const Way& way : WaysHere()) {
      EXPECT_EQ(packed[number++], experts.Run(way)) << NameOf(way) << block;
    }
  }
}

// Numbers below 2^-6 are subnormal in fp8. None of them may become 0 in bfloat16.
TEST(FastExperts, TakeSubnormalWeights) {
  const int hidden = 144;
  const int intermediate = 48;
  constexpr int counts[] = {5};
  Experts experts({hidden, intermediate}, counts, DType::kFloat32, kF8);
  for (size_t matrix = 0; matrix < 3; ++matrix) {
    for (int i = 0; i < hidden * intermediate; ++i) {
      experts.SetWeight(matrix, i, static_cast<float>((i * 7 + i / 13) % 15 - 7) * 0x1p-9f);
    }
    for (int i = 0; i < 2; ++i) experts.SetScale(matrix, i, 16.0f);
  }
  const std::vector<uint8_t> wanted = experts.Run(ExpertForm::kPlain);
  for (const Way& way : WaysHere()) {
    const std::vector<uint8_t> y = experts.Run(way);
    double range = 0.0;
    double worst = 0.0;
    for (int64_t i = 0; i < 5 * hidden; ++i) {
      const double plain = ReadElement(wanted.data(), DType::kFloat32, i);
      range = std::max(range, std::abs(plain));
      worst = std::max(worst, std::abs(ReadElement(y.data(), DType::kFloat32, i) - plain));
    }
    EXPECT_GT(range, 0.0);
    EXPECT_LE(worst, 6e-3 * range) << NameOf(way);
  }
}

// A model's form depends on its shape and formats only: nothing else of a call may change bits.
TEST(FastExperts, AreForBfloat16Fp8AndMxfp4InChunksAndOfWgmmaWhereThereIsOne) {
  GroupedExpertFfnArgs a{
      .hidden = 7168, .intermediate = 2048, .weight_dtype = kB16, .row_dtype = kB16};
  for (const int64_t rows : {1, 64, 65, 100000}) {
    a.num_experts = a.num_contributions = rows;
    EXPECT_EQ(ExpertFormFor(a, false), ExpertForm::kFast);
  }
  const auto with = [&](auto field, auto value) {
    GroupedExpertFfnArgs other = a;
    other.*field = value;
    return ExpertFormFor(other, false);
  };
  for (const int64_t rows : {1, 64, 65, 100000}) {
    a.num_experts = a.num_contributions = rows;
    EXPECT_EQ(ExpertFormFor(a, true), ExpertForm::kWgmma);
  }
  EXPECT_EQ(with(&GroupedExpertFfnArgs::hidden, 7176), ExpertForm::kFast);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::hidden, 7164), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::intermediate, 2047), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::weight_dtype, DType::kFloat16), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::row_dtype, DType::kFloat32), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::y_dtype, kB16), ExpertForm::kFast);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::has_bias, true), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::swiglu_limit, 7.0f), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::weighs_inputs, true), ExpertForm::kPlain);
  a.weight_dtype = DType::kFloat16;
  EXPECT_EQ(ExpertFormFor(a, true), ExpertForm::kPlain);
  a.weight_dtype = kB16;
  a.hidden = 7164;
  EXPECT_EQ(ExpertFormFor(a, true), ExpertForm::kPlain);
  a.hidden = 7168;
  a.weight_dtype = kF8;
  EXPECT_EQ(ExpertFormFor(a, false), ExpertForm::kFast);
  EXPECT_EQ(ExpertFormFor(a, true), ExpertForm::kWgmma);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::hidden, 7176), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::intermediate, 2040), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::weight_dtype, kMx4), ExpertForm::kFast);
  a.hidden = 7176;
  EXPECT_EQ(ExpertFormFor(a, true), ExpertForm::kPlain);
  a.hidden = 7168;
  a.weight_dtype = kMx4;
  EXPECT_EQ(ExpertFormFor(a, false), ExpertForm::kFast);
  for (const int64_t rows : {1, 64, 65, 100000}) {
    a.num_experts = a.num_contributions = rows;
    EXPECT_EQ(ExpertFormFor(a, true), ExpertForm::kWgmma);
  }
  EXPECT_EQ(with(&GroupedExpertFfnArgs::row_dtype, DType::kFloat32), ExpertForm::kPlain);
}

}  // namespace
}  // namespace janus::kernels::cuda
