// Rows on their way between instances: permuted, and in fp8.

#include "kernels/backends.h"
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

}  // namespace janus::kernels
