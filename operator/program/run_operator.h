#pragma once

#include <functional>
#include <memory>

#include "operator/certificates/certificate_keeper.h"
#include "operator/kube/timeline.h"
#include "operator/planner/model_questions.h"
#include "operator/program/options.h"
#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

// How the workers are called.
struct WorkerCalls {
  std::unique_ptr<MemberCalls> members;
  std::unique_ptr<ModelQuestions> models;
};
// Its result lives as long as the operator runs.
using MakeWorkerCalls =
    std::function<WorkerCalls(const OperatorOptions& options, const Timeline& timeline,
                              const CertificateKeeper& certificates)>;

// janus-operator, from its flags to its exit code: 0 after SIGTERM, 1 where it cannot run, 2 for
// flags it does not understand. `janus-operator services` is services.h's.
int RunOperator(int argc, const char* const* argv, const MakeWorkerCalls& make_calls);

}  // namespace janus::control
