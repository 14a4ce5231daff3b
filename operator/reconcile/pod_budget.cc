#include <algorithm>

#include "operator/api/quantity.h"
#include "operator/reconcile/budget.h"

namespace janus::control {
namespace {

std::string Explain(const PodNeed& need, const char* weights) {
  std::string out = FormatBytes(need.weights) + " " + weights;
  if (need.kv > 0) out += ", " + FormatBytes(need.kv) + " KV cache";
  return out + ", " + FormatBytes(need.workspace) + " workspace, " + FormatBytes(need.exchange) +
         " exchange memory, " + FormatBytes(need.process) + " process";
}

// `lower`: what of the spec makes the need smaller.
Status CheckPod(const std::string& service, const std::string& role, const char* weights,
                const PodNeed& need, const std::optional<ProcessRoom>& room, const char* lower) {
  if (!room || need.total() <= room->memory_bytes) return OkStatus();
  const std::string raise =
      room->memory_is_a_gpus    ? "use GPUs with more memory free for role " + role
      : room->memory_is_limited ? "raise spec.roles." + role + ".resources.limits.memory"
                                : "use machines with more memory free for role " + role;
  return ResourceExhausted("each " + role + " pod of service " + service + " needs " +
                           FormatBytes(need.total()) + " and has " +
                           FormatBytes(room->memory_bytes) + ": " + Explain(need, weights) + "; " +
                           raise + ", or " + lower);
}

}  // namespace

// One number for both roles: the least that any of them has.
int PodBudget::ComputeThreads(int m, int n) const {
  std::optional<int> least;
  for (const auto& room : {rooms_.attention, rooms_.experts}) {
    if (!room) continue;
    const int cores = room->cores_are_limited ? room->cores : room->cores / (m + n);
    least = std::min(least.value_or(cores), cores);
  }
  return std::max(1, least.value_or(1));
}

int64_t PodBudget::KvRoom(const ServicePlan& plan) const {
  if (!rooms_.attention) return 0;
  const ProcessRoom& room = *rooms_.attention;
  const int64_t left = std::max<int64_t>(room.memory_bytes - plan.need.attention_pod().total(), 0) /
                       100 * plan.effective.kv_memory_percent;
  return room.memory_is_limited ? left : left / (plan.m + plan.n);
}

Status PodBudget::Check(const std::string& service, const ServicePlan& plan) const {
  JANUS_RETURN_IF_ERROR(
      CheckPod(service, "attention", "weights", plan.need.attention_pod(), rooms_.attention,
               "lower maxBatchSize or kvCache.size of that role, or spec.model.maxModelLen"));
  return CheckPod(service, "experts", "experts", plan.need.expert_pod(), rooms_.experts,
                  "have more replicas of that role or fewer slotsPerInstance, or lower "
                  "spec.roles.attention.maxBatchSize");
}

}  // namespace janus::control
