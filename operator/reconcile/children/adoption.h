#pragma once

#include <string>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/pass/refusal.h"

namespace janus::control {

// A refusal with reason AdoptRefused: `what` ("Service chat") has the name of our object but
// another owner. `remedy` continues the sentence, or is empty. Pure.
Refusal BelongsToAnother(const std::string& what, const std::string& remedy);

// What to do about such an object. If it belongs to an earlier MoEService of the same name, it will
// be deleted without action.
std::string AdoptionRemedy(const Node& there, const std::string& service);

}  // namespace janus::control
