#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/api/supported.h"
#include "operator/certificates/certificate_keeper.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/pods/roster.h"

namespace janus::control {

// The operator's configuration, the same for all passes.
struct ReconcilerOptions {
  OperatorDefaults defaults;
  std::string worker_image;             // where a MoEService names none
  std::string worker_cuda_image;        // the same for GPUs; empty: a MoEService has to name one
  std::vector<std::string> host_paths;  // folders below which a source HostPath may lie; "/": any
  Ground ground = Ground::kCluster;
  LocateWorker locate = WorkerAtPodIp;
  Seconds call_timeout{10};  // of each call to the API
  // Issues certificates; outlives the reconciler. Null, as on one machine: connections are plain
  // text. Decisions ask only whether it is there, and for its lifetimes.
  CertificateKeeper* certificates = nullptr;
};

}  // namespace janus::control
