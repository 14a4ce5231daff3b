#pragma once

#include <functional>
#include <memory>

#include "operator/certificates/certificate_keeper.h"
#include "operator/kube/timeline.h"
#include "operator/program/options.h"
#include "operator/reconcile/member_calls.h"

namespace janus::control {

// How the workers are called; its result lives as long as the operator runs.
using MakeMemberCalls = std::function<std::unique_ptr<MemberCalls>(
    const OperatorOptions& options, const Timeline& timeline,
    const CertificateKeeper& certificates)>;

// janus-operator, from its flags to its exit code: 0 after SIGTERM, 1 where it cannot run, 2 for
// flags it does not understand.
int RunOperator(int argc, const char* const* argv, const MakeMemberCalls& make_calls);

}  // namespace janus::control
