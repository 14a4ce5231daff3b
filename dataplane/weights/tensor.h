#pragma once

#include "common/dtype.h"

// The weights of a model as instances hold them, and their copies in a device's memory. This folder
// knows neither checkpoints nor layers: dataplane/model fills these structs, dataplane/attention
// and dataplane/experts compute with them.
//
// May include: kernels, common.
namespace janus::dataplane {

// A view of a tensor, row-major as in the checkpoint. It does not own its memory, which must
// outlive it: a mapped checkpoint, memory of the host after a cast, or memory of a device.
struct Tensor {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  // Scales of a matrix [N,K]. Float8E4M3: [ScaleBlocks(N), ScaleBlocks(K)] of float. Mxfp4:
  // [N,K/32] of uint8_t. Null for every other format. Only routed experts have these two formats.
  const void* scales = nullptr;
};

// One gated FFN: a routed expert, shared experts together, or a dense layer's. H hidden, I
// intermediate.
struct FfnTensors {
  Tensor gate;  // [I,H]  (w1, gate_proj)
  Tensor up;    // [I,H]  (w3, up_proj)
  Tensor down;  // [H,I]  (w2, down_proj)
  // Float32, of routed experts with has_expert_bias; else null.
  Tensor gate_bias = {};  // [I]
  Tensor up_bias = {};    // [I]
  Tensor down_bias = {};  // [H]
};

}  // namespace janus::dataplane
