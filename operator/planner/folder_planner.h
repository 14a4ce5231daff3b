#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// Plans services with a local model folder (source HostPath), for one machine with `room` for each
// service. It reads config.json and the names and sizes of weight files on each Know, since passes
// are rare. Thread-safe.
class FolderPlanner final : public ServicePlanner {
 public:
  // `gateway_memory_bytes`: memory limit of the gateway; nothing: PlanService chooses.
  explicit FolderPlanner(const MachineRoom& room,
                         std::optional<int64_t> gateway_memory_bytes = std::nullopt)
      : room_(room), gateway_memory_bytes_(gateway_memory_bytes) {}

  // Plans are Unavailable for another source, or if the folder does not exist.
  std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                             const std::vector<std::string>& folders,
                                             MonotonicTime now) override;

 private:
  const MachineRoom room_;
  const std::optional<int64_t> gateway_memory_bytes_;
};

}  // namespace janus::control
