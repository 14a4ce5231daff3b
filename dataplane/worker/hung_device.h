#pragma once

#include "common/log.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// A GPU that ends nothing for so long hangs: what a host waits for is a step at most, and peers
// that a step waits for are given up long before (docs/steps.md).
inline constexpr Seconds kMostDeviceWait{60};

// Ends the process, with a message and exit status 1, when the device hangs. Another process can
// then use the device, or run elsewhere. At once: any further work would wait for the device, too.
void EndWhereDeviceHangs(kernels::Context& context, const Logger& log,
                         Seconds most = kMostDeviceWait);

}  // namespace janus::dataplane
