// Attention on a GPU, over keys and values and over latent vectors. It times decode over batch and
// context, in bfloat16 and fp8, and prompts of latent attention over rows, at shapes of real
// models. Beside them it measures the memory's read rate and the time of an empty kernel. It adds
// one JSON line per case to the file that --results names, flushed when the case ends. A case that
// is in the file is not run again. The last lines have, for each shape, the fit t = a + bytes / B.
//
// Queries, keys and values are random (bench/gpu/attention_call.h), in the number format that is
// timed. A case is not timed if its output is not finite or is all the same value; its line reports
// that. Times are medians of 30 calls (bench/gpu/stream_times.h). bench/gpu/attention_table.py
// compares them with published times. bench/gpu/attention_split.cu times other lengths of splits.

#include "bench/gpu/attention_call.h"
#include "bench/gpu/fit.h"
#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/expanded_attention.h"
#include "kernels/cuda/expanded_deal.h"

namespace janus::kernels::cuda {
namespace {

// The last `count` rows of a prompt over DeepSeek's heads, with an instance's workspace.
void AttendPrompt(GpuBench& bench, int heads, AttentionForm form, int count, int context) {
  const LatentCache cache = LatentArena(bench, DType::kBFloat16);
  const Rows rows(bench, LatentPageBytes(cache.dtype, cache.rank, cache.rope), 1, context, count);
  const int64_t width = int64_t{count} * heads;
  auto* const queries = RandomQueries(bench, width * (kSharedExpansion + kAbsorbedRope));
  auto* const y = Allocate<uint16_t>(width * kSharedExpansion);
  // Random numbers. Their sums over the rank have a deviation near 1.
  const int64_t expansion = heads * int64_t{2} * kSharedExpansion * kAbsorbedRank;
  auto* const expand = Allocate<uint16_t>(expansion);
  Fill<<<static_cast<unsigned>(expansion / 8 / 256), 256, 0, bench.stream()>>>(expand, expansion,
                                                                               0.0765f, 3);
  constexpr int kAreas = 128;  // of the plain form
  const int64_t workspace_bytes = std::max(
      SharedExpansionBytes(heads, count),
      ExpandedAttentionWorkspaceBytes(kSharedExpansion + kAbsorbedRope, kSharedExpansion, kAreas));
  auto* const workspace = Allocate<char>(workspace_bytes);
  ExpandedAttentionArgs args{.cache = cache,
                             .queries = queries,
                             .expand = expand,
                             .expand_dtype = DType::kBFloat16,
                             .y = y,
                             .y_dtype = DType::kBFloat16,
                             .num_rows = count,
                             .heads = heads,
                             .nope_dim = kSharedExpansion,
                             .value_dim = kSharedExpansion,
                             .scale = 0.072f,
                             .key_blocks = (context + kKeyBlock - 1) / kKeyBlock,
                             .workspace = workspace,
                             .workspace_bytes = workspace_bytes};
  const int64_t seen = int64_t{count} * (2 * int64_t{context} - count + 1) / 2;
  const std::string name = "DeepSeek, " + std::to_string(heads) +
                           " heads, expanded attention bf16 " +
                           (form == AttentionForm::kFast ? "fast" : "plain") + ", rows " +
                           std::to_string(count) + " context " + std::to_string(context);
  const auto call = [&](int i) {
    args.rows = rows.OfCall(i);
    Check(RunExpandedAttention({.device = Device::kCuda, .native = bench.stream()}, args, form));
  };
  bench.TimeOf({.name = name,
                .bytes = ExpandedAttentionBytes(args, context),
                .flops = ExpandedAttentionFlops(args, seen, context),
                .output = {.y = y, .count = width * kSharedExpansion, .dtype = DType::kBFloat16}},
               call);
  for (void* memory : {static_cast<void*>(queries), static_cast<void*>(y),
                       static_cast<void*>(workspace), static_cast<void*>(expand)}) {
    cudaFree(memory);
  }
}

// t = a + bytes / B.
std::string FitOf(const std::vector<Point>& points, double read_bandwidth) {
  const bench::Line line = bench::FitLine(points);
  return "\"a_us\": " + std::to_string(line.a) +
         ", \"bytes_per_us\": " + std::to_string(1.0 / line.b) +
         ", \"share_of_read\": " + std::to_string(1.0 / line.b / read_bandwidth);
}

// Runs `attend(batch, context)` for each batch and context, then fits the line.
template <class Attend>
void Cover(const GpuBench& bench, Results& results, const std::string& name, Attend attend) {
  std::vector<Point> points;
  for (const int context : {4096, 512, 65536, 16384, 1500}) {  // the most informative first
    for (const int batch : {64, 1, 256, 16, 4}) points.push_back(attend(batch, context));
  }
  if (results.Find(name, "bytes_per_us") >= 0.0) return;
  results.Write(name, FitOf(points, bench.read_bandwidth()));
}

void RunAll(GpuBench& bench, Results& results) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (const Shape& shape : kShapes) {
      FillArena(bench, KvArena(bench, shape, cache));
      Cover(bench, results, std::string(shape.name) + " attention " + NameOf(cache) + " fast, fit",
            [&](int batch, int context) {
              return Attend(bench, "", shape, cache, AttentionForm::kFast, batch, context);
            });
      // Not a point of the line: it is a figure that others have published.
      Attend(bench, "", shape, cache, AttentionForm::kFast, 1, 1024);
    }
    FillArena(bench, LatentArena(bench, cache));
    // 128 heads in both forms, if the GPU has both.
    for (const auto& [heads, form] : {std::pair{128, AbsorbedForm::kWgmma},
                                      {128, AbsorbedForm::kFast},
                                      {16, AbsorbedForm::kFast}}) {
      if (form == AbsorbedForm::kWgmma && !DeviceHasWgmma()) continue;
      Cover(bench, results,
            "DeepSeek, " + std::to_string(heads) + " heads, latent attention " + NameOf(cache) +
                ' ' + FormName(form) + ", fit",
            [&, heads = heads, form = form](int batch, int context) {
              return AttendLatent(bench, "", heads, cache, form, batch, context);
            });
    }
    // To compare with other lengths of splits (bench/gpu/attention_split.cu).
    const AbsorbedForm form = DeviceHasWgmma() ? AbsorbedForm::kWgmma : AbsorbedForm::kFast;
    for (const int context : {4096, 16384, 65536}) {
      AttendLatent(bench, "", 128, cache, form, 128, context);
    }
  }
  FillArena(bench, LatentArena(bench, DType::kBFloat16));
  for (const int heads : {128, 16}) {
    for (const int context : {4096, 32768, 8192}) {
      for (const int rows : {512, 4096, 64}) {
        AttendPrompt(bench, heads, AttentionForm::kFast, rows, context);
      }
    }
  }
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (const Shape& shape : kShapes) {
      FillArena(bench, KvArena(bench, shape, cache));
      Attend(bench, "", shape, cache, AttentionForm::kPlain, 16, 1500);
    }
    FillArena(bench, LatentArena(bench, cache));
    for (const int heads : {128, 16}) {
      AttendLatent(bench, "", heads, cache, AbsorbedForm::kPlain, 16, 1500);
    }
  }
  FillArena(bench, LatentArena(bench, DType::kBFloat16));
  AttendPrompt(bench, 16, AttentionForm::kPlain, 64, 512);
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunAll);
}
