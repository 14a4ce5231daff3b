// Checks that the emulated device finds the faults that it is made to find.

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "kernels/device/staging.h"
#include "kernels/kernels.h"
#include "tests/support/emulated_device.h"
#include "tests/support/row_lookup.h"

namespace janus::kernels {
namespace {

TEST(EmulatedDeathTest, HostCodeMayNotTouchItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EmulatedDevice device;
  const Buffer buffer = *device.Allocate(64);
  EXPECT_DEATH({ *static_cast<volatile std::byte*>(buffer.data()) = std::byte{1}; }, "");
}

TEST(EmulatedDevice, IsWhereItWasPlugged) {
  EmulatedDevice device;
  EXPECT_EQ(device.pci_address(), "");
  device.Plug("0000:3B:00.0");
  EXPECT_EQ(device.pci_address(), "0000:3B:00.0");
  EXPECT_EQ(HostContext().pci_address(), "");
}

TEST(EmulatedDevice, RunsWhatLiesInItsMemory) {
  EmulatedDevice device;
  const std::array<float, 4> table = {1, 2, 3, 4};
  const std::array<int32_t, 1> token = {1};
  const Buffer device_table = device.AllocateCopyOrNote(table.data(), sizeof table);
  const Buffer device_token = device.AllocateCopyOrNote(token.data(), sizeof token);
  const Buffer y = *device.Allocate(2 * sizeof(float));
  ASSERT_TRUE(device.TakeFailure().ok());
  ASSERT_TRUE(
      LookUpRow(device.stream(), device_table.data(), device_token.as<int32_t>(), y.as<float>(), 2)
          .ok());
  std::array<float, 2> out = {};
  ASSERT_TRUE(device.CopyOut(out.data(), y.data(), sizeof out).ok());
  EXPECT_NE(out[0], 3.0f) << "what came down is there before it was waited for";
  ASSERT_TRUE(device.Wait().ok());
  EXPECT_EQ(out[0], 3.0f);
  EXPECT_EQ(out[1], 4.0f);
}

TEST(EmulatedDevice, WhatOneSharesAnotherReads) {
  EmulatedDevice ours, theirs;
  constexpr size_t kBytes = 10000;
  SharedMemory shared = *ours.AllocateShared(kBytes);
  const Buffer mapped = *theirs.MapShared(shared.fd, kBytes);
  EXPECT_EQ(mapped.size(), kBytes);
  const std::array<int32_t, 2> wrote = {7, 8};
  const size_t at = kBytes - sizeof wrote;
  ASSERT_TRUE(ours.CopyIn(shared.buffer.data() + at, wrote.data(), sizeof wrote).ok());
  const auto read = [&] {
    std::array<int32_t, 2> got = {};
    EXPECT_TRUE(theirs.CopyOut(got.data(), mapped.data() + at, sizeof got).ok());
    EXPECT_TRUE(theirs.Wait().ok());
    return got;
  };
  EXPECT_EQ(read(), wrote);
  EXPECT_EQ(ours.CopyWithin(shared.buffer.data(), mapped.data(), 8).code(), StatusCode::kInternal)
      << "an address of another device";
  shared.buffer = Buffer();
  shared.fd.Reset();
  EXPECT_EQ(read(), wrote) << "it is there for whoever has it mapped";
  // Beside it, as without it.
  const Buffer plain = *theirs.Allocate(100);
  EXPECT_TRUE(theirs.CopyIn(plain.data(), wrote.data(), sizeof wrote).ok());
  EXPECT_EQ(read(), wrote);
}

TEST(EmulatedDevice, MapsNothingThatIsNotThere) {
  EmulatedDevice ours, theirs;
  EXPECT_EQ(ours.AllocateShared(0).status().code(), StatusCode::kInvalidArgument);
  const SharedMemory shared = *ours.AllocateShared(4096);
  EXPECT_EQ(theirs.MapShared(shared.fd, 4097).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(theirs.MapShared(Fd(), 4096).status().code(), StatusCode::kInvalidArgument);
  theirs.Isolate();
  EXPECT_EQ(theirs.MapShared(shared.fd, 4096).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(HostContext().AllocateShared(4096).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(HostContext().MapShared(shared.fd, 4096).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(EmulatedDevice, AGraphIsStartedWithWhatLiesThereThen) {
  EmulatedDevice device;
  const std::array<float, 4> table = {1, 2, 3, 4};
  std::array<int32_t, 1> token = {1};
  const Buffer device_table = device.AllocateCopyOrNote(table.data(), sizeof table);
  const Buffer device_token = device.AllocateCopyOrNote(token.data(), sizeof token);
  const Buffer y = *device.Allocate(2 * sizeof(float));
  ASSERT_TRUE(device.TakeFailure().ok());
  const uint64_t launches = device.launches();
  auto graph = device.RecordGraph([&](const Stream& on) {
    return LookUpRow(on, device_table.data(), device_token.as<int32_t>(), y.as<float>(), 2);
  });
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ(device.launches(), launches) << "recording starts nothing";
  for (const int32_t now : {1, 0, 1}) {
    token[0] = now;
    ASSERT_TRUE(device.CopyIn(device_token.data(), token.data(), sizeof token).ok());
    ASSERT_TRUE(device.Replay(**graph).ok());
    std::array<float, 2> out = {};
    ASSERT_TRUE(device.CopyOut(out.data(), y.data(), sizeof out).ok());
    ASSERT_TRUE(device.Wait().ok());
    EXPECT_EQ(out[0], table[static_cast<size_t>(2 * now)]);
  }
  EXPECT_EQ(device.launches(), launches + 3);
  EXPECT_EQ(device.counts().graphs, 1u);
  EXPECT_EQ(device.counts().replays, 3u);
}

TEST(EmulatedDevice, AGraphThatCannotBeRecordedIsNone) {
  EmulatedDevice device;
  const auto refuses = [](const Stream&) { return InvalidArgument("no"); };
  EXPECT_EQ(device.RecordGraph(refuses).status(), InvalidArgument("no"));
  EXPECT_EQ(device.counts().graphs, 0u);
  EXPECT_EQ(HostContext().RecordGraph(refuses).status().code(), StatusCode::kFailedPrecondition);
}

TEST(EmulatedDevice, RefusesAnArgumentOfTheHost) {
  EmulatedDevice device;
  const std::array<float, 4> table = {};
  const Buffer token = *device.Allocate(4);
  const Buffer y = *device.Allocate(2 * sizeof(float));
  EXPECT_EQ(LookUpRow(device.stream(), table.data(), token.as<int32_t>(), y.as<float>(), 2),
            Internal("Embed: an argument is an address of the host"));
}

TEST(EmulatedDevice, RefusesToCopyUpAnAddressOfTheHost) {
  EmulatedDevice device;
  int word = 0;
  const int* const pointer = &word;
  const Buffer buffer = *device.Allocate(sizeof pointer);
  EXPECT_EQ(device.CopyIn(buffer.data(), &pointer, sizeof pointer).code(), StatusCode::kInternal);
}

TEST(EmulatedDevice, RefusesCopiesBeyondWhatWasTaken) {
  EmulatedDevice device;
  const Buffer buffer = *device.Allocate(8);
  std::array<std::byte, 16> host = {};
  EXPECT_EQ(device.CopyIn(buffer.data(), host.data(), 16).code(), StatusCode::kInternal);
  EXPECT_EQ(device.CopyOut(host.data(), buffer.data() + 1, 8).code(), StatusCode::kInternal);
  EXPECT_EQ(device.CopyWithin(buffer.data(), host.data(), 8).code(), StatusCode::kInternal);
  EXPECT_TRUE(device.CopyIn(buffer.data(), host.data(), 8).ok());
}

TEST(EmulatedDevice, SaysWhenItsMemoryIsShort) {
  EmulatedDevice device(4096);
  Buffer most = *device.Allocate(4096);
  EXPECT_EQ(device.Allocate(1).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(device.AllocateOrNote(1).data(), nullptr);
  EXPECT_EQ(device.TakeFailure().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(device.TakeFailure().ok());
  most = Buffer();
  EXPECT_TRUE(device.Allocate(4096).ok());
}

// A copy from or to no memory makes the device fail.
TEST(Staging, WithoutMemoryCopiesNothing) {
  EmulatedDevice device(4096);
  Staging staging(device, 8192);
  EXPECT_EQ(device.TakeFailure().code(), StatusCode::kResourceExhausted);
  ASSERT_NE(staging.host(), nullptr);
  EXPECT_EQ(staging.Push(0, 8).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(staging.Pull(0, 8).code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(device.has_failed());
}

TEST(Staging, IsOnePieceOnTheHost) {
  const ContextCounts before = HostContext().counts();
  Staging staging(HostContext(), 8);
  EXPECT_EQ(staging.host(), staging.device());
  EXPECT_TRUE(staging.Push(0, 8).ok());
  EXPECT_TRUE(staging.Pull(0, 8).ok());
  EXPECT_EQ(HostContext().counts().copies_in, before.copies_in);
  EXPECT_EQ(HostContext().counts().copies_out, before.copies_out);
}

}  // namespace
}  // namespace janus::kernels
