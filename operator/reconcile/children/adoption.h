#pragma once

#include <string>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/pass/refusal.h"

namespace janus::control {

// `what` ("Service chat") has the name of an object of ours and another owner: a refusal of reason
// AdoptRefused. `remedy` continues the sentence, or is empty. Pure.
Refusal BelongsToAnother(const std::string& what, const std::string& remedy);

// What to do about such an object. One of a MoEService that had the name before goes by itself.
std::string AdoptionRemedy(const Node& there, const std::string& service);

}  // namespace janus::control
