// Decode attention on a GPU, with softmax states merged in splits of another length than the built
// one: JANUS_KEY_SPLIT. There is one program per length; all its kernels are compiled with that
// length. Shorter splits spread few rows over more multiprocessors; longer ones write and read
// fewer states. A library with a free choice would take the best length for each batch. Cases:
// latent attention of 128 heads, and keys and values of Qwen3-235B, in bfloat16 and fp8. It adds
// one JSON line per case to the file that --results names; the name is "split N, " and
// attention_gpu_bench's name for the built length.

#include "bench/gpu/attention_call.h"

namespace janus::kernels::cuda {
namespace {

void RunAll(GpuBench& bench, Results& /*results*/) {
  const std::string prefix = "split " + std::to_string(kKeySplit) + ", ";
  const AbsorbedForm form = DeviceHasWgmma() ? AbsorbedForm::kWgmma : AbsorbedForm::kFast;
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    FillArena(bench, LatentArena(bench, cache));
    for (const int context : {4096, 16384, 65536}) {
      for (const int batch : {64, 128}) {
        AttendLatent(bench, prefix, 128, cache, form, batch, context);
      }
    }
  }
  const Shape& shape = kShapes[0];
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    FillArena(bench, KvArena(bench, shape, cache));
    for (const int context : {4096, 16384, 65536}) {
      for (const int batch : {64, 1, 16}) {
        Attend(bench, prefix, shape, cache, AttentionForm::kFast, batch, context);
      }
    }
  }
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunAll);
}
