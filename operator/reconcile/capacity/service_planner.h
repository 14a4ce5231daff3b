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
  std::string model_digest;  // of the model's files; empty: not known
  std::string text_digest;   // of its tokenizer; empty: not known
  ServicePlan plan;
  // What the plan still lacks: its counts are valid, but it proposes no epoch yet. Empty: nothing.
  std::string awaited = {};
  RoleDevices devices = {};
};

// A running worker that can be asked.
struct WorkerToAsk {
  Role role = Role::kAttention;
  std::string name;  // for messages
  std::string revision;
  std::string address;
};

// Running workers, and the revisions that the spec wants.
struct WorkersToAsk {
  MonotonicTime now;
  // Wanted revision of each role. Only workers of these revisions can tell about the wanted model.
  std::string attention_revision;
  std::string experts_revision;
  std::vector<WorkerToAsk> workers;  // the first is asked first
  std::function<void()> wake = {};   // called when planning again is worthwhile; on any thread
};

// What is known of a service's model and resources: a snapshot. Immutable, so thread-safe.
class ModelKnowledge {
 public:
  virtual ~ModelKnowledge() = default;

  // `service` has passed ValidateSchema and ValidateSupported; `workers` are the running ones.
  // Unavailable: not known yet. InvalidArgument: it can never be served like this, with the path.
  // ResourceExhausted: it does not fit.
  virtual Result<PlannedService> Plan(const MoEService& service,
                                      const WorkersToAsk& workers) const = 0;
  // What workers of either role have said of their devices: of the revision that the spec wants, or
  // of another one.
  virtual RoleDevices Devices(const WorkersToAsk& /*workers*/) const { return {}; }
};

// Tells the reconcile loop what a service's model needs. The source is a local folder, or workers
// that have mapped the model. Thread-safe; does not block.
class ServicePlanner {
 public:
  virtual ~ServicePlanner() = default;

  // The current knowledge of the service with this uid. `folders`: local model folders named by its
  // current spec or an earlier one. Never null.
  virtual std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                                     const std::vector<std::string>& folders,
                                                     MonotonicTime now) = 0;

  // Starts calls to workers for what is not known, without waiting. True: more may be known now, or
  // another worker is asked. Planners that ask no worker keep this default.
  virtual bool Ask(const std::string& /*service_uid*/, const WorkersToAsk& /*workers*/) {
    return false;
  }
  // The service is gone: no more wake calls for it.
  virtual void Forget(const std::string& /*service_uid*/) {}
};

}  // namespace janus::control
