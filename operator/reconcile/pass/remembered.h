#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "operator/reconcile/certificates/kept_certificates.h"

namespace janus::control {

// The version of a child that our last mending has led to, by resource and name: what differs there
// from what we wrote is the server's way of writing it.
using MendedVersions = std::map<std::pair<std::string, std::string>, std::string>;

// Names of a role's pods that the status has reserved and that are not used yet.
struct PodIds {
  int64_t next = 1;
  int64_t last = 0;
  friend bool operator==(const PodIds&, const PodIds&) = default;
};

// What one pass over a service leaves to the next ones, as data. A new process begins without it;
// nothing that must not be lost is here.
struct Remembered {
  MendedVersions mended;
  std::array<PodIds, 2> ids;  // by role
  KeptCertificates certificates;
  std::map<std::string, std::string> leaving;  // pods that were on their way out: names by uid
  uint64_t progress_mark = 0;                  // a hash of what moves while a service comes up
  std::optional<WallTime> progressed;
  std::optional<MonotonicTime> failing_since;  // every pass since then has failed
  std::optional<MonotonicTime> asleep_since;   // all members are on their way out since then
  std::optional<MonotonicTime> numbers_written;
  std::array<std::optional<MonotonicTime>, 2> scaler_numbers_written;
};

}  // namespace janus::control
