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

// Called now and then while weights are read; from the loading thread.
using LoadProgress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

// A tensor and the memory that it, where it had to be cast or was moved, or its scales lie in; all
// else is the checkpoint's.
struct HeldTensor {
  Tensor tensor;
  uint64_t bytes = 0;  // as computed with
  std::shared_ptr<const std::byte[]> memory;
};

// Makes a tensor without scales one of other memory, as of a device, and has it hold that memory.
// What it lay in may go when this returns. From the loading thread.
using TensorMover = std::function<Status(HeldTensor&)>;

// Weights and the memory they lie in. Movable; the tensors stay where they are.
template <class Weights>
struct Loaded {
  Weights weights;
  std::shared_ptr<Checkpoint> checkpoint;     // null where every tensor was moved
  std::map<std::string, HeldTensor> tensors;  // by name
  uint64_t bytes = 0;                         // of the tensors
};

// Load only what a role needs: routed experts in ExpertType(model), gates' biases in
// Float32, all else in model.dtype (cast where the checkpoint differs). Every value is read once,
// which also brings it into memory. InvalidArgument names file and tensor: missing, of another
// shape or number format, or holding a NaN or infinity; of mxfp4 a scale above kMaxMxScale and
// where it lies, and what else than routed experts is in it. Cancelled: `stop` was requested.
// With `move` (whose errors are passed on) each tensor is moved as soon as it has been read, before
// the next one is, so that of all that is cast one tensor at a time lies in the host's memory.
Result<Loaded<AttentionWeights>> LoadAttention(const std::string& folder,
                                               const ModelDescription& model,
                                               const LoadProgress& progress, std::stop_token stop,
                                               const TensorMover& move = nullptr);
// The gates of all layers and the experts in the slots of instance `rank`. What is in `known`, of
// the same folder and model, is shared and not read again; null: nothing is. `known` may go at any
// time afterwards.
Result<Loaded<ExpertWeights>> LoadExperts(const std::string& folder, const ModelDescription& model,
                                          const Placement& placement, Rank rank,
                                          const LoadProgress& progress, std::stop_token stop,
                                          const Loaded<ExpertWeights>* known = nullptr);

}  // namespace janus::dataplane
