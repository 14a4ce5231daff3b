#pragma once

#include "operator/reconcile/service_planner.h"

namespace janus::control {

// Plans services whose model lies in a folder of this machine (source HostPath), as for one
// machine with `room` for each service. Reads the folder's config.json, and the names and sizes of
// its weights, for every plan: passes are rare. Thread-safe.
class FolderPlanner final : public ServicePlanner {
 public:
  explicit FolderPlanner(const MachineRoom& room) : room_(room) {}

  // Unavailable: another source, or no such folder here.
  Result<PlannedService> Plan(const MoEService& service) override;

 private:
  const MachineRoom room_;
};

}  // namespace janus::control
