#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;

// Of results in bfloat16, over the largest of them. The CUDA kernels' fast form rounds queries and
// weights to it as well. That moves a result by less than 2^-8 of the largest before it is rounded
// (cuda_paged_attention_test.cc derives by how much), which is no more than bfloat16 has between
// two numbers there: the largest results are at most one number from the reference's, 2^-7 of them,
// and smaller ones, whose numbers lie half as far apart or less, at most 2^-8 and again 2^-8.
#ifdef JANUS_TEST_ON_CUDA
constexpr double kRounded = 1.0 / 128;
#else
constexpr double kRounded = 4e-3;
#endif

struct Case {
  const char* name;
  std::vector<int> lengths;  // of the sequences
  int last_rows;             // per sequence, so many of its last positions are rows (0: all)
  int heads;
  int kv_heads;
  int head_dim;
  int window = 0;
  DType cache = kF32;
  DType out = kF32;
  bool workspace = false;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// Sequences in a cache whose pages lie in random order; pages that no sequence owns, and positions
// behind a sequence's last, hold NaN.
class AttentionProblem final : public RowProblem {
 public:
  explicit AttentionProblem(const Case& c)
      : case_(c), page_bytes_(KvPageBytes(c.cache, c.kv_heads, c.head_dim) + 32) {
    std::mt19937_64 random(static_cast<uint64_t>(c.heads * 131 + c.head_dim));
    int64_t pages = 5;
    for (const int length : c.lengths) pages += (length + kPageTokens - 1) / kPageTokens;
    num_pages_ = pages;
    std::vector<int32_t> free(static_cast<size_t>(pages));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, random);
    storage_ = std::make_unique<GuardedArray>(c.cache, pages * page_bytes_ / SizeOf(c.cache));
    storage_->Fill(std::numeric_limits<float>::quiet_NaN());
    for (size_t s = 0; s < c.lengths.size(); ++s) {
      auto& table = tables_.emplace_back();
      for (int p = 0; p < c.lengths[s]; p += kPageTokens) {
        table.push_back(free.back());
        free.pop_back();
      }
    }
    for (size_t s = 0; s < c.lengths.size(); ++s) WriteSequence(s, random);
    const int64_t row = int64_t{c.heads} * c.head_dim;
    queries_ = std::make_unique<GuardedArray>(kF32, static_cast<int64_t>(rows_.size()) * row);
    queries_->FillNormal(random, 1.5f);
  }

  int rows() const override { return static_cast<int>(rows_.size()); }
  int row_elements() const override { return case_.heads * case_.head_dim; }
  DType output() const override { return case_.out; }
  double tolerance() const override { return case_.out == kF32 ? 3e-6 : kRounded; }

  std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const override {
    const int64_t row = row_elements();
    const int64_t stride = row + 8;
    const auto count = static_cast<int64_t>(selection.size());
    GuardedArray q(kF32, count * stride);
    GuardedArray y(case_.out, count * stride);
    std::vector<KvRow> rows;
    for (int64_t i = 0; i < count; ++i) {
      const int index = selection[static_cast<size_t>(i)];
      rows.push_back(rows_[static_cast<size_t>(index)]);
      for (int64_t j = 0; j < row; ++j) q.set(i * stride + j, queries_->at(index * row + j));
    }
    GuardedArray workspace(kF32, case_.workspace ? 1 << 20 : 0);
    const Status status =
        PagedAttention(stream, {.cache = Cache(),
                                .rows = rows.data(),
                                .queries = q.floats(),
                                .query_stride = stride,
                                .y = y.data(),
                                .y_dtype = case_.out,
                                .y_stride = stride,
                                .num_rows = count,
                                .heads = case_.heads,
                                .scale = 1.0f / std::sqrt(static_cast<float>(case_.head_dim)),
                                .sliding_window = case_.window,
                                .workspace = case_.workspace ? workspace.data() : nullptr,
                                .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    std::vector<uint8_t> out;
    for (int64_t i = 0; i < count; ++i) {
      const auto* bytes = static_cast<const uint8_t*>(y.data()) + i * stride * SizeOf(case_.out);
      out.insert(out.end(), bytes, bytes + row * SizeOf(case_.out));
      for (int64_t j = row; j < stride; ++j) EXPECT_EQ(y.at(i * stride + j), 0.0f);
    }
    return out;
  }

 private:
  KvCache Cache() const {
    return {.pages = storage_->data(),
            .num_pages = num_pages_,
            .page_stride_bytes = page_bytes_,
            .dtype = case_.cache,
            .kv_heads = case_.kv_heads,
            .head_dim = case_.head_dim};
  }

  void WriteSequence(size_t s, std::mt19937_64& random) {
    const int length = case_.lengths[s];
    const int64_t row = int64_t{case_.kv_heads} * case_.head_dim;
    GuardedArray keys(kF32, length * row);
    GuardedArray values(kF32, length * row);
    keys.FillNormal(random);
    values.FillNormal(random);
    std::vector<KvRow> rows;
    for (int p = 0; p < length; ++p) rows.push_back({tables_[s].data(), p});
    const Status status = KvWrite(Stream{}, {.cache = Cache(),
                                             .rows = rows.data(),
                                             .keys = keys.floats(),
                                             .values = values.floats(),
                                             .num_rows = length});
    EXPECT_TRUE(status.ok()) << status.ToString();
    const int first = case_.last_rows == 0 ? 0 : std::max(0, length - case_.last_rows);
    rows_.insert(rows_.end(), rows.begin() + first, rows.end());
  }

  Case case_;
  int64_t page_bytes_;
  int64_t num_pages_ = 0;
  std::unique_ptr<GuardedArray> storage_;
  std::unique_ptr<GuardedArray> queries_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<KvRow> rows_;
};

class PagedAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(PagedAttentionTest, EqualsTheReference) {
  ExpectParity(AttentionProblem(GetParam()));
}

// Alone: the decode form. Together or in chunks: the prefill form of any chunk borders.
TEST_P(PagedAttentionTest, PrefillDecodeAndEveryChunkingGiveTheSameBits) {
  ExpectBatchInvariance(AttentionProblem(GetParam()));
}

TEST_P(PagedAttentionTest, EveryIsaGivesTheSameBits) {
  ExpectSameBitsOnEveryIsa(AttentionProblem(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    All, PagedAttentionTest,
    testing::Values(Case{"OneKey", {1}, 0, 1, 1, 4}, Case{"APrompt", {70}, 0, 4, 2, 16},
                    Case{"OddHeadSize", {67, 20}, 0, 6, 2, 20},
                    Case{"MultiHead", {40, 33, 17}, 0, 5, 5, 64},
                    Case{"Grouped", {130, 64, 65}, 12, 8, 2, 128},
                    Case{"MultiQueryWiderThanAUnit", {80}, 6, 20, 1, 32},
                    Case{"ManySplits", {2100, 1024, 1025}, 5, 4, 2, 32},
                    Case{"SplitsOverThreads", {3000, 1500}, 2, 4, 2, 32, 0, kF32, kF32, true},
                    Case{"WindowOfOne", {40}, 0, 2, 1, 16, 1},
                    Case{"Window", {200, 31}, 40, 4, 2, 32, 50},
                    Case{"WindowOverSplits", {2200}, 30, 4, 2, 16, 1100},
                    Case{"WindowOverSplitsAndThreads", {3200}, 2, 4, 1, 16, 2050, kF32, kF32, true},
                    Case{"Bf16Cache", {150, 90}, 20, 8, 2, 64, 0, kB16, kB16},
                    Case{"Bf16CacheWide", {90, 17}, 0, 8, 1, 128, 0, kB16, kB16},
                    Case{"Bf16CacheSplits", {2100, 1025, 300}, 4, 8, 2, 64, 0, kB16, kB16, true},
                    Case{"Bf16CacheWindow", {2300, 70}, 4, 4, 1, 64, 1100, kB16, kB16, true},
                    Case{"Bf16CacheOdd", {75, 16}, 0, 3, 3, 24, 33, kB16, kF32}),
    [](const auto& info) { return info.param.name; });

TEST(KvWrite, StoresTheReferencesBitsInAnyOrder) {
  for (const DType type : {kF32, kB16}) {
    for (const int head_dim : {16, 20, 64}) {
      const int kv_heads = 3;
      const int rows = 50;
      const int64_t row = kv_heads * head_dim;
      std::mt19937_64 random(9);
      GuardedArray keys(kF32, rows * row);
      GuardedArray values(kF32, rows * row);
      keys.FillNormal(random);
      values.FillNormal(random);
      keys.set(3, std::numeric_limits<float>::quiet_NaN());
      values.set(4, -std::numeric_limits<float>::infinity());
      const std::vector<int32_t> table = {3, 0, 2, 4};
      const int64_t elements = 5 * KvPageBytes(type, kv_heads, head_dim) / SizeOf(type);
      GuardedArray wanted(type, elements);
      const auto write = [&](const Stream& stream, GuardedArray& pages, int first, int count) {
        std::vector<KvRow> list;
        for (int t = first; t < first + count; ++t) list.push_back({table.data(), t});
        ASSERT_TRUE(KvWrite(stream, {.cache = {.pages = pages.data(),
                                               .num_pages = 5,
                                               .dtype = type,
                                               .kv_heads = kv_heads,
                                               .head_dim = head_dim},
                                     .rows = list.data(),
                                     .keys = keys.floats() + first * row,
                                     .values = values.floats() + first * row,
                                     .num_rows = count})
                        .ok());
        ASSERT_TRUE(pages.GuardsAreIntact());
      };
      write(Stream{}, wanted, 0, rows);
      for (const Isa isa : PresentIsas()) {
        CpuStream cpu(isa, 3);
        GuardedArray got(type, elements);
        write(cpu.stream, got, 30, 20);
        write(cpu.stream, got, 0, 30);
        write(cpu.stream, got, 10, 15);
        EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.data_bytes()), 0)
            << ToString(isa) << ' ' << ToString(type) << ' ' << head_dim;
      }
    }
  }
}

TEST(PagedAttention, RefusesHeadsThatDoNotShareEvenlyAndNegativePositions) {
  alignas(64) float pages[2 * 2 * 4 * kPageTokens] = {};
  float q[12] = {};
  const int32_t table[1] = {0};
  KvRow row{table, 0};
  PagedAttentionArgs args{.cache = {.pages = pages, .num_pages = 1, .kv_heads = 2, .head_dim = 4},
                          .rows = &row,
                          .queries = q,
                          .y = q,
                          .num_rows = 1,
                          .heads = 3,
                          .scale = 1.0f};
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: heads is not a multiple of cache.kv_heads");
  args.heads = 2;
  EXPECT_TRUE(PagedAttention(Stream{}, args).ok());
  row.position = -1;
  EXPECT_EQ(PagedAttention(Stream{}, args).code(), StatusCode::kInvalidArgument);
  row.position = 0;
  args.cache.head_dim = kMaxHeadDim + 1;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: cache.head_dim is 257, wanted 1..256");
}

}  // namespace
}  // namespace janus::kernels
