// Operations over rows: their forms, and which of them runs.

#include "kernels/backends.h"
#include "kernels/cuda/norm_fast.h"
#include "kernels/cuda/rope_fast.h"
#include "kernels/cuda/row_forms.h"
#include "kernels/cuda/rows_fast.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

template <int kHidden>
Status RunPieces(const Stream& stream, const RmsNormArgs& args) {
  return Start("RmsNorm", stream, FastNormPiecesKernel<kHidden>{args},
               PlanFastNormPieces<kHidden>(args));
}

template <bool kIsInterleaved>
Status RunFastRope(const Stream& stream, const RopeArgs& args) {
  return Start("Rope", stream, FastRopeKernel<kIsInterleaved>{args, RopeTileOf(args)},
               PlanFastRope(args));
}

}  // namespace

Status RunEmbed(const Stream& stream, const EmbedArgs& args, RowForm form) {
  if (form == RowForm::kPlain) return Start("Embed", stream, EmbedKernel{args}, PlanEmbed(args));
  return Start("Embed", stream, FastEmbedKernel{args}, PlanFastEmbed(args));
}

Status RunRmsNorm(const Stream& stream, const RmsNormArgs& args, RowForm form) {
  if (form == RowForm::kPlain) {
    return Start("RmsNorm", stream, RmsNormKernel{args}, PlanRmsNorm(args));
  }
  if (args.hidden <= 64) return RunPieces<64>(stream, args);
  if (args.hidden <= 128) return RunPieces<128>(stream, args);
  if (args.hidden <= 256) return RunPieces<256>(stream, args);
  if (args.hidden <= 512) return RunPieces<512>(stream, args);
  if (args.hidden <= kMostWarpNorm) return RunPieces<kMostWarpNorm>(stream, args);
  return Start("RmsNorm", stream, FastNormKernel{args}, PlanFastNorm(args));
}

Status RunRope(const Stream& stream, const RopeArgs& args, RowForm form) {
  if (form == RowForm::kPlain || !HasFastRope(args)) {
    return Start("Rope", stream, RopeKernel{args}, PlanRope(args));
  }
  return args.pairing == RopePairing::kInterleaved ? RunFastRope<true>(stream, args)
                                                   : RunFastRope<false>(stream, args);
}

Status RunCombineSlots(const Stream& stream, const CombineSlotsArgs& args, RowForm form) {
  if (form == RowForm::kPlain) {
    return Start("CombineSlots", stream, CombineSlotsKernel{args}, PlanCombineSlots(args));
  }
  return Start("CombineSlots", stream, FastCombineKernel{args}, PlanFastCombine(args));
}

}  // namespace cuda

Status EmbedCuda(const Stream& stream, const EmbedArgs& args) {
  return cuda::RunEmbed(stream, args, cuda::RowForm::kFast);
}
Status RmsNormCuda(const Stream& stream, const RmsNormArgs& args) {
  return cuda::RunRmsNorm(stream, args, cuda::RowForm::kFast);
}
Status PointwiseCuda(const Stream& stream, const PointwiseArgs& args) {
  return cuda::Start("Pointwise", stream, cuda::PointwiseKernel{args}, cuda::PlanPointwise(args));
}
Status ScaleByPositionCuda(const Stream& stream, const ScaleByPositionArgs& args) {
  return cuda::Start("ScaleByPosition", stream, cuda::ScaleByPositionKernel{args},
                     cuda::PlanScaleByPosition(args));
}
Status RopeCuda(const Stream& stream, const RopeArgs& args) {
  return cuda::RunRope(stream, args, cuda::RowForm::kFast);
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
  return cuda::RunCombineSlots(stream, args, cuda::RowForm::kFast);
}

}  // namespace janus::kernels
