#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/team.h"

namespace janus::kernels {

enum class Device : unsigned char {
  kReference = 0,  // scalar, in double: the specification; ignores team and isa
  kCpu = 1,        // vectorised, on the team's threads
  kCuda = 2,
};

// Raise it when an operation's bits change for the same arguments on the same ISA. Workers with
// different versions refuse each other.
inline constexpr int kBitsVersion = 1;
// The same for the CUDA kernels, for the same arguments on the same architecture. Each version
// changed the bits of:
// 2: experts in bfloat16, now by tensor cores (cuda/expert_ffn.h).
// 3: attention over keys and values in bfloat16, too (cuda/paged_attention.h).
// 4: the gate, projections, attention in the latent space and over expanded keys, all in bfloat16
//    (cuda/gate.h, cuda/linear.h, cuda/absorbed_attention.h, cuda/expanded_attention.h), experts in
//    fp8 and mxfp4, attention over caches of fp8, norms, RoPE.
// 5: experts in bfloat16 by wgmma, where a GPU has it; sm_90a counts as a separate architecture.
// 6: on sm_90a also experts in fp8 and mxfp4, and attention in the latent space of 64 heads and
//    more (cuda/absorbed_attention.h).
// 7: the weights of that attention, from differences of scores.
inline constexpr int kCudaBitsVersion = 7;

// Where operations run. On kReference and kCpu an operation has run when its function returns.
// Cheap to copy; `team` is borrowed and must outlive every copy. Two streams may run at the same
// time if their teams differ.
struct Stream {
  Device device = Device::kReference;
  Team* team = nullptr;    // kCpu: not null
  Isa isa = Isa::kAvx2;    // kCpu: from SelectIsa
  void* native = nullptr;  // kCuda: cudaStream_t
};

}  // namespace janus::kernels
