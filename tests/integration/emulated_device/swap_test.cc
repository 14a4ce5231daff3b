// Swapping beside a device that refuses, fails, or would block the host.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "dataplane/engine/kv_page_pool.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"

namespace janus::dataplane {
namespace {

constexpr int kLayers = 2;
constexpr int64_t kPageBytes = 256;

class EmulatedSwapTest : public testing::Test {
 protected:
  std::unique_ptr<KvPagePool> MakeCache(int pages, int swap_pages) {
    KvPagePoolOptions options;
    options.layers = kLayers;
    options.page_bytes = kPageBytes;
    options.bytes = kPageBytes * kLayers * pages;
    options.swap_bytes = kPageBytes * kLayers * swap_pages;
    options.context = &device_;
    options.log = Logger(log_.get());
    return *KvPagePool::Create(options);
  }
  static std::vector<int32_t> TakePages(KvPagePool& cache, int count) {
    std::vector<int32_t> pages;
    EXPECT_TRUE(cache.Grow(pages, count));
    return pages;
  }
  std::string Logged() const {
    std::string text(4096, '\0');
    text.resize(static_cast<size_t>(pread(log_.get(), text.data(), text.size(), 0)));
    return text;
  }
  static int64_t Lines(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  }

  const Fd log_{memfd_create("log", MFD_CLOEXEC)};
  kernels::EmulatedDevice device_;
};

TEST_F(EmulatedSwapTest, CopiesPinnedMemoryAlone) {
  const auto cache = MakeCache(4, 4);
  std::vector<int32_t> pages = TakePages(*cache, 3);
  KvPagePool::Swapped swapped;
  ASSERT_TRUE(cache->SwapOut(pages, swapped));
  ASSERT_TRUE(cache->SwapIn(swapped, pages));
  EXPECT_EQ(device_.counts().copies_out, uint64_t{kLayers});
  EXPECT_EQ(device_.pageable_copies(), 0u);
  EXPECT_EQ(Logged(), "");
}

// Plans count the configured bytes: it pins no more, and all of it before the first sequence.
TEST_F(EmulatedSwapTest, PinsTheWholePagesThatItWasTold) {
  KvPagePoolOptions options;
  options.layers = kLayers;
  options.page_bytes = kPageBytes;
  options.bytes = kPageBytes * kLayers * 8;
  options.swap_bytes = kPageBytes * kLayers * 5 + 1;
  options.context = &device_;
  const auto cache = *KvPagePool::Create(options);
  EXPECT_EQ(device_.pinned_bytes(), static_cast<uint64_t>(kPageBytes) * kLayers * 5);
  std::vector<int32_t> pages = TakePages(*cache, 5), more = TakePages(*cache, 1);
  KvPagePool::Swapped swapped, none;
  EXPECT_TRUE(cache->SwapOut(pages, swapped));
  EXPECT_EQ(cache->swap_used(), kPageBytes * kLayers * 5);
  EXPECT_FALSE(cache->SwapOut(more, none));
  EXPECT_EQ(device_.counts().allocations, 2u);
}

TEST_F(EmulatedSwapTest, GoesOnWithoutHostMemoryThatCannotBePinned) {
  device_.RefusePinned();
  const auto cache = MakeCache(4, 4);
  std::vector<int32_t> pages = TakePages(*cache, 3);
  const std::vector<int32_t> before = pages;
  KvPagePool::Swapped swapped;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cache->SwapOut(pages, swapped));
  EXPECT_EQ(pages, before);
  EXPECT_EQ(swapped.pages(), 0);
  EXPECT_EQ(device_.counts().copies_out, 0u);
  const std::string logged = Logged();
  EXPECT_EQ(Lines(logged), 1) << logged;
  EXPECT_TRUE(Contains(logged, "swap_bytes=2048")) << logged;
  EXPECT_TRUE(Contains(logged, "2048 bytes of pinned memory")) << logged;
}

TEST_F(EmulatedSwapTest, SaysOnceThatHostMemoryIsFull) {
  const auto cache = MakeCache(8, 3);
  std::vector<int32_t> first = TakePages(*cache, 2), second = TakePages(*cache, 2);
  KvPagePool::Swapped swapped, none;
  ASSERT_TRUE(cache->SwapOut(first, swapped));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cache->SwapOut(second, none));
  const std::string logged = Logged();
  EXPECT_EQ(Lines(logged), 1) << logged;
  EXPECT_TRUE(Contains(logged, "swap_bytes=1536 used=1024 wanted=1024")) << logged;
  cache->Drop(swapped);
  EXPECT_TRUE(cache->SwapOut(second, none));
}

TEST_F(EmulatedSwapTest, SaysNothingWhereNoneWasAskedFor) {
  const auto cache = MakeCache(4, 0);
  std::vector<int32_t> pages = TakePages(*cache, 2);
  KvPagePool::Swapped swapped;
  EXPECT_FALSE(cache->SwapOut(pages, swapped));
  EXPECT_EQ(device_.counts().allocations, 1u);
  EXPECT_EQ(Logged(), "");
}

// A page of prefixes, by the token that fills it.
struct PageOfTokens {
  std::array<int32_t, kernels::kPageTokens> tokens;
  explicit PageOfTokens(int32_t token) { tokens.fill(token); }
};

class EmulatedPrefixTest : public EmulatedSwapTest {
 protected:
  std::unique_ptr<KvPagePool> MakePool(int pages, int host_pages, int copies) {
    KvPagePoolOptions options;
    options.layers = kLayers;
    options.page_bytes = kPageBytes;
    options.bytes = kPageBytes * kLayers * pages;
    options.prefix_host_bytes = kPageBytes * kLayers * host_pages + 1;
    options.prefix_copies = copies;
    options.context = &device_;
    options.log = Logger(log_.get());
    return *KvPagePool::Create(options);
  }
  // Publishes a page with this token, and lets no sequence use it any more.
  static void Leave(KvPagePool& pool, int32_t token) {
    std::vector<int32_t> pages = TakePages(pool, 1);
    pool.Publish(kNoPrefix, PageOfTokens(token).tokens, pages[0]);
    pool.Release(pages);
  }
  static std::optional<PrefixIndex::Entry> Find(const KvPagePool& pool, int32_t token) {
    return pool.Find(kNoPrefix, PageOfTokens(token).tokens);
  }
};

TEST_F(EmulatedPrefixTest, PinsTheWholePagesThatItWasToldAndCopiesEachLayerOnce) {
  const auto pool = MakePool(1, 3, 8);
  EXPECT_EQ(device_.pinned_bytes(), static_cast<uint64_t>(kPageBytes) * kLayers * 3);
  pool->BeginStep();
  Leave(*pool, 1);
  Leave(*pool, 2);  // overwrites the first
  EXPECT_EQ(device_.counts().copies_out, uint64_t{kLayers});
  EXPECT_EQ(pool->prefix_host_used(), kPageBytes * kLayers);
  std::vector<int32_t> pages = TakePages(*pool, 1);
  ASSERT_TRUE(Find(*pool, 1));
  EXPECT_LT(Find(*pool, 1)->page, 0);
  EXPECT_TRUE(pool->Restore(kNoPrefix, PageOfTokens(1).tokens, pages[0]));
  EXPECT_EQ(Find(*pool, 1)->page, pages[0]);
  EXPECT_EQ(device_.counts().copies_in, uint64_t{kLayers});
  EXPECT_EQ(device_.pageable_copies(), 0u);
  // Host memory still holds it, so it is not copied out again.
  const uint64_t out = device_.counts().copies_out;
  pool->Release(pages);
  pages = TakePages(*pool, 1);
  EXPECT_EQ(device_.counts().copies_out, out);
  EXPECT_EQ(Logged(), "");
}

TEST_F(EmulatedPrefixTest, GoesOnWithoutHostMemoryThatCannotBePinned) {
  device_.RefusePinned();
  const auto pool = MakePool(1, 3, 8);
  pool->BeginStep();
  Leave(*pool, 1);
  Leave(*pool, 2);
  pool->SaveAhead();
  EXPECT_FALSE(Find(*pool, 1));
  EXPECT_EQ(device_.counts().copies_out, 0u);
  const std::string logged = Logged();
  EXPECT_EQ(Lines(logged), 1) << logged;
  EXPECT_TRUE(Contains(logged, "no host memory for shared prefixes")) << logged;
}

// The sequence computes its page, or learns of the failure by that: it does not wait for a copy.
TEST_F(EmulatedPrefixTest, ADeviceThatBreaksLosesPagesInHostMemoryAlone) {
  device_.RunBehind(7);
  const auto pool = MakePool(2, 3, 8);
  pool->BeginStep();
  Leave(*pool, 1);
  Leave(*pool, 2);
  std::vector<int32_t> pages = TakePages(*pool, 2);
  ASSERT_EQ(pool->prefix_host_used(), 2 * kPageBytes * kLayers);
  device_.Break();
  EXPECT_FALSE(pool->Restore(kNoPrefix, PageOfTokens(1).tokens, pages[0]));
  EXPECT_FALSE(Find(*pool, 1));
  EXPECT_EQ(pool->prefix_host_used(), kPageBytes * kLayers);
  pool->Release(pages);
  EXPECT_EQ(pool->free_pages(), 2);
  Leave(*pool, 3);
  Leave(*pool, 4);
  Leave(*pool, 5);
  EXPECT_FALSE(Find(*pool, 3)) << "its copy failed";
  EXPECT_TRUE(Find(*pool, 2));
  EXPECT_TRUE(device_.has_failed());
}

// No page is lost or allocated twice. The device's next wait reports its failure.
TEST_F(EmulatedSwapTest, ADeviceThatBreaksLeavesPagesWhereTheyWere) {
  device_.RunBehind(7);
  const auto cache = MakeCache(4, 4);
  std::vector<int32_t> away = TakePages(*cache, 2), here = TakePages(*cache, 2);
  KvPagePool::Swapped swapped, none;
  ASSERT_TRUE(cache->SwapOut(away, swapped));
  device_.Break();
  const std::vector<int32_t> before = here;
  EXPECT_FALSE(cache->SwapOut(here, none));
  EXPECT_EQ(here, before);
  EXPECT_EQ(none.pages(), 0);
  EXPECT_EQ(cache->swap_used(), 2 * kPageBytes * kLayers);
  EXPECT_FALSE(cache->SwapIn(swapped, away));
  EXPECT_TRUE(away.empty());
  EXPECT_EQ(swapped.pages(), 2);
  EXPECT_EQ(cache->free_pages(), 2);
  EXPECT_TRUE(device_.has_failed());
  EXPECT_FALSE(device_.Wait().ok());
  cache->Drop(swapped);
  EXPECT_EQ(cache->swap_used(), 0);
}

}  // namespace
}  // namespace janus::dataplane
