// Operations whose vectorised form is not written yet run the reference.

#include "kernels/backends.h"

namespace janus::kernels {

void EmbedCpu(const Stream&, const EmbedArgs& args) {
  EmbedReference(args);
}
void RmsNormCpu(const Stream&, const RmsNormArgs& args) {
  RmsNormReference(args);
}
void LinearCpu(const Stream&, const LinearArgs& args) {
  LinearReference(args);
}
void RopeCpu(const Stream&, const RopeArgs& args) {
  RopeReference(args);
}
void KvWriteCpu(const Stream&, const KvWriteArgs& args) {
  KvWriteReference(args);
}
void PagedAttentionCpu(const Stream&, const PagedAttentionArgs& args) {
  PagedAttentionReference(args);
}
void GateTopKCpu(const Stream&, const GateTopKArgs& args) {
  GateTopKReference(args);
}
void GroupedExpertFfnCpu(const Stream&, const GroupedExpertFfnArgs& args) {
  GroupedExpertFfnReference(args);
}
void CombineSlotsCpu(const Stream&, const CombineSlotsArgs& args) {
  CombineSlotsReference(args);
}
int64_t SampleCpu(const Stream&, const SampleArgs& args) {
  return SampleReference(args);
}

}  // namespace janus::kernels
