#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/device_report.h"
#include "common/model/description.h"
#include "common/status.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/service_plan.h"

namespace janus::control {

// What one worker of each role says of its device; nothing: no worker has said it yet.
struct RoleDevices {
  std::optional<DeviceReport> attention = {};
  std::optional<DeviceReport> experts = {};
};

struct PlannedService {
  ModelDescription model;
  std::string model_digest;  // of its files; empty: not known
  std::string text_digest;   // of its tokenizer; empty: not known
  ServicePlan plan;
  // What the plan still waits for: counts hold, but no epoch is proposed by it yet. Empty: nothing.
  std::string awaited = {};
  RoleDevices devices = {};
};

// A worker that runs and could be asked.
struct WorkerToAsk {
  Role role = Role::kAttention;
  std::string name;  // for messages
  std::string revision;
  std::string address;
};

// The workers that serve, or are about to, and what the spec wants of them.
struct WorkersToAsk {
  MonotonicTime now;
  // That the spec wants of each role: what workers of another one say, others may not.
  std::string attention_revision;
  std::string experts_revision;
  std::vector<WorkerToAsk> workers;  // the first is asked first
  std::function<void()> wake = {};   // when it is worth planning again; on any thread
};

// What is known of a service's model and of the room that it has: a snapshot, which does not
// change. Immutable, so thread-safe.
class ModelKnowledge {
 public:
  virtual ~ModelKnowledge() = default;

  // `service` has passed ValidateSchema and ValidateSupported; `workers` are those that run now.
  // Unavailable: not known yet. InvalidArgument: it can never be served like this, with the path.
  // ResourceExhausted: there is no room for it.
  virtual Result<PlannedService> Plan(const MoEService& service,
                                      const WorkersToAsk& workers) const = 0;
  // What workers of either role have said of their devices: of the revision that the spec wants, or
  // of another one.
  virtual RoleDevices Devices(const WorkersToAsk& /*workers*/) const { return {}; }
};

// Where the reconcile loop learns what a service's model needs: from a folder of this machine, or
// from workers that have mapped it. Thread-safe; answers at once.
class ServicePlanner {
 public:
  virtual ~ServicePlanner() = default;

  // What is known now of the service with this uid. `folders`: those that its spec, or one that it
  // had before, names as sources of a model on this machine. Never null.
  virtual std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                                     const std::vector<std::string>& folders,
                                                     MonotonicTime now) = 0;

  // Asks workers for what is not known; begins calls and waits for none. True: more may be known
  // now, or another worker is being asked. A planner that asks no worker has no use for it.
  virtual bool Ask(const std::string& /*service_uid*/, const WorkersToAsk& /*workers*/) {
    return false;
  }
  // The service has gone: nothing wakes it from now on.
  virtual void Forget(const std::string& /*service_uid*/) {}
};

}  // namespace janus::control
