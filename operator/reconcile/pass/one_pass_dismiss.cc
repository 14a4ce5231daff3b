#include <algorithm>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {

// Until when answers of the ended epoch may come to their ends.
MonotonicTime Reconciler::OnePass::EndOfDrain(int drain_seconds) const {
  const auto since = ParseTime(topology_->spec.ended_at);
  const Seconds gone = since.ok() ? Seconds(wall_ - *since) : Seconds(0);
  return At(now_, std::max(Seconds(drain_seconds) - gone, Seconds(0)));
}

MemberOrder Reconciler::OnePass::OrderTo(int64_t epoch,
                                         std::vector<TopologyInstance> members) const {
  return {{service_.metadata.namespace_, service_.metadata.name},
          memory_.uid,
          topology_->spec.fence,
          epoch,
          std::move(members)};
}

// Members of an epoch that nothing follows, or another model does: those of attention come to the
// end of their answers, then all leave. True: nothing is left to wait for.
bool Reconciler::OnePass::Dismiss(const MemberOrder& order,
                                  const std::optional<EpochEnd::Beside>& beside,
                                  MonotonicTime deadline) {
  return line_->end.Advance(
      order, beside, now_, deadline, [wake = owner_.wake_, key = KeyOf(tree_)] { wake(key); },
      again_);
}

}  // namespace janus::control
