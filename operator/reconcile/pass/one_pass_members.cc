#include <algorithm>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {
namespace {

// What a status says of an instance.
const Node* SaidOf(const Node* said, const TopologyInstance& instance) {
  if (said == nullptr) return nullptr;
  const auto found = std::ranges::find_if(said->items, [&](const Node& one) {
    return TextAt(one, {"pod"}) == instance.node && IntegerAt(one, {"index"}) == instance.index;
  });
  return found == said->items.end() ? nullptr : &*found;
}

}  // namespace

// MoETopology.status: which members have said that they serve the committed epoch, and since when.
// Written when one comes or goes, and thus once or twice in an epoch that nothing happens to.
void Reconciler::OnePass::WriteMembers() {
  if (!record_ || !topology_ || !topology_->spec.committed || Context().is_stopped()) return;
  const TopologyRecord& committed = *topology_->spec.committed;
  const EpochWatch& watch = line_->epochs.watch();
  if (watch.epoch() != committed.epoch || !line_->epochs.HasTold(committed.epoch)) return;
  const Node* const said = FindAt(*record_, {"status", "instances"});
  Node instances = Node::List();
  for (size_t i = 0; i < committed.instances.size(); ++i) {
    const TopologyInstance& one = committed.instances[i];
    const std::optional<bool> serves = watch.Serves(i);
    if (!serves) return;
    Node out = Object({{"pod", Text(one.node)}, {"index", Node::Integer(one.index)}});
    if (*serves) {
      const Node* const before = SaidOf(said, one);
      std::string since;
      if (before != nullptr && IntegerAt(*before, {"epoch"}) == committed.epoch) {
        since = TextAt(*before, {"since"});
      }
      out.Add("epoch", Node::Integer(committed.epoch));
      out.Add("since", Text(since.empty() ? FormatTime(wall_) : since));
    }
    instances.items.push_back(std::move(out));
  }
  if (said != nullptr && Covers(*said, instances) && Covers(instances, *said)) return;
  Node object = *record_;
  SetAt(object, {"status", "instances"}, std::move(instances));
  ApiResult<Node> written =
      owner_.api_.Update(kTopologies, object, Subresource::kStatus, {}, limits_);
  if (written.ok()) {
    memory_.writes.Wrote(kTopologies, std::string(ResourceVersionOf(*record_)), *written, now_);
    record_ = *std::move(written);
    return;
  }
  // Nothing rests on it: whatever refuses it, it is tried again at the pace of numbers.
  Refusal refusal = RefusalOf(written.error(), "write who serves");
  if (refusal.kind == RefusalKind::kStop) refused_.push_back(std::move(refusal));
  BringForward(again_, now_ + kNumbersPeriod);
}

}  // namespace janus::control
