#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// Plans services whose model lies in a folder of this machine (source HostPath), as for one
// machine with `room` for each service. Reads the folder's config.json, and the names and sizes of
// its weights, each time that it is asked what is known: passes are rare. Thread-safe.
class FolderPlanner final : public ServicePlanner {
 public:
  // `gateway_memory_bytes`: what its gateway is bounded to; nothing: as PlanService has it.
  explicit FolderPlanner(const MachineRoom& room,
                         std::optional<int64_t> gateway_memory_bytes = std::nullopt)
      : room_(room), gateway_memory_bytes_(gateway_memory_bytes) {}

  // Plans are Unavailable for another source, and where there is no such folder here.
  std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                             const std::vector<std::string>& folders,
                                             MonotonicTime now) override;

 private:
  const MachineRoom room_;
  const std::optional<int64_t> gateway_memory_bytes_;
};

}  // namespace janus::control
