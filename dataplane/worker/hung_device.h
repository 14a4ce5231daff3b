#pragma once

#include "common/log.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// A GPU that completes nothing for this long hangs. A host waits for one step at most, and a step
// that waits for peers is given up long before (docs/steps.md).
inline constexpr Seconds kMostDeviceWait{60};

// Ends the process, with a message and exit status 1, if the device hangs. Another process can then
// use the device, or run elsewhere. It ends at once, because any cleanup would wait for the device.
void EndWhereDeviceHangs(kernels::Context& context, const Logger& log,
                         Seconds most = kMostDeviceWait);

}  // namespace janus::dataplane
