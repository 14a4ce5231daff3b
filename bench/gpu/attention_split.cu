// Decode attention on a GPU with softmax states merged in splits of another length than the one
// that is built, JANUS_KEY_SPLIT: a program for each, whose kernels are all compiled with it.
// Shorter splits deal few rows over more multiprocessors, longer ones write and read fewer states;
// which would be best for a batch is what a free choice would take. Latent attention of 128 heads,
// and keys and values of Qwen3-235B, in bfloat16 and fp8. One JSON line per case in the file that
// --results names, "split N, " before the name that attention_gpu_bench has for the built length.

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
