#include <algorithm>

#include "operator/api/quantity.h"
#include "operator/reconcile/capacity/budget.h"

namespace janus::control {
namespace {

std::string Explain(const MemoryNeed& need) {
  std::string out;
  const auto add = [&](int count, int64_t bytes, const char* what) {
    if (bytes == 0) return;
    if (!out.empty()) out += ", ";
    if (count > 0) out += std::to_string(count) + " x ";
    out += FormatBytes(bytes) + " " + what;
  };
  add(0, need.mapped_weights, "weights in the page cache");
  add(need.m, need.attention_weights, "attention weights");
  add(need.m, need.kv, "KV cache");
  add(need.n, need.expert_weights, "experts");
  add(need.m, need.attention_workspace, "attention workspace");
  add(need.n, need.expert_workspace, "expert workspace");
  add(0, need.exchange, "exchange memory");
  add(0, need.gateway, "gateway");
  add(0, need.processes, "processes");
  return out;
}

}  // namespace

// Instances partly take turns and partly run in parallel; one core each is a fair start.
int MachineBudget::ComputeThreads(int m, int n) const {
  return std::max(1, room_.cores / (m + n));
}

KvRoom MachineBudget::RoomForKv(const ServicePlan& plan) const {
  return {std::max<int64_t>(room_.memory_bytes - plan.need.total(), 0) / 100 *
          plan.effective.kv_memory_percent / plan.m};
}

Status MachineBudget::Check(const std::string& service, const ServicePlan& plan) const {
  const MemoryNeed& need = plan.need;
  if (need.total() <= room_.memory_bytes) return OkStatus();
  return ResourceExhausted("service " + service + " needs " + FormatBytes(need.total()) + ", " +
                           FormatBytes(room_.memory_bytes) + " free" +
                           (pools_ > 1 ? " for each of " + std::to_string(pools_) + " pools" : "") +
                           ": " + Explain(need) +
                           "; lower replicas, slotsPerInstance, maxModelLen, kvCache.size or "
                           "--memory-bytes (the gateway's), or use a machine with more memory");
}

}  // namespace janus::control
