// The fast form of attention in the latent space, row by row, against its rules written as scalar
// loops: contexts at which a page, a block or a split ends, heads that fill a tile or several, rows
// that share one.

#include "kernels/cuda/absorbed_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/reference/cached.h"
#include "tests/unit/kernels/cuda_attention_rules.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"

#ifndef JANUS_TEST_ON_GPU
#include "kernels/cuda/absorbed_fast.h"
#include "kernels/cuda/start.h"
#endif

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF32 = DType::kFloat32;
constexpr DType kF8 = DType::kFloat8E4M3;
constexpr int kEntry = kAbsorbedRank + kAbsorbedRope;
const float kScale = 1.0f / std::sqrt(static_cast<float>(kEntry));

// Sequences in a cache whose pages lie in random order. What no row may read is NaN: pages that no
// sequence owns, positions behind a sequence's last, what lies between rope queries.
class LatentSequences {
 public:
  LatentSequences(int heads, std::vector<int> lengths, std::vector<AttentionRow> rows,
                  AttentionLayout layout = {})
      : heads_(heads),
        rows_(std::move(rows)),
        dense_(layout.dense),
        first_page_(layout.first_page),
        type_(layout.cache),
        page_bytes_(LatentPageBytes(type_, kAbsorbedRank, kAbsorbedRope) + (dense_ ? 0 : 32) +
                    layout.further),
        pages_(5),
        queries_(kF32, static_cast<int64_t>(rows_.size()) * heads * kEntry) {
    for (const int length : lengths) pages_ += (length + kPageTokens - 1) / kPageTokens;
    storage_ = std::make_unique<GuardedArray>(type_, pages_ * page_bytes_ / SizeOf(type_),
                                              layout.misalignment);
    storage_->FillWithNaN();
    std::mt19937_64 random(17);
    std::vector<int32_t> free(static_cast<size_t>(pages_));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, random);
    for (size_t s = 0; s < lengths.size(); ++s) {
      auto& table = tables_.emplace_back();
      for (int p = 0; p < lengths[s]; ++p) {
        if (p % kPageTokens == 0) {
          table.push_back(first_page_ + free.back());
          free.pop_back();
        }
        GuardedArray entry(kF32, kEntry);
        Write(static_cast<int>(s), p, entry.FillNormal(random));
      }
    }
    queries_.FillNormal(random, 1.5f);
  }

  const std::vector<AttentionRow>& rows() const { return rows_; }
  // Of a row's results.
  int64_t Width() const { return int64_t{heads_} * kAbsorbedRank; }

  std::vector<float> Alone(size_t row) const { return Run({row}, 0); }
  std::vector<float> All(int64_t states) const { return Run(Every(), states); }
  std::vector<size_t> Every() const {
    std::vector<size_t> all(rows_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // The rows of `selection` in one call, with a workspace for `states` rows and splits and a little
  // more.
  std::vector<float> Run(const std::vector<size_t>& selection, int64_t states,
                         AttentionForm form = AttentionForm::kFast) const {
    return RunBy(selection, states, [&](const AbsorbedAttentionArgs& args) {
      return RunAbsorbedAttention(Stream{.device = Device::kCuda}, args, form);
    });
  }
  // By attend(args).
  template <class Attend>
  std::vector<float> RunBy(const std::vector<size_t>& selection, int64_t states,
                           Attend attend) const {
    NextOrder();
    const auto count = static_cast<int64_t>(selection.size());
    const int64_t head_stride = dense_ ? kAbsorbedRope : kAbsorbedRope + 3;
    const int64_t row_stride = heads_ * head_stride + (dense_ ? 0 : 5);
    GuardedArray latent(kF32, count * Width());
    GuardedArray rope(kF32, count * row_stride);
    GuardedArray y(kF32, count * Width());
    rope.Fill(NAN);
    y.Fill(NAN);
    std::vector<KvRow> rows;
    for (int64_t i = 0; i < count; ++i) {
      const size_t row = selection[static_cast<size_t>(i)];
      rows.push_back(
          {tables_[static_cast<size_t>(rows_[row].sequence)].data(), rows_[row].position});
      for (int h = 0; h < heads_; ++h) {
        for (int d = 0; d < kAbsorbedRank; ++d) {
          latent.set((i * heads_ + h) * kAbsorbedRank + d, Query(row, h, d));
        }
        for (int d = 0; d < kAbsorbedRope; ++d) {
          rope.set(i * row_stride + h * head_stride + d, Query(row, h, kAbsorbedRank + d));
        }
      }
    }
    const int64_t floats = states * heads_ * (kAbsorbedRank + 2);
    GuardedArray workspace(kF32, floats > 0 ? floats + 5 : 0);
    workspace.Fill(NAN);
    const Status status = attend(
        AbsorbedAttentionArgs{.cache = Cache(),
                              .rows = rows.data(),
                              .latent_queries = latent.floats(),
                              .rope_queries = rope.floats(),
                              .rope_query_row_stride = dense_ ? 0 : row_stride,
                              .rope_query_head_stride = dense_ ? 0 : head_stride,
                              .y = y.floats(),
                              .num_rows = count,
                              .heads = heads_,
                              .scale = kScale,
                              .workspace = workspace.data(),
                              .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    EXPECT_TRUE(storage_->GuardsAreIntact());
    std::vector<float> out;
    for (int64_t i = 0; i < y.count(); ++i) out.push_back(y.at(i));
    return out;
  }

  // The rules of absorbed_fast.h for one row, as loops.
  std::vector<float> Rules(size_t row) const {
    const auto [sequence, last] = rows_[row];
    std::vector<float> keys;
    for (int p = 0; p <= last; ++p) {
      const int32_t page =
          tables_[static_cast<size_t>(sequence)][static_cast<size_t>(p / kPageTokens)];
      for (int d = 0; d < kEntry; ++d) {
        keys.push_back(static_cast<float>(CachedLatent(Cache(), page, p % kPageTokens, d)));
      }
    }
    std::vector<float> out(static_cast<size_t>(Width()));
    for (int h = 0; h < heads_; ++h) {
      std::vector<float> query;
      for (int d = 0; d < kEntry; ++d) {
        query.push_back(FromBFloat16(ToBFloat16(Query(row, h, d))));
      }
      const auto key = [&](int p) { return keys.data() + int64_t{p} * kEntry; };
      const auto score = [&](int p) {
        float dot = 0.0f;
        for (int d = 0; d < kEntry; ++d)
          dot = std::fma(key(p)[d], query[static_cast<size_t>(d)], dot);
        return dot * kScale;
      };
      const auto value = [&](int p, int d) { return key(p)[d]; };
      AttentionRules(0, last, kAbsorbedRank, score, value)
          .Run(out.data() + int64_t{h} * kAbsorbedRank);
    }
    return out;
  }

  void RoundQueries() {
    for (int64_t i = 0; i < queries_.count(); ++i) {
      queries_.set(i, FromBFloat16(ToBFloat16(queries_.at(i))));
    }
  }

  // The block table has no page of positions from `from` on, which is a multiple of kPageTokens: to
  // look there ends the process.
  void Forget(int sequence, int from) {
    auto& table = tables_[static_cast<size_t>(sequence)];
    std::fill(table.begin() + from / kPageTokens, table.end(), 1 << 30);
  }

  // A latent vector and its rope key become NaN.
  void Poison(int sequence, int position) {
    GuardedArray nothing(kF32, kEntry);
    nothing.Fill(NAN);
    Write(sequence, position, nothing);
  }

 private:
  float Query(size_t row, int h, int d) const {
    return queries_.at((static_cast<int64_t>(row) * heads_ + h) * kEntry + d);
  }
  LatentCache Cache() const {
    return {.pages = FirstOfAllPages(),
            .num_pages = first_page_ + pages_,
            .page_stride_bytes = dense_ ? 0 : page_bytes_,
            .dtype = type_,
            .rank = kAbsorbedRank,
            .rope = kAbsorbedRope};
  }
  // By the reference, whose bytes are those of every device.
  void Write(int sequence, int position, GuardedArray& entry) {
    const KvRow row{tables_[static_cast<size_t>(sequence)].data(), position};
    const Status status = LatentWrite(
        Stream{}, {.cache = Cache(), .rows = &row, .entries = entry.floats(), .num_rows = 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // Where page 0 would lie, of which there is no memory unless it is the first.
  void* FirstOfAllPages() const {
    return static_cast<char*>(storage_->data()) - first_page_ * page_bytes_;
  }

  int heads_;
  std::vector<AttentionRow> rows_;
  bool dense_;
  int32_t first_page_;
  DType type_;
  int64_t page_bytes_;
  int64_t pages_;
  GuardedArray queries_;
  std::unique_ptr<GuardedArray> storage_;
  std::vector<std::vector<int32_t>> tables_;
};

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
  ExpectWhatRulesSay(LatentSequences(heads, lengths, LastRows(lengths, each), {.cache = cache}));
}

TEST_P(FastAbsorbedTest, GivesTheSameBitsAloneAndForEveryWorkspace) {
  const auto& [name, heads, lengths, each, cache] = GetParam();
  ExpectSameBitsAloneAndFor(
      LatentSequences(heads, lengths, LastRows(lengths, each), {.cache = cache}), {1, 3, 8, 100});
}

// The form's roundings, queries and weights to bfloat16, are all that parts it from the plain one.
// They move results as cuda_paged_attention_test.cc derives, for the same queries and keys of
// deviation 1.5 and 1: the 576 products of a score are scaled by 1/sqrt(576), as D are by
// 1/sqrt(D). That a value is a part of its key adds to what element d moves sum_j p_j c_jd^2 times
// the rounding of q_d and the scale: a 24th of what that element of the query is rounded by, which
// the factor of 2 holds too.
TEST_P(FastAbsorbedTest, IsNearThePlainForm) {
  const auto& [name, heads, lengths, each, cache] = GetParam();
  LatentSequences sequences(heads, lengths, LastRows(lengths, each), {.cache = cache});
  const std::vector<size_t> all = sequences.Every();
  const std::vector<float> plain = sequences.Run(all, 0, AttentionForm::kPlain);
  const std::vector<float> fast = sequences.Run(all, 100);
  const Difference both(plain, fast);
  ASSERT_GT(both.range, 0.0);
  EXPECT_LE(both.worst, 2 * 0.73 / 256 * both.range);
  sequences.RoundQueries();
  const Difference weights(sequences.Run(all, 0, AttentionForm::kPlain), fast);
  EXPECT_LE(weights.worst, 2 * 0.43 / 256 * weights.range);
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

// Where pages lie does not show in the bits: copies of 16 bytes cannot read all of it.
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

// The strides that are meant where none is given.
TEST(FastAbsorbed, TakesRowsAndPagesWithoutRoomBetweenThem) {
  const std::vector<int> lengths = {70, 17, 1030};
  for (const DType cache : {kB16, kF8}) {
    const LatentSequences apart(4, lengths, LastRows(lengths, 2), {.cache = cache});
    const LatentSequences dense(4, lengths, LastRows(lengths, 2), {.dense = true, .cache = cache});
    EXPECT_TRUE(SameBits(dense.All(0), apart.All(0)));
    EXPECT_TRUE(SameBits(dense.All(9), apart.All(0)));
  }
}

// A page number times the bytes of a page is more than 32 bits hold.
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
// Once for the rows of a run, and once for each 64 heads.
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

// A block goes over its tasks one after the other; how many blocks there are does not show, nor
// what the task before left in shared memory.
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

// Of what a row does not see nothing shows, though a row beside it in the tile sees it.
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

// A model's form is a matter of its shape and its format: nothing else of a call may change bits.
TEST(FastAbsorbed, IsForBfloat16AndFp8AndHeadsThatFillTiles) {
  AbsorbedAttentionArgs a;
  a.cache = {.dtype = kB16, .rank = kAbsorbedRank, .rope = kAbsorbedRope};
  a.heads = 128;
  for (const int64_t rows : {1, 512, 100000}) {
    a.num_rows = rows;
    a.workspace_bytes = rows;
    EXPECT_EQ(AbsorbedFormFor(a), AttentionForm::kFast);
  }
  const auto with = [&](int heads, int rank, int rope, DType dtype) {
    AbsorbedAttentionArgs other = a;
    other.heads = heads;
    other.cache = {.dtype = dtype, .rank = rank, .rope = rope};
    const AttentionForm form = AbsorbedFormFor(other);
    const int64_t bytes = AbsorbedAttentionStateBytes(other.cache, heads, 3, 5 * kKeySplit);
    EXPECT_EQ(bytes, form == AttentionForm::kFast ? int64_t{8} * heads * 514 * 4 : 0);
    return form;
  };
  EXPECT_EQ(with(16, 512, 64, kB16), AttentionForm::kFast);
  EXPECT_EQ(with(1, 512, 64, kB16), AttentionForm::kFast);
  EXPECT_EQ(with(40, 512, 64, kB16), AttentionForm::kFast);
  EXPECT_EQ(with(96, 512, 64, kB16), AttentionForm::kPlain);
  EXPECT_EQ(with(192, 512, 64, kB16), AttentionForm::kFast);
  EXPECT_EQ(with(16, 256, 64, kB16), AttentionForm::kPlain);
  EXPECT_EQ(with(16, 512, 32, kB16), AttentionForm::kPlain);
  EXPECT_EQ(with(16, 512, 64, kF32), AttentionForm::kPlain);
  EXPECT_EQ(with(16, 512, 64, kF8), AttentionForm::kFast);
  EXPECT_EQ(with(96, 512, 64, kF8), AttentionForm::kPlain);
  EXPECT_EQ(with(16, 256, 64, kF8), AttentionForm::kPlain);
}

// What a model calls is the form that is its.
TEST_P(FastAbsorbedOf, IsWhatTheOperationRuns) {
  const LatentSequences sequences(16, {70}, {{0, 69}}, {.cache = GetParam()});
  const auto operation = [](const AbsorbedAttentionArgs& args) {
    return AbsorbedAttention(Stream{.device = Device::kCuda}, args);
  };
  EXPECT_TRUE(SameBits(sequences.RunBy({0}, 0, operation), sequences.Alone(0)));
  EXPECT_FALSE(SameBits(sequences.Run({0}, 0, AttentionForm::kPlain), sequences.Alone(0)));
}

}  // namespace
}  // namespace janus::kernels::cuda
