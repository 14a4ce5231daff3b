// Rows on their way between instances: permuted, in fp8, and as sums of integers.

#include "kernels/backends.h"
#include "kernels/cuda/exact_sums.h"
#include "kernels/cuda/pack_fp8.h"
#include "kernels/cuda/permute_rows.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {

Status PermuteRowsCuda(const Stream& stream, const PermuteRowsArgs& args) {
  return cuda::Start("PermuteRows", stream, cuda::PermuteRowsKernel{args},
                     cuda::PlanPermuteRows(args));
}
Status PackFp8Cuda(const Stream& stream, const PackFp8Args& args) {
  return cuda::Start("PackFp8", stream, cuda::PackRowsKernel{args}, cuda::PlanPackFp8(args));
}
Status UnpackFp8Cuda(const Stream& stream, const UnpackFp8Args& args) {
  return cuda::Start("UnpackFp8", stream, cuda::UnpackRowsKernel{args}, cuda::PlanUnpackFp8(args));
}
Status AddTermsCuda(const Stream& stream, const AddTermsArgs& args) {
  return cuda::Start("AddTerms", stream, cuda::AddTermsKernel{args}, cuda::PlanAddTerms(args));
}
Status CombineSumsCuda(const Stream& stream, const CombineSumsArgs& args) {
  return cuda::Start("CombineSums", stream, cuda::CombineSumsKernel{args},
                     cuda::PlanCombineSums(args));
}

}  // namespace janus::kernels
