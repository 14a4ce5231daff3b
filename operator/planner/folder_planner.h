#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/planner/worker_planner.h"
#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// Plans services whose model lies in a folder of this machine (source HostPath), as for one
// machine with `room` for each service. Reads the folder's config.json, and the names and sizes of
// its weights, each time that it is asked what is known: passes are rare. The devices of its
// workers it learns from one worker of each role, and plans do not wait for that. Thread-safe.
class FolderPlanner final : public ServicePlanner {
 public:
  // `gateway_memory_bytes`: what its gateway is bounded to; nothing: as PlanService has it.
  // `questions`: for the devices of workers, which nothing else tells; null: they stay unknown. It
  // outlives this.
  explicit FolderPlanner(const MachineRoom& room,
                         std::optional<int64_t> gateway_memory_bytes = std::nullopt,
                         ModelQuestions* questions = nullptr)
      : room_(room), gateway_memory_bytes_(gateway_memory_bytes) {
    if (questions != nullptr) workers_.emplace(*questions);
  }

  // Plans are Unavailable for another source, or if the folder does not exist.
  std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                             const std::vector<std::string>& folders,
                                             MonotonicTime now) override;
  bool Ask(const std::string& service_uid, const WorkersToAsk& workers) override;
  void Forget(const std::string& service_uid) override;

 private:
  const MachineRoom room_;
  const std::optional<int64_t> gateway_memory_bytes_;
  std::optional<WorkerPlanner> workers_;
};

}  // namespace janus::control
