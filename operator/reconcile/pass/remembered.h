#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "operator/reconcile/certificates/kept_certificates.h"
#include "operator/reconcile/placement/placement_memory.h"
#include "operator/reconcile/scaling/scaling_memory.h"

namespace janus::control {

// Version of a child after our last repair, by resource and name. Differences in that version come
// from the server's way of writing values.
using MendedVersions = std::map<std::pair<std::string, std::string>, std::string>;

// Pod ids of a role that are reserved in the status and not yet used.
struct PodIds {
  int64_t next = 1;
  int64_t last = 0;
  friend bool operator==(const PodIds&, const PodIds&) = default;
};

// Of a pool beside the first.
struct PoolRemembered {
  std::shared_ptr<const PlacementMemory> placement;  // as of the first, below
  std::optional<MonotonicTime> asleep_since;
};

// Data that one pass keeps for the next. A new process starts without it, so nothing here is
// essential.
struct Remembered {
  MendedVersions mended;
  std::array<PodIds, 2> ids;  // by role
  KeptCertificates certificates;
  std::map<std::string, std::string> leaving;  // pods being deleted: names by uid
  uint64_t progress_mark = 0;                  // a hash of what changes while a service starts
  std::optional<WallTime> progressed;
  std::optional<MonotonicTime> failing_since;  // all passes since then failed
  std::optional<WallTime> model_missing_since;
  bool has_told_namespace = false;            // that is being deleted, that no pod is left
  std::optional<MonotonicTime> asleep_since;  // all members are being deleted since then
  std::optional<MonotonicTime> numbers_written;
  std::array<std::optional<MonotonicTime>, 2> scaler_numbers_written;
  ScalingMemory scaling;
  std::shared_ptr<const PlacementMemory> placement;  // null: nothing heard yet
  std::map<int, PoolRemembered> pools;               // those beside the first, by number
};

}  // namespace janus::control
