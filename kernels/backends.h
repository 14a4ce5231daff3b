#pragma once

// The public functions dispatch to these. Arguments are validated, and rows > 0.

#include "kernels/aebs_round.h"
#include "kernels/kernels.h"

namespace janus::kernels {

// The errors of GateTopK, for one row or more.
Status ValidateGateTopK(const GateTopKArgs& args);

void EmbedReference(const EmbedArgs& args);
void RmsNormReference(const RmsNormArgs& args);
void LinearReference(const LinearArgs& args);
void PointwiseReference(const PointwiseArgs& args);
void ScaleByPositionReference(const ScaleByPositionArgs& args);
void RopeReference(const RopeArgs& args);
void KvWriteReference(const KvWriteArgs& args);
void PagedAttentionReference(const PagedAttentionArgs& args);
void LatentWriteReference(const LatentWriteArgs& args);
void HeadLinearReference(const HeadLinearArgs& args);
void AbsorbedAttentionReference(const AbsorbedAttentionArgs& args);
void ExpandedAttentionReference(const ExpandedAttentionArgs& args);
void GateTopKReference(const GateTopKArgs& args);
void GroupedExpertFfnReference(const GroupedExpertFfnArgs& args);
void CombineSlotsReference(const CombineSlotsArgs& args);
void AddTermsReference(const AddTermsArgs& args);
void CombineSumsReference(const CombineSumsArgs& args);
void PermuteRowsReference(const PermuteRowsArgs& args);
void PackFp8Reference(const PackFp8Args& args);
void UnpackFp8Reference(const UnpackFp8Args& args);
// Returns the first row that could not be drawn, or -1.
int64_t SampleReference(const SampleArgs& args);

void EmbedCpu(const Stream& stream, const EmbedArgs& args);
void RmsNormCpu(const Stream& stream, const RmsNormArgs& args);
void LinearCpu(const Stream& stream, const LinearArgs& args);
void PointwiseCpu(const Stream& stream, const PointwiseArgs& args);
void ScaleByPositionCpu(const Stream& stream, const ScaleByPositionArgs& args);
void RopeCpu(const Stream& stream, const RopeArgs& args);
void KvWriteCpu(const Stream& stream, const KvWriteArgs& args);
void PagedAttentionCpu(const Stream& stream, const PagedAttentionArgs& args);
void LatentWriteCpu(const Stream& stream, const LatentWriteArgs& args);
void HeadLinearCpu(const Stream& stream, const HeadLinearArgs& args);
void AbsorbedAttentionCpu(const Stream& stream, const AbsorbedAttentionArgs& args);
void ExpandedAttentionCpu(const Stream& stream, const ExpandedAttentionArgs& args);
void GateTopKCpu(const Stream& stream, const GateTopKArgs& args);
void GroupedExpertFfnCpu(const Stream& stream, const GroupedExpertFfnArgs& args);
void CombineSlotsCpu(const Stream& stream, const CombineSlotsArgs& args);
void AddTermsCpu(const Stream& stream, const AddTermsArgs& args);
void CombineSumsCpu(const Stream& stream, const CombineSumsArgs& args);
void PermuteRowsCpu(const Stream& stream, const PermuteRowsArgs& args);
void PackFp8Cpu(const Stream& stream, const PackFp8Args& args);
void UnpackFp8Cpu(const Stream& stream, const UnpackFp8Args& args);
int64_t SampleCpu(const Stream& stream, const SampleArgs& args);

// A build without CUDA takes them from absent_cuda.cc: Unimplemented, with the operation's name.
Status EmbedCuda(const Stream& stream, const EmbedArgs& args);
Status RmsNormCuda(const Stream& stream, const RmsNormArgs& args);
Status LinearCuda(const Stream& stream, const LinearArgs& args);
Status PointwiseCuda(const Stream& stream, const PointwiseArgs& args);
Status ScaleByPositionCuda(const Stream& stream, const ScaleByPositionArgs& args);
Status RopeCuda(const Stream& stream, const RopeArgs& args);
Status KvWriteCuda(const Stream& stream, const KvWriteArgs& args);
Status PagedAttentionCuda(const Stream& stream, const PagedAttentionArgs& args);
Status LatentWriteCuda(const Stream& stream, const LatentWriteArgs& args);
Status HeadLinearCuda(const Stream& stream, const HeadLinearArgs& args);
Status AbsorbedAttentionCuda(const Stream& stream, const AbsorbedAttentionArgs& args);
Status ExpandedAttentionCuda(const Stream& stream, const ExpandedAttentionArgs& args);
Status GateTopKCuda(const Stream& stream, const GateTopKArgs& args);
Status RouteRoundCuda(const Stream& stream, const RouteRoundArgs& args);
Status GroupedExpertFfnCuda(const Stream& stream, const GroupedExpertFfnArgs& args);
Status CombineSlotsCuda(const Stream& stream, const CombineSlotsArgs& args);
Status AddTermsCuda(const Stream& stream, const AddTermsArgs& args);
Status CombineSumsCuda(const Stream& stream, const CombineSumsArgs& args);
Status PermuteRowsCuda(const Stream& stream, const PermuteRowsArgs& args);
Status PackFp8Cuda(const Stream& stream, const PackFp8Args& args);
Status UnpackFp8Cuda(const Stream& stream, const UnpackFp8Args& args);
Status SampleCuda(const Stream& stream, const SampleArgs& args);

}  // namespace janus::kernels
