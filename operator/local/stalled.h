#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/clock.h"
#include "operator/topology/members.h"

namespace janus::control {

// Who keeps a service from being loaded, longest silent first, with each one's log: "loading made
// no progress for 60 s: experts-0 was last heard of 67 s ago (weights; log: /...)". Pure.
std::string DescribeStalledLoading(std::span<const PendingMember> pending, MonotonicTime now,
                                   Seconds timeout,
                                   const std::function<std::string(const std::string&)>& log_of);

// "60 s", "0.5 s".
std::string FormatSeconds(Seconds seconds);

}  // namespace janus::control
