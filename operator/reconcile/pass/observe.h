#pragma once

#include <optional>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/pass.h"

namespace janus::control {

// Reads everything that decisions need: caches with this process's writes, answers from members and
// planners, and remembered data. It asks the API server for what the caches cannot tell (creates of
// unknown outcome, a new node). It starts questions to members and workers. It writes nothing.
// Nothing: the service is gone, or a required read failed (see Pass::refused).
std::optional<ServiceObserved> Observe(Pass& pass);

}  // namespace janus::control
