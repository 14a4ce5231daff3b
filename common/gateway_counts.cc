#include "common/gateway_counts.h"

#include <algorithm>

namespace janus {

void JoinGateways(const GatewayReports& more, GatewayReports& to) {
  for (const GatewayCounts& one : more.gateways) {
    const auto known = std::ranges::find(to.gateways, one.gateway_id, &GatewayCounts::gateway_id);
    if (known == to.gateways.end()) {
      to.gateways.push_back(one);
      continue;
    }
    const bool is_attached = known->is_attached || one.is_attached;
    if (one.reports > known->reports) *known = one;
    known->is_attached = is_attached;
  }
  // Instances leave the same gateways out, so the counts do not add up.
  to.left_out = std::max(to.left_out, more.left_out);
  if (to.gateways.size() <= GatewayReports::kMost) return;
  const auto gone = std::ranges::stable_partition(
      to.gateways, [](const GatewayCounts& one) { return one.is_attached; });
  const auto attached = static_cast<uint64_t>(gone.begin() - to.gateways.begin());
  if (attached > GatewayReports::kMost) {
    to.left_out = std::max<uint64_t>(to.left_out, attached - GatewayReports::kMost);
  }
  to.gateways.resize(GatewayReports::kMost);
}

}  // namespace janus
