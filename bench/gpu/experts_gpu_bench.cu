// The grouped expert FFN on a GPU: time over activated experts at shapes of real models. Beside it
// are the memory's read rate and the time of an empty kernel. It adds one JSON line per case to the
// file that --results names, flushed when the case ends. A case that is in the file is not run
// again. A line per shape and number of rows has the fit t = a + b * experts.
//
// If wgmma has narrow and wide tiles, some calls run with each, and with mma, to find where to
// switch. Then come calls of thousands of rows. Their `products` lists (M, N, K) of the matrix
// products of each expert: M rows by a matrix of N by K, gate and up as one product, down as
// another. bench/gpu/free_choice.py times dense products with as many operations. Every line has
// its share of the peak rate of the tensor cores in bfloat16; weights of all formats are multiplied
// in it.
//
// Weights, in bfloat16, fp8 and mxfp4, are random and rotate through at least 512 MiB; rows and
// slots stay the same. Times are medians of 30 calls, each between two events and behind a kernel
// that keeps the GPU busy until the host has queued the call (bench/gpu/stream_times.h).

#include "bench/gpu/expert_call.h"
#include "bench/gpu/fit.h"

namespace janus::kernels::cuda {
namespace {

constexpr ExpertShape kShapes[] = {kDeepSeekV3Experts, kDeepSeekV2Experts};

// Experts and rows of each, for calls of 4,096 rows and more.
struct Batch {
  int experts;
  int rows_each;
};
constexpr Batch kBatches[] = {{8, 512}, {32, 128}, {8, 2048}, {16, 1024}, {32, 512}};

const char* NameOf(DType weights) {
  return weights == DType::kFloat8E4M3 ? "fp8" : weights == DType::kMxfp4 ? "mxfp4" : "bf16";
}

// Uniform in [-240, 240), 16 elements per thread.
__global__ void FillFloat8(uint8_t* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (16 * i + 16 > count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {3, 0});
  for (int j = 0; j < 16; ++j) {
    const auto byte = static_cast<float>(words[j / 4] >> (8 * (j % 4)) & 0xFFu);
    to[16 * i + j] = ToFloat8E4M3((byte / 128.0f - 1.0f) * 240.0f);
  }
}

// Any byte is two valid weights of mxfp4.
__global__ void FillBytes(uint8_t* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (16 * i + 16 > count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {4, 0});
  for (int j = 0; j < 16; ++j) to[16 * i + j] = static_cast<uint8_t>(words[j / 4] >> (8 * (j % 4)));
}

// From here on the arena holds weights of this format.
void FillArena(GpuBench& bench, DType weights) {
  auto* const arena = const_cast<uint16_t*>(bench.arena());
  const auto blocks = static_cast<unsigned>(kArenaBytes / 16 / 256);
  if (weights == DType::kMxfp4) {
    FillBytes<<<blocks, 256, 0, bench.stream()>>>(reinterpret_cast<uint8_t*>(arena), kArenaBytes);
  } else if (weights == DType::kFloat8E4M3) {
    FillFloat8<<<blocks, 256, 0, bench.stream()>>>(reinterpret_cast<uint8_t*>(arena), kArenaBytes);
  } else {
    Fill<<<blocks, 256, 0, bench.stream()>>>(arena, kArenaBytes / 2, 0.02f, 1);
  }
  Check(cudaGetLastError(), "fill");
}

// The name in names of cases.
const char* NameOf(WgmmaTiles tiles) {
  return tiles == WgmmaTiles::kNarrow ? " narrow" : tiles == WgmmaTiles::kWide ? " wide" : "";
}

// The time in microseconds.
double Experts(GpuBench& bench, const ExpertShape& shape, DType weights, ExpertForm form,
               int experts, int rows_each, WgmmaTiles tiles = WgmmaTiles::kByRows,
               const std::string& fields = {}) {
  const std::string name = std::string(shape.name) + " " + NameOf(weights) + " " + NameOf(form) +
                           NameOf(tiles) + ", " + std::to_string(experts) + " experts of " +
                           std::to_string(rows_each);
  return TimeExperts(bench, name, shape, weights, form, std::vector<int>(experts, rows_each), tiles,
                     fields);
}

// The products to ask a library for instead: two per expert, [M, N, K].
std::string ProductsOf(const ExpertShape& shape, const Batch& batch) {
  std::string list;
  const auto add = [&](int64_t n, int64_t k) {
    list += (list.empty() ? "[" : ", [") + std::to_string(batch.rows_each) + ", " +
            std::to_string(n) + ", " + std::to_string(k) + "]";
  };
  for (int e = 0; e < batch.experts; ++e) {
    add(2 * shape.intermediate, shape.hidden);
    add(shape.hidden, shape.intermediate);
  }
  return ", \"products\": [" + list + "]";
}

// Times a call of thousands of rows; its line has the share of the tensor cores' peak.
void LargeBatch(GpuBench& bench, Results& results, const ExpertShape& shape, DType weights,
                ExpertForm form, const Batch& batch) {
  const std::string products = ProductsOf(shape, batch);
  const double us = Experts(bench, shape, weights, form, batch.experts, batch.rows_each,
                            WgmmaTiles::kByRows, products);
  const std::string name = std::string(shape.name) + " " + NameOf(weights) + " " + NameOf(form) +
                           ", share of the peak, " + std::to_string(batch.experts) +
                           " experts of " + std::to_string(batch.rows_each);
  if (results.Find(name, "share_of_peak") >= 0.0) return;
  const double flops = 6.0 * batch.experts * batch.rows_each *
                       static_cast<double>(shape.hidden * shape.intermediate);
  results.Write(name, bench.SharesOfPeak(flops, us) + products);
}

// t = a + b * experts.
std::string FitOf(const std::vector<std::pair<double, double>>& points) {
  const bench::Line line = bench::FitLine(points);
  return "\"a_us\": " + std::to_string(line.a) + ", \"b_us\": " + std::to_string(line.b);
}

// Times calls over the number of activated experts, and fits the line.
void ActivatedExperts(GpuBench& bench, Results& results, int rows) {
  for (const DType weights : {DType::kFloat8E4M3, DType::kBFloat16, DType::kMxfp4}) {
    FillArena(bench, weights);
    for (const ExpertShape& shape : kShapes) {
      std::vector<std::pair<double, double>> points;
      const ExpertForm form = FormHere(weights);
      for (const int experts : {1, 2, 4, 8, 16, 32}) {
        points.emplace_back(experts, Experts(bench, shape, weights, form, experts, rows));
      }
      const std::string name = std::string(shape.name) + " " + NameOf(weights) + " " +
                               NameOf(form) + ", fit of experts of " + std::to_string(rows);
      if (results.Find(name, "b_us") < 0.0) results.Write(name, FitOf(points));
    }
  }
}

// Times narrow and wide tiles of wgmma, and mma.sync, near the limit in TakesWideTiles.
void NarrowAndWide(GpuBench& bench) {
  if (!DeviceHasWgmma()) return;
  for (const DType weights : {DType::kFloat8E4M3, DType::kMxfp4, DType::kBFloat16}) {
    FillArena(bench, weights);
    for (const ExpertShape& shape : kShapes) {
      for (const int rows : {64, 32, 16}) {
        for (const WgmmaTiles tiles : {WgmmaTiles::kNarrow, WgmmaTiles::kWide}) {
          Experts(bench, shape, weights, ExpertForm::kWgmma, 16, rows, tiles);
        }
        Experts(bench, shape, weights, ExpertForm::kFast, 16, rows);
      }
    }
  }
}

void RunExperts(GpuBench& bench, Results& results) {
  // The most informative first.
  for (const int rows : {8, 1, 64}) ActivatedExperts(bench, results, rows);
  NarrowAndWide(bench);
  for (const int rows : {16, 32}) ActivatedExperts(bench, results, rows);
  for (const DType weights : {DType::kBFloat16, DType::kFloat8E4M3, DType::kMxfp4}) {
    FillArena(bench, weights);
    for (const Batch& batch : kBatches) {
      for (const ExpertShape& shape : kShapes) {
        LargeBatch(bench, results, shape, weights, FormHere(weights), batch);
      }
    }
    if (!DeviceHasWgmma()) continue;
    // The form that replaces wgmma on other GPUs, to compare.
    for (const ExpertShape& shape : kShapes) {
      Experts(bench, shape, weights, ExpertForm::kFast, 16, 8);
      LargeBatch(bench, results, shape, weights, ExpertForm::kFast, kBatches[0]);
    }
  }
  for (const DType weights : {DType::kBFloat16, DType::kMxfp4, DType::kFloat8E4M3}) {
    FillArena(bench, weights);
    for (const ExpertShape& shape : kShapes)
      Experts(bench, shape, weights, ExpertForm::kPlain, 8, 8);
  }
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunExperts);
}
