#pragma once

#include <string>

#include "common/timed_device.h"

namespace janus::control {

// What a user can do where results of timed devices come late, since the machine does not keep up:
// "lower spec.timed.timeScale (now 8), ... or use more cores". Every part can be followed: a time
// scale of 1 cannot be lowered. Pure.
std::string RemedyOfLateResults(const TimedDevice& timed);

}  // namespace janus::control
