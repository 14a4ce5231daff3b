#include <algorithm>

#include "operator/api/quantity.h"
#include "operator/reconcile/capacity/budget.h"

namespace janus::control {
namespace {

std::string Explain(const PodNeed& need, const char* weights) {
  std::string out;
  const auto add = [&](int64_t bytes, const char* what) {
    if (bytes > 0) out += (out.empty() ? "" : ", ") + FormatBytes(bytes) + " " + what;
  };
  add(need.weights, weights);
  add(need.kv, "KV cache");
  add(need.workspace, "workspace");
  add(need.exchange, "exchange memory");
  add(need.process, "process");
  return out;
}

// A role, a name for its weights, and the fields that reduce its need.
struct RoleWords {
  const char* role;
  const char* weights;
  const char* lower;
};
constexpr RoleWords kAttentionWords = {
    "attention", "weights",
    "lower maxBatchSize or kvCache.size of that role, or spec.model.maxModelLen"};
constexpr RoleWords kExpertsWords = {
    "experts", "experts",
    "have more replicas of that role or fewer slotsPerInstance, or lower "
    "spec.roles.attention.maxBatchSize"};

// `where`: text for the kind of memory, "" for host memory.
Status Hold(const std::string& service, const RoleWords& words, const PodNeed& need, int64_t has,
            const char* where, const std::string& raise) {
  if (need.total() <= has) return OkStatus();
  return ResourceExhausted("each " + std::string(words.role) + " pod of service " + service +
                           " needs " + FormatBytes(need.total()) + where + " and has " +
                           FormatBytes(has) + ": " + Explain(need, words.weights) + "; " + raise +
                           ", or " + words.lower);
}

// `lower_on_host`: what reduces the need of host memory beside a GPU.
Status CheckPod(const std::string& service, const RoleWords& words, const PodNeed& on_cpus,
                const GpuPodNeed& on_gpu, const std::optional<ProcessRoom>& room,
                const char* lower_on_host) {
  if (!room) return OkStatus();
  const std::string role = words.role;
  const std::string raise = room->memory_is_limited
                                ? "raise spec.roles." + role + ".resources.limits.memory"
                                : "use machines with more memory free for role " + role;
  if (!room->device_memory_bytes) {
    return Hold(service, words, on_cpus, room->memory_bytes, "", raise);
  }
  JANUS_RETURN_IF_ERROR(Hold(service, words, on_gpu.device, UsableOfGpu(*room->device_memory_bytes),
                             " of its GPU", "use GPUs with more memory free for role " + role));
  return Hold(service, {words.role, words.weights, lower_on_host}, on_gpu.host, room->memory_bytes,
              " beside its GPU", raise);
}

}  // namespace

// One number for both roles: the smallest of any pod.
int PodBudget::ComputeThreads(int m, int n) const {
  std::optional<int> least;
  for (const auto& room : {rooms_.attention, rooms_.experts}) {
    if (!room) continue;
    const int cores = room->cores_are_limited ? room->cores : room->cores / (pools_ * (m + n));
    least = std::min(least.value_or(cores), cores);
  }
  return std::max(1, least.value_or(1));
}

KvRoom PodBudget::RoomForKv(const ServicePlan& plan) const {
  if (!rooms_.attention) return {};
  const ProcessRoom& room = *rooms_.attention;
  const auto share = [&](int64_t bytes, const PodNeed& need) {
    return std::max<int64_t>(bytes - need.total(), 0) / 100 * plan.effective.kv_memory_percent;
  };
  const auto of_the_machine = [&](const PodNeed& need) {
    const int64_t left = share(room.memory_bytes, need);
    return room.memory_is_limited ? left : left / (pools_ * (plan.m + plan.n));
  };
  if (!room.device_memory_bytes) return {of_the_machine(plan.need.attention_pod())};
  const GpuPodNeed& need = plan.need.attention_on_gpu;
  return {share(UsableOfGpu(*room.device_memory_bytes), need.device), of_the_machine(need.host),
          false};
}

Status PodBudget::Check(const std::string& service, const ServicePlan& plan) const {
  const MemoryNeed& need = plan.need;
  const char* const lower_on_host = plan.prefix_host_bytes > 0
                                        ? "lower kvCache.prefixHostMemory of that role"
                                        : kAttentionWords.lower;
  JANUS_RETURN_IF_ERROR(CheckPod(service, kAttentionWords, need.attention_pod(),
                                 need.attention_on_gpu, rooms_.attention, lower_on_host));
  return CheckPod(service, kExpertsWords, need.expert_pod(), need.experts_on_gpu, rooms_.experts,
                  kExpertsWords.lower);
}

}  // namespace janus::control
