// The pages of preempted sequences go to host memory and come back while steps run. The host does
// not wait for them, and allocates nothing.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/engine/kv_page_pool.h"
#include "tests/integration/device/made_device.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

constexpr int kLayers = 3;
constexpr int64_t kPageBytes = 512;
constexpr int64_t kBytes = kLayers * kPageBytes;  // of a page, all layers

std::unique_ptr<KvPagePool> MakeCache(kernels::Context& device, int pages, int swap_pages) {
  KvPagePoolOptions options;
  options.layers = kLayers;
  options.page_bytes = kPageBytes;
  options.bytes = kBytes * pages;
  options.swap_bytes = kBytes * swap_pages + kPageBytes;  // the remainder is no whole page
  options.context = &device;
  options.log = Logger(2, LogLevel::kError);  // it is sometimes full
  return *KvPagePool::Create(options);
}

// Writes and reads pages like steps, by copies queued on the device's stream.
class Pages {
 public:
  // `most`: writes that may be queued before a wait.
  Pages(kernels::Context& device, const KvPagePool& cache, size_t most)
      : device_(device),
        cache_(cache),
        staging_(*device.AllocatePinned(most * kLayers * kPageBytes)),
        read_(*device.AllocatePinned(kBytes)) {}

  // Writes a different number into each word of the pages' layers.
  void Write(const std::vector<int32_t>& pages, uint32_t salt) {
    for (size_t i = 0; i < pages.size(); ++i) {
      for (int layer = 0; layer < kLayers; ++layer) {
        std::byte* const from = staging_.data() + written_++ * kPageBytes;
        ASSERT_LE(from + kPageBytes, staging_.data() + staging_.size());
        const std::vector<uint32_t> words = Words(salt, static_cast<int>(i), layer);
        std::memcpy(from, words.data(), kPageBytes);
        ASSERT_TRUE(device_.CopyIn(At(layer, pages[i]), from, kPageBytes).ok());
      }
    }
  }

  // Waits for the device.
  std::string Difference(const std::vector<int32_t>& pages, uint32_t salt) {
    for (size_t i = 0; i < pages.size(); ++i) {
      for (int layer = 0; layer < kLayers; ++layer) {
        EXPECT_TRUE(device_.CopyOut(read_.data(), At(layer, pages[i]), kPageBytes).ok());
        EXPECT_TRUE(device_.Wait().ok());
        const std::vector<uint32_t> words = Words(salt, static_cast<int>(i), layer);
        if (std::memcmp(read_.data(), words.data(), kPageBytes) != 0) {
          return "page " + std::to_string(i) + " of salt " + std::to_string(salt) + ", layer " +
                 std::to_string(layer);
        }
      }
    }
    return "";
  }

 private:
  static std::vector<uint32_t> Words(uint32_t salt, int page, int layer) {
    std::vector<uint32_t> words(kPageBytes / sizeof(uint32_t));
    std::iota(words.begin(), words.end(),
              (salt << 16) + static_cast<uint32_t>(page * kLayers + layer) * 256);
    return words;
  }
  std::byte* At(int layer, int32_t page) const {
    return cache_.Layer(layer) + static_cast<size_t>(page) * kPageBytes;
  }

  kernels::Context& device_;
  const KvPagePool& cache_;
  kernels::Buffer staging_;
  kernels::Buffer read_;
  size_t written_ = 0;
};

// Sequences of random lengths come, grow, are preempted, come back and end. Each page is written as
// soon as it is allocated, and reused as soon as it is free. The host checks only at the end.
// A device gets a list of the pages of all sequences, which has room for so many.
TEST(SharedPages, AreNoMoreThanADevicesListHolds) {
  const std::unique_ptr<kernels::Context> device = kernels::MakeDevice();
  const auto cache = MakeCache(*device, 2, 0);
  std::vector<int32_t> shared, own;
  ASSERT_TRUE(cache->Grow(shared, 1));
  std::vector<int32_t> tokens(kernels::kPageTokens, 5);
  cache->Publish(kNoPrefix, PrefixIndex::PageTokens(tokens.data(), tokens.size()), shared[0]);
  while (static_cast<int64_t>(shared.size()) < cache->most_uses()) {
    cache->Share(shared[0]);
    shared.push_back(shared[0]);
  }
  EXPECT_EQ(cache->free_pages(), 1);
  EXPECT_FALSE(cache->Grow(own, 1));
  cache->Release(shared.back());
  shared.pop_back();
  EXPECT_TRUE(cache->Grow(own, 1));
  cache->Release(own);
  cache->Release(shared);
  EXPECT_EQ(cache->free_pages(), 2);
}

TEST(SwappingBesideSteps, KeepsEverySequencesBits) {
  struct Held {
    uint32_t salt;
    std::vector<int32_t> pages;
    KvPagePool::Swapped swapped;
  };
  constexpr int kPages = 24, kSwapPages = 20;
  uint64_t out = 0, in = 0, refused = 0;
  for (int run = 0; run < 8; ++run) {
    Random random(MixSeed(TestSeed(), 61, static_cast<uint64_t>(run)));
    const std::unique_ptr<kernels::Context> device = kernels::MakeDevice();
    const auto cache = MakeCache(*device, kPages, kSwapPages);
    Pages pages(*device, *cache, 4000);
    const kernels::ContextCounts before = device->counts();
    std::vector<Held> held;
    for (uint32_t step = 1; step <= 300; ++step) {
      if (held.empty()) held.push_back({step, {}, {}});
      const auto which = static_cast<size_t>(random.Between(0, static_cast<int>(held.size()) - 1));
      switch (random.Between(0, 3)) {
        case 0: {
          Held more{step, {}, {}};
          if (!cache->Grow(more.pages, random.Between(1, 9))) break;
          pages.Write(more.pages, more.salt);
          held.push_back(std::move(more));
          break;
        }
        case 1:
          if (held[which].pages.empty()) break;
          ++(cache->SwapOut(held[which].pages, held[which].swapped) ? out : refused);
          break;
        case 2:
          if (held[which].swapped.pages() == 0) break;
          in += cache->SwapIn(held[which].swapped, held[which].pages) ? 1 : 0;
          break;
        default:
          if (held.size() < 6) break;  // so that pages run short
          cache->Release(held[which].pages);
          cache->Drop(held[which].swapped);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    EXPECT_EQ(device->counts().waits, before.waits);
    EXPECT_EQ(device->counts().allocations, before.allocations);
    for (Held& one : held) {
      if (one.swapped.pages() == 0) continue;
      std::vector<int32_t> back;
      if (cache->SwapIn(one.swapped, back)) one.pages = std::move(back);
    }
    for (const Held& one : held) {
      if (one.swapped.pages() > 0) continue;
      ASSERT_EQ(pages.Difference(one.pages, one.salt), "")
          << "run " << run << "; again with JANUS_SEED=" << TestSeed();
    }
    for (Held& one : held) {
      cache->Release(one.pages);
      cache->Drop(one.swapped);
    }
    EXPECT_EQ(cache->free_pages(), kPages);
    EXPECT_EQ(cache->swap_used(), 0);
  }
  EXPECT_GT(out, 100u);
  EXPECT_GT(in, 50u);
  EXPECT_GT(refused, 0u);
}

// Neighbouring pages of a layer are copied together.
TEST(SwappingBesideSteps, MakesACopyOfEachLayersRuns) {
  const std::unique_ptr<kernels::Context> device = kernels::MakeDevice();
  const auto cache = MakeCache(*device, 16, 16);
  Pages pages(*device, *cache, 100);
  std::vector<int32_t> whole, rest;
  ASSERT_TRUE(cache->Grow(whole, 8));
  ASSERT_EQ(whole.back() - whole.front(), 7) << "of a new cache";
  // Every second page is free.
  ASSERT_TRUE(cache->Grow(rest, 8));
  std::vector<int32_t> others, evens;
  for (size_t i = 0; i < rest.size(); ++i) (i % 2 == 0 ? evens : others).push_back(rest[i]);
  pages.Write(whole, 1);
  pages.Write(evens, 2);
  struct Copies {
    uint64_t out, in, bytes_out, bytes_in;
  };
  const auto copies_of = [&](auto swap) {
    const kernels::ContextCounts before = device->counts();
    swap();
    const kernels::ContextCounts after = device->counts();
    EXPECT_EQ(after.waits, before.waits);
    EXPECT_EQ(after.allocations, before.allocations);
    return Copies{after.copies_out - before.copies_out, after.copies_in - before.copies_in,
                  after.bytes_out - before.bytes_out, after.bytes_in - before.bytes_in};
  };
  KvPagePool::Swapped of_whole, of_evens;
  const Copies one = copies_of([&] { ASSERT_TRUE(cache->SwapOut(whole, of_whole)); });
  EXPECT_EQ(one.out, uint64_t{kLayers});
  EXPECT_EQ(one.bytes_out, 8u * kBytes);
  EXPECT_EQ(one.in, 0u);
  const Copies four = copies_of([&] { ASSERT_TRUE(cache->SwapOut(evens, of_evens)); });
  EXPECT_EQ(four.out, uint64_t{4 * kLayers});
  EXPECT_EQ(four.bytes_out, 4u * kBytes);
  // Eight pages, of which four are no longer neighbours.
  const Copies back = copies_of([&] { ASSERT_TRUE(cache->SwapIn(of_whole, whole)); });
  EXPECT_EQ(back.in, uint64_t{5 * kLayers});
  EXPECT_EQ(back.bytes_in, 8u * kBytes);
  EXPECT_EQ(pages.Difference(whole, 1), "");
  ASSERT_TRUE(cache->SwapIn(of_evens, evens));
  EXPECT_EQ(pages.Difference(evens, 2), "");
}

}  // namespace
}  // namespace janus::dataplane
