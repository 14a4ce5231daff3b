#pragma once

#include <functional>
#include <memory>

#include "operator/certificates/certificate_keeper.h"
#include "operator/kube/timeline.h"
#include "operator/planner/model_questions.h"
#include "operator/program/options.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/model/fetch_questions.h"

namespace janus::control {

// Clients for calls to workers.
struct WorkerCalls {
  std::unique_ptr<MemberCalls> members;
  std::unique_ptr<ModelQuestions> models;
  std::unique_ptr<FetchQuestions> fetches;  // null: no Job is asked
};
// The result lives as long as the operator runs.
using MakeWorkerCalls =
    std::function<WorkerCalls(const OperatorOptions& options, const Timeline& timeline,
                              const CertificateKeeper& certificates)>;

// Main function of janus-operator. Exit code: 0 after SIGTERM, 1 if it cannot run, 2 for invalid
// flags. `janus-operator services` is in services.h.
int RunOperator(int argc, const char* const* argv, const MakeWorkerCalls& make_calls);

}  // namespace janus::control
