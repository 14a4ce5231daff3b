// The fast form of paged attention, row by row, against its rules written as scalar loops: contexts
// at which a page, a block or a split ends, groups of every width, rows that share a tile.

#include "kernels/cuda/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/reference/cached.h"
#include "tests/unit/kernels/cuda_attention_rules.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"

#ifndef JANUS_TEST_ON_GPU
#include "kernels/cuda/attention_fast.h"
#include "kernels/cuda/start.h"
#endif

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF32 = DType::kFloat32;
constexpr DType kF8 = DType::kFloat8E4M3;

struct Shape {
  int heads;
  int kv_heads;
  int head_dim;
  int window = 0;
  DType cache = kB16;
};
// Sequences in a cache with pages in random order. What no row may read is NaN: pages that no
// sequence owns, positions behind a sequence's last, what lies between rows of queries.
class Sequences {
 public:
  Sequences(const Shape& shape, std::vector<int> lengths, std::vector<AttentionRow> rows,
            AttentionLayout layout = {})
      : shape_(shape),
        lengths_(std::move(lengths)),
        rows_(std::move(rows)),
        dense_(layout.dense),
        first_page_(layout.first_page),
        page_bytes_(KvPageBytes(shape.cache, shape.kv_heads, shape.head_dim) + (dense_ ? 0 : 32) +
                    layout.further),
        pages_(5),
        queries_(kF32, static_cast<int64_t>(rows_.size()) * Width()) {
    for (const int length : lengths_) pages_ += (length + kPageTokens - 1) / kPageTokens;
    storage_ = std::make_unique<GuardedArray>(
        shape_.cache, pages_ * page_bytes_ / SizeOf(shape_.cache), layout.misalignment);
    storage_->FillWithNaN();
    std::mt19937_64 random(17);
    std::vector<int32_t> free(static_cast<size_t>(pages_));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, random);
    for (size_t s = 0; s < lengths_.size(); ++s) {
      auto& table = tables_.emplace_back();
      for (int p = 0; p < lengths_[s]; ++p) {
        if (p % kPageTokens == 0) {
          table.push_back(first_page_ + free.back());
          free.pop_back();
        }
        GuardedArray keys(kF32, int64_t{shape_.kv_heads} * shape_.head_dim);
        GuardedArray values(kF32, keys.count());
        Write(static_cast<int>(s), p, keys.FillNormal(random), values.FillNormal(random));
      }
    }
    queries_.FillNormal(random, 1.5f);
  }

  const std::vector<AttentionRow>& rows() const { return rows_; }
  int64_t Width() const { return int64_t{shape_.heads} * shape_.head_dim; }

  // All elements of one row's result, computed alone.
  std::vector<float> Alone(size_t row) const { return Run({row}, 0); }
  std::vector<float> All(int64_t states) const {
    std::vector<size_t> all(rows_.size());
    std::iota(all.begin(), all.end(), 0);
    return Run(all, states);
  }
  // The rows of `selection` in one call, with a workspace for `states` rows and splits and a little
  // more. Float32, which shows more than a model's rounded results.
  std::vector<float> Run(const std::vector<size_t>& selection, int64_t states,
                         AttentionForm form = AttentionForm::kFast) const {
    return RunBy(selection, states, [&](const PagedAttentionArgs& args) {
      return RunPagedAttention(Stream{.device = Device::kCuda}, args, form);
    });
  }
  // By attend(args).
  template <class Attend>
  std::vector<float> RunBy(const std::vector<size_t>& selection, int64_t states,
                           Attend attend) const {
    NextOrder();
    const auto count = static_cast<int64_t>(selection.size());
    const int64_t stride = dense_ ? Width() : Width() + 3;
    GuardedArray q(kF32, count * stride);
    GuardedArray y(kF32, count * stride);
    q.Fill(NAN);
    y.Fill(NAN);
    std::vector<KvRow> rows;
    for (int64_t i = 0; i < count; ++i) {
      const size_t row = selection[static_cast<size_t>(i)];
      rows.push_back(
          {tables_[static_cast<size_t>(rows_[row].sequence)].data(), rows_[row].position});
      for (int64_t j = 0; j < Width(); ++j) {
        q.set(i * stride + j, queries_.at(static_cast<int64_t>(row) * Width() + j));
      }
    }
    const int64_t floats = states * shape_.heads * (shape_.head_dim + 2);
    GuardedArray workspace(kF32, floats > 0 ? floats + 5 : 0);
    workspace.Fill(NAN);
    const Status status =
        attend(PagedAttentionArgs{.cache = Cache(),
                                  .rows = rows.data(),
                                  .queries = q.floats(),
                                  .query_stride = dense_ ? 0 : stride,
                                  .y = y.data(),
                                  .y_dtype = kF32,
                                  .y_stride = dense_ ? 0 : stride,
                                  .num_rows = count,
                                  .heads = shape_.heads,
                                  .scale = Scale(),
                                  .sliding_window = shape_.window,
                                  .workspace = workspace.data(),
                                  .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    EXPECT_TRUE(storage_->GuardsAreIntact());
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < Width(); ++j) out.push_back(y.at(i * stride + j));
      for (int64_t j = Width(); j < stride; ++j) EXPECT_TRUE(std::isnan(y.at(i * stride + j)));
    }
    return out;
  }

  // The rules of attention_fast.h for one row, as loops.
  std::vector<float> Rules(size_t row) const {
    std::vector<float> y(static_cast<size_t>(Width()));
    for (int h = 0; h < shape_.heads; ++h) RulesOfHead(row, h, &y[At(h, 0)]);
    return y;
  }

  void RoundQueries() {
    for (int64_t i = 0; i < queries_.count(); ++i) {
      queries_.set(i, FromBFloat16(ToBFloat16(queries_.at(i))));
    }
  }

  // The block table has no page of positions `from` up to `to`, multiples of kPageTokens. A look-up
  // there ends the process.
  void Forget(int sequence, int from, int to) {
    auto& table = tables_[static_cast<size_t>(sequence)];
    std::fill(table.begin() + from / kPageTokens, table.begin() + to / kPageTokens, 1 << 30);
  }

  // A key and value become NaN.
  void Poison(int sequence, int position) {
    GuardedArray nothing(kF32, int64_t{shape_.kv_heads} * shape_.head_dim);
    nothing.Fill(NAN);
    Write(sequence, position, nothing, nothing);
  }

 private:
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }
  size_t At(int64_t h, int64_t d) const { return static_cast<size_t>(h * shape_.head_dim + d); }
  KvCache Cache() const {
    return {.pages = FirstOfAllPages(),
            .num_pages = first_page_ + pages_,
            .page_stride_bytes = dense_ ? 0 : page_bytes_,
            .dtype = shape_.cache,
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.head_dim};
  }
  // With the reference, because all devices write the same bytes.
  void Write(int sequence, int position, GuardedArray& keys, GuardedArray& values) {
    const KvRow row{tables_[static_cast<size_t>(sequence)].data(), position};
    const Status status = KvWrite(Stream{}, {.cache = Cache(),
                                             .rows = &row,
                                             .keys = keys.floats(),
                                             .values = values.floats(),
                                             .num_rows = 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // The address of page 0, which has no memory unless it is the first page.
  void* FirstOfAllPages() const {
    return static_cast<char*>(storage_->data()) - first_page_ * page_bytes_;
  }

  void RulesOfHead(size_t row, int h, float* out) const {
    const auto [sequence, last] = rows_[row];
    const int first = shape_.window == 0 ? 0 : std::max(0, last - shape_.window + 1);
    const int g = h / (shape_.heads / shape_.kv_heads);
    const KvCache cache = Cache();
    const auto cached = [&, sequence = sequence](int key) {
      return CachedHead(
          cache, tables_[static_cast<size_t>(sequence)][static_cast<size_t>(key / kPageTokens)], g);
    };
    const auto score = [&](int key) {
      const CachedHead of = cached(key);
      float dot = 0.0f;
      for (int d = 0; d < shape_.head_dim; ++d) {
        const auto at = static_cast<int64_t>(row) * Width() + int64_t{h} * shape_.head_dim + d;
        dot = std::fma(static_cast<float>(of.Key(key % kPageTokens, d)),
                       FromBFloat16(ToBFloat16(queries_.at(at))), dot);
      }
      return dot * Scale();
    };
    const auto value = [&](int key, int d) {
      return static_cast<float>(cached(key).Value(key % kPageTokens, d));
    };
    AttentionRules(first, last, shape_.head_dim, score, value, kKeySplit,
                   shape_.cache == kF8 ? FirstPairs::kNeighbours : FirstPairs::kEightApart)
        .Run(out);
  }

  Shape shape_;
  std::vector<int> lengths_;
  std::vector<AttentionRow> rows_;
  bool dense_;
  int32_t first_page_;
  int64_t page_bytes_;
  int64_t pages_;
  GuardedArray queries_;
  std::unique_ptr<GuardedArray> storage_;
  std::vector<std::vector<int32_t>> tables_;
};

struct Case {
  const char* name;
  Shape shape;
  std::vector<int> lengths;
  int each = 1;  // rows of a sequence, its last positions
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class FastAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(FastAttentionTest, GivesWhatItsRulesSay) {
  const auto& [name, shape, lengths, each] = GetParam();
  ExpectWhatRulesSay(Sequences(shape, lengths, LastRows(lengths, each)));
}

TEST_P(FastAttentionTest, GivesTheSameBitsAloneAndForEveryWorkspace) {
  const auto& [name, shape, lengths, each] = GetParam();
  ExpectSameBitsAloneAndFor(Sequences(shape, lengths, LastRows(lengths, each)),
                            {1, 2, 3, 5, 8, 13, 100});
}

// The form differs from the plain one only by rounding queries and weights to bfloat16. To first
// order, y = sum_j p_j v_j moves by sum_j p_j (v_j - y) (s_j + e_j), where s_j is the change of a
// score and e_j the relative change of a weight. Rounding to bfloat16 moves a number by at most
// 2^-8 of the power of 2 below it, evenly up to there. Over a binade the root mean square is 0.43 *
// 2^-8 of the number, which is e_j. s_j adds up D elements of a query, of deviation 1.5 here, times
// keys and 1/sqrt(D): 1.5 * 0.39 * 2^-8 (large elements count for more, and are at the upper end of
// their binade). Together that is 0.73 * 2^-8 of each term of y; the queries' part is the larger.
// Terms move independently, so an element moves by about that of the largest element at most. The
// bound is twice that.
TEST_P(FastAttentionTest, IsNearThePlainForm) {
  const auto& [name, shape, lengths, each] = GetParam();
  Sequences sequences(shape, lengths, LastRows(lengths, each));
  std::vector<size_t> all(sequences.rows().size());
  std::iota(all.begin(), all.end(), 0);
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
    Shapes, FastAttentionTest,
    testing::Values(Case{"MultiHead", {2, 2, 64}, kEnds}, Case{"GroupOf4", {8, 2, 128}, kEnds},
                    Case{"GroupOf8", {16, 2, 128}, kEnds}, Case{"GroupOf16", {32, 2, 128}, kEnds},
                    Case{"GroupOf32", {32, 1, 64}, kEnds}, Case{"GroupOf5", {15, 3, 64}, kEnds},
                    Case{"Wide", {16, 1, 256}, kEnds}, Case{"WideGroupOf8", {8, 1, 256}, kEnds},
                    Case{"Splits", {8, 1, 128}, kSplitEnds},
                    Case{"SplitsOfMultiHead", {2, 2, 64}, kSplitEnds},
                    Case{"SplitsWide", {2, 1, 256}, {1025, 2048}},
                    // Tiles of 32, 4, 2 and 1 rows.
                    Case{"RowsOfMultiHead", {1, 1, 64}, {200, 70, 3}, 70},
                    Case{"RowsOfGroupOf8", {8, 1, 128}, {66, 5, 130}, 9},
                    Case{"RowsOfGroupOf12", {12, 1, 64}, {66, 5, 130}, 5},
                    Case{"RowsOfGroupOf16", {16, 1, 64}, {66, 5, 130}, 5},
                    Case{"RowsOverSplits", {8, 1, 64}, {1027, 2050, 1024}, 6},
                    Case{"WindowOfOne", {4, 1, 64, 1}, {1, 17, 64, 65}},
                    Case{"Window", {4, 1, 128, 50}, {40, 50, 51, 114, 300}, 3},
                    Case{"WindowOverSplits", {4, 1, 64, 1100}, {1050, 1124, 2126, 3200}, 5},
                    Case{"Fp8MultiHead", {2, 2, 64, 0, kF8}, kEnds},
                    Case{"Fp8GroupOf4", {8, 2, 128, 0, kF8}, kEnds},
                    Case{"Fp8GroupOf16", {32, 2, 128, 0, kF8}, kEnds},
                    Case{"Fp8GroupOf32", {32, 1, 64, 0, kF8}, kEnds},
                    Case{"Fp8GroupOf5", {15, 3, 64, 0, kF8}, kEnds},
                    Case{"Fp8Wide", {16, 1, 256, 0, kF8}, kEnds},
                    Case{"Fp8WideGroupOf8", {8, 1, 256, 0, kF8}, kEnds},
                    Case{"Fp8Splits", {8, 1, 128, 0, kF8}, kSplitEnds},
                    Case{"Fp8SplitsWide", {2, 1, 256, 0, kF8}, {1025, 2048}},
                    Case{"Fp8RowsOfMultiHead", {1, 1, 64, 0, kF8}, {200, 70, 3}, 70},
                    Case{"Fp8RowsOfGroupOf12", {12, 1, 64, 0, kF8}, {66, 5, 130}, 5},
                    Case{"Fp8RowsOverSplits", {8, 1, 128, 0, kF8}, {1027, 2050, 1024}, 6},
                    Case{"Fp8Window", {4, 1, 128, 50, kF8}, {40, 50, 51, 114, 300}, 3},
                    Case{"Fp8WindowOverSplits", {4, 1, 64, 1100, kF8}, {1124, 3200}, 5}),
    [](const auto& info) { return info.param.name; });

#ifdef JANUS_TEST_ON_GPU
// Too long for the host form: more tasks than there are blocks of threads.
INSTANTIATE_TEST_SUITE_P(Models, FastAttentionTest,
                         testing::Values(Case{"Qwen3", {64, 4, 128}, {20000, 9000, 3}, 2},
                                         Case{"Mixtral", {32, 8, 128}, {9000, 70, 12000}, 5}),
                         [](const auto& info) { return info.param.name; });
#endif

// The place of pages does not change bits. 16-byte copies cannot read all of these.
TEST(FastAttention, ReadsPagesAtAnyAddress) {
  const Shape shape{8, 2, 64};
  const std::vector<int> lengths = {70, 17, 200};
  const Sequences aligned(shape, lengths, LastRows(lengths, 2));
  for (const auto& [misalignment, further] : {std::pair{2, 0}, {0, 2}, {2, 2}, {8, 8}}) {
    const Sequences crooked(shape, lengths, LastRows(lengths, 2),
                            {.misalignment = misalignment, .further = further});
    EXPECT_TRUE(SameBits(crooked.All(0), aligned.All(0))) << misalignment << ' ' << further;
  }
  // Scales lie at multiples of 4 bytes.
  const Shape scaled{8, 2, 64, 0, kF8};
  const Sequences aligned_too(scaled, lengths, LastRows(lengths, 2));
  for (const auto& [misalignment, further] : {std::pair{4, 0}, {0, 4}, {4, 4}, {8, 8}}) {
    const Sequences crooked(scaled, lengths, LastRows(lengths, 2),
                            {.misalignment = misalignment, .further = further});
    EXPECT_TRUE(SameBits(crooked.All(0), aligned_too.All(0))) << misalignment << ' ' << further;
  }
}

// A stride of 0 means the default stride.
TEST(FastAttention, TakesRowsAndPagesWithoutRoomBetweenThem) {
  for (const DType cache : {kB16, kF8}) {
    const Shape shape{8, 2, 64, 0, cache};
    const std::vector<int> lengths = {70, 17, 1030};
    const Sequences apart(shape, lengths, LastRows(lengths, 2));
    const Sequences dense(shape, lengths, LastRows(lengths, 2), {.dense = true});
    EXPECT_TRUE(SameBits(dense.All(0), apart.All(0)));
    EXPECT_TRUE(SameBits(dense.All(9), apart.All(0)));
  }
}

// A page number times the bytes of a page exceeds 32 bits.
TEST(FastAttention, ReadsPagesOfACacheOfManyGiB) {
  for (const DType cache : {kB16, kF8}) {
    const Shape shape{8, 2, 64, 0, cache};
    const std::vector<int> lengths = {70, 17};
    const Sequences near(shape, lengths, LastRows(lengths, 2));
    const Sequences far(shape, lengths, LastRows(lengths, 2), {.first_page = 1 << 20});
    EXPECT_TRUE(SameBits(far.All(0), near.All(0)));
  }
}

// Rows of one sequence that do not follow one another, in one tile. The block table has no entry
// for a page between their windows.
TEST(FastAttention, ReadsNoPageThatNoRowSees) {
  for (const auto& [last, cache] : {std::pair{500, kB16}, {2500, kB16}, {2500, kF8}}) {
    Sequences sequences({4, 1, 64, 50, cache}, {last + 1}, {{0, 100}, {0, last}, {0, 20}});
    std::vector<float> alone;
    for (size_t row = 0; row < 3; ++row)
      std::ranges::copy(sequences.Alone(row), std::back_inserter(alone));
    sequences.Forget(0, 112, (last - 49) / kPageTokens * kPageTokens);
    sequences.Forget(0, 32, 48);
    EXPECT_TRUE(SameBits(sequences.All(0), alone));
    EXPECT_TRUE(SameBits(sequences.All(100), alone));
  }
}

#ifndef JANUS_TEST_ON_GPU
// More splits than are read at once; of each row's states those of the row and head.
TEST(FastAttention, MergesStatesFromTheFirstToTheLast) {
  constexpr SplitStates kAt{.heads = 3, .head_dim = 64};
  const std::vector<int> splits = {20, 2, 8, 9, 1, 16};  // the fifth row has no states
  std::vector<KvRow> rows;
  const std::vector<int32_t> tables(splits.size());
  for (size_t r = 0; r < splits.size(); ++r) {
    rows.push_back({&tables[r], splits[r] * kKeySplit - 1 - static_cast<int>(r)});
  }
  std::mt19937_64 random(3);
  GuardedArray workspace(kF32, 55 * kAt.Floats());
  workspace.FillNormal(random, 2.0f);
  GuardedArray y(kF32, int64_t{6} * kAt.heads * kAt.head_dim);
  PagedAttentionArgs args{.cache = {.kv_heads = 3, .head_dim = 64},
                          .rows = rows.data(),
                          .y = y.data(),
                          .num_rows = 6,
                          .heads = static_cast<int>(kAt.heads),
                          .workspace = workspace.data()};
  NextOrder();
  const MergedRows merged = MergedRowsOf(args, 55);
  ASSERT_TRUE(Start("", Stream{}, MergeAttentionKernel{merged}, PlanMergeAttention(merged)).ok());
  ASSERT_TRUE(y.GuardsAreIntact());
  int64_t state = 0;
  for (size_t r = 0; r < splits.size(); ++r) {
    if (splits[r] == 1) continue;
    for (int64_t h = 0; h < kAt.heads; ++h) {
      for (int64_t d = 0; d < kAt.head_dim; ++d) {
        float largest = -INFINITY, total = 0.0f, sum = 0.0f;
        for (int s = 0; s < splits[r]; ++s) {
          const float of_split = workspace.at(kAt.Largest(state + s, h));
          const float both = std::max(largest, of_split);
          const float before = std::exp(largest - both);
          const float now = std::exp(of_split - both);
          total = total * before + workspace.at(kAt.Total(state + s, h)) * now;
          sum = sum * before + workspace.at(kAt.Value(state + s, h, d)) * now;
          largest = both;
        }
        ASSERT_EQ(y.at((static_cast<int64_t>(r) * kAt.heads + h) * kAt.head_dim + d), sum / total)
            << "row " << r << ", head " << h << ", element " << d;
      }
    }
    state += splits[r];
  }
}

// Reads each page once for the heads and rows of a run, whatever its tasks.
TEST(FastAttention, ReadsEachPageOnce) {
  const auto copies = [](const Shape& shape, const std::vector<int>& lengths, int each,
                         int64_t states) {
    const Sequences sequences(shape, lengths, LastRows(lengths, each));
    const int64_t before = host_copies;
    sequences.All(states);
    const int64_t of_page = KvPageBytes(shape.cache, shape.kv_heads, shape.head_dim) / kCopyBytes;
    EXPECT_EQ((host_copies - before) % of_page, 0);
    return (host_copies - before) / of_page;
  };
  for (const int64_t states : {0, 3, 100}) {
    for (const DType cache : {kB16, kF8}) {
      EXPECT_EQ(copies({8, 2, 64, 0, cache}, {1, 16, 17, 1025, 3000}, 1, states),
                1 + 1 + 2 + 65 + 188);
      EXPECT_EQ(copies({8, 1, 64, 0, cache}, {1027, 70, 2048}, 4, states), 65 + 5 + 128);
      // Keys 1900..2999 begin in the 119th page.
      EXPECT_EQ(copies({8, 1, 64, 1100, cache}, {3000}, 1, states), 188 - 118);
    }
  }
}

// A block goes over its tasks one after the other. Neither the number of blocks nor what the task
// before left in shared memory changes bits.
template <int kBits>
void ExpectSameBitsForEveryNumberOfBlocks() {
  const Shape shape{16, 2, 64, 700, kBits == 8 ? kF8 : kB16};
  const std::vector<int> lengths = {1100, 5, 70, 1500, 1, 64, 300, 129};
  const Sequences sequences(shape, lengths, LastRows(lengths, 3));
  std::vector<size_t> all(sequences.rows().size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<float> wanted = sequences.All(0);
  for (const int64_t blocks : {1, 2, 3, 7}) {
    for (const int64_t states : {0, 4, 30}) {
      const auto got = sequences.RunBy(all, states, [&](const PagedAttentionArgs& args) {
        Plan plan = PlanFastAttention<64, kBits>(args, states);
        plan.blocks = blocks;
        const Status status =
            Start("", Stream{}, FastAttentionKernel<64, kBits>{args, states}, plan);
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
TEST(FastAttention, GivesTheSameBitsForEveryNumberOfBlocks) {
  ExpectSameBitsForEveryNumberOfBlocks<16>();
  ExpectSameBitsForEveryNumberOfBlocks<8>();
}
#endif

// Rows of a call beyond those of one launch, in runs that end with it.
TEST(FastAttention, TakesMoreRowsThanALaunch) {
  const Shape shape{2, 2, 64};
  std::vector<int> lengths(10, 60);
  lengths[0] = lengths[9] = 1050;  // both launches have states in the workspace
  const Sequences sequences(shape, lengths, LastRows(lengths, 60));
  ASSERT_EQ(sequences.rows().size(), 600u);
  const std::vector<float> all = sequences.All(0);
  EXPECT_TRUE(SameBits(sequences.All(200), all));
  const auto width = static_cast<size_t>(sequences.Width());
  for (const size_t row : {0u, 510u, 511u, 512u, 513u, 599u}) {
    EXPECT_TRUE(SameBits(sequences.Alone(row), {&all[row * width], width})) << "row " << row;
  }
}

// A key that a row does not see does not change its bits, even if a row in the same tile sees it.
TEST(FastAttention, ANaNIsOfTheRowsThatSeeIt) {
  const std::vector<int> lengths = {130, 90};
  for (const auto& [window, cache] : {std::pair{0, kB16}, {64, kB16}, {0, kF8}, {64, kF8}}) {
    const Shape shape{8, 1, 64, window, cache};
    Sequences sequences(shape, lengths, LastRows(lengths, 70));
    const std::vector<float> before = sequences.All(0);
    sequences.Poison(0, 100);
    const std::vector<float> after = sequences.All(0);
    const auto width = static_cast<size_t>(sequences.Width());
    for (size_t row = 0; row < sequences.rows().size(); ++row) {
      const auto [sequence, last] = sequences.rows()[row];
      const bool sees = sequence == 0 && last >= 100 && (window == 0 || last - window + 1 <= 100);
      const std::span<const float> is(&after[row * width], width);
      EXPECT_EQ(SameBits({&before[row * width], width}, is), !sees) << "position " << last;
      const bool all_nan = std::ranges::all_of(is, [](float y) { return std::isnan(y); });
      EXPECT_EQ(all_nan, sees) << "position " << last;
    }
  }
}

// A model's form depends on its shape and formats only: nothing else of a call may change bits.
TEST(FastAttention, IsForBfloat16AndFp8AndGroupsThatATileHolds) {
  PagedAttentionArgs a;
  a.cache = {.dtype = kB16, .kv_heads = 4, .head_dim = 128};
  a.y_dtype = kB16;
  a.heads = 64;
  for (const int64_t rows : {1, 512, 100000}) {
    a.num_rows = rows;
    a.workspace_bytes = rows;
    EXPECT_EQ(AttentionFormFor(a), AttentionForm::kFast);
  }
  const auto with = [&](int heads, int kv_heads, int head_dim) {
    PagedAttentionArgs other = a;
    other.heads = heads;
    other.cache.kv_heads = kv_heads;
    other.cache.head_dim = head_dim;
    return AttentionFormFor(other);
  };
  EXPECT_EQ(with(32, 8, 128), AttentionForm::kFast);
  EXPECT_EQ(with(32, 1, 64), AttentionForm::kFast);
  EXPECT_EQ(with(33, 1, 64), AttentionForm::kPlain);
  EXPECT_EQ(with(16, 1, 256), AttentionForm::kFast);
  EXPECT_EQ(with(17, 1, 256), AttentionForm::kPlain);
  EXPECT_EQ(with(32, 8, 96), AttentionForm::kPlain);
  PagedAttentionArgs other = a;
  other.y_dtype = kF32;
  EXPECT_EQ(AttentionFormFor(other), AttentionForm::kPlain);
  other.cache.dtype = kF8;
  EXPECT_EQ(AttentionFormFor(other), AttentionForm::kPlain);
  other = a;
  other.cache.dtype = kF8;
  EXPECT_EQ(AttentionFormFor(other), AttentionForm::kFast);
  const float sinks[64] = {};
  other.sinks = sinks;
  EXPECT_EQ(AttentionFormFor(other), AttentionForm::kPlain);
  other.sinks = nullptr;
  other.chunk = 8192;
  EXPECT_EQ(AttentionFormFor(other), AttentionForm::kPlain);
  other.chunk = 0;
  other.cache.dtype = kF32;
  EXPECT_EQ(AttentionFormFor(other), AttentionForm::kPlain);
}

}  // namespace
}  // namespace janus::kernels::cuda
