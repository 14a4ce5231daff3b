#include "dataplane/engine/kv_page_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

constexpr int kLayers = 3;
constexpr int64_t kPageBytes = 1024;

std::unique_ptr<KvPagePool> MakeCache(int pages, int swap_pages) {
  KvPagePoolOptions options;
  options.layers = kLayers;
  options.page_bytes = kPageBytes;
  options.bytes = kPageBytes * kLayers * pages + kPageBytes;  // the remainder is no whole page
  options.swap_bytes = kPageBytes * kLayers * swap_pages;
  return std::move(*KvPagePool::Create(options));
}

unsigned char* PageOf(const KvPagePool& cache, int layer, int32_t page) {
  return reinterpret_cast<unsigned char*>(cache.Layer(layer)) + page * kPageBytes;
}

void Fill(const KvPagePool& cache, const std::vector<int32_t>& pages, int salt) {
  for (int layer = 0; layer < kLayers; ++layer) {
    for (size_t i = 0; i < pages.size(); ++i) {
      std::memset(PageOf(cache, layer, pages[i]), salt + layer * 10 + static_cast<int>(i),
                  static_cast<size_t>(kPageBytes));
    }
  }
}

bool Holds(const KvPagePool& cache, const std::vector<int32_t>& pages, int salt) {
  for (int layer = 0; layer < kLayers; ++layer) {
    for (size_t i = 0; i < pages.size(); ++i) {
      for (int64_t b = 0; b < kPageBytes; ++b) {
        if (PageOf(cache, layer, pages[i])[b] != salt + layer * 10 + static_cast<int>(i))
          return false;
      }
    }
  }
  return true;
}

TEST(KvPagePool, RefusesLessThanOnePageAndSaysWhatToRaise) {
  KvPagePoolOptions options;
  options.layers = kLayers;
  options.page_bytes = kPageBytes;
  options.bytes = kPageBytes * kLayers - 1;
  const auto cache = KvPagePool::Create(options);
  ASSERT_EQ(cache.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(cache.status().message(), "kvCache.size"));
}

TEST(KvPagePool, CountsPositionsInPages) {
  EXPECT_EQ(KvPagePool::PagesFor(0), 0);
  EXPECT_EQ(KvPagePool::PagesFor(1), 1);
  EXPECT_EQ(KvPagePool::PagesFor(kernels::kPageTokens), 1);
  EXPECT_EQ(KvPagePool::PagesFor(kernels::kPageTokens + 1), 2);
}

TEST(KvPagePool, HandsOutEveryPageOnceAndTakesAllBack) {
  const auto cache = MakeCache(5, 0);
  ASSERT_EQ(cache->num_pages(), 5);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(cache->Grow(a, 2));
  ASSERT_TRUE(cache->Grow(b, 3));
  std::set<int32_t> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(*all.begin(), 0);
  EXPECT_EQ(*all.rbegin(), 4);
  cache->Release(a);
  cache->Release(b);
  EXPECT_EQ(cache->free_pages(), 5);
  EXPECT_TRUE(a.empty() && b.empty());
}

TEST(KvPagePool, GrowsWhollyOrNotAtAll) {
  const auto cache = MakeCache(3, 0);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(cache->Grow(a, 2));
  EXPECT_FALSE(cache->Grow(b, 2));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(cache->free_pages(), 1);
  EXPECT_TRUE(cache->Grow(a, 1)) << "it has more than that already";
  EXPECT_EQ(a.size(), 2u);
}

TEST(KvPagePool, PagesOfLayersDoNotOverlap) {
  const auto cache = MakeCache(4, 0);
  std::vector<int32_t> pages;
  ASSERT_TRUE(cache->Grow(pages, 4));
  Fill(*cache, pages, 7);
  EXPECT_TRUE(Holds(*cache, pages, 7));
}

TEST(KvPagePool, SwapsEveryLayerOutAndBackIntoOtherPages) {
  const auto cache = MakeCache(4, 3);
  std::vector<int32_t> pages;
  ASSERT_TRUE(cache->Grow(pages, 3));
  Fill(*cache, pages, 40);
  KvPagePool::Swapped swapped;
  ASSERT_TRUE(cache->SwapOut(pages, swapped));
  EXPECT_EQ(cache->free_pages(), 4);
  EXPECT_EQ(swapped.pages(), 3);
  std::vector<int32_t> other;
  ASSERT_TRUE(cache->Grow(other, 1));  // so that the page does not come back to the same place
  Fill(*cache, other, 100);
  ASSERT_TRUE(cache->SwapIn(swapped, pages));
  EXPECT_TRUE(Holds(*cache, pages, 40));
  EXPECT_TRUE(Holds(*cache, other, 100));
  EXPECT_EQ(cache->free_pages(), 0);
}

TEST(KvPagePool, RefusesToSwapBeyondTheHostMemoryAndChangesNothing) {
  const auto cache = MakeCache(6, 3);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(cache->Grow(a, 2));
  ASSERT_TRUE(cache->Grow(b, 2));
  Fill(*cache, b, 60);
  KvPagePool::Swapped first, second;
  ASSERT_TRUE(cache->SwapOut(a, first));
  EXPECT_FALSE(cache->SwapOut(b, second));
  EXPECT_EQ(b.size(), 2u);
  EXPECT_TRUE(Holds(*cache, b, 60));
  cache->Drop(first);
  EXPECT_TRUE(cache->SwapOut(b, second)) << "what was dropped makes room";
}

TEST(KvPagePool, SwapsInOnlyWhereAllPagesAreFree) {
  const auto cache = MakeCache(3, 3);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(cache->Grow(a, 2));
  KvPagePool::Swapped swapped;
  ASSERT_TRUE(cache->SwapOut(a, swapped));
  ASSERT_TRUE(cache->Grow(b, 2));
  EXPECT_FALSE(cache->SwapIn(swapped, a));
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(swapped.pages(), 2);
  cache->Release(b);
  EXPECT_TRUE(cache->SwapIn(swapped, a));
  // The host memory is free again.
  EXPECT_TRUE(cache->SwapOut(a, swapped));
}

// Decoding sequences take pages in every step, and each of these may have to be copied first.
TEST(KvPagePool, AStepAfterOneThatCouldNotRestoreKeepsCopiesForThat) {
  KvPagePoolOptions options;
  options.layers = kLayers;
  options.page_bytes = kPageBytes;
  options.bytes = kPageBytes * kLayers * 3;
  options.prefix_host_bytes = kPageBytes * kLayers * 8;
  options.prefix_copies = 1;
  const auto pool = std::move(*KvPagePool::Create(options));
  using Tokens = std::array<int32_t, kernels::kPageTokens>;
  const auto tokens = [](int32_t token) {
    Tokens out;
    out.fill(token);
    return out;
  };
  const auto leave = [&](int32_t token) {
    std::vector<int32_t> pages;
    ASSERT_TRUE(pool->Grow(pages, 1));
    pool->Publish(kNoPrefix, tokens(token), pages[0]);
    pool->Release(pages);
  };
  pool->BeginStep();
  for (int32_t token = 1; token <= 4; ++token) leave(token);
  ASSERT_TRUE(pool->Find(kNoPrefix, tokens(1)));
  ASSERT_LT(pool->Find(kNoPrefix, tokens(1))->page, 0) << "the fourth took its page";
  EXPECT_EQ(pool->saved_positions(), uint64_t{kernels::kPageTokens});
  // Two others, the second and the third, are overwritten in these steps.
  std::vector<int32_t> waiting, decoding;
  pool->BeginStep();
  ASSERT_TRUE(pool->Grow(waiting, 1));
  EXPECT_FALSE(pool->Restore(kNoPrefix, tokens(1), waiting[0]));
  EXPECT_TRUE(pool->Find(kNoPrefix, tokens(2)));
  pool->BeginStep();
  ASSERT_TRUE(pool->Grow(decoding, 1));
  EXPECT_TRUE(pool->Restore(kNoPrefix, tokens(1), waiting[0]));
  EXPECT_FALSE(pool->Find(kNoPrefix, tokens(3))) << "there was no copy for it";
  // After that all copies are there for either direction again.
  pool->BeginStep();
  ASSERT_TRUE(pool->Grow(decoding, 2));
  EXPECT_TRUE(pool->Find(kNoPrefix, tokens(4)));
  EXPECT_EQ(pool->saved_positions(), uint64_t{3 * kernels::kPageTokens});
}

// A pool of `pages` pages and `host` pages of host memory that makes a copy in each step.
std::unique_ptr<KvPagePool> PoolWithHostMemory(int pages, int host) {
  KvPagePoolOptions options;
  options.layers = kLayers;
  options.page_bytes = kPageBytes;
  options.bytes = kPageBytes * kLayers * pages;
  options.prefix_host_bytes = kPageBytes * kLayers * host;
  options.prefix_copies = 1;
  return std::move(*KvPagePool::Create(options));
}

std::array<int32_t, kernels::kPageTokens> PageOf(int32_t token) {
  std::array<int32_t, kernels::kPageTokens> out;
  out.fill(token);
  return out;
}

// A sequence of so many full pages comes and goes; they are published.
void ComeAndGo(KvPagePool& pool, int count) {
  std::vector<int32_t> pages;
  pool.BeginStep();
  ASSERT_TRUE(pool.Grow(pages, count));
  PrefixId prefix = kNoPrefix;
  for (int i = 0; i < count; ++i) {
    prefix = pool.Publish(prefix, PageOf(i), pages[static_cast<size_t>(i)]);
  }
  pool.Release(pages);
  pool.SaveAhead();
}

void Idle(KvPagePool& pool, int steps) {
  for (int i = 0; i < steps; ++i) {
    pool.BeginStep();
    pool.SaveAhead();
  }
}

TEST(KvPagePool, APromptThatTakesAllPagesAtOnceLosesNothingThatThereWasTimeToSave) {
  constexpr int kPages = 100;
  const auto pool = PoolWithHostMemory(kPages, 2 * kPages);
  ComeAndGo(*pool, kPages);
  Idle(*pool, 2 * kPages);
  std::vector<int32_t> other;
  pool->BeginStep();
  ASSERT_TRUE(pool->Grow(other, kPages));
  PrefixId prefix = kNoPrefix;
  for (int i = 0; i < kPages; ++i) {
    const auto held = pool->Find(prefix, PageOf(i));
    ASSERT_TRUE(held) << "page " << i;
    EXPECT_GE(held->host, 0);
    prefix = held->id;
  }
}

TEST(KvPagePool, HostMemoryForFewerPagesThanThePoolKeepsIsFilledOnce) {
  constexpr int kPages = 20, kHost = 4;
  const auto pool = PoolWithHostMemory(kPages, kHost);
  ComeAndGo(*pool, kPages);
  Idle(*pool, 2 * kPages);
  EXPECT_EQ(pool->saved_positions(), uint64_t{kHost * kernels::kPageTokens});
}

}  // namespace
}  // namespace janus::dataplane
