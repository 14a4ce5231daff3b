#pragma once

#include <cstdint>
#include <optional>

#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// Plans services whose model lies in a folder of this machine (source HostPath), as for one
// machine with `room` for each service. Reads the folder's config.json, and the names and sizes of
// its weights, for every plan: passes are rare. Thread-safe.
class FolderPlanner final : public ServicePlanner {
 public:
  // `gateway_memory_bytes`: what its gateway is bounded to; nothing: as PlanService has it.
  explicit FolderPlanner(const MachineRoom& room,
                         std::optional<int64_t> gateway_memory_bytes = std::nullopt)
      : room_(room), gateway_memory_bytes_(gateway_memory_bytes) {}

  // Unavailable: another source, or no such folder here.
  Result<PlannedService> Plan(const MoEService& service) override;

 private:
  const MachineRoom room_;
  const std::optional<int64_t> gateway_memory_bytes_;
};

}  // namespace janus::control
