#include <atomic>

#include "tests/integration/device/made_device.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random.h"

namespace janus::kernels {

// For every second device loads come as late as possible, which shows code that does not wait for
// them. For the others they come between any two steps.
std::unique_ptr<Context> MakeDevice() {
  static std::atomic<uint64_t> made = 0;
  const uint64_t seed = MixSeed(TestSeed(), 51, made++);
  auto device = std::make_unique<EmulatedDevice>();
  device->RunBehind(seed);
  if (seed % 2 == 0) device->LandAtAnyTime(seed);
  return device;
}

}  // namespace janus::kernels
