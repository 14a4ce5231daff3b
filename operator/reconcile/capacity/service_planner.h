#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/model/description.h"
#include "common/status.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/service_plan.h"

namespace janus::control {

struct PlannedService {
  ModelDescription model;
  std::string model_digest;  // of its files; empty: not known
  std::string text_digest;   // of its tokenizer; empty: not known
  ServicePlan plan;
  // Who will still say what the plan rests on: counts hold, but no epoch is made of it yet. Empty:
  // nobody.
  std::string awaited = {};
};

// A worker that runs and could be asked.
struct WorkerToAsk {
  Role role = Role::kAttention;
  std::string name;  // for messages
  std::string revision;
  std::string address;
};

// Who serves, or is about to, just now.
struct WorkersToAsk {
  MonotonicTime now;
  // That the spec wants of each role: what workers of another one say, others may not.
  std::string attention_revision;
  std::string experts_revision;
  std::vector<WorkerToAsk> workers;  // who is first is asked first
  std::function<void()> wake;        // when it is worth planning again; on any thread
};

// Where the reconcile loop learns what a service's model needs: from a folder of this machine, or
// from workers that have mapped it. Thread-safe; answers at once.
class ServicePlanner {
 public:
  virtual ~ServicePlanner() = default;

  // `service` has passed ValidateSchema and ValidateSupported.
  // Unavailable: not known yet, its key is woken when it is. InvalidArgument: it can never be
  // served like this, with the path. ResourceExhausted: there is no room for it.
  virtual Result<PlannedService> Plan(const MoEService& service) = 0;

  // Before the plans of a pass over the service with this uid. A planner that asks nobody has no
  // use for it.
  virtual void Look(const std::string& /*service_uid*/, const WorkersToAsk& /*workers*/) {}
  // The service has gone: afterwards nobody is woken for it.
  virtual void Forget(const std::string& /*service_uid*/) {}
};

}  // namespace janus::control
