// Loads beside steps: when data is there, what the ring holds, and what refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/device/uploader.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random.h"

namespace janus::kernels {
namespace {

// Bytes that look like neither an address nor a NaN.
std::vector<std::byte> SomeBytes(Random& random, size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::byte& one : out) one = static_cast<std::byte>(random.Between(0, 15));
  return out;
}

class UploaderTest : public testing::Test {
 protected:
  // Reads as steps do.
  std::vector<std::byte> Read(const Buffer& buffer) {
    std::vector<std::byte> out(buffer.size());
    EXPECT_TRUE(device_.CopyOut(out.data(), buffer.data(), out.size()).ok());
    EXPECT_TRUE(device_.Wait().ok());
    return out;
  }
  static bool IsNaN(const std::vector<std::byte>& bytes) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [](std::byte b) { return b == std::byte{0xFF}; });
  }

  Random random_{MixSeed(TestSeed(), 11)};
  EmulatedDevice device_;
};

TEST_F(UploaderTest, WhatIsLoadedIsThereForWhoFollows) {
  const auto uploader = *Uploader::Make(device_, {.piece_bytes = 4096, .pieces = 2});
  const std::vector<std::byte> first = SomeBytes(random_, 100), second = SomeBytes(random_, 50);
  const Buffer one = *uploader->Load(first.data(), first.size());
  const std::shared_ptr<Event> loaded = *uploader->Loaded();
  const Buffer later = *uploader->Load(second.data(), second.size());
  EXPECT_TRUE(IsNaN(Read(one))) << "waiting for steps is no waiting for loads";
  const ContextCounts before = device_.counts();
  ASSERT_TRUE(device_.StreamWait(*loaded).ok());
  EXPECT_EQ(device_.counts().waits, before.waits) << "the host waits for nothing";
  EXPECT_EQ(Read(one), first);
  EXPECT_TRUE(IsNaN(Read(later))) << "an event stands for what was loaded before it";
  ASSERT_TRUE(device_.StreamWait(**uploader->Loaded()).ok());
  EXPECT_EQ(Read(later), second);
  EXPECT_EQ(device_.counts().bytes_loaded, 150u);
  EXPECT_EQ(device_.counts().copies_in, 0u) << "the stream of steps carries nothing";
}

// For any size, on a device that runs loads late or early at random.
TEST_F(UploaderTest, AnythingGoesThroughAnyRing) {
  for (const PinnedRing ring : {PinnedRing{1000, 1}, PinnedRing{1000, 2}, PinnedRing{1000, 3},
                                PinnedRing{256, 4}, PinnedRing{1 << 20, 2}}) {
    for (const bool is_late : {true, false}) {
      EmulatedDevice device;
      if (!is_late) device.LandAtAnyTime(random_.Next());
      const auto uploader = *Uploader::Make(device, ring);
      EXPECT_EQ(device.counts().allocations, ring.pieces);
      std::vector<std::vector<std::byte>> hosts;
      std::vector<Buffer> buffers;
      size_t most_pending = 0;
      for (int i = 0; i < 60; ++i) {
        hosts.push_back(SomeBytes(random_, static_cast<size_t>(random_.Between(0, 3000))));
        std::vector<std::byte> passing = hosts.back();
        buffers.push_back(*uploader->Load(passing.data(), passing.size()));
        std::fill(passing.begin(), passing.end(), std::byte{0x77});  // its load no longer needs it
        most_pending = std::max(most_pending, device.pending_loads());
        if (i % 7 == 0) {  // steps, between which loads may land
          const Buffer step = *device.Allocate(8);
          ASSERT_TRUE(
              device.CopyIn(step.data(), hosts[0].data(), std::min(hosts[0].size(), size_t{8}))
                  .ok());
        }
      }
      // One piece has at most so many loads, each at a multiple of 256.
      EXPECT_LE(most_pending, ring.pieces * ((ring.piece_bytes + 255) / 256));
      ASSERT_TRUE(device.StreamWait(**uploader->Loaded()).ok());
      EXPECT_EQ(device.pending_loads(), 0u);
      for (size_t i = 0; i < buffers.size(); ++i) {
        std::vector<std::byte> out(buffers[i].size());
        ASSERT_TRUE(device.CopyOut(out.data(), buffers[i].data(), out.size()).ok());
        ASSERT_TRUE(device.Wait().ok());
        ASSERT_EQ(out, hosts[i]) << i << " of " << out.size() << " bytes through " << ring.pieces
                                 << " pieces of " << ring.piece_bytes
                                 << "; again with JANUS_SEED=" << TestSeed();
      }
    }
  }
}

TEST_F(UploaderTest, APieceIsSharedBySmallTensors) {
  const auto uploader = *Uploader::Make(device_, {.piece_bytes = 2560, .pieces = 1});
  const std::vector<std::byte> small = SomeBytes(random_, 10);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(*uploader->Load(small.data(), small.size()));
  EXPECT_EQ(device_.pending_loads(), 10u);
  EXPECT_EQ(device_.counts().waits, 0u);
  buffers.push_back(*uploader->Load(small.data(), small.size()));
  EXPECT_EQ(device_.pending_loads(), 1u) << "the piece is used again when it has been read";
  EXPECT_EQ(device_.counts().waits, 1u);
}

TEST_F(UploaderTest, ARefusalIsOfThatLoadAlone) {
  const auto uploader = *Uploader::Make(device_, {.piece_bytes = 1000, .pieces = 2});
  const std::vector<std::byte> bytes = SomeBytes(random_, 5000);
  device_.RefuseLoadAfter(3);
  EXPECT_EQ(uploader->Load(bytes.data(), bytes.size()).status(),
            Internal("the emulated device refuses a load"));
  EXPECT_FALSE(device_.has_failed()) << "steps may go on";
  const Buffer again = *uploader->Load(bytes.data(), bytes.size());
  ASSERT_TRUE(device_.StreamWait(**uploader->Loaded()).ok());
  EXPECT_EQ(Read(again), bytes);
  EXPECT_EQ(device_.memory()->held, 5120u) << "what was refused is given back";
}

TEST_F(UploaderTest, MemoryThatIsShortIsSaid) {
  EmulatedDevice small(8192);
  const auto uploader = *Uploader::Make(small, {.piece_bytes = 1000, .pieces = 2});
  const std::vector<std::byte> bytes = SomeBytes(random_, 5000);
  {
    const Buffer most = *uploader->Load(bytes.data(), bytes.size());
    EXPECT_EQ(uploader->Load(bytes.data(), bytes.size()).status().code(),
              StatusCode::kResourceExhausted);
  }
  // Memory that was freed before its loads ran is used after them.
  const std::vector<std::byte> other = SomeBytes(random_, 5000);
  const Buffer next = *uploader->Load(other.data(), other.size());
  ASSERT_TRUE(small.StreamWait(**uploader->Loaded()).ok());
  std::vector<std::byte> out(next.size());
  ASSERT_TRUE(small.CopyOut(out.data(), next.data(), out.size()).ok());
  ASSERT_TRUE(small.Wait().ok());
  EXPECT_EQ(out, other);
}

TEST_F(UploaderTest, TheHostHasNoRing) {
  const uint64_t before = HostContext().counts().allocations;
  ASSERT_TRUE(Uploader::Make(HostContext()).ok());
  EXPECT_EQ(HostContext().counts().allocations, before);
}

// Checks that the emulated device finds the faults that it is made to find.
TEST_F(UploaderTest, TheDeviceRefusesLoadsThatAGpuWouldNotRunBeside) {
  const Buffer pinned = *device_.AllocatePinned(64);
  const Buffer taken = *device_.Allocate(64);
  const Buffer for_load = *device_.AllocateForLoad(64);
  const std::vector<std::byte> pageable(64);
  EXPECT_TRUE(Contains(device_.Load(taken.data(), pinned.data(), 64).message(), "taken for loads"));
  EXPECT_TRUE(
      Contains(device_.Load(for_load.data() + 1, pinned.data(), 64).message(), "taken for loads"));
  EXPECT_TRUE(
      Contains(device_.Load(for_load.data(), pageable.data(), 64).message(), "pinned memory"));
  EXPECT_TRUE(
      Contains(device_.Load(for_load.data(), pinned.data() + 1, 64).message(), "pinned memory"));
  EXPECT_EQ(device_.pending_loads(), 0u);
  EXPECT_TRUE(device_.Load(for_load.data(), pinned.data(), 64).ok());
}

TEST_F(UploaderTest, TheDeviceMayRunLoadsBetweenAnyTwoSteps) {
  device_.LandAtAnyTime(random_.Next());
  const auto uploader = *Uploader::Make(device_, {.piece_bytes = 64, .pieces = 64});
  const std::vector<std::byte> bytes = SomeBytes(random_, 64 * 32);
  bool was_partly_there = false;
  // With a chance of about one in sixty all of them land at once.
  for (int attempt = 0; attempt < 20 && !was_partly_there; ++attempt) {
    const Buffer buffer = *uploader->Load(bytes.data(), bytes.size());
    EXPECT_GE(device_.pending_loads(), 32u);  // including the free of the previous buffer
    for (int i = 0; i < 100 && device_.pending_loads() > 0; ++i) {
      Read(buffer);
      was_partly_there |= device_.pending_loads() > 0 && device_.pending_loads() < 32;
    }
    EXPECT_EQ(Read(buffer), bytes) << "after a hundred steps";
  }
  EXPECT_TRUE(was_partly_there);
}

}  // namespace
}  // namespace janus::kernels
