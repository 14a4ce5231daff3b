#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/api/supported.h"
#include "operator/certificates/certificate_keeper.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/model/fetch_questions.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/records/record_book.h"

namespace janus::control {

// The operator's configuration for all passes.
struct ReconcilerOptions {
  OperatorDefaults defaults;
  std::string worker_image;             // if a MoEService names none
  std::string worker_cuda_image;        // the same for GPUs; empty: a MoEService must name one
  std::vector<std::string> host_paths;  // a HostPath source must lie below one of these folders;
                                        // "/": any
  bool timed_devices = false;           // whether spec.device may be Timed
  bool reads_nodes = true;              // false: pods are judged without their nodes
  Ground ground = Ground::kCluster;
  LocateWorker locate = WorkerAtPodIp;
  Seconds call_timeout{10};  // of each call to the API
  // Issues certificates; outlives the reconciler. Null, as on one machine: connections use plain
  // text. Decisions use only its presence and its lifetimes.
  CertificateKeeper* certificates = nullptr;
  // "<namespace>/<name>" of the operator's release; empty: no other operator can exist, and nothing
  // is claimed (claim/claim.h).
  std::string release = {};
  FetchQuestions* fetches =
      nullptr;                    // outlives the reconciler; null: no Job is asked how far it is
  RecordBook* records = nullptr;  // of decisions; outlives the reconciler; null: none is kept
};

}  // namespace janus::control
