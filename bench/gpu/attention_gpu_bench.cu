// Attention on a GPU, over keys and values and over latent vectors: time of decode over batch and
// context, in bfloat16 and fp8, and of prompts of latent attention over rows, at shapes of real
// models, beside what the same machine reads from its memory and what an empty kernel takes. One
// JSON line per case in the file that --results names, flushed when the case ends; a case that
// stands there is not run again. Last a line per shape with the fit t = a + bytes / B.
//
// Queries, keys and values are random, scales of fp8 too, the latter on pages in random order of an
// arena of 4 GiB; a call's lie where the call before had none. Times are medians of 30 calls
// (bench/gpu/stream_times.h). bench/gpu/attention_table.py sets times beside them that others have
// published.

#include <random>

#include "bench/gpu/fit.h"
#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/absorbed_attention.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/expanded_attention.h"
#include "kernels/cuda/expanded_deal.h"
#include "kernels/cuda/paged_attention.h"
#include "kernels/cuda/start.h"

namespace janus::kernels::cuda {
namespace {

struct Shape {
  const char* name;
  int heads;
  int kv_heads;
  int head_dim;
};
constexpr Shape kShapes[] = {{"Qwen3-235B", 64, 4, 128}, {"Mixtral", 32, 8, 128}};

// Bytes and microseconds.
using Point = std::pair<double, double>;

// The last `each` rows of `batch` sequences for every call: tables follow those of the call before,
// round the arena; none passes its end.
class Rows {
 public:
  Rows(int64_t pages, int batch, int context, int rows_each = 1)
      : rows_of_call_(batch * rows_each) {
    const int64_t each = (context + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> table(static_cast<size_t>(pages + each));
    for (int64_t i = 0; i < pages; ++i) table[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    std::mt19937_64 random(1);
    std::shuffle(table.begin(), table.begin() + pages, random);
    for (int64_t i = pages; i < pages + each; ++i) {
      table[static_cast<size_t>(i)] = table[static_cast<size_t>(i % pages)];
    }
    tables_ = CopyIn(table);
    std::vector<KvRow> rows;
    for (int64_t i = 0; i < int64_t{kCalls + 3} * batch; ++i) {
      for (int position = context - rows_each; position < context; ++position) {
        rows.push_back({tables_ + i * each % pages, position});
      }
    }
    rows_ = CopyIn(rows);
  }
  ~Rows() {
    cudaFree(tables_);
    cudaFree(rows_);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  const KvRow* OfCall(int i) const { return rows_ + int64_t{i} * rows_of_call_; }

 private:
  int rows_of_call_;
  int32_t* tables_;
  KvRow* rows_;
};

const char* NameOf(DType cache) {
  return cache == DType::kFloat8E4M3 ? "fp8" : "bf16";
}

// Uniform in [-2, 2), near the deviation of what a norm leaves.
__global__ void FillQueries(float* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {2, 0});
  to[i] = (static_cast<float>(words[0] >> 8) * 0x1p-23f - 1.0f) * 2.0f;
}

float* RandomQueries(GpuBench& bench, int64_t count) {
  auto* const queries = Allocate<float>(count);
  FillQueries<<<static_cast<unsigned>((count + 255) / 256), 256, 0, bench.stream()>>>(queries,
                                                                                      count);
  Check(cudaGetLastError(), "queries");
  return queries;
}

Point Attend(GpuBench& bench, const Shape& shape, DType cache, AttentionForm form, int batch,
             int context) {
  const std::string name = std::string(shape.name) + " attention " + NameOf(cache) + ' ' +
                           (form == AttentionForm::kFast ? "fast" : "plain") + ", batch " +
                           std::to_string(batch) + " context " + std::to_string(context);
  const int64_t page_bytes = KvPageBytes(cache, shape.kv_heads, shape.head_dim);
  const int64_t pages = kArenaBytes / page_bytes;
  const Rows rows(pages, batch, context);
  const int64_t width = int64_t{batch} * shape.heads * shape.head_dim;
  auto* const queries = RandomQueries(bench, width);
  auto* const y = Allocate<uint16_t>(width);
  const int64_t workspace_bytes =
      PagedAttentionStateBytes(shape.heads, shape.head_dim, batch, int64_t{batch} * context);
  auto* const workspace = Allocate<char>(workspace_bytes);
  PagedAttentionArgs args{.cache = {.pages = const_cast<uint16_t*>(bench.arena()),
                                    .num_pages = pages,
                                    .dtype = cache,
                                    .kv_heads = shape.kv_heads,
                                    .head_dim = shape.head_dim},
                          .queries = queries,
                          .y = y,
                          .y_dtype = DType::kBFloat16,
                          .num_rows = batch,
                          .heads = shape.heads,
                          .scale = 0.088f,
                          .workspace = workspace,
                          .workspace_bytes = workspace_bytes};
  const int64_t bytes = PagedAttentionBytes(args, int64_t{batch} * context);
  const double time = bench.TimeOf(name, bytes, [&](int i) {
    args.rows = rows.OfCall(i);
    Check(RunPagedAttention({.device = Device::kCuda, .native = bench.stream()}, args, form));
  });
  for (void* memory :
       {static_cast<void*>(queries), static_cast<void*>(y), static_cast<void*>(workspace)}) {
    cudaFree(memory);
  }
  return {static_cast<double>(bytes), time};
}

// The arena as latent vectors of 512 and rope keys of 64.
LatentCache LatentArena(const GpuBench& bench, DType type) {
  return {.pages = const_cast<uint16_t*>(bench.arena()),
          .num_pages = kArenaBytes / LatentPageBytes(type, kAbsorbedRank, kAbsorbedRope),
          .dtype = type,
          .rank = kAbsorbedRank,
          .rope = kAbsorbedRope};
}

constexpr const char* FormName(AbsorbedForm form) {
  switch (form) {
    case AbsorbedForm::kWgmma:
      return "wgmma";
    case AbsorbedForm::kFast:
      return "fast";
    case AbsorbedForm::kPlain:
      return "plain";
  }
  return "";
}

// DeepSeek's heads over them.
Point AttendLatent(GpuBench& bench, int heads, DType type, AbsorbedForm form, int batch,
                   int context) {
  const LatentCache cache = LatentArena(bench, type);
  const Rows rows(cache.num_pages, batch, context);
  const int64_t count = int64_t{batch} * heads;
  auto* const queries = RandomQueries(bench, count * (kAbsorbedRank + kAbsorbedRope));
  auto* const y = Allocate<float>(count * kAbsorbedRank);
  const int64_t keys = int64_t{batch} * context;
  const int64_t workspace_bytes = AbsorbedAttentionStateBytes(cache, heads, batch, keys);
  auto* const workspace = Allocate<char>(workspace_bytes);
  AbsorbedAttentionArgs args{.cache = cache,
                             .latent_queries = queries,
                             .rope_queries = queries + count * kAbsorbedRank,
                             .y = y,
                             .num_rows = batch,
                             .heads = heads,
                             .scale = 0.072f,
                             .workspace = workspace,
                             .workspace_bytes = workspace_bytes};
  const int64_t bytes = AbsorbedAttentionBytes(args, keys);
  const std::string name = "DeepSeek, " + std::to_string(heads) + " heads, latent attention " +
                           NameOf(type) + ' ' + FormName(form) + ", batch " +
                           std::to_string(batch) + " context " + std::to_string(context);
  const auto call = [&](int i) {
    args.rows = rows.OfCall(i);
    Check(RunAbsorbedAttention({.device = Device::kCuda, .native = bench.stream()}, args, form));
  };
  const double time = bench.TimeOf(name, bytes, call, AbsorbedAttentionFlops(args, keys));
  for (void* memory :
       {static_cast<void*>(queries), static_cast<void*>(y), static_cast<void*>(workspace)}) {
    cudaFree(memory);
  }
  return {static_cast<double>(bytes), time};
}

// The last `count` rows of a prompt over DeepSeek's heads, with the workspace of an instance.
void AttendPrompt(GpuBench& bench, int heads, AttentionForm form, int count, int context) {
  const LatentCache cache = LatentArena(bench, DType::kBFloat16);
  const Rows rows(cache.num_pages, 1, context, count);
  const int64_t width = int64_t{count} * heads;
  auto* const queries = RandomQueries(bench, width * (kSharedExpansion + kAbsorbedRope));
  auto* const y = Allocate<uint16_t>(width * kSharedExpansion);
  constexpr int kAreas = 128;  // of the plain form
  const int64_t workspace_bytes = std::max(
      SharedExpansionBytes(heads, count),
      ExpandedAttentionWorkspaceBytes(kSharedExpansion + kAbsorbedRope, kSharedExpansion, kAreas));
  auto* const workspace = Allocate<char>(workspace_bytes);
  ExpandedAttentionArgs args{.cache = cache,
                             .queries = queries,
                             .expand = bench.arena(),
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
  bench.TimeOf(name, ExpandedAttentionBytes(args, context), call,
               ExpandedAttentionFlops(args, seen, context));
  for (void* memory :
       {static_cast<void*>(queries), static_cast<void*>(y), static_cast<void*>(workspace)}) {
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

// `attend(batch, context)` at each, and the line through them.
template <class Attend>
void Cover(const GpuBench& bench, Results& results, const std::string& name, Attend attend) {
  std::vector<Point> points;
  for (const int context : {4096, 512, 65536, 16384, 1500}) {  // what says most, first
    for (const int batch : {64, 1, 256, 16, 4}) points.push_back(attend(batch, context));
  }
  if (results.Find(name, "bytes_per_us") >= 0.0) return;
  results.Write(name, FitOf(points, bench.read_bandwidth()));
}

void RunAll(GpuBench& bench, Results& results) {
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (const Shape& shape : kShapes) {
      Cover(bench, results, std::string(shape.name) + " attention " + NameOf(cache) + " fast, fit",
            [&](int batch, int context) {
              return Attend(bench, shape, cache, AttentionForm::kFast, batch, context);
            });
    }
    // Of 128 heads both forms, where a GPU has both.
    for (const auto& [heads, form] : {std::pair{128, AbsorbedForm::kWgmma},
                                      {128, AbsorbedForm::kFast},
                                      {16, AbsorbedForm::kFast}}) {
      if (form == AbsorbedForm::kWgmma && !DeviceHasWgmma()) continue;
      Cover(bench, results,
            "DeepSeek, " + std::to_string(heads) + " heads, latent attention " + NameOf(cache) +
                ' ' + FormName(form) + ", fit",
            [&, heads = heads, form = form](int batch, int context) {
              return AttendLatent(bench, heads, cache, form, batch, context);
            });
    }
  }
  for (const int heads : {128, 16}) {
    for (const int context : {4096, 32768, 8192}) {
      for (const int rows : {512, 4096, 64}) {
        AttendPrompt(bench, heads, AttentionForm::kFast, rows, context);
      }
    }
  }
  for (const DType cache : {DType::kBFloat16, DType::kFloat8E4M3}) {
    for (const Shape& shape : kShapes) {
      Attend(bench, shape, cache, AttentionForm::kPlain, 16, 1500);
    }
    for (const int heads : {128, 16}) {
      AttendLatent(bench, heads, cache, AbsorbedForm::kPlain, 16, 1500);
    }
  }
  AttendPrompt(bench, 16, AttentionForm::kPlain, 64, 512);
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunAll);
}
