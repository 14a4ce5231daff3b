// The fast form of attention over expanded keys and values, row by row, against its rules written
// as scalar loops: contexts at which a page, a block or a chunk ends, numbers of rows at which a
// tile does, sequences of several lengths.

#include "kernels/cuda/expanded_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/unit/kernels/cuda_attention_rules.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/loops.h"

#ifndef JANUS_TEST_ON_GPU
#include "kernels/cuda/expanded_deal.h"
#include "kernels/cuda/start.h"
#endif

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF32 = DType::kFloat32;
constexpr int kEntry = kAbsorbedRank + kAbsorbedRope;
constexpr int kOfHead = kSharedExpansion;
constexpr int kWidth = kOfHead + kAbsorbedRope;  // of a query
constexpr int64_t kLeastBytes = ExpandedAttentionWorkspaceBytes(kWidth, kOfHead, 1);
constexpr int64_t kManyBytes = 16 << 20;  // all that is expanded here
const float kScale = 1.0f / std::sqrt(static_cast<float>(kWidth));

// Sequences in a cache with pages in random order. What no row may read is NaN: pages that no
// sequence owns, positions behind a sequence's last, what lies between rows of queries.
class ExpandedSequences {
 public:
  ExpandedSequences(int heads, const std::vector<int>& lengths, std::vector<AttentionRow> rows,
                    AttentionLayout layout = {})
      : heads_(heads),
        rows_(std::move(rows)),
        dense_(layout.dense),
        first_page_(layout.first_page),
        page_bytes_(LatentPageBytes(kB16, kAbsorbedRank, kAbsorbedRope) + (dense_ ? 0 : 32) +
                    layout.further),
        pages_(5),
        queries_(kF32, static_cast<int64_t>(rows_.size()) * heads * kWidth),
        expand_(kB16, int64_t{heads} * 2 * kOfHead * kAbsorbedRank, layout.misalignment) {
    for (const int length : lengths) pages_ += (length + kPageTokens - 1) / kPageTokens;
    storage_ = std::make_unique<GuardedArray>(kB16, pages_ * page_bytes_ / 2, layout.misalignment);
    storage_->Fill(std::numeric_limits<float>::quiet_NaN());
    std::mt19937_64 random(23);
    std::vector<int32_t> free(static_cast<size_t>(pages_));
    std::iota(free.begin(), free.end(), first_page_);
    std::ranges::shuffle(free, random);
    std::normal_distribution<float> normal;
    for (size_t s = 0; s < lengths.size(); ++s) {
      auto& table = tables_.emplace_back();
      for (int p = 0; p < lengths[s]; ++p) {
        if (p % kPageTokens == 0) {
          table.push_back(free.back());
          free.pop_back();
        }
        for (int d = 0; d < kEntry; ++d) Set(static_cast<int>(s), p, d, normal(random));
      }
    }
    queries_.FillNormal(random, 1.5f);
    expand_.FillNormal(random, 1.0f / std::sqrt(static_cast<float>(kAbsorbedRank)));
  }

  const std::vector<AttentionRow>& rows() const { return rows_; }
  // Of a row's results.
  int64_t Width() const { return int64_t{heads_} * kOfHead; }

  std::vector<float> Alone(size_t row) const { return Run({row}, kManyBytes); }
  // 0: with a workspace that holds all.
  std::vector<float> All(int64_t bytes) const {
    return Run(Every(), bytes == 0 ? kManyBytes : bytes);
  }
  std::vector<size_t> Every() const {
    std::vector<size_t> all(rows_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // The rows of `selection` in one call, with a workspace of so many bytes, or of the least.
  std::vector<float> Run(const std::vector<size_t>& selection, int64_t bytes,
                         AttentionForm form = AttentionForm::kFast) const {
    return RunBy(selection, bytes, [&](const ExpandedAttentionArgs& args) {
      return RunExpandedAttention(Stream{.device = Device::kCuda}, args, form);
    });
  }
  // By attend(args).
  template <class Attend>
  std::vector<float> RunBy(const std::vector<size_t>& selection, int64_t bytes, Attend attend,
                           DType y_dtype = kF32) const {
    NextOrder();
    const auto count = static_cast<int64_t>(selection.size());
    const int64_t stride = int64_t{heads_} * kWidth + (dense_ ? 0 : 5);
    GuardedArray queries(kF32, count * stride);
    GuardedArray y(y_dtype, count * Width());
    queries.Fill(NAN);
    y.Fill(NAN);
    std::vector<KvRow> rows;
    int64_t key_blocks = 1;  // more than there are
    int last = -1;           // of the sequence so far
    for (int64_t i = 0; i < count; ++i) {
      const auto [sequence, position] = rows_[selection[static_cast<size_t>(i)]];
      rows.push_back({tables_[static_cast<size_t>(sequence)].data(), position});
      if (i > 0 && rows[static_cast<size_t>(i - 1)].block_table != rows.back().block_table) {
        last = -1;
      }
      if (position > last) {
        key_blocks += position / kKeyBlock - (last < 0 ? -1 : last / kKeyBlock);
        last = position;
      }
      for (int d = 0; d < heads_ * kWidth; ++d) {
        queries.set(
            i * stride + d,
            queries_.at(static_cast<int64_t>(selection[static_cast<size_t>(i)]) * heads_ * kWidth +
                        d));
      }
    }
    GuardedArray workspace(kF32, std::max(bytes, kLeastBytes) / 4);
    std::memset(workspace.data(), 0xFF, workspace.data_bytes());
    const Status status =
        attend(ExpandedAttentionArgs{.cache = {.pages = FirstOfAllPages(),
                                               .num_pages = first_page_ + pages_,
                                               .page_stride_bytes = dense_ ? 0 : page_bytes_,
                                               .dtype = kB16,
                                               .rank = kAbsorbedRank,
                                               .rope = kAbsorbedRope},
                                     .rows = rows.data(),
                                     .queries = queries.floats(),
                                     .query_stride = dense_ ? 0 : stride,
                                     .expand = expand_.data(),
                                     .expand_dtype = kB16,
                                     .y = y.data(),
                                     .y_dtype = y_dtype,
                                     .num_rows = count,
                                     .heads = heads_,
                                     .nope_dim = kOfHead,
                                     .value_dim = kOfHead,
                                     .scale = kScale,
                                     .key_blocks = key_blocks,
                                     .workspace = workspace.data(),
                                     .workspace_bytes = std::max(bytes, kLeastBytes)});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    EXPECT_TRUE(storage_->GuardsAreIntact());
    std::vector<float> out;
    for (int64_t i = 0; i < y.count(); ++i) out.push_back(y.at(i));
    return out;
  }

  // The rules of expand_keys.h and expanded_fast.h for one row, as loops.
  std::vector<float> Rules(size_t row) const {
    const auto [sequence, last] = rows_[row];
    std::vector<float> out(static_cast<size_t>(Width()));
    for (int h = 0; h < heads_; ++h) {
      std::vector<float> query;
      for (int d = 0; d < kWidth; ++d) {
        query.push_back(FromBFloat16(ToBFloat16(Query(row, h, d))));
      }
      const auto score = [&, sequence = sequence](int p) {
        const std::vector<float>& of = Expanded(sequence, h, p);
        float dot = 0.0f;
        for (int d = 0; d < kWidth; ++d) {
          const float key = d < kOfHead ? of[static_cast<size_t>(d)]
                                        : At(sequence, p, kAbsorbedRank + d - kOfHead);
          dot = std::fma(query[static_cast<size_t>(d)], key, dot);
        }
        return dot * kScale;
      };
      const auto value = [&, sequence = sequence](int p, int d) {
        return Expanded(sequence, h, p)[static_cast<size_t>(kOfHead + d)];
      };
      AttentionRules(0, last, kOfHead, score, value, INT_MAX)
          .Run(out.data() + int64_t{h} * kOfHead);
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

  // The position's score becomes far larger for head 0 of the row than any other.
  void Favour(size_t row, int position) {
    for (int d = 0; d < kAbsorbedRope; ++d) {
      Set(rows_[row].sequence, position, kAbsorbedRank + d, 50.0f * Query(row, 0, kOfHead + d));
    }
  }

  // Its score becomes -`by`, times a factor, for head 0 of the row.
  void Disfavour(size_t row, int position, float by) {
    Set(rows_[row].sequence, position, kAbsorbedRank, -std::copysign(by, Query(row, 0, kOfHead)));
  }

  void Set(int sequence, int position, int d, float value) {
    storage_->set(ElementOf(sequence, position, d), value);
  }

 private:
  float Query(size_t row, int h, int d) const {
    return queries_.at((static_cast<int64_t>(row) * heads_ + h) * kWidth + d);
  }
  int64_t ElementOf(int sequence, int p, int d) const {
    const int32_t page =
        tables_[static_cast<size_t>(sequence)][static_cast<size_t>(p / kPageTokens)];
    return (page - first_page_) * page_bytes_ / 2 + p % kPageTokens * kEntry + d;
  }
  float At(int sequence, int p, int d) const { return storage_->at(ElementOf(sequence, p, d)); }
  // A position's key without rope, then its value.
  const std::vector<float>& Expanded(int sequence, int h, int p) const {
    std::vector<float>& of = expanded_[{sequence, h, p}];
    if (!of.empty()) return of;
    std::vector<float> entry;
    for (int d = 0; d < kAbsorbedRank; ++d) entry.push_back(At(sequence, p, d));
    for (int64_t o = 0; o < 2 * kOfHead; ++o) {
      float sum = 0.0f;
      for (int d = 0; d < kAbsorbedRank; ++d) {
        const int64_t weight = (int64_t{h} * 2 * kOfHead + o) * kAbsorbedRank + d;
        sum = std::fma(entry[static_cast<size_t>(d)], expand_.at(weight), sum);
      }
      of.push_back(FromBFloat16(ToBFloat16(sum)));
    }
    return of;
  }
  // Where page 0 would lie, of which there is no memory unless it is the first.
  void* FirstOfAllPages() const {
    return static_cast<char*>(storage_->data()) - first_page_ * page_bytes_;
  }

  int heads_;
  std::vector<AttentionRow> rows_;
  bool dense_;
  int32_t first_page_;
  int64_t page_bytes_;
  int64_t pages_;
  GuardedArray queries_;
  GuardedArray expand_;
  std::unique_ptr<GuardedArray> storage_;
  std::vector<std::vector<int32_t>> tables_;
  mutable std::map<std::tuple<int, int, int>, std::vector<float>> expanded_;
};

struct Case {
  const char* name;
  int heads;
  std::vector<int> lengths;
  int each = 1;  // rows of a sequence, its last positions
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class FastExpandedTest : public testing::TestWithParam<Case> {};

TEST_P(FastExpandedTest, GivesWhatItsRulesSay) {
  const auto& [name, heads, lengths, each] = GetParam();
  const int64_t keys = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (TooLongForLoops(heads * keys * 2 * kOfHead * kAbsorbedRank)) GTEST_SKIP() << kTooLongForLoops;
  ExpectWhatRulesSay(ExpandedSequences(heads, lengths, LastRows(lengths, each)));
}

// The least workspace takes a head at a time and 8 key blocks. Some rows are computed alone.
TEST_P(FastExpandedTest, GivesTheSameBitsAloneAndForEveryWorkspace) {
  const auto& [name, heads, lengths, each] = GetParam();
  const ExpandedSequences sequences(heads, lengths, LastRows(lengths, each));
  ExpectSameBitsAloneAndFor(sequences, {1, kLeastBytes + 100000, 3 * kLeastBytes, kManyBytes},
                            1 + sequences.rows().size() / 12);
}

// The form differs from the plain one by roundings to bfloat16: of queries and weights, which move
// results as cuda_paged_attention_test.cc derives for the same queries and keys of deviation
// 1.5 and 1, and of what was expanded. An expanded key moves a score as a query does, by 0.39 *
// 2^-8 of each product, in 128 of its 192: by 1.5 * 0.32. An expanded value moves its term of y by
// 0.43 * 2^-8 of it, as a weight does. Together sqrt(0.585^2 + 0.48^2 + 2 * 0.43^2) = 0.97, without
// the queries' part 0.78, in 2^-8 of what each term is; twice that is the bound, as there.
TEST_P(FastExpandedTest, IsNearThePlainForm) {
  const auto& [name, heads, lengths, each] = GetParam();
  ExpandedSequences sequences(heads, lengths, LastRows(lengths, std::min(each, 3)));
  const std::vector<size_t> all = sequences.Every();
  const std::vector<float> plain = sequences.Run(all, 1, AttentionForm::kPlain);
  const std::vector<float> fast = sequences.Run(all, kManyBytes);
  const Difference both(plain, fast);
  ASSERT_GT(both.range, 0.0);
  EXPECT_LE(both.worst, 2 * 0.97 / 256 * both.range);
  sequences.RoundQueries();
  const Difference others(sequences.Run(all, 1, AttentionForm::kPlain), fast);
  EXPECT_LE(others.worst, 2 * 0.78 / 256 * others.range);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FastExpandedTest,
    testing::Values(Case{"OneHead", 1, kEnds}, Case{"Heads3", 3, {1, 64, 65, 17}},
                    Case{"Heads16", 16, {17}},
                    // Rows of warps, tiles and a few more; over block and page borders.
                    Case{"Rows16", 1, {70, 5}, 16}, Case{"Rows17", 1, {130}, 17},
                    Case{"Rows64", 1, {64, 66}, 64}, Case{"Rows65", 1, {65}, 65},
                    Case{"Rows128", 1, {130}, 128}, Case{"Rows129", 2, {129}, 129},
                    Case{"Ragged", 1, {3, 70, 1, 33, 129, 16}, 40},
                    Case{"Long", 1, {1030, 540}, 20}),
    [](const auto& info) { return info.param.name; });

#ifdef JANUS_TEST_ON_GPU
// Too long for the host form.
INSTANTIATE_TEST_SUITE_P(Models, FastExpandedTest,
                         testing::Values(Case{"DeepSeekV2Lite", 16, {4100, 70, 900}, 300},
                                         Case{"DeepSeekV3", 128, {1500, 700}, 200}),
                         [](const auto& info) { return info.param.name; });
#endif

// A prompt in chunks: rows attend to all earlier positions, with the bits of the whole prompt.
TEST(FastExpanded, ComputesAPromptInChunksWithTheSameBits) {
  const ExpandedSequences sequences(1, {150}, LastRows({150}, 150));
  const std::vector<float> whole = sequences.All(0);
  const auto width = static_cast<size_t>(sequences.Width());
  for (size_t first = 0, size = 1; first < 150; first += size, size = size * 2 + 3) {
    std::vector<size_t> chunk(std::min(size, 150 - first));
    std::iota(chunk.begin(), chunk.end(), first);
    EXPECT_TRUE(
        SameBits(sequences.Run(chunk, kManyBytes), {&whole[first * width], chunk.size() * width}))
        << "from " << first;
  }
}

// The place of pages and weights does not change bits. 16-byte copies cannot read all of these.
TEST(FastExpanded, ReadsPagesAndWeightsAtAnyAddress) {
  const std::vector<int> lengths = {70, 17};
  const ExpandedSequences aligned(1, lengths, LastRows(lengths, 2));
  for (const auto& [misalignment, further] : {std::pair{2, 0}, {0, 2}, {2, 2}, {8, 8}}) {
    const ExpandedSequences crooked(1, lengths, LastRows(lengths, 2),
                                    {.misalignment = misalignment, .further = further});
    EXPECT_TRUE(SameBits(crooked.All(0), aligned.All(0))) << misalignment << ' ' << further;
  }
}

// A stride of 0 means the default stride.
TEST(FastExpanded, TakesRowsAndPagesWithoutRoomBetweenThem) {
  const std::vector<int> lengths = {70, 17};
  const ExpandedSequences apart(2, lengths, LastRows(lengths, 2));
  const ExpandedSequences dense(2, lengths, LastRows(lengths, 2), {.dense = true});
  EXPECT_TRUE(SameBits(dense.All(0), apart.All(0)));
}

// A page number times the bytes of a page exceeds 32 bits.
TEST(FastExpanded, ReadsPagesOfACacheOfManyGiB) {
  const std::vector<int> lengths = {70, 17};
  const ExpandedSequences near(1, lengths, LastRows(lengths, 2));
  const ExpandedSequences far(1, lengths, LastRows(lengths, 2), {.first_page = 1 << 20});
  EXPECT_TRUE(SameBits(far.All(0), near.All(0)));
}

TEST(FastExpanded, ReadsNoPageThatNoRowSees) {
  for (const int last : {15, 40, 63, 64, 140}) {
    ExpandedSequences sequences(1, {last + 200}, {{0, last - 1}, {0, last}});
    const std::vector<float> before = sequences.All(0);
    sequences.Forget(0, last / kPageTokens * kPageTokens + kPageTokens);
    EXPECT_TRUE(SameBits(sequences.All(0), before)) << last;
  }
}

// A key that a row does not see does not change its bits, even if a row in the same tile sees it:
// neither a NaN or an infinity nor its sign.
TEST(FastExpanded, ANaNIsOfTheRowsThatSeeIt) {
  const std::vector<int> lengths = {130, 90};
  const auto width = static_cast<size_t>(kOfHead);
  for (const auto& [poison, d, from] :
       {std::tuple{NAN, 7, 100}, std::tuple{NAN, 7, 101}, std::tuple{NAN, kAbsorbedRank + 3, 100},
        std::tuple{INFINITY, 7, 100}, std::tuple{-INFINITY, 500, 96}}) {
    ExpandedSequences sequences(1, lengths, LastRows(lengths, 70));
    const std::vector<float> before = sequences.All(0);
    for (const int at : {from, from + 13}) sequences.Set(0, at, d, poison);
    const std::vector<float> after = sequences.All(0);
    for (size_t row = 0; row < sequences.rows().size(); ++row) {
      const auto [sequence, last] = sequences.rows()[row];
      const bool sees = sequence == 0 && last >= from;
      const std::span<const float> is(&after[row * width], width);
      EXPECT_EQ(SameBits({&before[row * width], width}, is), !sees) << "position " << last;
      const bool all_nan = std::ranges::all_of(is, [](float y) { return std::isnan(y); });
      EXPECT_EQ(all_nan, sees) << "position " << last << ", " << d;
    }
  }
}

// Earlier values fade to -0 or +0, and the value of the one key after them rounds to -0 or +0. A
// row that does not see this key must not take the sign that the row beside it gets.
TEST(FastExpanded, AZeroHasNoSign) {
  ExpandedSequences sequences(1, {130}, {{0, 64}, {0, 127}});
  sequences.Favour(0, 64);
  for (int p = 65; p < 128; ++p) {  // of one value: each sign for every step of 16
    for (int d = 0; d < kAbsorbedRank; ++d) {
      sequences.Set(0, p, d, static_cast<float>(d * 37 % 11 - 5));
    }
  }
  for (int d = 0; d < kAbsorbedRank; ++d) sequences.Set(0, 64, d, d == 0 ? -0x1p-133f : 0.0f);
  const std::vector<float> alone = sequences.Alone(0);
  EXPECT_TRUE(std::ranges::all_of(alone, [](float y) { return y == 0.0f && !std::signbit(y); }));
  const std::vector<float> both = sequences.All(0);
  EXPECT_TRUE(SameBits({both.data(), alone.size()}, alone));
}

// Keys with a score of -infinity weigh 0, as keys far below all others do, even if a block has no
// other keys.
TEST(FastExpanded, ScoresOfMinusInfinityWeighNothing) {
  const auto attended = [](float by) {
    ExpandedSequences sequences(1, {140}, {{0, 139}});
    for (int p = 0; p < kKeyBlock + 3; ++p) sequences.Disfavour(0, p, by);
    return sequences.All(0);
  };
  const std::vector<float> wanted = attended(1e30f);
  EXPECT_TRUE(std::ranges::all_of(wanted, [](float y) { return std::isfinite(y); }));
  EXPECT_TRUE(SameBits(attended(INFINITY), wanted));
}

// Scores of the first keys are far above the others, so that the weights of these vanish; then they
// are far below.
TEST(FastExpanded, FadesWhatIsFarBelowTheLargest) {
  for (const float factor : {30.0f, -30.0f}) {
    ExpandedSequences sequences(1, {140}, {{0, 70}, {0, 139}});
    for (int p = 0; p < 60; ++p) {
      for (int d = 0; d < kAbsorbedRope; ++d) {
        sequences.Set(0, p, kAbsorbedRank + d, factor * static_cast<float>(d % 3 - 1));
      }
    }
    ExpectWhatRulesSay(sequences);
  }
}

// `key_blocks` only bounds the launches; results are rounded once.
TEST(FastExpanded, TakesAnyBoundOfKeyBlocksAndEitherFormatOfResults) {
  const std::vector<int> lengths = {70, 17};
  const ExpandedSequences sequences(1, lengths, LastRows(lengths, 2));
  const std::vector<float> wanted = sequences.All(0);
  for (const int64_t key_blocks : {3, 4, 100}) {
    const auto told = [&](ExpandedAttentionArgs args) {
      args.key_blocks = key_blocks;
      return RunExpandedAttention(Stream{.device = Device::kCuda}, args, AttentionForm::kFast);
    };
    EXPECT_TRUE(SameBits(sequences.RunBy(sequences.Every(), 1, told), wanted)) << key_blocks;
  }
  const auto run = [](const ExpandedAttentionArgs& args) {
    return RunExpandedAttention(Stream{.device = Device::kCuda}, args, AttentionForm::kFast);
  };
  const std::vector<float> rounded = sequences.RunBy(sequences.Every(), 1, run, kB16);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(rounded[i], FromBFloat16(ToBFloat16(wanted[i])));
  }
}

// More rows than the least workspace holds at a time.
TEST(FastExpanded, TakesMoreRowsThanFindRoom) {
  const std::vector<int> lengths(11, 60);
  const ExpandedSequences sequences(1, lengths, LastRows(lengths, 60));
  ASSERT_EQ(sequences.rows().size(), 660u);
  EXPECT_TRUE(SameBits(sequences.All(1), sequences.All(0)));
}

#ifndef JANUS_TEST_ON_GPU
// Rows that see more key blocks than `key_blocks` have no result. They must not write beyond the
// workspace: a call of one chunk has no room for states.
TEST(FastExpanded, TooFewKeyBlocksAreAnsweredWithNothing) {
  const std::vector<int> lengths = {200};
  const ExpandedSequences sequences(2, lengths, LastRows(lengths, 3));
  const ExpandedDeal deal{.rows = 3, .heads = 2, .blocks = 3, .all_blocks = 3, .tile = 64};
  const std::vector<float> y =
      sequences.RunBy(sequences.Every(), kManyBytes, [&](const ExpandedAttentionArgs& args) {
        const Status status = RunFastExpanded(Stream{.device = Device::kCuda}, args, deal);
        const auto* const space = static_cast<const unsigned char*>(args.workspace);
        for (int64_t i = ExpandedSpace(deal).states; i < args.workspace_bytes; ++i) {
          if (space[i] != 0xFF) return Internal("byte " + std::to_string(i) + " was written");
        }
        return status;
      });
  for (const float value : y) ASSERT_TRUE(std::isnan(value));
}

// Neither the deal of a call nor the number of blocks of threads changes bits.
TEST(FastExpanded, GivesTheSameBitsForEveryDeal) {
  const std::vector<int> lengths = {200, 5, 70, 1, 64, 129};
  const ExpandedSequences sequences(3, lengths, LastRows(lengths, 3));
  const std::vector<float> wanted = sequences.All(0);
  for (const auto& [heads, blocks] :
       {std::pair{3, 1}, {3, 2}, {2, 3}, {1, 5}, {1, 13}, {2, 14}, {3, 4}}) {
    for (const int tile : {64, 128}) {
      const ExpandedDeal deal{
          .rows = 100, .heads = heads, .blocks = blocks, .all_blocks = 14, .tile = tile};
      const auto dealt = [&](const ExpandedAttentionArgs& args) {
        return RunFastExpanded(Stream{.device = Device::kCuda}, args, deal);
      };
      EXPECT_TRUE(SameBits(sequences.RunBy(sequences.Every(), kManyBytes, dealt), wanted))
          << heads << " heads, " << blocks << " blocks, tiles of " << tile;
    }
  }
  const ExpandedDeal few{.rows = 7, .heads = 2, .blocks = 2, .all_blocks = 14, .tile = 64};
  const auto in_parts = [&](const ExpandedAttentionArgs& args) {
    return RunFastExpanded(Stream{.device = Device::kCuda}, args, few);
  };
  EXPECT_TRUE(SameBits(sequences.RunBy(sequences.Every(), kManyBytes, in_parts), wanted));
}

// Tiles of 128 rows are for calls of many rows; this test sets them in the deal.
TEST(FastExpanded, GivesTheSameBitsInTilesOf128Rows) {
  for (const float poison : {0.5f, NAN}) {
    ExpandedSequences sequences(1, {140, 66}, LastRows({140, 66}, 135));
    sequences.Set(0, 100, 7, poison);
    const ExpandedDeal deal{.rows = 300, .heads = 1, .blocks = 2, .all_blocks = 5, .tile = 128};
    const auto dealt = [&](const ExpandedAttentionArgs& args) {
      return RunFastExpanded(Stream{.device = Device::kCuda}, args, deal);
    };
    const int64_t conflicts = BankConflicts();
    const std::vector<float> got = sequences.RunBy(sequences.Every(), kManyBytes, dealt);
    EXPECT_EQ(BankConflicts(), conflicts);
    const std::vector<float> wanted = sequences.All(0);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(wanted[i])) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_TRUE(SameBits({&got[i], 1}, {&wanted[i], 1})) << i;
      }
    }
  }
}

// A chunk with its launches of so many blocks of threads.
Status RunOver(int64_t blocks, const ExpandedAttentionArgs& args) {
  const ExpandedDeal deal{.rows = args.num_rows,
                          .heads = args.heads,
                          .blocks = args.key_blocks,
                          .all_blocks = args.key_blocks,
                          .tile = 64};
  const ExpandedSpace at(deal);
  auto* const space = static_cast<unsigned char*>(args.workspace);
  ExpandedChunk chunk{.runs = reinterpret_cast<ExpandedRuns*>(space),
                      .halves = reinterpret_cast<uint16_t*>(space + at.halves),
                      .rope = reinterpret_cast<uint16_t*>(space + at.rope),
                      .blocks = static_cast<int32_t>(deal.blocks),
                      .heads = args.heads};
  JANUS_RETURN_IF_ERROR(Start("", Stream{},
                              FindExpandedRunsKernel{args.rows, args.num_rows, deal.tile,
                                                     reinterpret_cast<ExpandedRuns*>(space)},
                              PlanFindExpandedRuns()));
  Plan expand = PlanExpandKeys(chunk);
  expand.blocks = blocks;
  JANUS_RETURN_IF_ERROR(Start("", Stream{}, ExpandKeysKernel{args, chunk}, expand));
  Plan attend = PlanFastExpanded<64>(deal);
  attend.blocks = blocks;
  return Start("", Stream{}, FastExpandedKernel<64>{args, chunk}, attend);
}
TEST(FastExpanded, GivesTheSameBitsForEveryNumberOfBlocks) {
  const std::vector<int> lengths = {200, 5, 70, 1, 64, 129};
  const ExpandedSequences sequences(2, lengths, LastRows(lengths, 3));
  const std::vector<float> wanted = sequences.All(0);
  for (const int64_t blocks : {1, 2, 7, 31, 200}) {
    const auto over = [&](const ExpandedAttentionArgs& args) { return RunOver(blocks, args); };
    EXPECT_TRUE(SameBits(sequences.RunBy(sequences.Every(), kManyBytes, over), wanted)) << blocks;
  }
}

// A block of threads looks up the pages of 8,192 positions at once. Here they fill its shared
// memory.
TEST(FastExpanded, ExpandsLongContexts) {
  const ExpandedSequences sequences(1, {8400}, {{0, 8399}, {0, 8250}});
  const auto over = [](const ExpandedAttentionArgs& args) { return RunOver(1, args); };
  const std::vector<float> got = sequences.RunBy({0, 1}, kManyBytes, over);
  EXPECT_TRUE(SameBits(got, sequences.Run({0, 1}, 1)));
  EXPECT_TRUE(SameBits({&got[kOfHead], kOfHead}, sequences.Rules(1)));
}

// Each position is read once for either half of a head, and the head's expansion once, whatever the
// number of rows.
TEST(FastExpanded, ExpandsEachPositionOnce) {
  const auto copies = [](int heads, const std::vector<int>& lengths, int each) {
    const ExpandedSequences sequences(heads, lengths, LastRows(lengths, each));
    int64_t of_all = 0;
    sequences.RunBy(sequences.Every(), kManyBytes, [&](const ExpandedAttentionArgs& args) {
      const int64_t before = host_copies;
      const Status status = RunOver(1, args);
      of_all = host_copies - before;
      return status;
    });
    return of_all;
  };
  constexpr int64_t kOfRow = kAbsorbedRank / kChunk;
  const auto wanted = [](int heads, int64_t positions, int64_t key_blocks) {
    const int64_t expanded = heads * 2 * (int64_t{kOfHead} + positions) * kOfRow;
    // What is attended to: key, rope and value.
    return expanded + heads * key_blocks * kKeyBlock * (kWidth + kOfHead) / kChunk;
  };
  EXPECT_EQ(copies(1, {70}, 1), wanted(1, 70, 2));
  EXPECT_EQ(copies(1, {70}, 60), wanted(1, 70, 2));
  EXPECT_EQ(copies(2, {70, 17}, 3), wanted(2, 87, 3));
}
#endif

// A model's form depends on its shape and formats only: nothing else of a call may change bits.
TEST(FastExpanded, IsForBfloat16AndHeadsOf128) {
  ExpandedAttentionArgs a;
  a.cache = {.dtype = kB16, .rank = 512, .rope = 64};
  a.expand_dtype = kB16;
  a.nope_dim = a.value_dim = 128;
  for (const int heads : {1, 16, 128, 7}) {
    for (const int64_t rows : {1, 64, 100000}) {
      a.heads = heads;
      a.num_rows = rows;
      a.workspace_bytes = rows;
      EXPECT_EQ(ExpandedFormFor(a), AttentionForm::kFast);
    }
  }
  const auto with = [&](auto change) {
    ExpandedAttentionArgs other = a;
    change(other);
    return ExpandedFormFor(other);
  };
  const auto kPlain = AttentionForm::kPlain;
  EXPECT_EQ(with([](auto& o) { o.cache.rank = 256; }), kPlain);
  EXPECT_EQ(with([](auto& o) { o.cache.rope = 32; }), kPlain);
  EXPECT_EQ(with([](auto& o) { o.cache.dtype = kF32; }), kPlain);
  EXPECT_EQ(with([](auto& o) { o.cache.dtype = DType::kFloat8E4M3; }), kPlain);
  EXPECT_EQ(with([](auto& o) { o.expand_dtype = kF32; }), kPlain);
  EXPECT_EQ(with([](auto& o) { o.nope_dim = 64; }), kPlain);
  EXPECT_EQ(with([](auto& o) { o.value_dim = 64; }), kPlain);
}

// The operation runs the form that the model has.
TEST(FastExpanded, IsWhatTheOperationRuns) {
  const ExpandedSequences sequences(1, {70}, {{0, 69}});
  const auto operation = [](const ExpandedAttentionArgs& args) {
    return ExpandedAttention(Stream{.device = Device::kCuda}, args);
  };
  EXPECT_TRUE(SameBits(sequences.RunBy({0}, 1, operation), sequences.Alone(0)));
  EXPECT_FALSE(SameBits(sequences.Run({0}, 1, AttentionForm::kPlain), sequences.Alone(0)));
  sequences.RunBy({0}, 1, [](ExpandedAttentionArgs args) {
    args.key_blocks = 0;
    const Status status = ExpandedAttention(Stream{.device = Device::kCuda}, args);
    EXPECT_EQ(status.message(), "ExpandedAttention: key_blocks is not told");
    return OkStatus();
  });
}

}  // namespace
}  // namespace janus::kernels::cuda
