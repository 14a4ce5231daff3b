#pragma once

#include <optional>
#include <string>

#include "operator/api/tree.h"
#include "operator/kube/resource.h"
#include "operator/reconcile/pass/pass_context.h"

namespace janus::control {

// What became of a POST.
struct Creation {
  bool is_made = false;
  // What has the name already, as read: ours, whose reply was lost, or somebody else's. Absent and
  // not made: what there is now is not known.
  std::optional<Node> taken;
};

// Makes `object` by POST, which changes nothing that has its name already. Our own writes hear what
// was made or may have been, the refused what was refused or could not be read.
Creation Create(const Resource& resource, const Node& object, PassContext& context);

// `what` has the name of an object of ours: an Event AdoptRefused, and a Refusal of that reason.
// `remedy`: begins where the sentence goes on, or is empty.
void RefuseAdoption(const std::string& what, const std::string& remedy, PassContext& context);

}  // namespace janus::control
