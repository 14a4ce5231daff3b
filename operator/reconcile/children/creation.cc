#include "operator/reconcile/children/creation.h"

#include <utility>

#include "operator/kube/object.h"

namespace janus::control {

Creation Create(const Resource& resource, const Node& object, PassContext& context) {
  const ObjectKey key = KeyOf(object);
  const std::string what = resource.kind + " " + key.name;
  const std::string doing = "create " + what;
  if (std::optional<Refusal> refused = context.refusals.Standing(doing, context.now)) {
    context.refused.push_back(*std::move(refused));
    return {};
  }
  ApiResult<Node> created = context.api.Create(resource, object, {}, context.limits);
  if (created.ok()) {
    context.refusals.Done(doing);
    context.writes.Wrote(resource, "", *std::move(created), context.now);
    return {true, {}};
  }
  if (created.error().code != StatusCode::kAlreadyExists) {
    if (created.error().outcome_unknown) context.writes.MayHaveMade(resource, key);
    context.refused.push_back(RefusalOf(created.error(), doing));
    if (CanWait(context.refused.back())) {
      context.refusals.Refused(doing, context.refused.back(), context.now);
    }
    return {};
  }
  ApiResult<Node> there = context.api.Get(resource, key, Subresource::kNone, context.limits);
  if (there.ok()) return {false, *std::move(there)};
  context.refused.push_back(RefusalOf(there.error(), "read " + what));
  return {};
}

void RefuseAdoption(const std::string& what, const std::string& remedy, PassContext& context) {
  const std::string text = what + " belongs to somebody else and is left as it is" + remedy;
  context.tell({EventType::kWarning, "Create", {"AdoptRefused", text}});
  context.refused.push_back({RefusalKind::kRetry, {"AdoptRefused", text}, {}});
}

}  // namespace janus::control
