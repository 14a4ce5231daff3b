// The fast form of attention in the latent space, row by row, against its rules written as scalar
// loops: contexts at which a page, a block or a split ends, heads that fill a tile or several, rows
// that share one.

#include "kernels/cuda/absorbed_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_attention_rules.h"
#include "tests/unit/kernels/cuda_latent_sequences.h"
#include "tests/unit/kernels/loops.h"

#ifndef JANUS_TEST_ON_GPU
#include "kernels/cuda/absorbed_fast.h"
#endif

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF8 = DType::kFloat8E4M3;

struct Case {
  const char* name;
  int heads;
  std::vector<int> lengths;
  int each = 1;  // rows of a sequence, its last positions
  DType cache = kB16;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class FastAbsorbedTest : public testing::TestWithParam<Case> {};

TEST_P(FastAbsorbedTest, GivesWhatItsRulesSay) {
  const auto& [name, heads, lengths, each, cache] = GetParam();
  const int64_t keys = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) * each;
  if (TooLongForLoops(heads * keys * 2 * kAbsorbedRank)) GTEST_SKIP() << kTooLongForLoops;
  ExpectWhatRulesSay(LatentSequences(heads, lengths, LastRows(lengths, each), {.cache = cache}));
}

TEST_P(FastAbsorbedTest, GivesTheSameBitsAloneAndForEveryWorkspace) {
  const auto& [name, heads, lengths, each, cache] = GetParam();
  ExpectSameBitsAloneAndFor(
      LatentSequences(heads, lengths, LastRows(lengths, each), {.cache = cache}), {1, 3, 8, 100});
}

TEST_P(FastAbsorbedTest, IsNearThePlainForm) {
  const auto& [name, heads, lengths, each, cache] = GetParam();
  LatentSequences sequences(heads, lengths, LastRows(lengths, each), {.cache = cache});
  ExpectNearThePlainForm(sequences);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FastAbsorbedTest,
    testing::Values(
        Case{"OneHead", 1, kEnds}, Case{"Heads5", 5, kEnds}, Case{"Heads16", 16, kEnds},
        Case{"Heads17", 17, {17, 64, 70}}, Case{"Heads32", 32, {1, 17, 64, 130}},
        Case{"Heads40", 40, {17, 129}}, Case{"Heads64", 64, {1, 64, 65, 130}},
        Case{"Heads128", 128, {17, 64, 129}}, Case{"Splits", 2, kSplitEnds},
        Case{"SplitsOf64", 64, {1025}},
        // Tiles of 64, 12, 4, 3 and 1 rows; 32 columns and 64 of them.
        Case{"RowsOfOneHead", 1, {200, 70, 3}, 70}, Case{"RowsOf5", 5, {66, 5, 130}, 14},
        Case{"RowsOf16", 16, {66, 1, 130}, 5}, Case{"PairsOf16", 16, {66, 17, 64}, 2},
        Case{"RowsOf20", 20, {66, 5}, 4}, Case{"RowsOf128", 128, {66}, 3},
        Case{"RowsOverSplits", 8, {1027, 2050, 1024}, 6}, Case{"TilesOverSplits", 128, {1026}, 2},
        Case{"Fp8OneHead", 1, kEnds, 1, kF8}, Case{"Fp8Heads16", 16, kEnds, 1, kF8},
        Case{"Fp8Heads32", 32, {1, 17, 64, 130}, 1, kF8},
        Case{"Fp8Heads128", 128, {17, 64, 129}, 1, kF8}, Case{"Fp8Splits", 2, kSplitEnds, 1, kF8},
        Case{"Fp8RowsOfOneHead", 1, {200, 70, 3}, 70, kF8},
        Case{"Fp8RowsOf16", 16, {66, 1, 130}, 5, kF8},
        Case{"Fp8RowsOverSplits", 8, {1027, 2050, 1024}, 6, kF8}),
    [](const auto& info) { return info.param.name; });

#ifdef JANUS_TEST_ON_GPU
// Too long for the host form: more tasks than there are blocks of threads.
INSTANTIATE_TEST_SUITE_P(Models, FastAbsorbedTest,
                         testing::Values(Case{"DeepSeekV2Lite", 16, {20000, 9000, 3}, 2},
                                         Case{"DeepSeekV3", 128, {70000, 9000, 70}, 2}),
                         [](const auto& info) { return info.param.name; });
#endif

// The place of pages does not change bits. 16-byte copies cannot read all of these.
TEST(FastAbsorbed, ReadsPagesAtAnyAddress) {
  const std::vector<int> lengths = {70, 17, 200};
  const LatentSequences aligned(4, lengths, LastRows(lengths, 2));
  for (const auto& [misalignment, further] : {std::pair{2, 0}, {0, 2}, {2, 2}, {8, 8}}) {
    const LatentSequences crooked(4, lengths, LastRows(lengths, 2),
                                  {.misalignment = misalignment, .further = further});
    EXPECT_TRUE(SameBits(crooked.All(0), aligned.All(0))) << misalignment << ' ' << further;
  }
  // Scales lie at multiples of 4 bytes.
  const LatentSequences scaled(4, lengths, LastRows(lengths, 2), {.cache = kF8});
  for (const auto& [misalignment, further] : {std::pair{4, 0}, {0, 4}, {4, 4}, {8, 8}}) {
    const LatentSequences crooked(4, lengths, LastRows(lengths, 2),
                                  {.misalignment = misalignment, .further = further, .cache = kF8});
    EXPECT_TRUE(SameBits(crooked.All(0), scaled.All(0))) << misalignment << ' ' << further;
  }
}

// A stride of 0 means the default stride.
TEST(FastAbsorbed, TakesRowsAndPagesWithoutRoomBetweenThem) {
  const std::vector<int> lengths = {70, 17, 1030};
  for (const DType cache : {kB16, kF8}) {
    const LatentSequences apart(4, lengths, LastRows(lengths, 2), {.cache = cache});
    const LatentSequences dense(4, lengths, LastRows(lengths, 2), {.dense = true, .cache = cache});
    EXPECT_TRUE(SameBits(dense.All(0), apart.All(0)));
    EXPECT_TRUE(SameBits(dense.All(9), apart.All(0)));
  }
}

// A page number times the bytes of a page exceeds 32 bits.
TEST(FastAbsorbed, ReadsPagesOfACacheOfManyGiB) {
  const std::vector<int> lengths = {70, 17};
  for (const DType cache : {kB16, kF8}) {
    const LatentSequences near(4, lengths, LastRows(lengths, 2), {.cache = cache});
    const LatentSequences far(4, lengths, LastRows(lengths, 2),
                              {.first_page = 1 << 20, .cache = cache});
    EXPECT_TRUE(SameBits(far.All(0), near.All(0)));
  }
}

TEST(FastAbsorbed, ReadsNoPageThatNoRowSees) {
  for (const auto& [last, cache] : {std::pair{40, kB16}, {1040, kB16}, {1040, kF8}}) {
    LatentSequences sequences(16, {last + 200}, {{0, last - 1}, {0, last}}, {.cache = cache});
    const std::vector<float> before = sequences.All(0);
    sequences.Forget(0, last / kPageTokens * kPageTokens + kPageTokens);
    EXPECT_TRUE(SameBits(sequences.All(0), before));
    EXPECT_TRUE(SameBits(sequences.All(100), before));
  }
}

#ifndef JANUS_TEST_ON_GPU
// Each page is read once for the rows of a run, and once for each 64 heads.
TEST(FastAbsorbed, ReadsEachPageOnceForATile) {
  for (const DType cache : {kB16, kF8}) {
    const auto copies = [&](int heads, const std::vector<int>& lengths, int each, int64_t states) {
      const LatentSequences sequences(heads, lengths, LastRows(lengths, each), {.cache = cache});
      const int64_t before = host_copies;
      sequences.All(states);
      const int64_t of_page = LatentPageBytes(cache, kAbsorbedRank, kAbsorbedRope) / kCopyBytes;
      EXPECT_EQ((host_copies - before) % of_page, 0);
      return (host_copies - before) / of_page;
    };
    for (const int64_t states : {0, 3, 100}) {
      EXPECT_EQ(copies(4, {1, 16, 17, 1025}, 1, states), 1 + 1 + 2 + 65);
      EXPECT_EQ(copies(16, {1027, 70}, 4, states), 65 + 5);
      EXPECT_EQ(copies(128, {70}, 1, states), 2 * 5);
    }
  }
}

// A block goes over its tasks one after the other. Neither the number of blocks nor what the task
// before left in shared memory changes bits.
template <int kBits>
void ExpectSameBitsForEveryNumberOfBlocks() {
  const DType cache = kBits == 8 ? kF8 : kB16;
  const std::vector<int> lengths = {1100, 5, 70, 1, 64, 129};
  for (const int heads : {8, 128}) {
    const LatentSequences sequences(heads, heads == 8 ? lengths : std::vector<int>{5, 70},
                                    LastRows(heads == 8 ? lengths : std::vector<int>{5, 70}, 3),
                                    {.cache = cache});
    const std::vector<float> wanted = sequences.All(0);
    for (const int64_t blocks : {1, 2, 7}) {
      for (const int64_t states : {0, 4, 30}) {
        const auto got =
            sequences.RunBy(sequences.Every(), states, [&](const AbsorbedAttentionArgs& args) {
              Plan plan = PlanFastAbsorbed<kBits>(args, states);
              plan.blocks = blocks;
              const Status status =
                  Start("", Stream{}, FastAbsorbedKernel<kBits>{args, states}, plan);
              if (states == 0 || !status.ok()) return status;
              const MergedRows merged = MergedRowsOf(args, states);
              Plan merge = PlanMergeAttention(merged);
              merge.blocks = blocks;
              return Start("", Stream{}, MergeAttentionKernel{merged}, merge);
            });
        EXPECT_TRUE(SameBits(got, wanted)) << blocks << " blocks, " << states << " states";
      }
    }
  }
}
TEST(FastAbsorbed, GivesTheSameBitsForEveryNumberOfBlocks) {
  ExpectSameBitsForEveryNumberOfBlocks<16>();
  ExpectSameBitsForEveryNumberOfBlocks<8>();
}
#endif

// Rows of a call beyond those of one launch, in runs that end with it.
TEST(FastAbsorbed, TakesMoreRowsThanALaunch) {
  std::vector<int> lengths(9, 60);
  lengths[0] = lengths[8] = 1050;  // both launches have states in the workspace
  const LatentSequences sequences(1, lengths, LastRows(lengths, 60));
  ASSERT_EQ(sequences.rows().size(), 540u);
  const std::vector<float> all = sequences.All(0);
  EXPECT_TRUE(SameBits(sequences.All(200), all));
  const auto width = static_cast<size_t>(sequences.Width());
  for (const size_t row : {0u, 510u, 511u, 512u, 513u, 539u}) {
    EXPECT_TRUE(SameBits(sequences.Alone(row), {&all[row * width], width})) << "row " << row;
  }
}

// A key that a row does not see does not change its bits, even if a row in the same tile sees it.
class FastAbsorbedOf : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, FastAbsorbedOf, testing::Values(kB16, kF8),
                         [](const auto& info) { return std::string(ToString(info.param)); });

TEST_P(FastAbsorbedOf, ANaNIsOfTheRowsThatSeeIt) {
  const std::vector<int> lengths = {130, 90};
  LatentSequences sequences(3, lengths, LastRows(lengths, 70), {.cache = GetParam()});
  const std::vector<float> before = sequences.All(0);
  sequences.Poison(0, 100);
  const std::vector<float> after = sequences.All(0);
  const auto width = static_cast<size_t>(sequences.Width());
  for (size_t row = 0; row < sequences.rows().size(); ++row) {
    const auto [sequence, last] = sequences.rows()[row];
    const bool sees = sequence == 0 && last >= 100;
    const std::span<const float> is(&after[row * width], width);
    EXPECT_EQ(SameBits({&before[row * width], width}, is), !sees) << "position " << last;
    const bool all_nan = std::ranges::all_of(is, [](float y) { return std::isnan(y); });
    EXPECT_EQ(all_nan, sees) << "position " << last;
  }
}

// A model's form depends on its shape, its format and the architecture only, because nothing else
// of a call may change bits.
TEST(FastAbsorbed, IsForBfloat16AndFp8AndHeadsThatFillTiles) {
  AbsorbedAttentionArgs a;
  a.cache = {.dtype = kB16, .rank = kAbsorbedRank, .rope = kAbsorbedRope};
  a.heads = 128;
  for (const int64_t rows : {1, 512, 100000}) {
    a.num_rows = rows;
    a.workspace_bytes = rows;
    EXPECT_EQ(AbsorbedFormFor(a, true), AbsorbedForm::kWgmma);
    EXPECT_EQ(AbsorbedFormFor(a, false), AbsorbedForm::kFast);
  }
  const auto with = [&](int heads, int rank, int rope, DType dtype) {
    AbsorbedAttentionArgs other = a;
    other.heads = heads;
    other.cache = {.dtype = dtype, .rank = rank, .rope = rope};
    const AbsorbedForm form = AbsorbedFormFor(other, true);
    const AbsorbedForm elsewhere = AbsorbedFormFor(other, false);
    EXPECT_EQ(elsewhere, form == AbsorbedForm::kPlain ? form : AbsorbedForm::kFast);
    const int64_t bytes = AbsorbedAttentionStateBytes(other.cache, heads, 3, 5 * kKeySplit);
    EXPECT_EQ(bytes, form == AbsorbedForm::kPlain ? 0 : int64_t{8} * heads * 514 * 4);
    return form;
  };
  EXPECT_EQ(with(16, 512, 64, kB16), AbsorbedForm::kFast);
  EXPECT_EQ(with(1, 512, 64, kB16), AbsorbedForm::kFast);
  EXPECT_EQ(with(40, 512, 64, kB16), AbsorbedForm::kFast);
  EXPECT_EQ(with(63, 512, 64, kB16), AbsorbedForm::kFast);
  EXPECT_EQ(with(64, 512, 64, kB16), AbsorbedForm::kWgmma);
  EXPECT_EQ(with(96, 512, 64, kB16), AbsorbedForm::kPlain);
  EXPECT_EQ(with(192, 512, 64, kB16), AbsorbedForm::kWgmma);
  EXPECT_EQ(with(16, 256, 64, kB16), AbsorbedForm::kPlain);
  EXPECT_EQ(with(16, 512, 32, kB16), AbsorbedForm::kPlain);
  EXPECT_EQ(with(16, 512, 64, DType::kFloat32), AbsorbedForm::kPlain);
  EXPECT_EQ(with(16, 512, 64, kF8), AbsorbedForm::kFast);
  EXPECT_EQ(with(64, 512, 64, kF8), AbsorbedForm::kWgmma);
  EXPECT_EQ(with(96, 512, 64, kF8), AbsorbedForm::kPlain);
  EXPECT_EQ(with(128, 256, 64, kF8), AbsorbedForm::kPlain);
}

// Scores that are infinite, or have an infinite product or difference: every form gives for them
// what the specification gives.
struct Scores {
  const char* name;
  float (*of)(int position);
  friend void PrintTo(const Scores& c, std::ostream* out) { *out << c.name; }
};
constexpr float kFar = 0x1.F0p127f;  // 3.3e38: beyond it times log2(e) nothing is finite
// From 1 on.
int NumberOfBlock(int position) {
  return position / kKeyBlock + 1;
}
using FormAndScores = std::tuple<AbsorbedForm, DType, Scores>;
class AbsorbedScores : public testing::TestWithParam<FormAndScores> {};

TEST_P(AbsorbedScores, OfAnySizeWeighWhatTheSpecificationSays) {
  const auto& [form, type, scores] = GetParam();
  if (form == AbsorbedForm::kWgmma && !DeviceHasWgmma()) GTEST_SKIP() << "no wgmma here";
  const std::vector<int> lengths = {1, kKeySplit + 70};
  const int heads = form == AbsorbedForm::kPlain ? 1 : 64;
  LatentSequences sequences(heads, lengths, LastRows(lengths), {.cache = type}, form);
  sequences.GiveScores(scores.of);
  for (const int64_t states : {0, 100}) {
    const std::vector<float> got = sequences.All(states);
    for (size_t row = 0; row < sequences.rows().size(); ++row) {
      const std::vector<double> wanted = sequences.OfGivenScores(row);
      for (int64_t i = 0; i < sequences.Width(); ++i) {
        const double y = wanted[static_cast<size_t>(i % kAbsorbedRank)];
        const float is = got[row * static_cast<size_t>(sequences.Width()) + static_cast<size_t>(i)];
        if (std::isnan(y)) {
          ASSERT_TRUE(std::isnan(is)) << is;
        } else {
          ASSERT_NEAR(is, y, 1e-5 * (1 + std::abs(y))) << "row " << row << ", element " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, AbsorbedScores,
    testing::Combine(
        testing::Values(AbsorbedForm::kPlain, AbsorbedForm::kFast, AbsorbedForm::kWgmma),
        testing::Values(kB16, kF8),
        testing::Values(
            Scores{"OneIsFarAbove", [](int p) { return p == 37 ? kFar : 0.0f; }},
            Scores{"SeveralAreFarAbove", [](int p) { return p % 500 == 37 ? kFar : 0.0f; }},
            Scores{"AllAreFarAbove", [](int) { return kFar; }},
            Scores{"AllAreFarBelow", [](int) { return -kFar; }},
            Scores{"FromFarBelowToFarAbove", [](int p) { return p < 128 ? -kFar : kFar; }},
            Scores{"FromFarAboveToFarBelow", [](int p) { return p < 128 ? kFar : -kFar; }},
            // Products with log2(e) are off by up to 256, and 2^256 is not finite.
            Scores{"RiseByTheBlock",
                   [](int p) { return 1e9f * static_cast<float>(NumberOfBlock(p)); }},
            Scores{"FallByTheBlock",
                   [](int p) { return -1e9f * static_cast<float>(NumberOfBlock(p)); }},
            Scores{"AllAreMinusInfinity", [](int) { return -INFINITY; }},
            Scores{"TheFirstBlocksAreMinusInfinity",
                   [](int p) { return p < 150 ? -INFINITY : 0.0f; }},
            Scores{"TheFirstSplitIsMinusInfinity",
                   [](int p) { return p < kKeySplit + 3 ? -INFINITY : -kFar; }},
            Scores{"TheLastSplitIsMinusInfinity",
                   [](int p) { return p >= kKeySplit - 3 ? -INFINITY : 1.0f; }})),
    [](const auto& info) {
      const AbsorbedForm form = std::get<0>(info.param);
      return std::string(form == AbsorbedForm::kPlain  ? "Plain"
                         : form == AbsorbedForm::kFast ? "Fast"
                                                       : "Wgmma") +
             std::string(ToString(std::get<1>(info.param))) + std::get<2>(info.param).name;
    });

// The operation runs the form that the model has.
TEST_P(FastAbsorbedOf, IsWhatTheOperationRuns) {
  const LatentSequences sequences(16, {70}, {{0, 69}}, {.cache = GetParam()});
  const auto operation = [](const AbsorbedAttentionArgs& args) {
    return AbsorbedAttention(Stream{.device = Device::kCuda}, args);
  };
  EXPECT_TRUE(SameBits(sequences.RunBy({0}, 0, operation), sequences.Alone(0)));
  EXPECT_FALSE(SameBits(sequences.RunAs(AbsorbedForm::kPlain, {0}, 0), sequences.Alone(0)));
}

}  // namespace
}  // namespace janus::kernels::cuda
