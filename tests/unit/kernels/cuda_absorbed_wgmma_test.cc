// Attention in the latent space by wgmma, row by row, against its rules written as scalar loops:
// contexts at which a third of a page, a page, a block or a split ends, one tile of heads and
// several.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/absorbed_attention.h"
#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_attention_rules.h"
#include "tests/unit/kernels/cuda_latent_sequences.h"
#include "tests/unit/kernels/loops.h"

#ifndef JANUS_TEST_ON_GPU
#include "kernels/cuda/absorbed_wgmma.h"
#endif

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF8 = DType::kFloat8E4M3;

LatentSequences Sequences(int heads, const std::vector<int>& lengths, int each,
                          AttentionLayout layout = {}) {
  return {heads, lengths, LastRows(lengths, each), layout, AbsorbedForm::kWgmma};
}

struct Case {
  const char* name;
  int heads;
  std::vector<int> lengths;
  int each = 1;  // rows of a sequence, its last positions
  DType cache = kB16;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class WgmmaAbsorbedTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!DeviceHasWgmma()) GTEST_SKIP() << "no wgmma here";
  }
  static LatentSequences Of(const Case& c) {
    return Sequences(c.heads, c.lengths, c.each, {.cache = c.cache});
  }
};

TEST_P(WgmmaAbsorbedTest, GivesWhatItsRulesSay) {
  const Case& c = GetParam();
  const int64_t keys = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0}) * c.each;
  if (TooLongForLoops(c.heads * keys * 2 * kAbsorbedRank)) GTEST_SKIP() << kTooLongForLoops;
  ExpectWhatRulesSay(Of(GetParam()));
}

TEST_P(WgmmaAbsorbedTest, GivesTheSameBitsAloneAndForEveryWorkspace) {
  ExpectSameBitsAloneAndFor(Of(GetParam()), {1, 3, 8, 100});
}

TEST_P(WgmmaAbsorbedTest, IsNearThePlainForm) {
  LatentSequences sequences = Of(GetParam());
  ExpectNearThePlainForm(sequences);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, WgmmaAbsorbedTest,
    testing::Values(Case{"Heads64", 64, kEnds}, Case{"Heads128", 128, {17, 64, 129}},
                    Case{"Heads192", 192, {33, 191}},
                    Case{"Blocks", 64, {128, 191, 192, 193, 256, 257, 320, 321}},
                    Case{"Splits", 64, {1023, 1024, 1025, 2049}}, Case{"Rows", 64, {66, 5, 130}, 3},
                    Case{"RowsOf128", 128, {66}, 3}, Case{"RowsOverSplits", 128, {1026}, 3},
                    Case{"Fp8Heads64", 64, kEnds, 1, kF8},
                    Case{"Fp8Heads128", 128, {17, 64, 129}, 1, kF8},
                    Case{"Fp8Blocks", 64, {128, 191, 193, 256, 321}, 1, kF8},
                    Case{"Fp8Splits", 64, {1023, 1025}, 1, kF8},
                    Case{"Fp8RowsOverSplits", 64, {1026}, 3, kF8}),
    [](const auto& info) { return info.param.name; });

#ifdef JANUS_TEST_ON_GPU
// Too long for the host form: more tasks than there are blocks of threads.
INSTANTIATE_TEST_SUITE_P(Models, WgmmaAbsorbedTest,
                         testing::Values(Case{"DeepSeekV3", 128, {70000, 9000, 70}, 2},
                                         Case{"Fp8DeepSeekV3", 128, {70000, 9000, 70}, 2, kF8}),
                         [](const auto& info) { return info.param.name; });
#endif

class WgmmaAbsorbed : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!DeviceHasWgmma()) GTEST_SKIP() << "no wgmma here";
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, WgmmaAbsorbed, testing::Values(kB16, kF8),
                         [](const auto& info) { return std::string(ToString(info.param)); });

// Weights that are far apart: only their sums show the order of additions.
TEST_P(WgmmaAbsorbed, GivesWhatItsRulesSayOfScoresThatAreFarApart) {
  LatentSequences sequences = Sequences(64, {129, 64, 200}, 1, {.cache = GetParam()});
  sequences.ScaleQueries(4.0f);
  ExpectWhatRulesSay(sequences);
}

// The place of pages does not change bits. 16-byte copies cannot read all of these. Scales of fp8
// lie at multiples of 4 bytes.
TEST_P(WgmmaAbsorbed, ReadsPagesAtAnyAddress) {
  const std::vector<int> lengths = {70, 17, 200};
  const std::vector<float> aligned = Sequences(64, lengths, 2, {.cache = GetParam()}).All(0);
  const int step = GetParam() == kF8 ? 4 : 2;
  for (const auto& [misalignment, further] :
       {std::pair{step, 0}, {0, step}, {step, step}, {8, 8}}) {
    const LatentSequences crooked = Sequences(
        64, lengths, 2, {.misalignment = misalignment, .further = further, .cache = GetParam()});
    EXPECT_TRUE(SameBits(crooked.All(0), aligned)) << misalignment << ' ' << further;
  }
}

// A stride of 0 means the default stride. Here queries are read 16 bytes at once.
TEST_P(WgmmaAbsorbed, TakesRowsAndPagesWithoutRoomBetweenThem) {
  const std::vector<int> lengths = {70, 17, 1030};
  const std::vector<float> apart = Sequences(128, lengths, 2, {.cache = GetParam()}).All(0);
  const LatentSequences dense = Sequences(128, lengths, 2, {.dense = true, .cache = GetParam()});
  EXPECT_TRUE(SameBits(dense.All(0), apart));
  EXPECT_TRUE(SameBits(dense.All(9), apart));
}

// A page number times the bytes of a page exceeds 32 bits.
TEST_P(WgmmaAbsorbed, ReadsPagesOfACacheOfManyGiB) {
  const std::vector<int> lengths = {70, 17};
  const LatentSequences near = Sequences(64, lengths, 2, {.cache = GetParam()});
  const LatentSequences far =
      Sequences(64, lengths, 2, {.first_page = 1 << 20, .cache = GetParam()});
  EXPECT_TRUE(SameBits(far.All(0), near.All(0)));
}

TEST_P(WgmmaAbsorbed, ReadsNoPageThatNoRowSees) {
  for (const int last : {40, 1040}) {
    LatentSequences sequences(64, {last + 200}, {{0, last - 1}, {0, last}}, {.cache = GetParam()},
                              AbsorbedForm::kWgmma);
    const std::vector<float> before = sequences.All(0);
    sequences.Forget(0, last / kPageTokens * kPageTokens + kPageTokens);
    EXPECT_TRUE(SameBits(sequences.All(0), before));
    EXPECT_TRUE(SameBits(sequences.All(100), before));
  }
}

// A key that a row does not see does not change its bits, even if the next row sees it.
TEST_P(WgmmaAbsorbed, ANaNIsOfTheRowsThatSeeIt) {
  const std::vector<int> lengths = {130, 90};
  LatentSequences sequences = Sequences(64, lengths, 40, {.cache = GetParam()});
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

// The operation runs the form that the model has.
TEST_P(WgmmaAbsorbed, IsWhatTheOperationRuns) {
  for (const int heads : {64, 128}) {
    const LatentSequences sequences = Sequences(heads, {70}, 1, {.cache = GetParam()});
    const auto operation = [](const AbsorbedAttentionArgs& args) {
      return AbsorbedAttention(Stream{.device = Device::kCuda}, args);
    };
    EXPECT_TRUE(SameBits(sequences.RunBy({0}, 0, operation), sequences.Alone(0)));
#ifndef JANUS_TEST_ON_GPU
    EXPECT_FALSE(SameBits(sequences.RunAs(AbsorbedForm::kFast, {0}, 0), sequences.Alone(0)));
#endif
  }
}

// Rows of a call beyond those of one launch, which have states in the workspace in both.
TEST(WgmmaAbsorbedLaunches, TakeMoreRowsThanOneHasRoomFor) {
  if (!DeviceHasWgmma()) GTEST_SKIP() << "no wgmma here";
  std::vector<int> lengths(9, 60);
  lengths[0] = lengths[8] = 1026;
  const LatentSequences sequences = Sequences(64, lengths, 58);
  ASSERT_EQ(sequences.rows().size(), 522u);
  const std::vector<float> all = sequences.All(200);
  const auto width = static_cast<size_t>(sequences.Width());
  for (const size_t row : {0u, 510u, 511u, 512u, 513u, 521u}) {
    EXPECT_TRUE(SameBits(sequences.Alone(row), {&all[row * width], width})) << "row " << row;
  }
}

#ifndef JANUS_TEST_ON_GPU
// Reads each key that a row sees once for 64 heads, and no other key. In fp8, copies read only the
// rope part.
TEST_P(WgmmaAbsorbed, ReadsEachKeyOnceForATile) {
  const int of_key = (GetParam() == kF8 ? kAbsorbedRope : kLatentEntry) * 2 / kCopyBytes;
  const auto copies = [&](int heads, const std::vector<int>& lengths, int64_t states) {
    const LatentSequences sequences = Sequences(heads, lengths, 1, {.cache = GetParam()});
    const int64_t before = host_copies;
    sequences.All(states);
    EXPECT_EQ((host_copies - before) % of_key, 0);
    return (host_copies - before) / of_key;
  };
  for (const int64_t states : {0, 3, 100}) {
    EXPECT_EQ(copies(64, {1, 16, 17, 1025}, states), 1 + 16 + 17 + 1025);
    EXPECT_EQ(copies(128, {70}, states), 2 * 70);
  }
}

// A block goes over its tasks one after the other. Neither the number of blocks nor what the task
// before left in shared memory changes bits.
template <int kBits>
void ExpectSameBitsForEveryNumberOfBlocks() {
  LatentSequences sequences =
      Sequences(128, {1100, 5, 70, 64}, 2, {.cache = kBits == 8 ? kF8 : kB16});
  sequences.Poison(1, 3);  // NaN is left behind, too
  const std::vector<float> wanted = sequences.All(0);
  for (const int64_t blocks : {1, 2, 7}) {
    for (const int64_t states : {0, 3, 30}) {
      const auto got =
          sequences.RunBy(sequences.Every(), states, [&](const AbsorbedAttentionArgs& args) {
            Plan plan = PlanWgmmaAbsorbed<kBits>(args, states);
            plan.blocks = blocks;
            const Status status =
                Start("", Stream{}, WgmmaAbsorbedKernel<kBits>{args, states}, plan);
            if (states == 0 || !status.ok()) return status;
            const MergedRows merged = MergedRowsOf(args, states);
            return Start("", Stream{}, MergeAttentionKernel{merged}, PlanMergeAttention(merged));
          });
      EXPECT_TRUE(SameBits(got, wanted)) << blocks << " blocks, " << states << " states";
    }
  }
}
TEST_P(WgmmaAbsorbed, GivesTheSameBitsForEveryNumberOfBlocks) {
  if (GetParam() == kF8) {
    ExpectSameBitsForEveryNumberOfBlocks<8>();
  } else {
    ExpectSameBitsForEveryNumberOfBlocks<16>();
  }
}
#endif

}  // namespace
}  // namespace janus::kernels::cuda
