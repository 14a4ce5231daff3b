// The grouped expert FFN on a GPU: time over activated experts at shapes of real models, beside
// what the same machine reads from its memory and what an empty kernel takes. One JSON line per
// case in the file that --results names, flushed when the case ends; a case that stands there is
// not run again. Last a line per shape and number of rows with the fit t = a + b * experts.
//
// Weights, in bfloat16, in fp8 and in mxfp4, are random and rotate through 4 GiB, rows and slots
// stay. Times are between two events round the call, medians of 30 calls that are all queued before
// the first is looked at.

#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/expert_ffn.h"
#include "kernels/cuda/products.h"

namespace janus::kernels::cuda {
namespace {

struct Shape {
  const char* name;
  int64_t hidden;
  int64_t intermediate;
};
constexpr Shape kShapes[] = {{"DeepSeek-V3", 7168, 2048}, {"DeepSeek-V2", 5120, 1536}};

const char* NameOf(DType weights) {
  return weights == DType::kFloat8E4M3 ? "fp8" : weights == DType::kMxfp4 ? "mxfp4" : "bf16";
}

// Uniform in [-240, 240), 16 elements a thread.
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

// Any byte is two weights of mxfp4.
__global__ void FillBytes(uint8_t* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (16 * i + 16 > count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {4, 0});
  for (int j = 0; j < 16; ++j) to[16 * i + j] = static_cast<uint8_t>(words[j / 4] >> (8 * (j % 4)));
}

// The arena holds weights of this format from here on.
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

// Its time in microseconds.
double Experts(GpuBench& bench, const Shape& shape, DType weights, ExpertForm form, int experts,
               int rows_each) {
  const std::string name = std::string(shape.name) + " " + NameOf(weights) + " " +
                           (form == ExpertForm::kFast ? "fast" : "plain") + ", " +
                           std::to_string(experts) + " experts of " + std::to_string(rows_each);
  const int64_t rows = int64_t{experts} * rows_each;
  auto* const x = Allocate<uint16_t>(rows * shape.hidden);
  auto* const y = Allocate<uint16_t>(rows * shape.hidden);
  Fill<<<static_cast<unsigned>(rows * shape.hidden / 8 / 256 + 1), 256, 0, bench.stream()>>>(
      x, rows * shape.hidden, 1.0f, 2);
  std::vector<Contribution> contributions;
  for (int64_t c = 0; c < rows; ++c) {
    contributions.push_back({x + c * shape.hidden, y + c * shape.hidden, 0.5f});
  }
  // A call's experts lie where no call of the last 4 GiB had one.
  const int64_t elements = shape.hidden * shape.intermediate;
  const int64_t matrix = BytesOf(weights, elements);
  const int64_t pieces = kArenaBytes / (3 * matrix);
  const bool is_mxfp4 = weights == DType::kMxfp4;
  const int64_t scale_bytes = is_mxfp4
                                  ? elements / kMxBlock
                                  : ScaleBlocks(shape.hidden) * ScaleBlocks(shape.intermediate) * 4;
  auto* const scales = Allocate<char>(pieces * 3 * scale_bytes);
  if (is_mxfp4) {
    // 2^-8; every byte is a scale of its own and is read once in 4 GiB of weights, as they are.
    Check(cudaMemset(scales, 119, static_cast<size_t>(pieces * 3 * scale_bytes)), "scales");
  } else {
    const std::vector<float> all(static_cast<size_t>(pieces * 3 * scale_bytes / 4), 0.02f / 240.0f);
    Check(cudaMemcpy(scales, all.data(), all.size() * sizeof(float), cudaMemcpyHostToDevice),
          "scales");
  }
  std::vector<ActiveExpert> active;
  for (int64_t i = 0; i < int64_t{kCalls + 3} * experts; ++i) {
    const auto* const at = reinterpret_cast<const char*>(bench.arena()) + i % pieces * (3 * matrix);
    active.push_back({at, at + matrix, at + 2 * matrix,
                      static_cast<int32_t>(i % experts * rows_each), rows_each});
    if (weights == DType::kBFloat16) continue;
    const char* const scale = scales + i % pieces * (3 * scale_bytes);
    active.back().gate_scales = scale;
    active.back().up_scales = scale + scale_bytes;
    active.back().down_scales = scale + 2 * scale_bytes;
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
  const double time = bench.TimeOf(name, ExpertBytes(args, experts, rows), [&](int i) {
    args.experts = all + int64_t{i} * experts;
    Check(RunGroupedExpertFfn({.device = Device::kCuda, .native = bench.stream()}, args, form));
  });
  for (const void* memory :
       {static_cast<const void*>(x), static_cast<const void*>(y), static_cast<const void*>(all),
        static_cast<const void*>(workspace), static_cast<const void*>(args.contributions),
        static_cast<const void*>(scales)}) {
    cudaFree(const_cast<void*>(memory));
  }
  return time;
}

// Least squares of t = a + b * experts.
std::string FitOf(const std::vector<std::pair<double, double>>& points) {
  const Line line = FitLine(points, [](double) { return 1.0; });
  return "\"a_us\": " + std::to_string(line.a) + ", \"b_us\": " + std::to_string(line.b);
}

void Run(GpuBench& bench, Results& results) {
  for (const int rows : {8, 1, 64, 16, 32}) {  // what says most, first
    for (const DType weights : {DType::kMxfp4, DType::kFloat8E4M3, DType::kBFloat16}) {
      FillArena(bench, weights);
      for (const Shape& shape : kShapes) {
        std::vector<std::pair<double, double>> points;
        for (const int experts : {1, 2, 4, 8, 16, 32}) {
          points.emplace_back(experts,
                              Experts(bench, shape, weights, ExpertForm::kFast, experts, rows));
        }
        const std::string name = std::string(shape.name) + " " + NameOf(weights) +
                                 " fast, fit of experts of " + std::to_string(rows);
        if (results.Find(name, "b_us") < 0.0) results.Write(name, FitOf(points));
      }
    }
  }
  for (const DType weights : {DType::kMxfp4, DType::kFloat8E4M3, DType::kBFloat16}) {
    FillArena(bench, weights);
    for (const Shape& shape : kShapes) Experts(bench, shape, weights, ExpertForm::kPlain, 8, 8);
  }
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::Run);
}
