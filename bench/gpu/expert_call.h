#pragma once

// Timed calls of the grouped expert FFN on a GPU. Each call reads weights that no call of the last
// 512 MiB has read; rows and slots stay the same.

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/expert_ffn.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/start.h"

namespace janus::kernels::cuda {

struct ExpertShape {
  const char* name;
  int64_t hidden;
  int64_t intermediate;
};
inline constexpr ExpertShape kDeepSeekV3Experts{"DeepSeek-V3", 7168, 2048};
inline constexpr ExpertShape kDeepSeekV2Experts{"DeepSeek-V2", 5120, 1536};

// The form that a model with these weights uses on this GPU, and its name.
inline ExpertForm FormHere(DType weights) {
  return ExpertFormFor({.hidden = 1024,
                        .intermediate = 1024,
                        .weight_dtype = weights,
                        .row_dtype = DType::kBFloat16},
                       DeviceHasWgmma());
}
inline const char* NameOf(ExpertForm form) {
  return form == ExpertForm::kWgmma ? "wgmma" : form == ExpertForm::kFast ? "fast" : "plain";
}

// The time in microseconds (see TimeOf) of a call in which expert i has rows_of[i] rows, at least
// one. The arena must hold weights of this format. `tiles`: how wgmma divides the call. `fields`:
// more fields of the line.
inline double TimeExperts(GpuBench& bench, const std::string& name, const ExpertShape& shape,
                          DType weights, ExpertForm form, const std::vector<int>& rows_of,
                          WgmmaTiles tiles = WgmmaTiles::kByRows, const std::string& fields = {}) {
  const auto experts = static_cast<int>(rows_of.size());
  const int64_t rows = std::accumulate(rows_of.begin(), rows_of.end(), int64_t{0});
  auto* const x = Allocate<uint16_t>(rows * shape.hidden);
  auto* const y = Allocate<uint16_t>(rows * shape.hidden);
  Fill<<<static_cast<unsigned>(rows * shape.hidden / 8 / 256 + 1), 256, 0, bench.stream()>>>(
      x, rows * shape.hidden, 1.0f, 2);
  std::vector<Contribution> contributions;
  for (int64_t c = 0; c < rows; ++c) {
    contributions.push_back({x + c * shape.hidden, y + c * shape.hidden, 0.5f});
  }
  // A call's experts follow those of the call before, and wrap round the arena.
  const int64_t elements = shape.hidden * shape.intermediate;
  const int64_t matrix = BytesOf(weights, elements);
  const int64_t pieces = kArenaBytes / (3 * matrix);
  const bool is_mxfp4 = weights == DType::kMxfp4;
  const int64_t scale_bytes = is_mxfp4
                                  ? elements / kMxBlock
                                  : ScaleBlocks(shape.hidden) * ScaleBlocks(shape.intermediate) * 4;
  auto* const scales = Allocate<char>(pieces * 3 * scale_bytes);
  if (is_mxfp4) {
    // 2^-8. Each scale is one byte, and 4 GiB of weights pass before it is read again, as for the
    // weights.
    Check(cudaMemset(scales, 119, static_cast<size_t>(pieces * 3 * scale_bytes)), "scales");
  } else {
    const std::vector<float> all(static_cast<size_t>(pieces * 3 * scale_bytes / 4), 0.02f / 240.0f);
    Check(cudaMemcpy(scales, all.data(), all.size() * sizeof(float), cudaMemcpyHostToDevice),
          "scales");
  }
  const int64_t calls = CallsOfATurn(experts * (3 * matrix));
  const int64_t begin = bench.rotation().NextUnit(3 * matrix, calls * experts);
  std::vector<ActiveExpert> active;
  for (int64_t call = 0; call < calls; ++call) {
    int32_t first = 0;
    for (int e = 0; e < experts; ++e) {
      const int64_t piece = (begin + call * experts + e) % pieces;
      const auto* const at = reinterpret_cast<const char*>(bench.arena()) + piece * (3 * matrix);
      active.push_back({at, at + matrix, at + 2 * matrix, first, rows_of[e]});
      first += rows_of[e];
      if (weights == DType::kBFloat16) continue;
      const char* const scale = scales + piece * (3 * scale_bytes);
      active.back().gate_scales = scale;
      active.back().up_scales = scale + scale_bytes;
      active.back().down_scales = scale + 2 * scale_bytes;
    }
  }
  auto* const all = CopyIn(active);
  const auto needs = GroupedExpertFfnWorkspace::For(rows, shape.intermediate, DType::kBFloat16);
  auto* const workspace = Allocate<char>(needs.bytes);
  GroupedExpertFfnArgs args{.contributions = CopyIn(contributions),
                            .num_experts = experts,
                            .num_contributions = rows,
                            .hidden = shape.hidden,
                            .intermediate = shape.intermediate,
                            .weight_dtype = weights,
                            .row_dtype = DType::kBFloat16,
                            .y_dtype = DType::kBFloat16,
                            .workspace = workspace,
                            .workspace_bytes = needs.bytes};
  const double time =
      bench.TimeOf({.name = name,
                    .bytes = ExpertBytes(args, experts, rows),
                    .flops = 6 * rows * elements,
                    .output = {.y = y, .count = rows * shape.hidden, .dtype = DType::kBFloat16},
                    .fields = fields},
                   [&](int i) {
                     args.experts = all + i % calls * experts;
                     Check(RunGroupedExpertFfn({.device = Device::kCuda, .native = bench.stream()},
                                               args, form, tiles));
                   });
  for (const void* memory :
       {static_cast<const void*>(x), static_cast<const void*>(y), static_cast<const void*>(all),
        static_cast<const void*>(workspace), static_cast<const void*>(args.contributions),
        static_cast<const void*>(scales)}) {
    cudaFree(const_cast<void*>(memory));
  }
  return time;
}

}  // namespace janus::kernels::cuda
