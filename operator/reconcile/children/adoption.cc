#include "operator/reconcile/children/adoption.h"

#include <algorithm>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {

Refusal BelongsToAnother(const std::string& what, const std::string& remedy) {
  return {RefusalKind::kRetry,
          {"AdoptRefused", what + " has another owner and stays as it is" + remedy},
          {}};
}

std::string AdoptionRemedy(const Node& there, const std::string& service) {
  const Node* const owners = FindAt(there, {"metadata", "ownerReferences"});
  const bool is_of_that_name =
      owners != nullptr &&
      std::any_of(owners->items.begin(), owners->items.end(), [&](const Node& one) {
        return TextAt(one, {"kind"}) == kMoEServices.kind && TextAt(one, {"name"}) == service;
      });
  return is_of_that_name
             ? "; it belongs to a MoEService that had this name before, and goes by itself"
             : "; delete it, or give this MoEService another name";
}

}  // namespace janus::control
