// What every device must do, emulated or a GPU (kernels/device/context.h).

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/device/staging.h"
#include "kernels/device/uploader.h"
#include "kernels/kernels.h"
#include "tests/integration/device/made_device.h"
#include "tests/support/random.h"
#include "tests/support/row_lookup.h"
#include "tests/support/shared_flags.h"

namespace janus::kernels {
namespace {

// A device with registered flags, and a table to look rows up in. The host queues work behind a
// flag that it raises itself later. It must not block meanwhile, so all memory that it copies is
// pinned and allocated before.
class DeviceTest : public testing::Test {
 protected:
  DeviceTest() : device_(MakeDevice()) {
    shown_ = *device_->RegisterFlags(flags_.data(), SharedFlags::kBytes);
    table_ = device_->AllocateCopyOrNote(kRowTable.data(), sizeof kRowTable);
    token_ = *device_->Allocate(sizeof(int32_t));
    y_ = *device_->Allocate(2 * sizeof(float));
    tokens_ = *device_->AllocatePinned(kMost * sizeof(int32_t));
    out_ = *device_->AllocatePinned(2 * kMost * sizeof(float));
    std::fill_n(out(0), 2 * kMost, -1.0f);
    EXPECT_TRUE(device_->TakeFailure().ok());
  }
  // Releases the streams if a test failed before it raised the flags.
  ~DeviceTest() override {
    for (size_t i = 0; i < 8; ++i) flags_.at(i)->store(uint64_t{1} << 62);
    EXPECT_TRUE(device_->Wait().ok());
  }

  Status LookUpOn(const Stream& on, const Buffer& table) {
    return LookUpRow(on, table.data(), token_.as<int32_t>(), y_.as<float>());
  }
  Status LookUp() { return LookUpOn(device_->stream(), table_); }
  // The i-th token that goes up, and the i-th row that comes down.
  Status SetToken(int32_t token, size_t i = 0) {
    tokens_.as<int32_t>()[i] = token;
    return device_->CopyIn(token_.data(), tokens_.as<int32_t>() + i, sizeof token);
  }
  Status Down(size_t i = 0) { return device_->CopyOut(out(i), y_.data(), 2 * sizeof(float)); }
  float* out(size_t i) { return out_.as<float>() + 2 * i; }
  Status Signal(size_t flag, uint64_t count) {
    return kernels::Signal(*device_, flags_.at(flag), count);
  }
  Status StreamWait(size_t flag, uint64_t count) {
    return kernels::StreamWait(*device_, flags_.at(flag), count);
  }
  // Checks for longer than a stream needs to see a flag.
  void ExpectHeld(Event& event) {
    const MonotonicTime begin = MonotonicClock::now();
    while (MonotonicClock::now() - begin < std::chrono::milliseconds(2)) {
      ASSERT_EQ(*device_->Query(event), false);
      std::this_thread::yield();
    }
  }
  std::vector<std::byte> Read(const Buffer& buffer) {
    std::vector<std::byte> read(buffer.size());
    EXPECT_TRUE(device_->CopyOut(read.data(), buffer.data(), read.size()).ok());
    EXPECT_TRUE(device_->Wait().ok());
    return read;
  }

  static constexpr size_t kMost = 64;
  SharedFlags flags_;
  const std::unique_ptr<Context> device_;
  Buffer shown_, table_, token_, y_, tokens_, out_;
};

TEST_F(DeviceTest, RunsWhatItIsGivenInOrder) {
  for (size_t i = 0; i < kMost; ++i) {
    ASSERT_TRUE(SetToken(static_cast<int32_t>(i % 4), i).ok());
    ASSERT_TRUE(LookUp().ok());
    ASSERT_TRUE(Down(i).ok());
  }
  ASSERT_TRUE(device_->Wait().ok());
  for (size_t i = 0; i < kMost; ++i) {
    EXPECT_EQ(out(i)[0], kRowTable[i % 4 * 2]);
    EXPECT_EQ(out(i)[1], kRowTable[i % 4 * 2 + 1]);
  }
}

TEST_F(DeviceTest, EventsStandForWhatWasQueuedBefore) {
  const auto event = *device_->MakeEvent();
  EXPECT_EQ(*device_->Query(*event), true) << "never recorded";
  const auto after = *device_->MakeEvent();
  ASSERT_TRUE(SetToken(1).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down().ok());
  ASSERT_TRUE(device_->Record(*event).ok());
  ASSERT_TRUE(StreamWait(0, 1).ok());
  ASSERT_TRUE(device_->Record(*after).ok());
  ASSERT_TRUE(device_->Await(*event).ok());
  EXPECT_EQ(out(0)[0], 10);
  EXPECT_EQ(*device_->Query(*after), false);
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_->Await(*after).ok());
}

TEST_F(DeviceTest, TellsTheTimeBetweenEvents) {
  const MonotonicTime begin = MonotonicClock::now();
  const auto from = *device_->MakeTimedEvent(), to = *device_->MakeTimedEvent();
  ASSERT_TRUE(device_->Record(*from).ok());
  ASSERT_TRUE(StreamWait(0, 1).ok());
  ASSERT_TRUE(device_->Record(*to).ok());
  ASSERT_TRUE(device_->Await(*from).ok());
  ExpectHeld(*to);
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_->Await(*to).ok());
  const Seconds between = *device_->TimeBetween(*from, *to);
  EXPECT_GE(between, Seconds(1e-3));
  EXPECT_LE(between, MonotonicClock::now() - begin);
}

// Pins memory that other code allocated. Copies of it run when the stream reaches them, and do not
// block the host, which raises the flag before them.
TEST_F(DeviceTest, CopiesOfPinnedMemoryHoldUpNoHost) {
  constexpr size_t kBytes = size_t{1} << 20;
  const std::shared_ptr<void> memory(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
      [](void* p) { munmap(p, kBytes); });
  auto* const host = static_cast<std::byte*>(memory.get());
  const Buffer device = *device_->Allocate(kBytes);
  const auto others = MakeDevice();
  {
    const Buffer pinned = *device_->Pin(host, kBytes);
    const Buffer theirs = *others->Pin(host, kBytes);
    const Buffer shown = *device_->RegisterFlags(host + kBytes / 2, sizeof(Flag));
    std::memset(host, 1, kBytes / 4);
    ASSERT_TRUE(StreamWait(0, 1).ok());
    ASSERT_TRUE(device_->CopyIn(device.data(), host, kBytes / 4).ok());
    ASSERT_TRUE(device_->CopyOut(host + kBytes / 4 * 3, device.data(), kBytes / 4).ok());
    std::memset(host, 2, kBytes / 4);  // before the copy reads it
    flags_.at(0)->store(1, std::memory_order_release);
    ASSERT_TRUE(device_->Wait().ok());
    EXPECT_EQ(host[kBytes / 4 * 3], std::byte{2});
    EXPECT_EQ(host[kBytes - 1], std::byte{2});
    EXPECT_EQ(host[kBytes / 4], std::byte{0});
    ASSERT_TRUE(others->Pin(host, kBytes).ok()) << "once more";
  }
  ASSERT_TRUE(device_->Pin(host, 100).ok()) << "and again when nobody has it";
}

TEST_F(DeviceTest, StagingCopiesBothWays) {
  Staging staging(*device_, 8);
  ASSERT_NE(staging.host(), staging.device());
  std::memset(staging.host(), 7, 8);
  ASSERT_TRUE(staging.Push(0, 8).ok());
  ASSERT_TRUE(staging.Reopen().ok());
  std::memset(staging.host(), 0, 8);
  ASSERT_TRUE(staging.Pull(4, 4).ok());
  ASSERT_TRUE(device_->Wait().ok());
  EXPECT_EQ(staging.host()[3], std::byte{0});
  EXPECT_EQ(staging.host()[4], std::byte{7});
}

TEST_F(DeviceTest, GoesOnWhereMemoryIsShort) {
  const uint64_t total = device_->memory()->total;
  EXPECT_EQ(device_->Allocate(2 * total).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->AllocateForLoad(2 * total).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->AllocateOrNote(2 * total).data(), nullptr);
  EXPECT_EQ(device_->TakeFailure().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(device_->has_failed());
  ASSERT_TRUE(SetToken(2).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down().ok());
  ASSERT_TRUE(device_->Wait().ok());
  EXPECT_EQ(out(0)[1], 21);
}

// Memory that others may map is taken from the same room.
TEST_F(DeviceTest, WhatWasGivenBackIsThereForWhateverIsTaken) {
  const size_t most = device_->memory()->free / 5 * 3;
  ASSERT_TRUE(device_->Allocate(most).ok());
  ASSERT_TRUE(device_->Wait().ok());
  const Result<SharedMemory> shared = device_->AllocateShared(most);
  EXPECT_TRUE(shared.ok()) << shared.status().ToString();
}

TEST_F(DeviceTest, AGraphIsStartedWithWhatLiesThereThen) {
  const auto graph = device_->RecordGraph([&](const Stream& on) { return LookUpOn(on, table_); });
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  // Behind a flag: all of it is queued before any of it runs.
  ASSERT_TRUE(StreamWait(0, 1).ok());
  for (size_t i = 0; i < kMost; ++i) {
    ASSERT_TRUE(SetToken(static_cast<int32_t>(3 - i % 4), i).ok());
    ASSERT_TRUE(device_->Replay(**graph).ok());
    ASSERT_TRUE(Down(i).ok());
  }
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_->Wait().ok());
  for (size_t i = 0; i < kMost; ++i) EXPECT_EQ(out(i)[0], kRowTable[(3 - i % 4) * 2]);
  EXPECT_EQ(device_->counts().graphs, 1u);
  EXPECT_EQ(device_->counts().replays, kMost);
}

TEST_F(DeviceTest, AGraphThatCannotBeRecordedIsNone) {
  EXPECT_EQ(device_->RecordGraph([](const Stream&) { return InvalidArgument("no"); }).status(),
            InvalidArgument("no"));
  EXPECT_EQ(device_
                ->RecordGraph([&](const Stream& on) {
                  JANUS_RETURN_IF_ERROR(LookUpOn(on, table_));
                  return InvalidArgument("no more");
                })
                .status(),
            InvalidArgument("no more"));
  EXPECT_EQ(device_->counts().graphs, 0u);
  EXPECT_FALSE(device_->has_failed());
  ASSERT_TRUE(SetToken(1).ok());
  const auto graph = device_->RecordGraph([&](const Stream& on) { return LookUpOn(on, table_); });
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  ASSERT_TRUE(device_->Replay(**graph).ok());
  ASSERT_TRUE(Down().ok());
  ASSERT_TRUE(device_->Wait().ok());
  EXPECT_EQ(out(0)[0], 10);
}

TEST_F(DeviceTest, GraphsAreRecordedBesideSteps) {
  std::atomic<bool> is_done = false;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::jthread recorder([&] {
    for (int i = 0; i < 20; ++i) {
      auto graph = device_->RecordGraph([&](const Stream& on) { return LookUpOn(on, table_); });
      EXPECT_TRUE(graph.ok()) << graph.status().ToString();
      if (graph.ok()) graphs.push_back(*std::move(graph));
    }
    is_done = true;
  });
  for (int i = 0; i < 20 || !is_done; ++i) {
    ASSERT_TRUE(SetToken(i % 4).ok());
    ASSERT_TRUE(LookUp().ok());
    ASSERT_TRUE(Down().ok());
    ASSERT_TRUE(device_->Wait().ok());
    ASSERT_EQ(out(0)[0], kRowTable[static_cast<size_t>(i % 4 * 2)]);
  }
  recorder.join();
  for (const auto& graph : graphs) {
    ASSERT_TRUE(device_->Replay(*graph).ok());
  }
  EXPECT_TRUE(device_->Wait().ok());
}

TEST_F(DeviceTest, NothingPassesAFlagUntilItIsRaised) {
  const auto before = *device_->MakeEvent(), after = *device_->MakeEvent();
  ASSERT_TRUE(SetToken(2).ok());
  ASSERT_TRUE(device_->Record(*before).ok());
  ASSERT_TRUE(StreamWait(0, 7).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down().ok());
  ASSERT_TRUE(Signal(1, 1).ok());
  ASSERT_TRUE(device_->Record(*after).ok());
  ASSERT_TRUE(device_->Await(*before).ok());
  for (const uint64_t too_low : {uint64_t{0}, uint64_t{6}}) {
    flags_.at(0)->store(too_low);
    ExpectHeld(*after);
    EXPECT_EQ(flags_.at(1)->load(), 0u);
    EXPECT_EQ(out(0)[0], -1);
  }
  flags_.at(0)->store(8);  // a later count includes it
  ASSERT_TRUE(device_->Await(*after).ok());
  EXPECT_EQ(out(0)[0], 20);
  EXPECT_EQ(flags_.at(1)->load(), 1u);
}

TEST_F(DeviceTest, EveryFlagIsAwaited) {
  const auto after = *device_->MakeEvent();
  std::vector<FlagCount> all;
  for (size_t i = 0; i < 300; ++i) all.push_back({flags_.at(i), 1});  // more than one call takes
  ASSERT_TRUE(device_->StreamWaitFlags(all).ok());
  ASSERT_TRUE(device_->Record(*after).ok());
  for (size_t i = 3; i < 299; ++i) flags_.at(i)->store(1);
  for (const size_t i : {2, 0, 1, 299}) {
    ExpectHeld(*after);
    flags_.at(i)->store(1);
  }
  ASSERT_TRUE(device_->Await(*after).ok());
  for (FlagCount& one : all) one.count = 2;
  ASSERT_TRUE(device_->Signal(all).ok());
  ASSERT_TRUE(device_->Wait().ok());
  for (const FlagCount& one : all) EXPECT_EQ(one.flag->load(), 2u);
}

// A count 2^63 steps ahead counts as behind.
TEST_F(DeviceTest, CountsGoRound) {
  flags_.at(0)->store(UINT64_MAX);
  const auto after = *device_->MakeEvent();
  ASSERT_TRUE(StreamWait(0, 1).ok());
  ASSERT_TRUE(device_->Record(*after).ok());
  ExpectHeld(*after);
  flags_.at(0)->store(1);
  EXPECT_TRUE(device_->Await(*after).ok());
}

TEST_F(DeviceTest, WhatOneSharesAnotherReads) {
  const auto theirs = MakeDevice();
  constexpr size_t kBytes = 10000;
  SharedMemory shared = *device_->AllocateShared(kBytes);
  const Buffer mapped = *theirs->MapShared(shared.fd, kBytes);
  EXPECT_EQ(mapped.size(), kBytes);
  const std::array<int32_t, 2> wrote = {7, 8};
  const size_t at = kBytes - sizeof wrote;
  ASSERT_TRUE(device_->CopyIn(shared.buffer.data() + at, wrote.data(), sizeof wrote).ok());
  ASSERT_TRUE(device_->Wait().ok());
  const auto read = [&] {
    std::array<int32_t, 2> got = {};
    EXPECT_TRUE(theirs->CopyOut(got.data(), mapped.data() + at, sizeof got).ok());
    EXPECT_TRUE(theirs->Wait().ok());
    return got;
  };
  EXPECT_EQ(read(), wrote);
  shared.buffer = Buffer();
  shared.fd.Reset();
  EXPECT_EQ(read(), wrote) << "it is there for whoever has it mapped";
}

TEST_F(DeviceTest, MapsNothingThatIsNotThere) {
  EXPECT_EQ(device_->AllocateShared(0).status().code(), StatusCode::kInvalidArgument);
  const SharedMemory shared = *device_->AllocateShared(4096);
  const auto theirs = MakeDevice();
  constexpr size_t kMoreThanItsPages = size_t{64} << 20;
  EXPECT_EQ(theirs->MapShared(shared.fd, kMoreThanItsPages).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(theirs->MapShared(Fd(), 4096).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(theirs->MapShared(shared.fd, 4096).ok()) << "and goes on";
}

// Like instances that exchange in place: one writes and raises, the other follows, reads and
// answers, and no host waits between.
TEST_F(DeviceTest, TwoStreamsPassARowToAndFro) {
  constexpr size_t kBytes = size_t{1} << 16;
  constexpr uint64_t kRounds = 100;
  const auto theirs = MakeDevice();
  const Buffer shown = *theirs->RegisterFlags(flags_.data(), SharedFlags::kBytes);
  const SharedMemory shared = *device_->AllocateShared(kBytes);
  const Buffer mapped = *theirs->MapShared(shared.fd, kBytes);
  const Buffer rounds = *device_->AllocatePinned(kRounds * kBytes);
  const Buffer got = *theirs->Allocate(kRounds * kBytes);
  const Buffer back = *theirs->AllocatePinned(kRounds * kBytes);
  for (uint64_t i = 0; i < kRounds * kBytes / sizeof(uint64_t); ++i) {
    rounds.as<uint64_t>()[i] = i;
  }
  const auto host_of_theirs = [&] {
    for (uint64_t i = 0; i < kRounds; ++i) {
      if (!kernels::StreamWait(*theirs, flags_.at(2), i + 1).ok() ||
          !theirs->CopyWithin(got.data() + i * kBytes, mapped.data(), kBytes).ok() ||
          !kernels::Signal(*theirs, flags_.at(3), i + 1).ok()) {
        return false;
      }
    }
    return theirs->CopyOut(back.data(), got.data(), kRounds * kBytes).ok() && theirs->Wait().ok();
  };
  bool has_ended = false;
  {
    std::jthread other([&] { has_ended = host_of_theirs(); });
    for (uint64_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(StreamWait(3, i).ok());
      ASSERT_TRUE(device_->CopyIn(shared.buffer.data(), rounds.data() + i * kBytes, kBytes).ok());
      ASSERT_TRUE(Signal(2, i + 1).ok());
    }
    ASSERT_TRUE(device_->Wait().ok());
  }
  ASSERT_TRUE(has_ended);
  EXPECT_EQ(std::memcmp(back.data(), rounds.data(), kRounds * kBytes), 0);
}

// For any size.
TEST_F(DeviceTest, AnythingIsLoadedThroughAnyRing) {
  Random random(MixSeed(TestSeed(), 52));
  for (const PinnedRing ring : {PinnedRing{1000, 1}, PinnedRing{1000, 3}, PinnedRing{1 << 20, 2}}) {
    const auto uploader = *Uploader::Make(*device_, ring);
    std::vector<std::vector<std::byte>> hosts;
    std::vector<Buffer> buffers;
    for (int i = 0; i < 60; ++i) {
      std::vector<std::byte> bytes(static_cast<size_t>(random.Between(0, 3000)));
      for (std::byte& one : bytes) one = static_cast<std::byte>(random.Between(0, 15));
      hosts.push_back(bytes);
      buffers.push_back(*uploader->Load(bytes.data(), bytes.size()));
      std::fill(bytes.begin(), bytes.end(), std::byte{0x77});  // its load no longer needs it
      if (i % 7 == 0) {
        ASSERT_TRUE(SetToken(i % 4).ok());
        ASSERT_TRUE(LookUp().ok());
        ASSERT_TRUE(device_->Wait().ok());
      }
      if (i % 13 == 12) {  // freed beside loads, and allocated again
        buffers[static_cast<size_t>(i) - 5] = Buffer();
        hosts[static_cast<size_t>(i) - 5].clear();
      }
    }
    ASSERT_TRUE(device_->StreamWait(**uploader->Loaded()).ok());
    for (size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_EQ(Read(buffers[i]), hosts[i])
          << i << " through " << ring.pieces << " pieces of " << ring.piece_bytes
          << "; again with JANUS_SEED=" << TestSeed();
    }
  }
}

// A load runs beside a stream that is held. Its memory is freed after the steps that read it.
TEST_F(DeviceTest, LoadsAndStepsWaitForEachOther) {
  const Buffer pinned = *device_->AllocatePinned(sizeof kRowTable);
  Buffer loaded = *device_->AllocateForLoad(sizeof kRowTable);
  std::copy(kRowTable.begin(), kRowTable.end(), pinned.as<float>());
  const auto is_loaded = *device_->MakeEvent(), is_gone = *device_->MakeEvent();
  ASSERT_TRUE(StreamWait(0, 1).ok());
  ASSERT_TRUE(device_->Load(loaded.data(), pinned.data(), sizeof kRowTable).ok());
  ASSERT_TRUE(device_->RecordLoads(*is_loaded).ok());
  ASSERT_TRUE(SetToken(1).ok());
  ASSERT_TRUE(device_->StreamWait(*is_loaded).ok());
  ASSERT_TRUE(LookUpOn(device_->stream(), loaded).ok());
  ASSERT_TRUE(Down().ok());
  loaded = Buffer();
  ASSERT_TRUE(device_->RecordLoads(*is_gone).ok());
  ASSERT_TRUE(device_->Await(*is_loaded).ok()) << "though steps are held";
  ExpectHeld(*is_gone);
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_->Await(*is_gone).ok());
  ASSERT_TRUE(device_->Wait().ok());
  EXPECT_EQ(out(0)[0], 10);
}

// Pinned, shared or shown memory is not freed under a stream that uses it.
TEST_F(DeviceTest, WhatTheHostSharesWaitsForTheStream) {
  Buffer pinned = *device_->AllocatePinned(2 * sizeof(float));
  SharedMemory shared = *device_->AllocateShared(4096);
  Buffer shown = *device_->RegisterFlags(flags_.data() + 64, 64);
  constexpr size_t kPage = 4096;
  const std::shared_ptr<void> page(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
      [](void* p) { munmap(p, kPage); });
  Buffer pinned_here = *device_->Pin(static_cast<std::byte*>(page.get()), kPage);
  const std::array<Buffer*, 4> given_back = {&pinned, &shared.buffer, &shown, &pinned_here};
  for (size_t i = 0; i < given_back.size(); ++i) {
    const uint64_t count = i + 1;
    ASSERT_TRUE(StreamWait(0, count).ok());
    if (i == 0 || i == 3) {
      ASSERT_TRUE(device_->CopyOut(given_back[i]->data(), y_.data(), 2 * sizeof(float)).ok());
    }
    ASSERT_TRUE(Signal(1, count).ok());
    std::jthread later([&] {
      // So that a caller that does not wait has continued.
      const MonotonicTime begin = MonotonicClock::now();
      while (MonotonicClock::now() - begin < std::chrono::milliseconds(3)) {
        std::this_thread::yield();
      }
      flags_.at(0)->store(count);
    });
    *given_back[i] = Buffer();
    EXPECT_EQ(flags_.at(1)->load(), count);
  }
  EXPECT_TRUE(Signal(SharedFlags::kBytes / sizeof(Flag) - 1, 1).ok()) << "shown otherwise";
}

}  // namespace
}  // namespace janus::kernels
