// The CUDA device of a build without CUDA.

#include <string>

#include "kernels/backends.h"

namespace janus::kernels {
namespace {

Status Absent(std::string operation) {
  return Unimplemented(std::move(operation) +
                       ": this build has no CUDA; use device CPU or an image built with CUDA");
}

}  // namespace

Status EmbedCuda(const Stream&, const EmbedArgs&) {
  return Absent("Embed");
}
Status RmsNormCuda(const Stream&, const RmsNormArgs&) {
  return Absent("RmsNorm");
}
Status LinearCuda(const Stream&, const LinearArgs&) {
  return Absent("Linear");
}
Status PointwiseCuda(const Stream&, const PointwiseArgs&) {
  return Absent("Pointwise");
}
Status ScaleByPositionCuda(const Stream&, const ScaleByPositionArgs&) {
  return Absent("ScaleByPosition");
}
Status RopeCuda(const Stream&, const RopeArgs&) {
  return Absent("Rope");
}
Status KvWriteCuda(const Stream&, const KvWriteArgs&) {
  return Absent("KvWrite");
}
Status PagedAttentionCuda(const Stream&, const PagedAttentionArgs&) {
  return Absent("PagedAttention");
}
Status LatentWriteCuda(const Stream&, const LatentWriteArgs&) {
  return Absent("LatentWrite");
}
Status HeadLinearCuda(const Stream&, const HeadLinearArgs&) {
  return Absent("HeadLinear");
}
Status AbsorbedAttentionCuda(const Stream&, const AbsorbedAttentionArgs&) {
  return Absent("AbsorbedAttention");
}
Status ExpandedAttentionCuda(const Stream&, const ExpandedAttentionArgs&) {
  return Absent("ExpandedAttention");
}
Status GateTopKCuda(const Stream&, const GateTopKArgs&) {
  return Absent("GateTopK");
}
Status RouteRoundCuda(const Stream&, const RouteRoundArgs&) {
  return Absent("RouteRound");
}
Status GroupedExpertFfnCuda(const Stream&, const GroupedExpertFfnArgs&) {
  return Absent("GroupedExpertFfn");
}
Status CombineSlotsCuda(const Stream&, const CombineSlotsArgs&) {
  return Absent("CombineSlots");
}
Status AddTermsCuda(const Stream&, const AddTermsArgs&) {
  return Absent("AddTerms");
}
Status CombineSumsCuda(const Stream&, const CombineSumsArgs&) {
  return Absent("CombineSums");
}
Status PermuteRowsCuda(const Stream&, const PermuteRowsArgs&) {
  return Absent("PermuteRows");
}
Status PackFp8Cuda(const Stream&, const PackFp8Args&) {
  return Absent("PackFp8");
}
Status UnpackFp8Cuda(const Stream&, const UnpackFp8Args&) {
  return Absent("UnpackFp8");
}
Status SampleCuda(const Stream&, const SampleArgs&) {
  return Absent("Sample");
}

}  // namespace janus::kernels
