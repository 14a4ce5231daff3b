#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"
#include "operator/local/gpus.h"
#include "operator/local/processes.h"

namespace janus::control {

// The GPUs of a node, and the process of each (janus-worker gpu-process), in which the instances of
// its pods run. A process starts with the first pod on its GPU. Confined.
class GpuShares {
 public:
  // `folder` for sockets; `program` is the worker's.
  GpuShares(std::vector<LocalGpu> gpus, std::string folder, std::string program);

  // The GPU with the fewest pods, which has one more now. Nothing: this node has no GPU.
  std::optional<size_t> Take();
  void GiveBack(size_t gpu);

  // "gpu-0": of its process and log.
  static std::string ProcessName(size_t gpu) { return "gpu-" + std::to_string(gpu); }
  // Where a worker finds its process.
  std::string SocketOf(size_t gpu) const { return folder_ + "/" + ProcessName(gpu); }
  // The GPU whose process has this name.
  std::optional<size_t> Find(const std::string& process) const;

  // Whether a worker can be started there now. Starts the process if it does not run: its event
  // kReady or kExited comes later. An error: it cannot be started.
  Result<bool> Prepare(size_t gpu, Processes& processes);
  // Takes an event of the process. True: it has ended before it was ready.
  bool Note(const ProcessEvent& event, size_t gpu);
  // Whether an event of the GPU's process is awaited.
  bool IsStarting(std::optional<size_t> gpu) const {
    return gpu && shares_[*gpu].state == State::kStarts;
  }

 private:
  enum class State { kNone, kStarts, kReady };
  struct Share {
    LocalGpu gpu;
    int pods = 0;
    State state = State::kNone;
  };
  ProcessSpec SpecOf(size_t gpu) const;

  const std::string folder_;
  const std::string program_;
  std::vector<Share> shares_;
};

// Whether the pod's container has a limit of NVIDIA GPUs.
bool HasGpuLimit(const Node& pod);

}  // namespace janus::control
