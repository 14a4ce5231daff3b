#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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

// The tolerance of results in bfloat16, relative to the largest. The CUDA kernels' fast form rounds
// queries and weights to bfloat16 as well. That moves a result by less than 2^-8 of the largest
// before it is rounded (cuda_paged_attention_test.cc derives by how much), at most the distance of
// two bfloat16 numbers there. So the largest results are at most one number from the reference's,
// 2^-7 of them. Numbers near smaller results lie half as far apart or less: at most 2^-8 twice.
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
  bool sinks = false;
  int chunk = 0;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// Sequences in a cache with pages in random order. Pages that no sequence owns, and positions
// behind a sequence's last, hold NaN.
class AttentionProblem final : public RowProblem {
 public:
  explicit AttentionProblem(const Case& c)
      : case_(c),
        page_bytes_(KvPageBytes(c.cache, c.kv_heads, c.head_dim) + 32),
        sinks_(kF32, c.heads) {
    std::mt19937_64 random(static_cast<uint64_t>(c.heads * 131 + c.head_dim));
    int64_t pages = 5;
    for (const int length : c.lengths) pages += (length + kPageTokens - 1) / kPageTokens;
    num_pages_ = pages;
    std::vector<int32_t> free(static_cast<size_t>(pages));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, random);
    storage_ = std::make_unique<GuardedArray>(c.cache, pages * page_bytes_ / SizeOf(c.cache));
    storage_->FillWithNaN();
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
    sinks_.FillNormal(random, 3.0f);
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
                                .chunk = case_.chunk,
                                .sinks = case_.sinks ? sinks_.floats() : nullptr,
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
  mutable GuardedArray sinks_;
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
    testing::Values(
        Case{"OneKey", {1}, 0, 1, 1, 4}, Case{"APrompt", {70}, 0, 4, 2, 16},
        Case{"OddHeadSize", {67, 20}, 0, 6, 2, 20}, Case{"MultiHead", {40, 33, 17}, 0, 5, 5, 64},
        Case{"Grouped", {130, 64, 65}, 12, 8, 2, 128},
        Case{"MultiQueryWiderThanAUnit", {80}, 6, 20, 1, 32},
        Case{"ManySplits", {2100, 1024, 1025}, 5, 4, 2, 32},
        Case{"SplitsOverThreads", {3000, 1500}, 2, 4, 2, 32, 0, kF32, kF32, true},
        Case{"WindowOfOne", {40}, 0, 2, 1, 16, 1}, Case{"Window", {200, 31}, 40, 4, 2, 32, 50},
        Case{"WindowOverSplits", {2200}, 30, 4, 2, 16, 1100},
        Case{"WindowOverSplitsAndThreads", {3200}, 2, 4, 1, 16, 2050, kF32, kF32, true},
        Case{"Bf16Cache", {150, 90}, 20, 8, 2, 64, 0, kB16, kB16},
        Case{"Bf16CacheWide", {90, 17}, 0, 8, 1, 128, 0, kB16, kB16},
        Case{"Bf16CacheSplits", {2100, 1025, 300}, 4, 8, 2, 64, 0, kB16, kB16, true},
        Case{"Bf16CacheWindow", {2300, 70}, 4, 4, 1, 64, 1100, kB16, kB16, true},
        Case{"Bf16CacheOdd", {75, 16}, 0, 3, 3, 24, 33, kB16, kF32},
        Case{"Fp8Cache", {150, 90}, 20, 8, 2, 64, 0, kF8, kF32},
        Case{"Fp8CacheWide", {90, 17}, 0, 8, 1, 128, 0, kF8, kB16},
        Case{"Fp8CacheSplits", {2100, 1025, 300}, 4, 8, 2, 64, 0, kF8, kB16, true},
        Case{"Fp8CacheWindow", {2300, 70}, 4, 4, 1, 64, 1100, kF8, kF32, true},
        Case{"Fp8CacheOdd", {75, 16}, 0, 3, 3, 21, 33, kF8, kF32},
        Case{"Sinks", {67, 20}, 0, 6, 2, 20, 0, kF32, kF32, false, true},
        Case{"SinksWindow", {200, 31}, 40, 4, 2, 32, 50, kF32, kF32, false, true},
        Case{"SinksOverSplitsAndThreads", {3000, 1500}, 2, 4, 2, 32, 0, kF32, kF32, true, true},
        Case{"SinksBf16", {150, 90}, 20, 8, 1, 64, 33, kB16, kB16, true, true},
        Case{"SinksFp8", {150, 90}, 20, 8, 2, 64, 0, kF8, kB16, true, true},
        Case{"ChunkOfOne", {40}, 0, 2, 1, 16, 0, kF32, kF32, false, false, 1},
        Case{"Chunks", {200, 31, 50}, 0, 4, 2, 32, 0, kF32, kF32, false, false, 50},
        Case{"ChunksOfPages", {200, 48, 49}, 40, 8, 2, 32, 0, kF32, kF32, false, true, 48},
        Case{"ChunksOverSplits", {2300, 1200}, 30, 4, 2, 16, 0, kF32, kF32, false, false, 1100},
        Case{"ChunksOverThreads", {4300}, 2, 4, 1, 16, 0, kF32, kF32, true, false, 2150},
        Case{"ChunksBf16", {150, 90}, 20, 8, 1, 64, 0, kB16, kB16, true, false, 33},
        Case{"ChunksFp8", {150, 90}, 20, 8, 2, 64, 0, kF8, kB16, true, false, 64}),
    [](const auto& info) { return info.param.name; });

TEST(KvWrite, StoresTheReferencesBitsInAnyOrder) {
  for (const DType type : {kF32, kB16, kF8}) {
    for (const int head_dim : {16, 20, 64, 256}) {
      const int kv_heads = 3;
      const int rows = 50;
      const int64_t row = kv_heads * head_dim;
      std::mt19937_64 random(9);
      const int64_t key_stride = row + 3;
      const int64_t value_stride = row + 5;
      GuardedArray keys(kF32, rows * key_stride);
      GuardedArray values(kF32, rows * value_stride);
      keys.FillNormal(random);
      values.FillNormal(random);
      keys.set(3, std::numeric_limits<float>::quiet_NaN());
      values.set(4, -std::numeric_limits<float>::infinity());
      // Pieces of zeros, of numbers too small for a scale and just large enough, of the largest.
      for (int d = 0; d < head_dim; ++d) {
        keys.set(2 * key_stride + d, d % 2 == 0 ? 0.0f : -0.0f);
        values.set(2 * value_stride + d, keys.at(d + key_stride) * 0x1p-130f);
        keys.set(3 * key_stride + d, (d % 2 == 0 ? 1.0f : -0.9f) * 0x1p-99f);
        values.set(3 * value_stride + d, d == 5 ? 3.4e38f : static_cast<float>(d) * 1e36f);
      }
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
                                     .keys = keys.floats() + first * key_stride,
                                     .values = values.floats() + first * value_stride,
                                     .num_rows = count,
                                     .key_stride = key_stride,
                                     .value_stride = value_stride})
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

// The format, number by number: the elements and scales of a position, and where they lie.
TEST(KvWrite, StoresFp8InPiecesOfAPositionAndHead) {
  constexpr int kHeads = 2;
  constexpr int kDim = 4;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Piece {
    std::array<float, kDim> numbers;
    float scale;
    std::array<uint8_t, kDim> elements;
  };
  // In E4M3 1 is 0x38, 448 is 0x7e; 196 lies between 192 (0x74) and 208 and 456 is above all.
  const Piece pieces[] = {
      {{448.0f, -1.0f, 0.0f, 196.0f}, 1.0f, {0x7e, 0xb8, 0x00, 0x74}},
      {{-456.0f, 2.0f, -0.0f, 1.0f}, 2.0f, {0xf6, 0x38, 0x80, 0x30}},
      {{0.0f, -0.0f, 0.0f, 0.0f}, 0x1p-100f, {0x00, 0x80, 0x00, 0x00}},
      {{0x1.8p-118f, -0x1p-140f, 0x1p-106f, 0.0f}, 0x1p-100f, {0x00, 0x80, 0x08, 0x00}},
      {{0x1.cp-91f, 0x1p-92f, 0.0f, 0.0f}, 0x1p-99f, {0x7e, 0x70, 0x00, 0x00}},
      {{1.0f, kNaN, 3.0f, -4.0f}, kNaN, {0, 0, 0, 0}},
      {{1.0f, kNaN, kInfinity, -4.0f}, kNaN, {0, 0, 0, 0}},
      {{1.0f, 2.0f, -kInfinity, -4.0f}, kNaN, {0, 0, 0, 0}},
      {{0x1.cp-92f, -0x1p-100f, 0.0f, 0.0f}, 0x1p-100f, {0x7e, 0xb8, 0x00, 0x00}},
      {{448.001f, -448.0f, 0.0f, 0.0f}, 2.0f, {0x76, 0xf6, 0x00, 0x00}},
      {{0x1p127f, -0x1.cp127f, 0x1p110f, 0.0f}, 0x1p119f, {0x78, 0xfe, 0x01, 0x00}},
      {{0x1.dp127f, -0x1p127f, 0.0f, 0.0f}, 0x1p120f, {0x76, 0xf0, 0x00, 0x00}},
  };
  constexpr int64_t kPage = KvPageBytes(kF8, kHeads, kDim);
  static_assert(kPage == 2 * kHeads * kPageTokens * (kDim + 4));
  constexpr int kPosition = 21;  // the sixth of a page
  const std::vector<int32_t> table = {0, 1};
  const std::vector<KvRow> row = {{table.data(), kPosition}};  // where a GPU can read it
  const auto same = [](float a, float b) { return a == b || (a != a && b != b); };
  for (size_t i = 0; i + 4 <= std::size(pieces); i += 4) {
    GuardedArray numbers(kF32, 4 * kDim);  // keys of either head, values of either head
    for (int64_t p = 0; p < 4 * kDim; ++p) {
      numbers.set(p,
                  pieces[i + static_cast<size_t>(p / kDim)].numbers[static_cast<size_t>(p % kDim)]);
    }
    const auto check = [&](const Stream& stream) {
      GuardedArray storage(kF8, 2 * kPage);
      const KvCache cache{.pages = storage.data(),
                          .num_pages = 2,
                          .dtype = kF8,
                          .kv_heads = kHeads,
                          .head_dim = kDim};
      ASSERT_TRUE(KvWrite(stream, {.cache = cache,
                                   .rows = row.data(),
                                   .keys = numbers.floats(),
                                   .values = numbers.floats() + kHeads * kDim,
                                   .num_rows = 1})
                      .ok());
      const auto* const page = static_cast<const uint8_t*>(storage.data()) + kPage;
      for (int head = 0; head < kHeads; ++head) {
        const Piece& key = pieces[i + static_cast<size_t>(head)];
        const Piece& value = pieces[i + static_cast<size_t>(kHeads + head)];
        const CachedHead cached(cache, 1, head);
        for (int d = 0; d < kDim; ++d) {
          const auto at = static_cast<size_t>(d);
          EXPECT_EQ(page[(head * kDim + d) * kPageTokens + 5], key.elements[at]) << i << ' ' << d;
          EXPECT_EQ(page[((kHeads + head) * kPageTokens + 5) * kDim + d], value.elements[at])
              << i << ' ' << d;
          EXPECT_TRUE(same(static_cast<float>(cached.Key(5, d)),
                           FromFloat8E4M3(key.elements[at]) * key.scale));
          EXPECT_TRUE(same(static_cast<float>(cached.Value(5, d)),
                           FromFloat8E4M3(value.elements[at]) * value.scale));
        }
        const auto scale = [&](int of) {
          float bits = 0.0f;
          std::memcpy(&bits, page + 2 * kHeads * kPageTokens * kDim + (of * kPageTokens + 5) * 4,
                      4);
          return bits;
        };
        EXPECT_TRUE(same(scale(head), key.scale)) << i << ' ' << head;
        EXPECT_TRUE(same(scale(kHeads + head), value.scale)) << i << ' ' << head;
      }
    };
    check(Stream{});
    for (const Isa isa : PresentIsas()) check(CpuStream(isa, 1).stream);
  }
}

// What fp8 keeps of a number: 3 bits behind the first, so 1/16 of it at most is lost, or half of
// the least element where that is more.
TEST(KvWrite, Fp8IsWithinHalfAStepOfEachNumber) {
  constexpr int kDim = 128;
  std::mt19937_64 random(21);
  GuardedArray keys(kF32, kDim);
  GuardedArray values(kF32, kDim);
  keys.FillNormal(random, 7.0f);
  values.FillNormal(random, 1e-3f);
  GuardedArray storage(kF8, KvPageBytes(kF8, 1, kDim));
  const KvCache cache{
      .pages = storage.data(), .num_pages = 1, .dtype = kF8, .kv_heads = 1, .head_dim = kDim};
  const int32_t table = 0;
  const KvRow row{&table, 3};
  ASSERT_TRUE(KvWrite(Stream{}, {.cache = cache,
                                 .rows = &row,
                                 .keys = keys.floats(),
                                 .values = values.floats(),
                                 .num_rows = 1})
                  .ok());
  const CachedHead cached(cache, 0, 0);
  const auto expect = [&](const GuardedArray& numbers, auto stored) {
    double largest = 0.0;
    for (int d = 0; d < kDim; ++d) largest = std::max(largest, std::abs(double{numbers.at(d)}));
    for (int d = 0; d < kDim; ++d) {
      const double x = numbers.at(d);
      const double step = std::max(std::abs(x) / 16, largest / 448 / 512);
      EXPECT_LE(std::abs(stored(d) - x), step) << d;
    }
  };
  expect(keys, [&](int d) { return cached.Key(3, d); });
  expect(values, [&](int d) { return cached.Value(3, d); });
}

// Scales are powers of 2, so the split into elements and scales changes no bit. fp8 affects what is
// written, not how it is read.
TEST(PagedAttention, Fp8GivesTheBitsOfABFloat16CacheOfItsNumbers) {
  constexpr int kHeads = 2;
  constexpr int kDim = 40;
  constexpr int kLength = 1100;
  std::mt19937_64 random(8);
  GuardedArray keys(kF32, kLength * kHeads * kDim);
  GuardedArray values(kF32, kLength * kHeads * kDim);
  GuardedArray queries(kF32, 3 * 2 * kHeads * kDim);
  keys.FillNormal(random);
  values.FillNormal(random, 100.0f);
  queries.FillNormal(random);
  std::vector<int32_t> table((kLength + kPageTokens - 1) / kPageTokens);
  std::iota(table.rbegin(), table.rend(), 0);
  const auto pages = static_cast<int64_t>(table.size());
  std::vector<KvRow> rows;
  for (int p = 0; p < kLength; ++p) rows.push_back({table.data(), p});
  const auto cache_in = [&](GuardedArray& storage) {
    return KvCache{.pages = storage.data(),
                   .num_pages = pages,
                   .dtype = storage.type(),
                   .kv_heads = kHeads,
                   .head_dim = kDim};
  };
  const auto write = [&](GuardedArray& storage) {
    ASSERT_TRUE(KvWrite(Stream{}, {.cache = cache_in(storage),
                                   .rows = rows.data(),
                                   .keys = keys.floats(),
                                   .values = values.floats(),
                                   .num_rows = kLength})
                    .ok());
  };
  GuardedArray fp8(kF8, pages * KvPageBytes(kF8, kHeads, kDim));
  write(fp8);
  for (int p = 0; p < kLength; ++p) {
    for (int h = 0; h < kHeads; ++h) {
      const CachedHead cached(cache_in(fp8), table[static_cast<size_t>(p / kPageTokens)], h);
      for (int d = 0; d < kDim; ++d) {
        const int64_t at = (int64_t{p} * kHeads + h) * kDim + d;
        keys.set(at, static_cast<float>(cached.Key(p % kPageTokens, d)));
        values.set(at, static_cast<float>(cached.Value(p % kPageTokens, d)));
      }
    }
  }
  GuardedArray bf16(kB16, pages * KvPageBytes(kB16, kHeads, kDim) / 2);
  write(bf16);
  const std::vector<KvRow> some = {rows[kLength - 1], rows[500], rows[70]};
  const auto attend = [&](const Stream& stream, GuardedArray& storage) {
    GuardedArray y(kF32, queries.count());
    EXPECT_TRUE(PagedAttention(stream, {.cache = cache_in(storage),
                                        .rows = some.data(),
                                        .queries = queries.floats(),
                                        .y = y.data(),
                                        .num_rows = 3,
                                        .heads = 2 * kHeads,
                                        .scale = 0.2f})
                    .ok());
    return y;
  };
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 2);
    const GuardedArray wanted = attend(cpu.stream, bf16);
    const GuardedArray got = attend(cpu.stream, fp8);
    EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.data_bytes()), 0) << ToString(isa);
  }
}

// With one key, its weight is the sigmoid of its score less the sink. Sinks beyond what exp of fp32
// holds leave all of the value, or nothing.
TEST(PagedAttention, ASinkTakesItsShareOfTheSoftmax) {
  constexpr int kHeads = 5;
  constexpr int kDim = 16;
  GuardedArray key(kF32, kDim);
  GuardedArray value(kF32, kDim);
  GuardedArray queries(kF32, kHeads * kDim);
  key.Fill(0.5f);
  value.Fill(2.0f);
  queries.Fill(1.0f);
  constexpr float kScore = 0.25f * kDim * 0.5f;
  GuardedArray sinks(kF32, kHeads);
  const float differences[kHeads] = {0.0f, 1.5f, -3.0f, 200.0f, -200.0f};
  for (int h = 0; h < kHeads; ++h) sinks.set(h, kScore + differences[h]);
  const std::vector<int32_t> table = {0};
  const std::vector<KvRow> row = {{table.data(), 0}};
  GuardedArray storage(kF32, KvPageBytes(kF32, 1, kDim) / 4);
  const KvCache cache{
      .pages = storage.data(), .num_pages = 1, .dtype = kF32, .kv_heads = 1, .head_dim = kDim};
  ASSERT_TRUE(KvWrite(Stream{}, {.cache = cache,
                                 .rows = row.data(),
                                 .keys = key.floats(),
                                 .values = value.floats(),
                                 .num_rows = 1})
                  .ok());
  const auto check = [&](const Stream& stream) {
    GuardedArray y(kF32, kHeads * kDim);
    ASSERT_TRUE(PagedAttention(stream, {.cache = cache,
                                        .rows = row.data(),
                                        .queries = queries.floats(),
                                        .y = y.data(),
                                        .num_rows = 1,
                                        .heads = kHeads,
                                        .scale = 0.25f,
                                        .sinks = sinks.floats()})
                    .ok());
    for (int h = 0; h < kHeads; ++h) {
      const double wanted = 2.0 / (1.0 + std::exp(differences[h]));
      for (int d = 0; d < kDim; ++d) EXPECT_NEAR(y.at(h * kDim + d), wanted, 1e-6) << h;
    }
  };
  check(Stream{});
  for (const Isa isa : PresentIsas()) check(CpuStream(isa, 1).stream);
}

// A row sees the mean of the values of its own chunk, up to itself. Pages before the chunk are
// absent.
TEST(PagedAttention, AChunkBeginsAtAMultipleOfItsLength) {
  constexpr int kDim = 16;
  constexpr int kPositions = 100;
  constexpr int kChunk = 40;
  constexpr int kPages = (kPositions + kPageTokens - 1) / kPageTokens;
  GuardedArray storage(kF32, kPages * KvPageBytes(kF32, 1, kDim) / 4);
  const KvCache cache{
      .pages = storage.data(), .num_pages = kPages, .dtype = kF32, .kv_heads = 1, .head_dim = kDim};
  std::vector<int32_t> table(kPages);
  std::iota(table.begin(), table.end(), 0);
  GuardedArray keys(kF32, kPositions * kDim);
  GuardedArray values(kF32, kPositions * kDim);
  keys.Fill(0.0f);
  std::vector<KvRow> written;
  for (int p = 0; p < kPositions; ++p) {
    written.push_back({table.data(), p});
    for (int d = 0; d < kDim; ++d) values.set(p * kDim + d, static_cast<float>(p));
  }
  ASSERT_TRUE(KvWrite(Stream{}, {.cache = cache,
                                 .rows = written.data(),
                                 .keys = keys.floats(),
                                 .values = values.floats(),
                                 .num_rows = kPositions})
                  .ok());
  GuardedArray query(kF32, kDim);
  query.Fill(1.0f);
  const auto check = [&](const Stream& stream) {
    for (const int position : {0, 1, 39, 40, 41, 79, 80, 99}) {
      std::vector<int32_t> own = table;
      const int first = position / kChunk * kChunk;
      std::fill(own.begin(), own.begin() + first / kPageTokens, -1);
      const std::vector<KvRow> row = {{own.data(), position}};
      GuardedArray y(kF32, kDim);
      ASSERT_TRUE(PagedAttention(stream, {.cache = cache,
                                          .rows = row.data(),
                                          .queries = query.floats(),
                                          .y = y.data(),
                                          .num_rows = 1,
                                          .heads = 1,
                                          .scale = 0.25f,
                                          .chunk = kChunk})
                      .ok());
      EXPECT_NEAR(y.at(0), (first + position) / 2.0, 1e-4) << position;
    }
  };
  check(Stream{});
  for (const Isa isa : PresentIsas()) check(CpuStream(isa, 1).stream);
}

TEST(PagedAttention, RefusesAChunkBesideAWindow) {
  float x[16] = {};
  const std::vector<int32_t> table = {0};
  const std::vector<KvRow> row = {{table.data(), 0}};
  GuardedArray storage(kF32, KvPageBytes(kF32, 1, 16) / 4);
  const PagedAttentionArgs args{.cache = {.pages = storage.data(),
                                          .num_pages = 1,
                                          .dtype = kF32,
                                          .kv_heads = 1,
                                          .head_dim = 16},
                                .rows = row.data(),
                                .queries = x,
                                .y = x,
                                .num_rows = 1,
                                .heads = 1,
                                .scale = 1.0f,
                                .sliding_window = 4,
                                .chunk = 4};
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: chunk and sliding_window are both set");
}

// Keys of -infinity score -infinity. They weigh 0, whatever comes first. Here whole blocks and
// splits of them come before the first key that weighs more.
TEST(PagedAttention, ScoresOfMinusInfinityWeighNothing) {
  constexpr int kDim = 64;
  constexpr int kLength = kKeySplit + 6;
  constexpr int kNothing = kKeySplit + 2;  // positions before it
  for (const DType type : {kF32, kB16}) {
    std::mt19937_64 random(3);
    GuardedArray keys(kF32, kLength * kDim);
    GuardedArray values(kF32, kLength * kDim);
    GuardedArray query(kF32, kDim);
    keys.FillNormal(random);
    values.FillNormal(random);
    query.FillNormal(random);
    query.set(0, 1.0f);
    for (int p = 0; p < kNothing; ++p) {
      keys.set(int64_t{p} * kDim, -std::numeric_limits<float>::infinity());
    }
    std::vector<int32_t> table(kLength / kPageTokens + 1);
    std::iota(table.begin(), table.end(), 0);
    const auto pages = static_cast<int64_t>(table.size());
    GuardedArray storage(type, pages * KvPageBytes(type, 1, kDim) / SizeOf(type));
    const KvCache cache{.pages = storage.data(),
                        .num_pages = pages,
                        .dtype = type,
                        .kv_heads = 1,
                        .head_dim = kDim};
    std::vector<KvRow> rows;
    for (int p = 0; p < kLength; ++p) rows.push_back({table.data(), p});
    ASSERT_TRUE(KvWrite(Stream{}, {.cache = cache,
                                   .rows = rows.data(),
                                   .keys = keys.floats(),
                                   .values = values.floats(),
                                   .num_rows = kLength})
                    .ok());
    const auto attend = [&](const Stream& stream, int position, bool with_workspace) {
      GuardedArray y(type, kDim);
      GuardedArray workspace(kF32, with_workspace ? 1 << 16 : 0);
      EXPECT_TRUE(
          PagedAttention(stream, {.cache = cache,
                                  .rows = &rows[static_cast<size_t>(position)],
                                  .queries = query.floats(),
                                  .y = y.data(),
                                  .y_dtype = type,
                                  .num_rows = 1,
                                  .heads = 1,
                                  .scale = 0.125f,
                                  .workspace = with_workspace ? workspace.data() : nullptr,
                                  .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())})
              .ok());
      return y;
    };
    for (const int position : {kNothing - 1, kNothing, kLength - 1}) {
      const GuardedArray wanted = attend(Stream{}, position, false);
      for (const Isa isa : PresentIsas()) {
        CpuStream cpu(isa, 2);
        for (const bool with_workspace : {false, true}) {
          const GuardedArray got = attend(cpu.stream, position, with_workspace);
          for (int d = 0; d < kDim; ++d) {
            if (position < kNothing) {
              EXPECT_TRUE(std::isnan(wanted.at(d)) && std::isnan(got.at(d)));
            } else {
              EXPECT_NEAR(got.at(d), wanted.at(d), 0.02) << ToString(type) << ' ' << position;
            }
          }
        }
      }
    }
  }
}

TEST(PagedAttention, RefusesPagesOfFp8WhoseScalesCouldNotBeRead) {
  alignas(64) float pages[200] = {};
  float q[8] = {};
  const int32_t table[1] = {0};
  const KvRow row{table, 0};
  PagedAttentionArgs args{
      .cache = {.pages = pages, .num_pages = 1, .dtype = kF8, .kv_heads = 2, .head_dim = 4},
      .rows = &row,
      .queries = q,
      .y = q,
      .num_rows = 1,
      .heads = 2,
      .scale = 1.0f};
  EXPECT_TRUE(PagedAttention(Stream{}, args).ok());
  args.cache.page_stride_bytes = KvPageBytes(kF8, 2, 4) - 4;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: cache.page_stride_bytes is shorter than a page");
  args.cache.page_stride_bytes = KvPageBytes(kF8, 2, 4) + 2;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: cache.page_stride_bytes is not a multiple of 4 (BFloat16: of 2)");
  args.cache.page_stride_bytes = 0;
  args.cache.pages = reinterpret_cast<char*>(pages) + 2;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: cache.pages is not aligned to 4 bytes (BFloat16: to 2)");
  args.cache.dtype = DType::kFloat32;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: cache.pages is not aligned to 4 bytes (BFloat16: to 2)");
  args.cache.dtype = DType::kBFloat16;
  EXPECT_TRUE(PagedAttention(Stream{}, args).ok());
  args.cache.page_stride_bytes = KvPageBytes(DType::kBFloat16, 2, 4) + 1;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(),
            "PagedAttention: cache.page_stride_bytes is not a multiple of 4 (BFloat16: of 2)");
  args.cache.dtype = DType::kFloat16;
  EXPECT_EQ(PagedAttention(Stream{}, args).message(), "PagedAttention: cache.dtype is Float16");
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
