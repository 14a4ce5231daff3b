#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/claim/claim.h"
#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/epochs/epoch_end.h"
#include "operator/reconcile/model/fetch_watch.h"
#include "operator/reconcile/observe/caches.h"
#include "operator/reconcile/observe/own_writes.h"
#include "operator/reconcile/pass/refusals.h"
#include "operator/reconcile/pass/remembered.h"

namespace janus::control {

// The planner's key for the pods of the model that a rollout replaces.
inline std::string OldPlannerKey(const std::string& uid) {
  return uid + "/old";
}

// State between the passes over one service: running calls, this process's writes, and remembered
// data. Confined to the running pass.
class Memory {
 public:
  // All arguments outlive this, except the uid.
  Memory(std::string its_uid, const Caches& caches, ObjectApi& api, MemberCalls& calls,
         ServicePlanner& its_planner)
      : uid(std::move(its_uid)),
        planner(its_planner),
        writes([&caches](const Resource& resource) -> const ObjectStore& {
          return caches.Of(resource);
        }),
        api_(api),
        calls_(calls) {}
  ~Memory() {
    planner.Forget(uid);
    planner.Forget(OldPlannerKey(uid));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Calls to the members of one MoETopology.
  struct Line {
    Line(ObjectApi& api, MemberCalls& calls) : epochs(api, calls), end(calls) {}
    EpochDriver epochs;
    EpochEnd end;
  };
  // By the name of the MoETopology.
  Line& LineOf(const std::string& topology) {
    std::unique_ptr<Line>& line = lines_[topology];
    if (line == nullptr) line = std::make_unique<Line>(api_, calls_);
    return *line;
  }
  void KeepLines(const std::set<std::string>& topologies) {
    std::erase_if(lines_, [&](const auto& one) { return !topologies.contains(one.first); });
  }

  const std::string uid;
  ServicePlanner& planner;
  OwnWrites writes;
  Refusals refusals;
  Remembered remembered;
  ClaimMemory claim;
  FetchWatch fetch;

 private:
  ObjectApi& api_;
  MemberCalls& calls_;
  std::map<std::string, std::unique_ptr<Line>> lines_;
};

}  // namespace janus::control
