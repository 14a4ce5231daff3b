#include "kernels/device/registered_pages.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <set>

#include "tests/support/time_scale.h"

namespace janus::kernels {
namespace {

constexpr size_t kPage = 4096;

// A driver that knows its pages, and gives every page another address on the device.
class CountingDriver final : public RegisteredPages::Driver {
 public:
  Status Register(std::byte* pages, size_t bytes) override {
    EXPECT_EQ(bytes % kPage, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages) % kPage, 0u);
    for (std::byte* page = pages; page < pages + bytes; page += kPage) {
      if (others.contains(page)) return AlreadyExists("somebody has it");
      EXPECT_FALSE(ours.contains(page)) << "a driver takes a page once";
      if (page == refused) return FailedPrecondition("no more pages");
    }
    if (meanwhile) meanwhile();
    for (std::byte* page = pages; page < pages + bytes; page += kPage) ours.insert(page);
    stretches.emplace(pages, bytes / kPage);
    return OkStatus();
  }
  void Unregister(std::byte* pages) override {
    if (meanwhile) meanwhile();
    ASSERT_TRUE(stretches.contains(pages));
    for (size_t i = 0; i < stretches[pages]; ++i) ours.erase(pages + i * kPage);
    stretches.erase(pages);
  }
  // Of those of others that lie side by side.
  std::byte* EndOfOthers(std::byte* page) override {
    EXPECT_TRUE(others.contains(page));
    ++asked;
    while (others.contains(page)) page += kPage;
    return page;
  }
  Result<uint64_t> DeviceAddressOf(std::byte* pages) override {
    if (pages == unreachable) return FailedPrecondition("not mapped");
    return reinterpret_cast<uint64_t>(pages) + (uint64_t{1} << 40);
  }

  std::set<std::byte*> ours, others;
  std::map<std::byte*, size_t> stretches;  // of ours: in pages
  int asked = 0;                           // of others
  std::byte* refused = nullptr;
  std::byte* unreachable = nullptr;
  std::function<void()> meanwhile;  // as the driver takes a page or gives it back
};

std::byte* At(size_t page, size_t offset = 0) {
  alignas(kPage) static std::array<std::byte, 5 * kPage> memory;
  return &memory[page * kPage + offset];
}

class RegisteredPagesTest : public testing::Test {
 protected:
  CountingDriver driver_;
  RegisteredPages pages_{driver_, kPage};
};

TEST_F(RegisteredPagesTest, APageIsThereAsLongAsAnybodyUsesIt) {
  ASSERT_TRUE(pages_.Use(At(0, 8), 16).ok());
  ASSERT_TRUE(pages_.Use(At(0, 64), 8).ok()) << "another range of the page";
  ASSERT_TRUE(pages_.Use(At(0, 64), 8).ok()) << "the same again";
  EXPECT_EQ(driver_.ours, std::set{At(0)});
  pages_.Drop(At(0, 64), 8);
  pages_.Drop(At(0, 8), 16);
  EXPECT_EQ(driver_.ours, std::set{At(0)});
  pages_.Drop(At(0, 64), 8);
  EXPECT_TRUE(driver_.ours.empty());
}

TEST_F(RegisteredPagesTest, RangesMayOverlap) {
  ASSERT_TRUE(pages_.Use(At(0, kPage - 8), kPage).ok());  // ends in page 1
  EXPECT_EQ(driver_.ours, (std::set{At(0), At(1)}));
  ASSERT_TRUE(pages_.Use(At(1), 2 * kPage).ok());  // ends with page 2
  EXPECT_EQ(driver_.stretches, (std::map<std::byte*, size_t>{{At(0), 2}, {At(2), 1}}));
  pages_.Drop(At(0, kPage - 8), kPage);
  EXPECT_EQ(driver_.ours, (std::set{At(0), At(1), At(2)})) << "a stretch is one for its last user";
  pages_.Drop(At(1), 2 * kPage);
  EXPECT_TRUE(driver_.ours.empty());
}

// Copies may not reach over the end of a stretch.
TEST_F(RegisteredPagesTest, ARangeIsOneStretchUpToWhatIsThere) {
  ASSERT_TRUE(pages_.Use(At(2), 8).ok());
  ASSERT_TRUE(pages_.Use(At(0), 5 * kPage).ok());
  EXPECT_EQ(driver_.stretches, (std::map<std::byte*, size_t>{{At(0), 2}, {At(2), 1}, {At(3), 2}}));
  pages_.Drop(At(2), 8);
  EXPECT_EQ(driver_.stretches.size(), 3u);
  pages_.Drop(At(0), 5 * kPage);
  EXPECT_TRUE(driver_.stretches.empty());
  ASSERT_TRUE(pages_.Use(At(0), 5 * kPage).ok());
  ASSERT_TRUE(pages_.Use(At(2), 8).ok());
  EXPECT_EQ(driver_.stretches, (std::map<std::byte*, size_t>{{At(0), 5}}));
  pages_.Drop(At(0), 5 * kPage);
  EXPECT_EQ(*pages_.DeviceAddressOf(At(2, 4)),
            reinterpret_cast<uint64_t>(At(2, 4)) + (uint64_t{1} << 40));
  pages_.Drop(At(2), 8);
  EXPECT_TRUE(driver_.stretches.empty());
}

TEST_F(RegisteredPagesTest, WhatOthersHaveStaysTheirs) {
  driver_.others.insert(At(1));
  ASSERT_TRUE(pages_.Use(At(0), 3 * kPage).ok());
  EXPECT_EQ(driver_.ours, (std::set{At(0), At(2)}));
  EXPECT_TRUE(pages_.DeviceAddressOf(At(1)).ok());
  pages_.Drop(At(0), 3 * kPage);
  EXPECT_TRUE(driver_.ours.empty());
}

TEST_F(RegisteredPagesTest, WhatOthersHaveAtOnceIsAskedForOnce) {
  for (size_t page = 1; page < 5; ++page) driver_.others.insert(At(page));
  ASSERT_TRUE(pages_.Use(At(0), 4 * kPage).ok()) << "up to the range's end, which theirs is beyond";
  EXPECT_EQ(driver_.asked, 1);
  EXPECT_EQ(driver_.ours, std::set{At(0)});
  for (size_t page = 1; page < 4; ++page) {
    EXPECT_EQ(*pages_.DeviceAddressOf(At(page, 8)),
              reinterpret_cast<uint64_t>(At(page, 8)) + (uint64_t{1} << 40));
  }
  EXPECT_EQ(pages_.DeviceAddressOf(At(4)).status().code(), StatusCode::kInternal);
  pages_.Drop(At(0), 4 * kPage);
  EXPECT_TRUE(driver_.ours.empty());
  EXPECT_EQ(pages_.DeviceAddressOf(At(1)).status().code(), StatusCode::kInternal);
}

TEST_F(RegisteredPagesTest, ARangeThatIsRefusedLeavesNothingBehind) {
  ASSERT_TRUE(pages_.Use(At(0), 8).ok());
  driver_.refused = At(2);
  EXPECT_EQ(pages_.Use(At(0), 3 * kPage), FailedPrecondition("no more pages"));
  EXPECT_EQ(driver_.ours, std::set{At(0)});
  driver_.refused = nullptr;
  driver_.unreachable = At(1);  // where what is not there yet begins
  EXPECT_EQ(pages_.Use(At(0), 3 * kPage), FailedPrecondition("not mapped"));
  EXPECT_EQ(driver_.ours, std::set{At(0)});
  EXPECT_EQ(pages_.DeviceAddressOf(At(1)).status().code(), StatusCode::kInternal);
  pages_.Drop(At(0), 8);
  EXPECT_TRUE(driver_.ours.empty());
}

TEST_F(RegisteredPagesTest, SaysWhereTheDeviceHasAByte) {
  ASSERT_TRUE(pages_.Use(At(3, 100), 8).ok());
  const auto want = reinterpret_cast<uint64_t>(At(3, 104)) + (uint64_t{1} << 40);
  const Result<uint64_t> address = pages_.DeviceAddressOf(At(3, 104));
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, want);
  EXPECT_EQ(pages_.DeviceAddressOf(At(4)).status().code(), StatusCode::kInternal);
  pages_.Drop(At(3, 100), 8);
  EXPECT_EQ(pages_.DeviceAddressOf(At(3, 104)).status().code(), StatusCode::kInternal);
}

// The driver may wait for a stream, and the stream for the caller, which must raise a flag on
// another page.
TEST_F(RegisteredPagesTest, WhoAsksForAnAddressWaitsForNoDriver) {
  ASSERT_TRUE(pages_.Use(At(0), 8).ok());
  int asked = 0;
  std::future<Result<uint64_t>> asking;
  driver_.meanwhile = [&] {
    asking = std::async(std::launch::async, [&] { return pages_.DeviceAddressOf(At(0)); });
    if (asking.wait_for(Scaled(std::chrono::seconds(5))) != std::future_status::ready) return;
    EXPECT_TRUE(asking.get().ok());
    ++asked;
  };
  ASSERT_TRUE(pages_.Use(At(1), 8).ok());
  EXPECT_EQ(asked, 1);
  pages_.Drop(At(1), 8);
  EXPECT_EQ(asked, 2);
  driver_.meanwhile = nullptr;
  pages_.Drop(At(0), 8);
}

}  // namespace
}  // namespace janus::kernels
