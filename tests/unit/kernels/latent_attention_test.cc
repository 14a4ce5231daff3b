// Attention over a latent cache in its two forms, its writes, and the projections per head.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/reference/cached.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF8 = DType::kFloat8E4M3;
constexpr DType kF16 = DType::kFloat16;

struct Case {
  const char* name;
  std::vector<int> lengths;  // of the sequences
  int last_rows;             // per sequence, so many of its last positions are rows (0: all)
  int heads;
  int rank;
  int rope;
  int nope;
  int value;
  DType cache = kF32;
  DType expand = kF32;
  DType out = kF32;  // of the expanded form
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// Sequences in a cache with pages in random order. Pages that no sequence owns, and positions
// behind a sequence's last, hold NaN.
class Cached {
 public:
  explicit Cached(const Case& c)
      : case_(c), page_bytes_(LatentPageBytes(c.cache, c.rank, c.rope) + 32) {
    std::mt19937_64 random(static_cast<uint64_t>(c.heads * 131 + c.rank));
    for (const int length : c.lengths) num_pages_ += (length + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> free(static_cast<size_t>(num_pages_));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, random);
    storage_ = std::make_unique<GuardedArray>(c.cache, num_pages_ * page_bytes_ / SizeOf(c.cache));
    storage_->FillWithNaN();
    for (const int length : c.lengths) {
      auto& table = tables_.emplace_back();
      for (int p = 0; p < length; p += kPageTokens) {
        table.push_back(free.back());
        free.pop_back();
      }
    }
    for (size_t s = 0; s < c.lengths.size(); ++s) WriteSequence(s, random);
  }

  LatentCache view() const {
    return {.pages = storage_->data(),
            .num_pages = num_pages_,
            .page_stride_bytes = page_bytes_,
            .dtype = case_.cache,
            .rank = case_.rank,
            .rope = case_.rope};
  }
  const std::vector<KvRow>& rows() const { return rows_; }

 private:
  void WriteSequence(size_t s, std::mt19937_64& random) {
    const int length = case_.lengths[s];
    GuardedArray entries(kF32, length * (case_.rank + case_.rope));
    entries.FillNormal(random);
    std::vector<KvRow> rows;
    for (int p = 0; p < length; ++p) rows.push_back({tables_[s].data(), p});
    const Status status = LatentWrite(
        Stream{},
        {.cache = view(), .rows = rows.data(), .entries = entries.floats(), .num_rows = length});
    EXPECT_TRUE(status.ok()) << status.ToString();
    const int first = case_.last_rows == 0 ? 0 : std::max(0, length - case_.last_rows);
    rows_.insert(rows_.end(), rows.begin() + first, rows.end());
  }

  Case case_;
  int64_t page_bytes_;
  int64_t num_pages_ = 3;
  std::unique_ptr<GuardedArray> storage_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<KvRow> rows_;
};

// What both forms share; `width` is a head's query.
class LatentProblem : public RowProblem {
 public:
  LatentProblem(const Case& c, int width) : case_(c), cached_(c), width_(width) {
    std::mt19937_64 random(7);
    queries_ = std::make_unique<GuardedArray>(kF32, int64_t{rows()} * c.heads * width);
    queries_->FillNormal(random, 1.0f);
  }
  int rows() const override { return static_cast<int>(cached_.rows().size()); }

 protected:
  std::vector<KvRow> Rows(std::span<const int> selection) const {
    std::vector<KvRow> rows;
    for (const int i : selection) rows.push_back(cached_.rows()[static_cast<size_t>(i)]);
    return rows;
  }
  GuardedArray Queries(std::span<const int> selection) const {
    const int64_t row = int64_t{case_.heads} * width_;
    GuardedArray q(kF32, static_cast<int64_t>(selection.size()) * row);
    for (size_t i = 0; i < selection.size(); ++i) {
      for (int64_t j = 0; j < row; ++j) {
        q.set(static_cast<int64_t>(i) * row + j, queries_->at(selection[i] * row + j));
      }
    }
    return q;
  }
  static std::vector<uint8_t> BytesOf(const GuardedArray& array) {
    const auto* bytes = static_cast<const uint8_t*>(array.data());
    return {bytes, bytes + array.data_bytes()};
  }

  Case case_;
  Cached cached_;

 private:
  int width_;
  std::unique_ptr<GuardedArray> queries_;
};

class AbsorbedProblem final : public LatentProblem {
 public:
  explicit AbsorbedProblem(const Case& c) : LatentProblem(c, c.rank + c.rope) {}
  int row_elements() const override { return case_.heads * case_.rank; }
  DType output() const override { return kF32; }
  double tolerance() const override { return 3e-6; }

  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const std::vector<KvRow> rows = Rows(selection);
    GuardedArray q = Queries(selection);
    const auto count = static_cast<int64_t>(rows.size());
    // The two parts of a query lie apart.
    GuardedArray latent(kF32, count * case_.heads * case_.rank);
    const int width = case_.rank + case_.rope;
    for (int64_t i = 0; i < count * case_.heads; ++i) {
      for (int d = 0; d < case_.rank; ++d) latent.set(i * case_.rank + d, q.at(i * width + d));
    }
    GuardedArray y(kF32, count * row_elements());
    const Status status =
        AbsorbedAttention(stream, {.cache = cached_.view(),
                                   .rows = rows.data(),
                                   .latent_queries = latent.floats(),
                                   .rope_queries = q.floats() + case_.rank,
                                   .rope_query_row_stride = int64_t{case_.heads} * width,
                                   .rope_query_head_stride = width,
                                   .y = y.floats(),
                                   .num_rows = count,
                                   .heads = case_.heads,
                                   .scale = 1.0f / std::sqrt(static_cast<float>(width))});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    return BytesOf(y);
  }
};

class ExpandedProblem final : public LatentProblem {
 public:
  explicit ExpandedProblem(const Case& c)
      : LatentProblem(c, c.nope + c.rope),
        expand_(c.expand, int64_t{c.heads} * (c.nope + c.value) * c.rank, 2) {
    std::mt19937_64 random(8);
    expand_.FillNormal(random, 1.0f / std::sqrt(static_cast<float>(c.rank)));
  }
  int row_elements() const override { return case_.heads * case_.value; }
  DType output() const override { return case_.out; }
  double tolerance() const override { return case_.out == kF32 ? 4e-6 : 4e-3; }

  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const std::vector<KvRow> rows = Rows(selection);
    GuardedArray q = Queries(selection);
    const auto count = static_cast<int64_t>(rows.size());
    GuardedArray y(case_.out, count * row_elements());
    const int threads = stream.team == nullptr ? 1 : stream.team->size();
    GuardedArray workspace(
        kF32, ExpandedAttentionWorkspaceBytes(case_.nope + case_.rope, case_.value, threads) / 4);
    workspace.Fill(std::numeric_limits<float>::quiet_NaN());
    const Status status = ExpandedAttention(
        stream, {.cache = cached_.view(),
                 .rows = rows.data(),
                 .queries = q.floats(),
                 .expand = expand_.data(),
                 .expand_dtype = case_.expand,
                 .y = y.data(),
                 .y_dtype = case_.out,
                 .num_rows = count,
                 .heads = case_.heads,
                 .nope_dim = case_.nope,
                 .value_dim = case_.value,
                 .scale = 1.0f / std::sqrt(static_cast<float>(case_.nope + case_.rope)),
                 .workspace = workspace.data(),
                 .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    return BytesOf(y);
  }

 private:
  GuardedArray expand_;
};

class LatentAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(LatentAttentionTest, BothFormsEqualTheReference) {
  ExpectParity(AbsorbedProblem(GetParam()));
  ExpectParity(ExpandedProblem(GetParam()));
}

// Several rows of a sequence in one call, one at a time, beside others: replay and chunks.
TEST_P(LatentAttentionTest, EveryChunkingGivesTheSameBitsInEitherForm) {
  ExpectBatchInvariance(AbsorbedProblem(GetParam()));
  ExpectBatchInvariance(ExpandedProblem(GetParam()));
}

TEST_P(LatentAttentionTest, EveryIsaGivesTheSameBitsInFp32) {
  ExpectSameBitsOnEveryIsa(AbsorbedProblem(GetParam()));
  // The hardware's bf16 product rounds in its own way where both sides are bf16.
  if (GetParam().cache == kF32 || GetParam().expand == kF32) {
    ExpectSameBitsOnEveryIsa(ExpandedProblem(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LatentAttentionTest,
    testing::Values(Case{"OneKey", {1}, 0, 1, 4, 2, 3, 5},
                    Case{"APrompt", {70}, 0, 3, 32, 16, 12, 20},
                    Case{"OddSizes", {67, 20}, 0, 5, 33, 6, 7, 9},
                    Case{"ManyHeads", {130, 64, 65}, 4, 40, 64, 16, 32, 32},
                    Case{"ManySplits", {2100, 1024, 1025}, 4, 2, 48, 8, 16, 16},
                    Case{"LiteHeads", {90}, 3, 4, 512, 64, 128, 128},
                    Case{"Bf16Cache", {150, 90}, 12, 6, 64, 8, 24, 16, kB16, kB16, kB16},
                    Case{"MixedFormats", {75, 16}, 0, 3, 40, 10, 8, 24, kB16, kF16, kF32},
                    Case{"Fp8Cache", {150, 90}, 12, 6, 256, 8, 24, 16, kF8, kB16, kB16},
                    Case{"Fp8OddSizes", {67, 20}, 0, 3, 147, 7, 9, 11, kF8, kF32, kF32},
                    Case{"Fp8Splits", {2100, 1025}, 3, 2, 130, 8, 16, 16, kF8, kF16, kF32}),
    [](const auto& info) { return info.param.name; });

// The same function in two algebras: absorbing a head's expansion into its queries gives the result
// of expanding keys and values.
TEST(LatentAttention, TheFormsAgreeAndHaveOtherBits) {
  const Case c{"", {80}, 6, 2, 32, 8, 12, 16};
  const Cached cached(c);
  std::mt19937_64 random(5);
  const auto rows = static_cast<int64_t>(cached.rows().size());
  const int64_t width = c.nope + c.rope;
  GuardedArray queries(kF32, rows * c.heads * width);
  queries.FillNormal(random);
  GuardedArray expand(kF32, int64_t{c.heads} * (c.nope + c.value) * c.rank);
  expand.FillNormal(random, 0.2f);
  CpuStream cpu(PresentIsas().back(), 1);
  GuardedArray expanded(kF32, rows * c.heads * c.value);
  GuardedArray workspace(kF32, ExpandedAttentionWorkspaceBytes(c.nope + c.rope, c.value, 1) / 4);
  ASSERT_TRUE(ExpandedAttention(cpu.stream,
                                {.cache = cached.view(),
                                 .rows = cached.rows().data(),
                                 .queries = queries.floats(),
                                 .expand = expand.data(),
                                 .y = expanded.data(),
                                 .num_rows = rows,
                                 .heads = c.heads,
                                 .nope_dim = c.nope,
                                 .value_dim = c.value,
                                 .scale = 0.3f,
                                 .workspace = workspace.data(),
                                 .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())})
                  .ok());
  GuardedArray absorbed(kF32, rows * c.heads * c.rank);
  HeadLinearArgs into{.x = queries.floats(),
                      .weight = expand.data(),
                      .transposed = true,
                      .y = absorbed.data(),
                      .rows = rows,
                      .heads = c.heads,
                      .outputs = c.rank,
                      .inputs = c.nope,
                      .x_row_stride = c.heads * width,
                      .x_head_stride = width,
                      .y_row_stride = int64_t{c.heads} * c.rank,
                      .y_head_stride = c.rank,
                      .weight_head_stride = int64_t{c.nope + c.value} * c.rank};
  ASSERT_TRUE(HeadLinear(cpu.stream, into).ok());
  GuardedArray attended(kF32, absorbed.count());
  ASSERT_TRUE(AbsorbedAttention(cpu.stream, {.cache = cached.view(),
                                             .rows = cached.rows().data(),
                                             .latent_queries = absorbed.floats(),
                                             .rope_queries = queries.floats() + c.nope,
                                             .rope_query_row_stride = c.heads * width,
                                             .rope_query_head_stride = width,
                                             .y = attended.floats(),
                                             .num_rows = rows,
                                             .heads = c.heads,
                                             .scale = 0.3f})
                  .ok());
  GuardedArray values(kF32, expanded.count());
  HeadLinearArgs out = into;
  out.x = attended.floats();
  out.weight = static_cast<const float*>(expand.data()) + c.nope * c.rank;
  out.transposed = false;
  out.y = values.data();
  out.outputs = c.value;
  out.inputs = c.rank;
  out.x_row_stride = into.y_row_stride;
  out.x_head_stride = into.y_head_stride;
  out.y_row_stride = int64_t{c.heads} * c.value;
  out.y_head_stride = c.value;
  ASSERT_TRUE(HeadLinear(cpu.stream, out).ok());
  bool same_bits = true;
  for (int64_t i = 0; i < values.count(); ++i) {
    EXPECT_NEAR(values.at(i), expanded.at(i), 1e-5f) << i;
    same_bits = same_bits && values.at(i) == expanded.at(i);
  }
  EXPECT_FALSE(same_bits) << "then positions would need no class";
}

TEST(LatentWrite, StoresTheReferencesBitsInAnyOrder) {
  for (const DType type : {kF32, kB16, kF8}) {
    for (const auto& [rank, rope] : {std::pair{512, 64}, std::pair{20, 6}, std::pair{131, 5}}) {
      const int rows = 40;
      const int64_t stride = rank + rope + 3;
      std::mt19937_64 random(9);
      GuardedArray entries(kF32, rows * stride);
      entries.FillNormal(random);
      entries.set(3, std::numeric_limits<float>::quiet_NaN());
      entries.set(stride + 7, std::numeric_limits<float>::infinity());
      for (int d = 0; d < rank; ++d) entries.set(2 * stride + d, 0.0f);
      const std::vector<int32_t> table = {2, 0, 1};
      const int64_t elements = 3 * LatentPageBytes(type, rank, rope) / SizeOf(type);
      GuardedArray wanted(type, elements);
      const auto write = [&](const Stream& stream, GuardedArray& pages, int first, int count) {
        std::vector<KvRow> list;
        for (int t = first; t < first + count; ++t) list.push_back({table.data(), t});
        ASSERT_TRUE(LatentWrite(stream, {.cache = {.pages = pages.data(),
                                                   .num_pages = 3,
                                                   .dtype = type,
                                                   .rank = rank,
                                                   .rope = rope},
                                         .rows = list.data(),
                                         .entries = entries.floats() + first * stride,
                                         .num_rows = count,
                                         .entry_stride = stride})
                        .ok());
        ASSERT_TRUE(pages.GuardsAreIntact());
      };
      write(Stream{}, wanted, 0, rows);
      for (const Isa isa : PresentIsas()) {
        CpuStream cpu(isa, 3);
        GuardedArray got(type, elements);
        write(cpu.stream, got, 25, 15);
        write(cpu.stream, got, 0, 25);
        write(cpu.stream, got, 10, 20);
        EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.data_bytes()), 0)
            << ToString(isa) << ' ' << ToString(type) << ' ' << rank;
      }
    }
  }
}

// The format of a position: elements, scales of pieces of 128, rope key.
TEST(LatentWrite, StoresFp8InPiecesOf128) {
  static_assert(LatentEntryBytes(kF8, 512, 64) == 656 && LatentRopeAt(512) == 528);
  constexpr int kRank = 131;
  constexpr int kRope = 3;
  constexpr int64_t kEntry = 132 + 2 * 4 + 8;
  static_assert(LatentEntryBytes(kF8, kRank, kRope) == kEntry &&
                LatentPageBytes(kF8, kRank, kRope) == kPageTokens * kEntry);
  GuardedArray entry(kF32, kRank + kRope);
  entry.set(0, -896.0f);  // of which the scale is 2
  entry.set(1, 3.0f);
  entry.set(127, 448.0f);
  entry.set(128, 7.0f);  // 448 / 2^6
  entry.set(130, -1.75f);
  entry.set(131, 1.5f);
  entry.set(133, 1000.0f);
  const std::vector<int32_t> table = {1, 0};
  const std::vector<KvRow> row = {{table.data(), 18}};  // where a GPU can read it
  const auto check = [&](const Stream& stream) {
    GuardedArray storage(kF8, 2 * kPageTokens * kEntry);
    const LatentCache cache{
        .pages = storage.data(), .num_pages = 2, .dtype = kF8, .rank = kRank, .rope = kRope};
    ASSERT_TRUE(
        LatentWrite(stream,
                    {.cache = cache, .rows = row.data(), .entries = entry.floats(), .num_rows = 1})
            .ok());
    const auto* const at = static_cast<const uint8_t*>(storage.data()) + 2 * kEntry;
    EXPECT_EQ(at[0], 0xfe);
    EXPECT_EQ(at[1], ToFloat8E4M3(1.5f));
    EXPECT_EQ(at[2], 0);
    EXPECT_EQ(at[127], ToFloat8E4M3(224.0f));
    EXPECT_EQ(at[128], 0x7e);
    EXPECT_EQ(at[130], ToFloat8E4M3(-112.0f));
    EXPECT_EQ(ReadElement(at + 132, kF32, 0), 2.0f);
    EXPECT_EQ(ReadElement(at + 132, kF32, 1), 0x1p-6f);
    EXPECT_EQ(ReadElement(at + 140, kB16, 0), 1.5f);
    EXPECT_EQ(ReadElement(at + 140, kB16, 2), 1000.0f);
    for (int d = 0; d < kRank + kRope; ++d) {
      EXPECT_EQ(CachedLatent(cache, 0, 2, d), entry.at(d)) << d;
    }
  };
  check(Stream{});
  for (const Isa isa : PresentIsas()) check(CpuStream(isa, 1).stream);
}

// Scales are powers of 2, so the split into elements and scales changes no bit. With rank 512 and
// rope 64 this runs the GPU's fast form.
TEST(LatentAttention, Fp8GivesTheBitsOfABFloat16CacheOfItsNumbers) {
  constexpr int kLength = 1100;
  constexpr int kHeads = 3;
  for (const auto& [rank, rope] : {std::pair{512, 64}, std::pair{150, 7}}) {
    const int width = rank + rope;
    std::mt19937_64 random(8);
    GuardedArray entries(kF32, int64_t{kLength} * width);
    entries.FillNormal(random);
    GuardedArray queries(kF32, int64_t{3} * kHeads * width);
    queries.FillNormal(random);
    GuardedArray expand(kB16, int64_t{kHeads} * (20 + 9) * rank);
    expand.FillNormal(random);
    std::vector<int32_t> table((kLength + kPageTokens - 1) / kPageTokens);
    std::iota(table.rbegin(), table.rend(), 0);
    const auto pages = static_cast<int64_t>(table.size());
    std::vector<KvRow> rows;
    for (int p = 0; p < kLength; ++p) rows.push_back({table.data(), p});
    const auto cache_in = [&, rank = rank, rope = rope](GuardedArray& storage) {
      return LatentCache{.pages = storage.data(),
                         .num_pages = pages,
                         .dtype = storage.type(),
                         .rank = rank,
                         .rope = rope};
    };
    const auto write = [&](GuardedArray& storage) {
      ASSERT_TRUE(LatentWrite(Stream{}, {.cache = cache_in(storage),
                                         .rows = rows.data(),
                                         .entries = entries.floats(),
                                         .num_rows = kLength})
                      .ok());
    };
    GuardedArray fp8(kF8, pages * LatentPageBytes(kF8, rank, rope));
    write(fp8);
    for (int p = 0; p < kLength; ++p) {
      for (int d = 0; d < width; ++d) {
        entries.set(
            int64_t{p} * width + d,
            static_cast<float>(CachedLatent(
                cache_in(fp8), table[static_cast<size_t>(p / kPageTokens)], p % kPageTokens, d)));
      }
    }
    GuardedArray bf16(kB16, pages * LatentPageBytes(kB16, rank, rope) / 2);
    write(bf16);
    const std::vector<KvRow> some = {rows[kLength - 1], rows[500], rows[70]};
    const auto absorbed = [&, rank = rank](const Stream& stream, GuardedArray& storage) {
      GuardedArray y(kF32, int64_t{3} * kHeads * rank);
      EXPECT_TRUE(AbsorbedAttention(stream, {.cache = cache_in(storage),
                                             .rows = some.data(),
                                             .latent_queries = queries.floats(),
                                             .rope_queries = queries.floats(),
                                             .y = y.floats(),
                                             .num_rows = 3,
                                             .heads = kHeads,
                                             .scale = 0.05f})
                      .ok());
      return y;
    };
    const auto expanded = [&, rope = rope](const Stream& stream, GuardedArray& storage) {
      GuardedArray y(kF32, 3 * kHeads * 9);
      GuardedArray workspace(kF32, ExpandedAttentionWorkspaceBytes(20 + rope, 9, 2) / 4);
      EXPECT_TRUE(ExpandedAttention(
                      stream, {.cache = cache_in(storage),
                               .rows = some.data(),
                               .queries = queries.floats(),
                               .expand = expand.data(),
                               .expand_dtype = kB16,
                               .y = y.data(),
                               .num_rows = 3,
                               .heads = kHeads,
                               .nope_dim = 20,
                               .value_dim = 9,
                               .scale = 0.05f,
                               .workspace = workspace.data(),
                               .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())})
                      .ok());
      return y;
    };
    for (const Isa isa : PresentIsas()) {
      CpuStream cpu(isa, 2);
      const GuardedArray wanted = absorbed(cpu.stream, bf16);
      const GuardedArray got = absorbed(cpu.stream, fp8);
      EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.data_bytes()), 0) << ToString(isa);
      const GuardedArray wanted_too = expanded(cpu.stream, bf16);
      const GuardedArray got_too = expanded(cpu.stream, fp8);
      EXPECT_EQ(std::memcmp(got_too.data(), wanted_too.data(), wanted_too.data_bytes()), 0)
          << ToString(isa);
    }
  }
}

// Scores of -infinity weigh nothing, in either form, whatever comes first.
TEST(LatentAttention, ScoresOfMinusInfinityWeighNothing) {
  constexpr int kRope = 4;
  constexpr int kLength = kKeySplit + 6;
  constexpr int kNothing = kKeySplit + 2;  // positions before it
  for (const auto& [type, rank, rope] :
       {std::tuple{kF32, 8, kRope}, std::tuple{kB16, 512, 64}, std::tuple{kF8, 512, 64}}) {
    const int width = rank + rope;
    std::mt19937_64 random(3);
    GuardedArray entries(kF32, int64_t{kLength} * width);
    GuardedArray query(kF32, width);
    entries.FillNormal(random);
    query.FillNormal(random);
    query.set(rank, 1.0f);
    for (int p = 0; p < kNothing; ++p) {
      entries.set(int64_t{p} * width + rank, -std::numeric_limits<float>::infinity());
    }
    std::vector<int32_t> table(kLength / kPageTokens + 1);
    std::iota(table.begin(), table.end(), 0);
    const auto pages = static_cast<int64_t>(table.size());
    GuardedArray storage(type, pages * LatentPageBytes(type, rank, rope) / SizeOf(type));
    const LatentCache cache{
        .pages = storage.data(), .num_pages = pages, .dtype = type, .rank = rank, .rope = rope};
    std::vector<KvRow> rows;
    for (int p = 0; p < kLength; ++p) rows.push_back({table.data(), p});
    ASSERT_TRUE(
        LatentWrite(
            Stream{},
            {.cache = cache, .rows = rows.data(), .entries = entries.floats(), .num_rows = kLength})
            .ok());
    GuardedArray expand(kF32, int64_t{2} * rank);  // a key's and a value's row
    expand.FillNormal(random);
    const auto attend = [&](const Stream& stream, int position, bool is_expanded) {
      GuardedArray y(kF32, is_expanded ? 1 : rank);
      const int threads = stream.team == nullptr ? 1 : stream.team->size();
      GuardedArray workspace(
          kF32, std::max<int64_t>(ExpandedAttentionWorkspaceBytes(1 + rope, 1, threads) / 4,
                                  int64_t{4} * (rank + 2)));
      const auto bytes = static_cast<int64_t>(workspace.data_bytes());
      const KvRow* const row = &rows[static_cast<size_t>(position)];
      const Status status = is_expanded
                                ? ExpandedAttention(stream, {.cache = cache,
                                                             .rows = row,
                                                             .queries = query.floats() + rank - 1,
                                                             .expand = expand.data(),
                                                             .y = y.data(),
                                                             .num_rows = 1,
                                                             .heads = 1,
                                                             .nope_dim = 1,
                                                             .value_dim = 1,
                                                             .scale = 0.05f,
                                                             .workspace = workspace.data(),
                                                             .workspace_bytes = bytes})
                                : AbsorbedAttention(stream, {.cache = cache,
                                                             .rows = row,
                                                             .latent_queries = query.floats(),
                                                             .rope_queries = query.floats() + rank,
                                                             .y = y.floats(),
                                                             .num_rows = 1,
                                                             .heads = 1,
                                                             .scale = 0.05f,
                                                             .workspace = workspace.data(),
                                                             .workspace_bytes = bytes});
      EXPECT_TRUE(status.ok()) << status.ToString();
      return y;
    };
    for (const bool is_expanded : {false, true}) {
      for (const int position : {kNothing - 1, kNothing, kLength - 1}) {
        const GuardedArray wanted = attend(Stream{}, position, is_expanded);
        for (const Isa isa : PresentIsas()) {
          CpuStream cpu(isa, 2);
          const GuardedArray got = attend(cpu.stream, position, is_expanded);
          for (int64_t d = 0; d < got.count(); ++d) {
            if (position < kNothing) {
              EXPECT_TRUE(std::isnan(wanted.at(d)) && std::isnan(got.at(d)));
            } else {
              EXPECT_NEAR(got.at(d), wanted.at(d), 0.02 * (1 + std::abs(wanted.at(d))))
                  << ToString(type) << ' ' << position << ' ' << is_expanded;
            }
          }
        }
      }
    }
  }
}

class HeadLinearProblem final : public RowProblem {
 public:
  HeadLinearProblem(int heads, int outputs, int inputs, bool transposed, DType weight, DType out)
      : heads_(heads),
        outputs_(outputs),
        inputs_(inputs),
        transposed_(transposed),
        out_(out),
        x_(kF32, int64_t{kRows} * heads * inputs),
        weight_(weight, int64_t{heads} * outputs * inputs, 2) {
    std::mt19937_64 random(6);
    x_.FillNormal(random);
    weight_.FillNormal(random);
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return heads_ * outputs_; }
  DType output() const override { return out_; }
  double tolerance() const override {
    const double rounded = out_ == kF32 ? 0.0 : 4e-3;
#ifdef JANUS_TEST_ON_CUDA
    // Rows are rounded where weights are bfloat16, 2^-9 of an element at most.
    if (weight_.type() == kB16) return rounded + 4e-3;
#endif
    return std::max(rounded, 2e-6);
  }
  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const int64_t row = int64_t{heads_} * inputs_;
    const int64_t stride = int64_t{heads_} * (inputs_ + 3);  // heads lie apart
    const auto count = static_cast<int64_t>(selection.size());
    GuardedArray x(kF32, count * stride);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < row; ++j) {
        x.set(i * stride + j / inputs_ * (inputs_ + 3) + j % inputs_,
              x_.at(selection[static_cast<size_t>(i)] * row + j));
      }
    }
    GuardedArray y(out_, count * row_elements());
    EXPECT_TRUE(HeadLinear(stream, {.x = x.floats(),
                                    .weight = weight_.data(),
                                    .weight_dtype = weight_.type(),
                                    .transposed = transposed_,
                                    .y = y.data(),
                                    .y_dtype = out_,
                                    .rows = count,
                                    .heads = heads_,
                                    .outputs = outputs_,
                                    .inputs = inputs_,
                                    .x_row_stride = stride,
                                    .x_head_stride = inputs_ + 3,
                                    .y_row_stride = row_elements(),
                                    .y_head_stride = outputs_,
                                    .weight_head_stride = int64_t{outputs_} * inputs_})
                    .ok());
    EXPECT_TRUE(y.GuardsAreIntact());
    const auto* bytes = static_cast<const uint8_t*>(y.data());
    return {bytes, bytes + y.data_bytes()};
  }

 private:
  static constexpr int kRows = 23;
  int heads_;
  int outputs_;
  int inputs_;
  bool transposed_;
  DType out_;
  GuardedArray x_;
  GuardedArray weight_;
};

TEST(HeadLinear, EqualsTheReferenceAndRowsDoNotDependOnTheirBatch) {
  for (const bool transposed : {false, true}) {
    for (const auto& [heads, outputs, inputs, weight, out] :
         {std::tuple{1, 1, 1, kF32, kF32}, std::tuple{3, 33, 12, kF32, kF32},
          std::tuple{4, 128, 40, kB16, kB16}, std::tuple{2, 70, 65, kF16, kF32},
          std::tuple{2, 512, 128, kB16, kF32}}) {
      const HeadLinearProblem problem(heads, outputs, inputs, transposed, weight, out);
      ExpectParity(problem);
      ExpectBatchInvariance(problem);
      ExpectSameBitsOnEveryIsa(problem);
    }
  }
}

TEST(LatentAttention, RefusesWhatDoesNotFit) {
  alignas(64) float v[64] = {};
  const int32_t table[1] = {0};
  KvRow row{table, 0};
  ExpandedAttentionArgs expanded{.cache = {.pages = v, .num_pages = 1, .rank = 2, .rope = 2},
                                 .rows = &row,
                                 .queries = v,
                                 .expand = v,
                                 .y = v,
                                 .num_rows = 1,
                                 .heads = 1,
                                 .nope_dim = 2,
                                 .value_dim = 2,
                                 .scale = 1.0f,
                                 .workspace = v,
                                 .workspace_bytes = sizeof v};
  EXPECT_EQ(ExpandedAttention(Stream{}, expanded).message(),
            "ExpandedAttention: workspace_bytes is less than ExpandedAttentionWorkspaceBytes");
  row.position = 130;
  const int32_t pages[9] = {};
  row.block_table = pages;
  alignas(64) static float room[ExpandedAttentionWorkspaceBytes(4, 2, 1) / 4];
  expanded.workspace = room;
  expanded.workspace_bytes = sizeof room;
  expanded.key_blocks = 2;
  EXPECT_EQ(ExpandedAttention(Stream{}, expanded).message(),
            "ExpandedAttention: key_blocks is less than what the rows see");
  row = {table, 0};
  AbsorbedAttentionArgs absorbed{.cache = expanded.cache,
                                 .rows = &row,
                                 .latent_queries = v,
                                 .rope_queries = v,
                                 .y = v,
                                 .num_rows = 1,
                                 .heads = 1,
                                 .scale = 1.0f};
  absorbed.cache.rank = kMaxLatentRank + 1;
  EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).message(),
            "AbsorbedAttention: cache.rank is 513, wanted 1..512");
  absorbed.cache.rank = 2;
  absorbed.heads = 3;
  absorbed.rope_query_row_stride = 3 * absorbed.cache.rope - 1;
  EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).message(),
            "AbsorbedAttention: rope_query_row_stride is shorter than a row");
  absorbed.rope_query_row_stride = 0;
  absorbed.heads = 1;
  for (const float scale : {0.0f, -1.0f, NAN}) {
    absorbed.scale = scale;
    EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).message(),
              "AbsorbedAttention: scale is not above 0");
  }
  absorbed.scale = 1.0f;
  absorbed.workspace_bytes = 4;
  EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).message(),
            "AbsorbedAttention: workspace is null but workspace_bytes is not 0");
  absorbed.workspace = v + 1;
  EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).message(),
            "AbsorbedAttention: workspace is not 64-byte aligned");
  absorbed.workspace = v;
  absorbed.workspace_bytes = -1;
  EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).code(), StatusCode::kInvalidArgument);
  absorbed.workspace_bytes = sizeof v;
  EXPECT_TRUE(AbsorbedAttention(Stream{}, absorbed).ok());
  row.position = -1;
  EXPECT_EQ(AbsorbedAttention(Stream{}, absorbed).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace janus::kernels
