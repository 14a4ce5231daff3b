#include <algorithm>

#include "operator/api/enums.h"
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

// Of `count` instances with a GPU.
std::string ExplainOnGpu(int count, const PodNeed& need, const char* role, const char* weights) {
  if (count == 0) return "";
  std::string out =
      std::to_string(count) + " x " + role + " with " + FormatBytes(need.weights) + " " + weights;
  const auto add = [&](int64_t bytes, const char* what) {
    if (bytes > 0) out += ", " + FormatBytes(bytes) + " " + what;
  };
  add(need.kv, "KV cache");
  add(need.workspace, "workspace");
  add(need.exchange, "exchange memory");
  return out;
}

int64_t HostNeed(const ServicePlan& plan) {
  const MemoryNeed& need = plan.need;
  return plan.m * need.attention_on_gpu.host.total() + plan.n * need.experts_on_gpu.host.total() +
         need.gateway + need.process;
}

bool IsOnGpus(const ServicePlan& plan) {
  return plan.effective.device == Device::kCuda;
}

}  // namespace

// Each instance of a role needs the same, so the need is largest with as many as possible of one.
std::array<MachineBudget::OnOneGpu, 2> MachineBudget::FullestGpus(const ServicePlan& plan) const {
  const int all = pools_ * (plan.m + plan.n);
  const int most = (all + room_.gpus->count - 1) / room_.gpus->count;
  const int attention = std::min(pools_ * plan.m, most);
  const int experts = std::min(pools_ * plan.n, most);
  return {{{attention, most - attention}, {most - experts, experts}}};
}

KvRoom MachineBudget::RoomOnGpu(const ServicePlan& plan) const {
  if (!room_.gpus) return {};
  const MemoryNeed& need = plan.need;
  int64_t pages = UsableOfGpu(room_.gpus->memory_bytes);
  for (const OnOneGpu& on : FullestGpus(plan)) {
    if (on.attention == 0) continue;
    const int64_t left = UsableOfGpu(room_.gpus->memory_bytes) -
                         on.attention * need.attention_on_gpu.device.total() -
                         on.experts * need.experts_on_gpu.device.total();
    pages = std::min(pages, std::max<int64_t>(left, 0) / on.attention);
  }
  const int64_t host = std::max<int64_t>(room_.memory_bytes - HostNeed(plan), 0) / plan.m;
  const int percent = plan.effective.kv_memory_percent;
  return {pages / 100 * percent, host / 100 * percent, false};
}

Status MachineBudget::CheckGpus(const std::string& service, const ServicePlan& plan) const {
  if (!room_.gpus) {
    return InvalidArgument("service " + service +
                           " asks for GPUs, and the workers of this machine can use none "
                           "(janus-worker gpus says why); set spec.device: CPU");
  }
  const MemoryNeed& need = plan.need;
  const int64_t usable = UsableOfGpu(room_.gpus->memory_bytes);
  for (const OnOneGpu& on : FullestGpus(plan)) {
    const int64_t bytes = on.attention * need.attention_on_gpu.device.total() +
                          on.experts * need.experts_on_gpu.device.total();
    if (bytes <= usable) continue;
    const std::string attention =
        ExplainOnGpu(on.attention, need.attention_on_gpu.device, "attention", "weights");
    const std::string experts =
        ExplainOnGpu(on.experts, need.experts_on_gpu.device, "experts", "experts");
    return ResourceExhausted(
        "service " + service + " needs " + FormatBytes(bytes) + " of a GPU that holds " +
        std::to_string(on.attention + on.experts) + " of its instances, and " +
        FormatBytes(usable) + " can be used: " + attention +
        (attention.empty() || experts.empty() ? "" : "; ") + experts +
        "; have fewer replicas on a GPU, or lower slotsPerInstance, kvCache.size, maxBatchSize or "
        "maxModelLen");
  }
  const int64_t host = HostNeed(plan);
  if (host <= room_.memory_bytes) return OkStatus();
  return ResourceExhausted("service " + service + " needs " + FormatBytes(host) +
                           " of the host's memory beside its GPUs, " +
                           FormatBytes(room_.memory_bytes) +
                           " free; lower replicas, prefixHostMemory or --memory-bytes (the "
                           "gateway's), or use a machine with more memory");
}

// Instances partly take turns and partly run in parallel; one core each is a fair start.
int MachineBudget::ComputeThreads(int m, int n) const {
  return std::max(1, room_.cores / (m + n));
}

KvRoom MachineBudget::RoomForKv(const ServicePlan& plan) const {
  if (IsOnGpus(plan)) return RoomOnGpu(plan);
  return {std::max<int64_t>(room_.memory_bytes - plan.need.total(), 0) / 100 *
          plan.effective.kv_memory_percent / plan.m};
}

Status MachineBudget::Check(const std::string& service, const ServicePlan& plan) const {
  if (IsOnGpus(plan)) return CheckGpus(service, plan);
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
