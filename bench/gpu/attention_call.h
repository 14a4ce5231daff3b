#pragma once

// Timed calls of decode attention on a GPU: one row per sequence. Pages lie in random order in an
// arena of 4 GiB. No call reads keys that a call of the last 512 MiB has read. The output is
// checked before the call is timed.

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/cache_words.h"
#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/absorbed_attention.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/paged_attention.h"
#include "kernels/cuda/start.h"

namespace janus::kernels::cuda {

struct Shape {
  const char* name;
  int heads;
  int kv_heads;
  int head_dim;
};
inline constexpr Shape kShapes[] = {{"Qwen3-235B", 64, 4, 128}, {"Mixtral", 32, 8, 128}};

// Bytes and microseconds.
using Point = std::pair<double, double>;

// The last `each` rows of `batch` sequences, for every call. The tables of a call follow those of
// the call before and wrap round the arena; no table crosses its end.
class Rows {
 public:
  Rows(GpuBench& bench, int64_t page_bytes, int batch, int context, int rows_each = 1)
      : rows_of_call_(batch * rows_each) {
    const int64_t pages = kArenaBytes / page_bytes;
    const int64_t each = (context + kPageTokens - 1) / kPageTokens;
    calls_ = CallsOfATurn(batch * each * page_bytes);
    const int64_t begin = bench.rotation().NextUnit(page_bytes, calls_ * batch * each);
    std::vector<int32_t> table(static_cast<size_t>(pages + each));
    for (int64_t i = 0; i < pages; ++i) table[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    std::mt19937_64 random(1);
    std::shuffle(table.begin(), table.begin() + pages, random);
    for (int64_t i = pages; i < pages + each; ++i) {
      table[static_cast<size_t>(i)] = table[static_cast<size_t>(i % pages)];
    }
    tables_ = CopyIn(table);
    std::vector<KvRow> rows;
    for (int64_t i = 0; i < calls_ * batch; ++i) {
      for (int position = context - rows_each; position < context; ++position) {
        rows.push_back({tables_ + (begin + i * each) % pages, position});
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
  const KvRow* OfCall(int i) const { return rows_ + i % calls_ * rows_of_call_; }

 private:
  const int64_t rows_of_call_;
  int64_t calls_;
  int32_t* tables_;
  KvRow* rows_;
};

inline const char* NameOf(DType cache) {
  return cache == DType::kFloat8E4M3 ? "fp8" : "bf16";
}

static __global__ void FillCache(uint32_t* to, int64_t words, bench::CacheLayout layout) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < words) to[i] = bench::CacheWord(i, layout);
}
// From here on the arena holds pages of this cache (cache_words.h).
template <class Cache>
void FillArena(GpuBench& bench, const Cache& cache) {
  constexpr int64_t kWords = kArenaBytes / 4;
  FillCache<<<static_cast<unsigned>(kWords / 256), 256, 0, bench.stream()>>>(
      static_cast<uint32_t*>(cache.pages), kWords, bench::LayoutOf(cache));
  Check(cudaGetLastError(), "fill");
}

// Uniform in [-2, 2), close to the deviation of a norm's output.
static __global__ void FillQueries(float* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {2, 0});
  to[i] = (static_cast<float>(words[0] >> 8) * 0x1p-23f - 1.0f) * 2.0f;
}

inline float* RandomQueries(GpuBench& bench, int64_t count) {
  auto* const queries = Allocate<float>(count);
  FillQueries<<<static_cast<unsigned>((count + 255) / 256), 256, 0, bench.stream()>>>(queries,
                                                                                      count);
  Check(cudaGetLastError(), "queries");
  return queries;
}

// Reads the arena as keys and values.
inline KvCache KvArena(const GpuBench& bench, const Shape& shape, DType type) {
  return {.pages = const_cast<uint16_t*>(bench.arena()),
          .num_pages = kArenaBytes / KvPageBytes(type, shape.kv_heads, shape.head_dim),
          .dtype = type,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim};
}

// Times attention over the arena, which must hold pages of this cache. The name of the line begins
// with `prefix`.
inline Point Attend(GpuBench& bench, const std::string& prefix, const Shape& shape, DType cache,
                    AttentionForm form, int batch, int context) {
  const std::string name = prefix + shape.name + " attention " + NameOf(cache) + ' ' +
                           (form == AttentionForm::kFast ? "fast" : "plain") + ", batch " +
                           std::to_string(batch) + " context " + std::to_string(context);
  const Rows rows(bench, KvPageBytes(cache, shape.kv_heads, shape.head_dim), batch, context);
  const int64_t width = int64_t{batch} * shape.heads * shape.head_dim;
  auto* const queries = RandomQueries(bench, width);
  auto* const y = Allocate<uint16_t>(width);
  const int64_t workspace_bytes =
      PagedAttentionStateBytes(shape.heads, shape.head_dim, batch, int64_t{batch} * context);
  auto* const workspace = Allocate<char>(workspace_bytes);
  PagedAttentionArgs args{.cache = KvArena(bench, shape, cache),
                          .queries = queries,
                          .y = y,
                          .y_dtype = DType::kBFloat16,
                          .num_rows = batch,
                          .heads = shape.heads,
                          .scale = 0.088f,
                          .workspace = workspace,
                          .workspace_bytes = workspace_bytes};
  const int64_t bytes = PagedAttentionBytes(args, int64_t{batch} * context);
  const double time = bench.TimeOf(
      {.name = name, .bytes = bytes, .output = {.y = y, .count = width, .dtype = DType::kBFloat16}},
      [&](int i) {
        args.rows = rows.OfCall(i);
        Check(RunPagedAttention({.device = Device::kCuda, .native = bench.stream()}, args, form));
      });
  for (void* memory :
       {static_cast<void*>(queries), static_cast<void*>(y), static_cast<void*>(workspace)}) {
    cudaFree(memory);
  }
  return {static_cast<double>(bytes), time};
}

// Reads the arena as latent vectors of 512 and rope keys of 64.
inline LatentCache LatentArena(const GpuBench& bench, DType type) {
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

// Times DeepSeek's heads over LatentArena.
inline Point AttendLatent(GpuBench& bench, const std::string& prefix, int heads, DType type,
                          AbsorbedForm form, int batch, int context) {
  const LatentCache cache = LatentArena(bench, type);
  const Rows rows(bench, LatentPageBytes(type, cache.rank, cache.rope), batch, context);
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
  const std::string name = prefix + "DeepSeek, " + std::to_string(heads) +
                           " heads, latent attention " + NameOf(type) + ' ' + FormName(form) +
                           ", batch " + std::to_string(batch) + " context " +
                           std::to_string(context);
  const auto call = [&](int i) {
    args.rows = rows.OfCall(i);
    Check(RunAbsorbedAttention({.device = Device::kCuda, .native = bench.stream()}, args, form));
  };
  const double time = bench.TimeOf({.name = name,
                                    .bytes = bytes,
                                    .flops = AbsorbedAttentionFlops(args, keys),
                                    .output = {.y = y, .count = count * kAbsorbedRank}},
                                   call);
  for (void* memory :
       {static_cast<void*>(queries), static_cast<void*>(y), static_cast<void*>(workspace)}) {
    cudaFree(memory);
  }
  return {static_cast<double>(bytes), time};
}

}  // namespace janus::kernels::cuda
