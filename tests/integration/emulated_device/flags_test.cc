// Streams that wait for each other by flags in host memory, and the emulated device's stream that
// lags behind its host (tests/support/emulated_stream.h).

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "kernels/kernels.h"
#include "tests/support/emulated_device.h"
#include "tests/support/row_lookup.h"
#include "tests/support/shared_flags.h"

namespace janus::kernels {
namespace {

constexpr StatusCode kInternal = StatusCode::kInternal;

// A device that lags, with registered flags.
class BehindTest : public testing::TestWithParam<uint64_t> {
 protected:
  BehindTest() {
    device_.RunBehind(MixSeed(TestSeed(), GetParam()));
    shown_ = *device_.RegisterFlags(flags_.data(), SharedFlags::kBytes);
    table_ = device_.AllocateCopyOrNote(kRowTable.data(), sizeof kRowTable);
    token_ = *device_.Allocate(sizeof(int32_t));
    y_ = *device_.Allocate(2 * sizeof(float));
    EXPECT_TRUE(device_.TakeFailure().ok());
  }
  // Like a host that gives up: releases the stream if a test failed before it raised the flags.
  ~BehindTest() override {
    for (size_t i = 0; i < 4; ++i) flags_.at(i)->store(uint64_t{1} << 62);
  }
  // Checks for longer than the stream needs to see a flag.
  void ExpectHeld(Event& event) {
    const MonotonicTime begin = MonotonicClock::now();
    while (MonotonicClock::now() - begin < std::chrono::microseconds(500)) {
      ASSERT_EQ(*device_.Query(event), false);
      std::this_thread::yield();
    }
  }
  Status LookUpOn(const Stream& on, const Buffer& table) {
    return LookUpRow(on, table.data(), token_.as<int32_t>(), y_.as<float>());
  }
  Status LookUp() { return LookUpOn(device_.stream(), table_); }
  Status SetToken(const int32_t* host) { return device_.CopyIn(token_.data(), host, sizeof *host); }
  Status Down(std::array<float, 2>& out) {
    return device_.CopyOut(out.data(), y_.data(), sizeof out);
  }

  SharedFlags flags_;
  EmulatedDevice device_;
  Buffer shown_, table_, token_, y_;
};
INSTANTIATE_TEST_SUITE_P(Seeds, BehindTest, testing::Range(uint64_t{0}, uint64_t{8}));

TEST_P(BehindTest, NothingPassesAFlagUntilItIsRaised) {
  const int32_t token = 2;
  std::array<float, 2> out = {-1, -1};
  std::unique_ptr<Event> before = *device_.MakeEvent();
  std::unique_ptr<Event> after = *device_.MakeEvent();
  ASSERT_TRUE(SetToken(&token).ok());
  ASSERT_TRUE(device_.Record(*before).ok());
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 7).ok());
  const uint64_t launches = device_.launches();
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down(out).ok());
  ASSERT_TRUE(Signal(device_, flags_.at(1), 1).ok());
  ASSERT_TRUE(device_.Record(*after).ok());
  ASSERT_TRUE(device_.Await(*before).ok());
  EXPECT_EQ(*device_.Query(*before), true);
  for (const uint64_t too_low : {uint64_t{0}, uint64_t{6}}) {
    flags_.at(0)->store(too_low);
    ExpectHeld(*after);
    EXPECT_EQ(device_.launches(), launches);
    EXPECT_EQ(flags_.at(1)->load(), 0u);
    EXPECT_EQ(out[0], -1) << "a copy that has not run leaves what there is";
  }
  flags_.at(0)->store(8);  // a later count includes it
  while (!*device_.Query(*after)) std::this_thread::yield();
  EXPECT_EQ(out, (std::array<float, 2>{20, 21})) << "what came down is there once it has come";
  EXPECT_EQ(flags_.at(1)->load(), 1u);
  EXPECT_EQ(device_.launches(), launches + 1);
  EXPECT_EQ(device_.counts().waits, 2u) << "to ask is not to wait";
  EXPECT_FALSE(device_.has_failed());
}

TEST_P(BehindTest, EveryFlagIsAwaited) {
  std::unique_ptr<Event> after = *device_.MakeEvent();
  ASSERT_TRUE(
      device_
          .StreamWaitFlags(std::array{FlagCount{flags_.at(0), 1}, FlagCount{flags_.at(1), 1},
                                      FlagCount{flags_.at(2), 1}})
          .ok());
  ASSERT_TRUE(device_.Record(*after).ok());
  for (const size_t i : {2, 0, 1}) {
    ExpectHeld(*after);
    flags_.at(i)->store(1);
  }
  EXPECT_TRUE(device_.Await(*after).ok());
}

// A count 2^63 steps ahead counts as behind.
TEST_P(BehindTest, CountsGoRound) {
  flags_.at(0)->store(UINT64_MAX);
  std::unique_ptr<Event> after = *device_.MakeEvent();
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  ASSERT_TRUE(device_.Record(*after).ok());
  ExpectHeld(*after);
  ASSERT_FALSE(HasReached({flags_.at(0), 1}));
  flags_.at(0)->store(1);
  EXPECT_TRUE(device_.Await(*after).ok());
}

TEST_P(BehindTest, WhatGoesUpIsReadWhenItsCopyRuns) {
  int32_t token = 1;
  std::array<float, 2> out = {};
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  ASSERT_TRUE(SetToken(&token).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down(out).ok());
  token = 3;  // too early
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(out[0], 30);
}

// A copy down stays invisible until a wait that includes it.
TEST_P(BehindTest, ACopyDownComesWithItsEventAlone) {
  const std::array<int32_t, 2> tokens = {1, 2};
  std::array<float, 2> first = {-1, -1}, second = {-1, -1};
  std::unique_ptr<Event> come = *device_.MakeEvent();
  ASSERT_TRUE(SetToken(&tokens[0]).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down(first).ok());
  ASSERT_TRUE(device_.Record(*come).ok());
  ASSERT_TRUE(SetToken(&tokens[1]).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down(second).ok());
  ASSERT_TRUE(Signal(device_, flags_.at(0), 1).ok());
  while (flags_.at(0)->load(std::memory_order_acquire) == 0) std::this_thread::yield();
  EXPECT_NE(first[0], first[0]) << "it has run, and nobody has waited";
  ASSERT_TRUE(device_.Await(*come).ok());
  EXPECT_EQ(first[0], 10);
  EXPECT_NE(second[0], second[0]);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(second[0], 20);
}

TEST_P(BehindTest, AGraphIsStartedInItsTurn) {
  auto graph = device_.RecordGraph([&](const Stream& on) { return LookUpOn(on, table_); });
  ASSERT_TRUE(graph.ok());
  const std::array<int32_t, 2> tokens = {3, 1};
  std::array<std::array<float, 2>, 2> out = {};
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  for (size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_TRUE(SetToken(&tokens[i]).ok());
    ASSERT_TRUE(device_.Replay(**graph).ok());
    ASSERT_TRUE(Down(out[i]).ok());
  }
  graph->reset();  // queued work keeps its memory
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(out[0][0], 30);
  EXPECT_EQ(out[1][0], 10);
}

// Memory is freed in the order of the stream, without a wait of the host.
TEST_P(BehindTest, WhatIsGivenBackIsThereForWhatWasQueued) {
  const int32_t token = 2;
  std::array<float, 2> out = {};
  const uint64_t held = device_.memory()->held;
  ASSERT_TRUE(SetToken(&token).ok());
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  ASSERT_TRUE(LookUp().ok());
  ASSERT_TRUE(Down(out).ok());
  std::byte* const gone = y_.data();
  y_ = Buffer();
  EXPECT_EQ(device_.CopyIn(gone, &token, sizeof token).code(), kInternal) << "nobody has it";
  y_ = *device_.Allocate(2 * sizeof(float));
  EXPECT_NE(y_.data(), gone) << "what was queued uses it";
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(out[0], 20);
  EXPECT_EQ(device_.memory()->held, held);
}

TEST_P(BehindTest, MemoryThatIsShortWaitsForWhatIsGivenBack) {
  EmulatedDevice small(4096);
  small.RunBehind(GetParam());
  const Buffer shown = *small.RegisterFlags(flags_.data(), 64);
  Buffer most = *small.Allocate(4096);
  std::array<std::byte, 4096> out;
  ASSERT_TRUE(StreamWait(small, flags_.at(0), 1).ok());
  ASSERT_TRUE(small.CopyOut(out.data(), most.data(), out.size()).ok());
  most = Buffer();
  std::jthread later([&] { flags_.at(0)->store(1); });
  EXPECT_TRUE(small.Allocate(4096).ok());
  EXPECT_EQ(flags_.at(0)->load(), 1u) << "what was queued still used it";
}

// Loads wait for the steps that read freed memory, and steps wait for the loads that they need.
TEST_P(BehindTest, LoadsAndStepsWaitForEachOther) {
  Buffer pinned = *device_.AllocatePinned(sizeof kRowTable);
  Buffer loaded = *device_.AllocateForLoad(sizeof kRowTable);
  std::copy(kRowTable.begin(), kRowTable.end(), pinned.as<float>());
  std::unique_ptr<Event> is_loaded = *device_.MakeEvent();
  std::unique_ptr<Event> is_gone = *device_.MakeEvent();
  ASSERT_TRUE(device_.Load(loaded.data(), pinned.data(), sizeof kRowTable).ok());
  ASSERT_TRUE(device_.RecordLoads(*is_loaded).ok());
  const int32_t token = 1;
  std::array<float, 2> out = {};
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  ASSERT_TRUE(SetToken(&token).ok());
  ASSERT_TRUE(device_.StreamWait(*is_loaded).ok());
  ASSERT_TRUE(LookUpOn(device_.stream(), loaded).ok());
  ASSERT_TRUE(Down(out).ok());
  loaded = Buffer();
  ASSERT_TRUE(device_.RecordLoads(*is_gone).ok());
  // The load runs by itself; its memory is freed after the step.
  while (!*device_.Query(*is_loaded)) std::this_thread::yield();
  ExpectHeld(*is_gone);
  EXPECT_EQ(device_.pending_loads(), 1u);
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_.Await(*is_gone).ok());
  EXPECT_EQ(device_.pending_loads(), 0u);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(out[0], 10);
}

// Even without a query.
TEST_P(BehindTest, FollowedLoadsHaveRun) {
  const Buffer pinned = *device_.AllocatePinned(sizeof kRowTable);
  const Buffer loaded = *device_.AllocateForLoad(sizeof kRowTable);
  std::copy(kRowTable.begin(), kRowTable.end(), pinned.as<float>());
  const std::unique_ptr<Event> is_loaded = *device_.MakeEvent();
  const int32_t token = 3;
  std::array<float, 2> out = {};
  ASSERT_TRUE(device_.Load(loaded.data(), pinned.data(), sizeof kRowTable).ok());
  ASSERT_TRUE(device_.RecordLoads(*is_loaded).ok());
  ASSERT_TRUE(SetToken(&token).ok());
  ASSERT_TRUE(device_.StreamWait(*is_loaded).ok());
  ASSERT_TRUE(device_.RecordLoads(*is_loaded).ok());  // followed loads stay loaded
  ASSERT_TRUE(LookUpOn(device_.stream(), loaded).ok());
  ASSERT_TRUE(Down(out).ok());
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(out[0], 30);
}

// Pinned, shared or shown memory is not freed under a stream that uses it.
TEST_P(BehindTest, WhatTheHostSharesWaitsForTheStream) {
  Buffer pinned = *device_.AllocatePinned(2 * sizeof(float));
  SharedMemory shared = *device_.AllocateShared(4096);
  Buffer shown = *device_.RegisterFlags(flags_.data() + 64, 64);
  const std::array<Buffer*, 3> given_back = {&pinned, &shared.buffer, &shown};
  for (size_t i = 0; i < given_back.size(); ++i) {
    const uint64_t count = i + 1;
    ASSERT_TRUE(StreamWait(device_, flags_.at(0), count).ok());
    if (i == 0) {
      ASSERT_TRUE(device_.CopyOut(pinned.data(), y_.data(), pinned.size()).ok());
    }
    ASSERT_TRUE(Signal(device_, flags_.at(1), count).ok());
    std::jthread later([&] { flags_.at(0)->store(count); });
    *given_back[i] = Buffer();
    EXPECT_EQ(flags_.at(1)->load(), count);
  }
  EXPECT_EQ(Signal(device_, flags_.at(512 - 1), 1).code(), StatusCode::kOk) << "shown otherwise";
}

TEST_P(BehindTest, WhatALaunchDoesWrongIsToldLater) {
  std::unique_ptr<Event> after = *device_.MakeEvent();
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  const float* const of_the_host = kRowTable.data();
  ASSERT_TRUE(LookUpRow(device_.stream(), of_the_host, token_.as<int32_t>(), y_.as<float>()).ok());
  ASSERT_TRUE(device_.Record(*after).ok());
  ASSERT_TRUE(Signal(device_, flags_.at(1), 1).ok());
  EXPECT_EQ(*device_.Query(*after), false);
  EXPECT_FALSE(device_.has_failed());
  flags_.at(0)->store(1);
  const Status want = Internal("Embed: an argument is an address of the host");
  EXPECT_EQ(device_.Wait(), want);
  EXPECT_TRUE(device_.has_failed());
  EXPECT_EQ(device_.Await(*after), want) << "for ever";
  EXPECT_EQ(device_.Query(*after).status(), want);
  EXPECT_EQ(Signal(device_, flags_.at(1), 2), want);
  EXPECT_EQ(flags_.at(1)->load(), 0u) << "nothing runs behind it";
}

TEST_P(BehindTest, ToAskAFailedDeviceIsToLearnIt) {
  std::unique_ptr<Event> after = *device_.MakeEvent();
  const Buffer copy = *device_.Allocate(sizeof(void*));
  const void* const address = &flags_;
  ASSERT_TRUE(device_.CopyIn(copy.data(), &address, sizeof address).ok());
  Result<bool> has_come = false;
  while (has_come.ok()) has_come = device_.Query(*after);
  EXPECT_EQ(has_come.status(), Internal("an address of the host is copied up, among 8 bytes"));
  EXPECT_TRUE(device_.has_failed());
}

// A device that fails ends its waits for flags.
TEST_P(BehindTest, ABrokenDeviceAwaitsNothing) {
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  ASSERT_TRUE(LookUp().ok());
  std::jthread later([&] { device_.Break(); });
  EXPECT_EQ(device_.Wait(), Internal("the emulated device is broken"));
  EXPECT_EQ(flags_.at(0)->load(), 0u);
}

TEST_P(BehindTest, TimedEventsSayHowLongItTook) {
  std::array<std::unique_ptr<Event>, 3> events;
  for (auto& event : events) event = *device_.MakeTimedEvent();
  ASSERT_TRUE(device_.Record(*events[0]).ok());
  ASSERT_TRUE(StreamWait(device_, flags_.at(0), 1).ok());
  ASSERT_TRUE(device_.Record(*events[1]).ok());
  ASSERT_TRUE(device_.Record(*events[2]).ok());
  ASSERT_TRUE(device_.Await(*events[0]).ok());
  EXPECT_EQ(device_.TimeBetween(*events[0], *events[1]).status().code(), kInternal)
      << "it has not come";
  ExpectHeld(*events[1]);
  flags_.at(0)->store(1);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_GE(device_.TimeBetween(*events[0], *events[1])->count(), 500e-6) << "the wait included";
  EXPECT_GE(device_.TimeBetween(*events[1], *events[2])->count(), 0.0);
  EXPECT_GE(*device_.TimeBetween(*events[0], *events[2]),
            *device_.TimeBetween(*events[0], *events[1]));
  const std::unique_ptr<Event> plain = *device_.MakeEvent();
  ASSERT_TRUE(device_.Record(*plain).ok());
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(device_.TimeBetween(*events[0], *plain).status().code(), kInternal);
  // Also of loads.
  ASSERT_TRUE(device_.RecordLoads(*events[0]).ok());
  EXPECT_EQ(device_.TimeBetween(*events[1], *events[0]).status().code(), kInternal);
  ASSERT_TRUE(device_.Await(*events[0]).ok());
  EXPECT_GE(device_.TimeBetween(*events[1], *events[0])->count(), 0.0);
}

// Two devices pass a word to each other, in memory that each shows to the other. Each word follows
// from the one before, so a step that runs too early changes all later words.
constexpr int kWords = 64;
constexpr std::array<float, kWords> NextWords() {
  std::array<float, kWords> next = {};
  for (int word = 0; word < kWords; ++word) {
    const int32_t of = (word * 37 + 11) % kWords;
    next[static_cast<size_t>(word)] = std::bit_cast<float>(of);
  }
  return next;
}
int32_t WordAfter(int steps) {
  int32_t word = 0;
  for (int i = 0; i < steps; ++i) word = (word * 37 + 11) % kWords;
  return word;
}

// One of the two devices: the memory that it shows, and the other's memory that it maps.
struct Passing {
  Passing(EmulatedDevice& on, SharedFlags& flags) : device(on) {
    shown = *device.RegisterFlags(flags.data(), SharedFlags::kBytes);
    word = *device.AllocateShared(sizeof(int32_t));
  }
  // Queues the steps of all rounds without a wait; returns its words.
  std::vector<int32_t> Run(Flag* mine, Flag* others, int first, int rounds) {
    const std::array<float, kWords> next = NextWords();
    const int32_t zero = 0;
    const Buffer table = device.AllocateCopyOrNote(next.data(), sizeof next);
    if (first == 0) {
      EXPECT_TRUE(device.CopyIn(word.buffer.data(), &zero, sizeof zero).ok());
      EXPECT_TRUE(Signal(device, mine, 1).ok());
    }
    const uint64_t waits = device.counts().waits;
    std::vector<int32_t> made(static_cast<size_t>(rounds));
    for (int round = 0; round < rounds; ++round) {
      // The first device has already made one.
      EXPECT_TRUE(StreamWait(device, others, static_cast<uint64_t>(round + 1)).ok());
      EmbedArgs args;
      args.table = table.data();
      args.tokens = others_word.as<int32_t>();
      args.y = word.buffer.as<float>();
      args.rows = 1;
      args.vocab = kWords;
      args.hidden = 1;
      EXPECT_TRUE(Embed(device.stream(), args).ok());
      EXPECT_TRUE(Signal(device, mine, static_cast<uint64_t>(round + 1 + (first == 0))).ok());
      EXPECT_TRUE(
          device.CopyOut(&made[static_cast<size_t>(round)], word.buffer.data(), sizeof(int32_t))
              .ok());
    }
    EXPECT_EQ(device.counts().waits, waits);
    EXPECT_TRUE(device.Wait().ok());
    return made;
  }
  static std::vector<int32_t> Want(int first, int rounds) {
    std::vector<int32_t> words;
    for (int round = 0; round < rounds; ++round) {
      words.push_back(WordAfter(2 * round + 1 + (first == 0)));
    }
    return words;
  }

  EmulatedDevice& device;
  Buffer shown;
  SharedMemory word;
  Buffer others_word;
};

class PassingTest : public testing::TestWithParam<uint64_t> {
 protected:
  PassingTest() {
    first_device_.RunBehind(MixSeed(TestSeed(), GetParam(), 1));
    second_device_.RunBehind(MixSeed(TestSeed(), GetParam(), 2));
    first_ = std::make_unique<Passing>(first_device_, flags_);
    second_ = std::make_unique<Passing>(second_device_, flags_);
    first_->others_word = *first_device_.MapShared(second_->word.fd, sizeof(int32_t));
    second_->others_word = *second_device_.MapShared(first_->word.fd, sizeof(int32_t));
  }

  static constexpr int kRounds = 300;
  SharedFlags flags_;
  EmulatedDevice first_device_, second_device_;
  std::unique_ptr<Passing> first_, second_;
};
INSTANTIATE_TEST_SUITE_P(Seeds, PassingTest, testing::Range(uint64_t{0}, uint64_t{6}));

TEST_P(PassingTest, TwoDevicesOfAProcessNeedNoHostBetweenThem) {
  std::vector<int32_t> made;
  {
    const std::jthread other([&] { made = second_->Run(flags_.at(1), flags_.at(0), 1, kRounds); });
    EXPECT_EQ(first_->Run(flags_.at(0), flags_.at(1), 0, kRounds), Passing::Want(0, kRounds));
  }
  EXPECT_EQ(made, Passing::Want(1, kRounds));
}

TEST_P(PassingTest, NorDoThoseOfTwo) {
  const pid_t child = fork();  // no device has a thread yet
  ASSERT_GE(child, 0);
  if (child == 0) {
    _exit(second_->Run(flags_.at(1), flags_.at(0), 1, kRounds) == Passing::Want(1, kRounds) ? 0
                                                                                            : 1);
  }
  EXPECT_EQ(first_->Run(flags_.at(0), flags_.at(1), 0, kRounds), Passing::Want(0, kRounds));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A stream that runs at once.
TEST(FlagsAtOnce, AreRaisedAndFollowedAtOnce) {
  SharedFlags flags;
  EmulatedDevice device;
  const Buffer shown = *device.RegisterFlags(flags.data(), SharedFlags::kBytes);
  EXPECT_EQ(StreamWait(device, flags.at(0), 3),
            Internal("steps follow a flag that was never raised: it is at 0, not at 3"));
  EXPECT_TRUE(device.has_failed());
  ASSERT_TRUE(
      device.Signal(std::array{FlagCount{flags.at(0), 3}, FlagCount{flags.at(1), UINT64_MAX}})
          .ok());
  EXPECT_EQ(flags.at(0)->load(), 3u);
  EXPECT_TRUE(StreamWait(device, flags.at(0), 3).ok());
  EXPECT_TRUE(StreamWait(device, flags.at(0), 2).ok());
  EXPECT_FALSE(StreamWait(device, flags.at(0), 4).ok());
  EXPECT_FALSE(
      device.StreamWaitFlags(std::array{FlagCount{flags.at(0), 3}, FlagCount{flags.at(1), 0}}).ok())
      << "one step before";
  EXPECT_TRUE(device.Signal({}).ok());
  EXPECT_TRUE(device.StreamWaitFlags({}).ok());
}

TEST(FlagsAtOnce, EventsHaveComeAndHaveTimes) {
  EmulatedDevice device;
  const std::unique_ptr<Event> first = *device.MakeTimedEvent();
  const std::unique_ptr<Event> second = *device.MakeTimedEvent();
  EXPECT_EQ(device.TimeBetween(*first, *second).status().code(), kInternal) << "never recorded";
  const Buffer buffer = *device.Allocate(4);
  const int32_t in = 7;
  int32_t out = 0;
  ASSERT_TRUE(device.Record(*first).ok());
  ASSERT_TRUE(device.CopyIn(buffer.data(), &in, sizeof in).ok());
  ASSERT_TRUE(device.CopyOut(&out, buffer.data(), sizeof out).ok());
  ASSERT_TRUE(device.Record(*second).ok());
  EXPECT_EQ(*device.Query(*first), true);
  EXPECT_NE(out, 7) << "it comes with the second";
  EXPECT_EQ(*device.Query(*second), true);
  EXPECT_EQ(out, 7);
  EXPECT_GE(device.TimeBetween(*first, *second)->count(), 0.0);
  EXPECT_EQ(device.counts().waits, 0u);
  EXPECT_FALSE(device.has_failed());
  device.Break();
  EXPECT_EQ(device.Query(*first).status().code(), kInternal);
  EXPECT_TRUE(device.has_failed());
}

// Loads lag: each query completes one of them.
TEST(FlagsAtOnce, LoadsComeWithoutAWait) {
  EmulatedDevice device;
  Buffer pinned = *device.AllocatePinned(64);
  const Buffer loaded = *device.AllocateForLoad(64);
  const std::unique_ptr<Event> event = *device.MakeEvent();
  EXPECT_EQ(*device.Query(*event), true) << "never recorded";
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(device.Load(loaded.data(), pinned.data(), 64).ok());
  ASSERT_TRUE(device.RecordLoads(*event).ok());
  EXPECT_EQ(*device.Query(*event), false);
  EXPECT_EQ(*device.Query(*event), false);
  EXPECT_EQ(*device.Query(*event), true);
  EXPECT_EQ(device.pending_loads(), 0u);
}

// Errors that a GPU would report as faults, in either form.
class ShownTest : public testing::TestWithParam<bool> {
 protected:
  ShownTest() {
    if (GetParam()) device_.RunBehind(1);
  }
  SharedFlags flags_;
  EmulatedDevice device_;
};
INSTANTIATE_TEST_SUITE_P(Forms, ShownTest, testing::Bool());

TEST_P(ShownTest, FlagsLieInWhatWasShown) {
  const Status want = Internal("a flag lies in no memory that the emulated device was shown");
  EXPECT_EQ(Signal(device_, flags_.at(0), 1), want);
  EXPECT_TRUE(device_.has_failed());
  auto* const begin = reinterpret_cast<std::byte*>(flags_.at(1));
  Buffer both = *device_.RegisterFlags(begin, 16);
  Buffer again = *device_.RegisterFlags(begin, 8);
  EXPECT_TRUE(Signal(device_, flags_.at(2), 1).ok());
  EXPECT_EQ(Signal(device_, flags_.at(0), 1), want);
  EXPECT_EQ(Signal(device_, flags_.at(3), 1), want);
  EXPECT_EQ(StreamWait(device_, flags_.at(3), 0), want);
  EXPECT_EQ(
      device_.StreamWaitFlags(std::array{FlagCount{flags_.at(1), 0}, FlagCount{flags_.at(3), 0}}),
      want);
  again = Buffer();
  EXPECT_TRUE(Signal(device_, flags_.at(2), 2).ok());
  both = Buffer();
  EXPECT_EQ(Signal(device_, flags_.at(1), 1), want);
  ASSERT_TRUE(device_.Wait().ok());
  EXPECT_EQ(flags_.at(2)->load(), 2u);
}

TEST_P(ShownTest, ADeviceMayTakeNone) {
  device_.RefuseFlags();
  EXPECT_EQ(device_.RegisterFlags(flags_.data(), 64).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_FALSE(device_.has_failed());
}

TEST(HostContext, HasNoFlagsAndNoTimes) {
  SharedFlags flags;
  Context& host = HostContext();
  EXPECT_EQ(host.RegisterFlags(flags.data(), 64).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(host.MakeTimedEvent().status().code(), StatusCode::kFailedPrecondition);
  const std::unique_ptr<Event> event = *host.MakeEvent();
  EXPECT_EQ(host.TimeBetween(*event, *event).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(host.Record(*event).ok());
  EXPECT_EQ(*host.Query(*event), true);
}

}  // namespace
}  // namespace janus::kernels
