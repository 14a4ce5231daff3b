#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/model/description.h"
#include "common/topology.h"
#include "dataplane/model/safetensors.h"
#include "dataplane/weights/attention_weights.h"
#include "dataplane/weights/expert_weights.h"

// Reads checkpoints of every family into dataplane/weights.
//
// May include: dataplane/weights, common.
namespace janus::dataplane {

// Called from time to time while weights are read, on the loading thread.
using LoadProgress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

// A tensor, and its memory if the tensor was cast or moved, or that of its scales. All other data
// stays in the checkpoint.
struct HeldTensor {
  Tensor tensor;
  uint64_t bytes = 0;  // as computed with
  std::shared_ptr<const std::byte[]> memory;
};

// Moves a tensor without scales to other memory, such as a device's, and lets it hold that memory.
// The old memory may be freed afterwards. Called on the loading thread.
using TensorMover = std::function<Status(HeldTensor&)>;

// Weights and the memory they lie in. Movable; the tensors stay where they are.
template <class Weights>
struct Loaded {
  Weights weights;
  std::shared_ptr<Checkpoint> checkpoint;     // null if every tensor was moved
  std::map<std::string, HeldTensor> tensors;  // by name
  uint64_t bytes = 0;                         // sum over the tensors
};

// Load only what a role needs: routed experts in ExpertType(model), gates' biases in Float32,
// everything else in model.dtype (cast if the checkpoint differs). Every value is read once, which
// also brings it into memory. InvalidArgument names file and tensor: missing, of another shape or
// number format, or with a NaN or infinity. For mxfp4 it also names a scale above kMaxMxScale with
// its place, and any tensor in mxfp4 that is no routed expert's. Cancelled: `stop` was requested.
// With `move` each tensor is moved as soon as it has been read, before the next one. So only one
// cast tensor at a time lies in host memory. Errors of `move` are returned. `with_gates`: the gates
// of the MoE layers too, for epochs that compute them on attention.
Result<Loaded<AttentionWeights>> LoadAttention(const std::string& folder,
                                               const ModelDescription& model,
                                               const LoadProgress& progress, std::stop_token stop,
                                               const TensorMover& move = nullptr,
                                               bool with_gates = false);
// The gates of all layers and the experts in the slots of instance `rank`. Tensors in `known`, from
// the same folder and model, are shared and not read again; null: nothing is shared. `known` may be
// destroyed afterwards.
Result<Loaded<ExpertWeights>> LoadExperts(const std::string& folder, const ModelDescription& model,
                                          const Placement& placement, Rank rank,
                                          const LoadProgress& progress, std::stop_token stop,
                                          const Loaded<ExpertWeights>* known = nullptr);

}  // namespace janus::dataplane
