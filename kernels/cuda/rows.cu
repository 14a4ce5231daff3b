#include "kernels/cuda/rows.h"

#include "kernels/backends.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status EmbedCuda(const Stream& stream, const EmbedArgs& args) {
  return cuda::Start("Embed", stream, cuda::EmbedKernel{args}, cuda::PlanEmbed(args));
}
Status RmsNormCuda(const Stream& stream, const RmsNormArgs& args) {
  return cuda::Start("RmsNorm", stream, cuda::RmsNormKernel{args}, cuda::PlanRmsNorm(args));
}
Status RopeCuda(const Stream& stream, const RopeArgs& args) {
  return cuda::Start("Rope", stream, cuda::RopeKernel{args}, cuda::PlanRope(args));
}
Status KvWriteCuda(const Stream& stream, const KvWriteArgs& args) {
  if (args.cache.dtype == DType::kFloat8E4M3) {
    return cuda::Start("KvWrite", stream, cuda::KvWritePiecesKernel{args},
                       cuda::PlanKvWritePieces(args));
  }
  return cuda::Start("KvWrite", stream, cuda::KvWriteKernel{args}, cuda::PlanKvWrite(args));
}
Status LatentWriteCuda(const Stream& stream, const LatentWriteArgs& args) {
  if (args.cache.dtype == DType::kFloat8E4M3) {
    return cuda::Start("LatentWrite", stream, cuda::LatentWritePiecesKernel{args},
                       cuda::PlanLatentWritePieces(args));
  }
  return cuda::Start("LatentWrite", stream, cuda::LatentWriteKernel{args},
                     cuda::PlanLatentWrite(args));
}
Status CombineSlotsCuda(const Stream& stream, const CombineSlotsArgs& args) {
  return cuda::Start("CombineSlots", stream, cuda::CombineSlotsKernel{args},
                     cuda::PlanCombineSlots(args));
}

}  // namespace janus::kernels
