#pragma once

#include <string>

#include "common/model/description.h"
#include "common/status.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/plan.h"

namespace janus::control {

struct PlannedService {
  ModelDescription model;
  std::string model_digest;  // of its files; empty: not known
  ServicePlan plan;
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
};

}  // namespace janus::control
