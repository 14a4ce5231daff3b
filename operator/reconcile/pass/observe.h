#pragma once

#include <optional>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/pass.h"

namespace janus::control {

// Reads all that decisions rest on: caches as this process's own writes have made them, what
// members and planners have answered, what is remembered. It may ask the API server for what the
// caches cannot tell (creates of unknown outcome, a node that is new), and asks members and workers
// how they are; it writes nothing. Nothing: the service is not there any more, or what must be
// known first could not be read, which is in Pass::refused.
std::optional<ServiceObserved> Observe(Pass& pass);

}  // namespace janus::control
