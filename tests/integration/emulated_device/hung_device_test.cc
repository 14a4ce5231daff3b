// A device that completes nothing any more, without an error.

#include "dataplane/worker/hung_device.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

#include "tests/support/emulated_device.h"
#include "tests/support/random.h"
#include "tests/support/shared_flags.h"

namespace janus::dataplane {
namespace {

using kernels::Buffer;
using kernels::EmulatedDevice;
using kernels::SharedFlags;

// Work behind a flag that is never raised stands for a kernel that does not end.
struct Hung {
  Hung() {
    device.RunBehind(TestSeed());
    shown = *device.RegisterFlags(flags.data(), SharedFlags::kBytes);
  }
  Status Hang() { return StreamWait(device, flags.at(0), 1); }

  SharedFlags flags;
  EmulatedDevice device;
  Buffer shown;
};

TEST(HungDevice, IsHeardOfWhateverWaitsForIt) {
  const auto waits = std::to_array<void (*)(Hung&)>({
      [](Hung& hung) { EXPECT_TRUE(hung.device.Wait().ok()); },
      [](Hung& hung) {
        const auto event = *hung.device.MakeEvent();
        EXPECT_TRUE(hung.device.Record(*event).ok());
        EXPECT_TRUE(hung.device.Await(*event).ok());
      },
      [](Hung& hung) { hung.shown = Buffer(); },
      [](Hung& hung) { Buffer(*hung.device.AllocatePinned(64)); },
  });
  for (const auto wait : waits) {
    Hung hung;
    std::string heard;
    hung.device.WatchWaits(Seconds(0.02), [&](std::string_view what, Seconds) {
      heard = what;
      hung.flags.at(0)->store(1);
    });
    ASSERT_TRUE(hung.Hang().ok());
    wait(hung);
    EXPECT_NE(heard, "");
  }
}

TEST(HungDeviceDeathTest, EndsItsProcessWithAMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    Hung hung;
    EndWhereDeviceHangs(hung.device, Logger(), Seconds(0.02));
    (void)hung.Hang();
    (void)hung.device.Wait();
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(1),
              "the device hangs; this process ends.*waits_for=.?what was queued");
}

TEST(HungDevice, TheHostIsNoDeviceThatHangs) {
  EndWhereDeviceHangs(kernels::HostContext(), Logger(), Seconds(1e-9));
  EXPECT_TRUE(kernels::HostContext().Wait().ok());
}

}  // namespace
}  // namespace janus::dataplane
