#include "operator/local/node/gpu_shares.h"

#include <algorithm>
#include <utility>

#include "operator/api/device.h"
#include "operator/kube/object.h"

namespace janus::control {

GpuShares::GpuShares(std::vector<LocalGpu> gpus, std::string folder, std::string program)
    : folder_(std::move(folder)), program_(std::move(program)) {
  for (LocalGpu& gpu : gpus) shares_.push_back({.gpu = std::move(gpu)});
}

std::optional<size_t> GpuShares::Take() {
  if (shares_.empty()) return std::nullopt;
  const auto least = std::ranges::min_element(shares_, {}, &Share::pods);
  ++least->pods;
  return static_cast<size_t>(least - shares_.begin());
}

void GpuShares::GiveBack(size_t gpu) {
  --shares_[gpu].pods;
}

std::optional<size_t> GpuShares::Find(const std::string& process) const {
  for (size_t gpu = 0; gpu < shares_.size(); ++gpu) {
    if (process == ProcessName(gpu)) return gpu;
  }
  return std::nullopt;
}

// Its GPU comes first. The others stay visible, since instances read each other's memory.
ProcessSpec GpuShares::SpecOf(size_t gpu) const {
  std::string visible = shares_[gpu].gpu.id;
  for (size_t other = 0; other < shares_.size(); ++other) {
    if (other != gpu) visible += "," + shares_[other].gpu.id;
  }
  return {ProcessName(gpu),
          program_,
          {"gpu-process", "--socket=" + SocketOf(gpu)},
          {"CUDA_VISIBLE_DEVICES=" + visible}};
}

Result<bool> GpuShares::Prepare(size_t gpu, Processes& processes) {
  Share& share = shares_[gpu];
  if (share.state == State::kNone) {
    JANUS_RETURN_IF_ERROR(processes.Start(SpecOf(gpu)));
    share.state = State::kStarts;
  }
  return share.state == State::kReady;
}

bool GpuShares::Note(const ProcessEvent& event, size_t gpu) {
  const bool is_ready = event.kind == ProcessEvent::Kind::kReady;
  const State was = std::exchange(shares_[gpu].state, is_ready ? State::kReady : State::kNone);
  return !is_ready && was == State::kStarts;
}

bool HasGpuLimit(const Node& pod) {
  const Node* const containers = FindAt(pod, {"spec", "containers"});
  if (containers == nullptr) return false;
  return std::ranges::any_of(containers->items, [](const Node& container) {
    const Node* const limits = FindAt(container, {"resources", "limits"});
    if (limits == nullptr) return false;
    return std::ranges::any_of(limits->fields,
                               [](const NodeField& one) { return IsGpu(one.name); });
  });
}

}  // namespace janus::control
