#include "bench/gpu/cache_words.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace janus::bench {
namespace {

constexpr int kPages = 24;

template <class Cache>
std::vector<uint32_t> PagesOf(Cache& cache, int64_t page_bytes) {
  std::vector<uint32_t> words(static_cast<size_t>(kPages * page_bytes / 4));
  const CacheLayout layout = LayoutOf(cache);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = CacheWord(static_cast<int64_t>(i), layout);
  }
  cache.num_pages = kPages;
  cache.pages = words.data();
  return words;
}

// The deviation of `of`. All values must be finite.
double DeviationOf(const std::vector<float>& of) {
  double sum = 0.0, squares = 0.0;
  for (const float x : of) {
    EXPECT_TRUE(std::isfinite(x));
    sum += x;
    squares += double{x} * x;
  }
  const double mean = sum / static_cast<double>(of.size());
  EXPECT_NEAR(mean, 0.0, 0.1);
  return std::sqrt(squares / static_cast<double>(of.size()) - mean * mean);
}

void ExpectDiffer(const std::vector<float>& of) {
  DeviationOf(of);
  EXPECT_GT(std::set<float>(of.begin(), of.end()).size(), of.size() / 2);
}

std::vector<int32_t> AllPages() {
  std::vector<int32_t> table;
  for (int i = 0; i < kPages; ++i) table.push_back(i);
  return table;
}

std::vector<float> Queries(size_t count) {
  std::vector<float> queries(count);
  for (size_t i = 0; i < count; ++i) queries[i] = std::sin(static_cast<float>(i));
  return queries;
}

class CacheWords : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, CacheWords, testing::Values(DType::kBFloat16, DType::kFloat8E4M3),
                         [](const auto& info) { return std::string(ToString(info.param)); });

// Keys and values as the reference's attention reads them.
TEST_P(CacheWords, AreKeysAndValuesNearADeviationOf1) {
  kernels::KvCache cache{.dtype = GetParam(), .kv_heads = 2, .head_dim = 64};
  const std::vector<uint32_t> words = PagesOf(cache, kernels::KvPageBytes(GetParam(), 2, 64));
  const std::vector<int32_t> table = AllPages();
  const auto attend = [&](const kernels::KvRow& row, const std::vector<float>& queries) {
    std::vector<float> y(queries.size());
    EXPECT_TRUE(
        kernels::PagedAttention({.device = kernels::Device::kReference}, {.cache = cache,
                                                                          .rows = &row,
                                                                          .queries = queries.data(),
                                                                          .y = y.data(),
                                                                          .num_rows = 1,
                                                                          .heads = 4,
                                                                          .scale = 0.125f})
            .ok());
    return y;
  };
  std::vector<float> of_one;
  // A row that sees only its first key gets that key's value.
  for (int page = 0; page < kPages; ++page) {
    const kernels::KvRow row{table.data() + page, 0};
    const std::vector<float> queries = Queries(4 * 64);
    const std::vector<float> y = attend(row, queries);
    of_one.insert(of_one.end(), y.begin(), y.end());
  }
  EXPECT_GT(DeviationOf(of_one), 0.6);
  EXPECT_LT(DeviationOf(of_one), 1.2);
  // The same for all keys.
  const kernels::KvRow row{table.data(), kPages * kernels::kPageTokens - 1};
  std::vector<float> queries = Queries(4 * 64);
  for (float& q : queries) q *= 2.0f;
  const std::vector<float> y = attend(row, queries);
  ExpectDiffer(y);
}

TEST_P(CacheWords, AreLatentVectorsNearADeviationOf1) {
  kernels::LatentCache cache{.dtype = GetParam(), .rank = 512, .rope = 64};
  const std::vector<uint32_t> words = PagesOf(cache, kernels::LatentPageBytes(GetParam(), 512, 64));
  const std::vector<int32_t> table = AllPages();
  const std::vector<float> queries = Queries(2 * (512 + 64));
  std::vector<float> of_one;
  for (const int position : {0, kPages * kernels::kPageTokens - 1}) {
    const kernels::KvRow row{table.data(), position};
    std::vector<float> y(2 * 512);
    ASSERT_TRUE(kernels::AbsorbedAttention({.device = kernels::Device::kReference},
                                           {.cache = cache,
                                            .rows = &row,
                                            .latent_queries = queries.data(),
                                            .rope_queries = queries.data() + 2 * 512,
                                            .y = y.data(),
                                            .num_rows = 1,
                                            .heads = 2,
                                            .scale = 0.072f})
                    .ok());
    if (position > 0) ExpectDiffer(y);
    if (position == 0) of_one = y;
  }
  EXPECT_GT(DeviationOf(of_one), 0.4);
  EXPECT_LT(DeviationOf(of_one), 1.2);
}

TEST_P(CacheWords, AreRopeKeysNearADeviationOf1) {
  kernels::LatentCache cache{.dtype = GetParam(), .rank = 512, .rope = 64};
  const std::vector<uint32_t> words = PagesOf(cache, kernels::LatentPageBytes(GetParam(), 512, 64));
  const int64_t entry = kernels::LatentEntryBytes(GetParam(), 512, 64);
  const int64_t rope_at = GetParam() == DType::kFloat8E4M3 ? kernels::LatentRopeAt(512) : 1024;
  std::vector<float> rope;
  for (int64_t position = 0; position < kPages * kernels::kPageTokens; ++position) {
    for (int64_t at = position * entry + rope_at; at < (position + 1) * entry; at += 4) {
      const uint32_t word = words[static_cast<size_t>(at / 4)];
      for (const int half : {0, 1}) {
        rope.push_back(FromBFloat16(static_cast<uint16_t>(word >> (16 * half))));
      }
    }
  }
  EXPECT_EQ(rope.size(), size_t{64} * kPages * kernels::kPageTokens);
  EXPECT_NEAR(DeviationOf(rope), 1.0, 0.05);
}

TEST(CacheWordsOfFp8, HaveScalesThatArePowersOf2WhereTheFormatHasThem) {
  kernels::KvCache cache{.dtype = DType::kFloat8E4M3, .kv_heads = 2, .head_dim = 64};
  const int64_t page = kernels::KvPageBytes(cache.dtype, 2, 64);
  const std::vector<uint32_t> words = PagesOf(cache, page);
  std::set<float> scales;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto in_page = static_cast<int64_t>(4 * i) % page;
    if (in_page >= kernels::KvElementBytes(cache.dtype, 2, 64)) {
      scales.insert(std::bit_cast<float>(words[i]));
      continue;
    }
    for (int j = 0; j < 4; ++j) ASSERT_NE(words[i] >> (8 * j) & 0x7Fu, 0x7Fu) << "NaN at " << i;
  }
  EXPECT_EQ(scales, (std::set<float>{0x1p-9f, 0x1p-8f}));
}

}  // namespace
}  // namespace janus::bench
