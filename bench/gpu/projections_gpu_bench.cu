// Projections on a GPU at shapes of real models: each matrix for some numbers of rows, and all
// matrices of a layer one after the other. Beside them are the memory's read rate and the time of
// an empty kernel. It adds one JSON line per case to the file that --results names, flushed when
// the case ends. A case that is in the file is not run again.
//
// Weights are random and rotate through the arena of 4 GiB: no call reads the weights of an earlier
// call before the whole arena was read. Rows stay the same. Times are medians of 30 calls
// (bench/gpu/stream_times.h).

#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/products.h"

namespace janus::kernels::cuda {
namespace {

struct Matrix {
  const char* name;
  int64_t outputs;
  int64_t inputs;
};
struct Layer {
  const char* model;
  std::vector<Matrix> matrices;
};
const Layer kLayers[] = {
    {"DeepSeek-V3",
     {{"q_a", 1536, 7168}, {"q_b", 24576, 1536}, {"kv_a", 576, 7168}, {"o", 7168, 16384}}},
    {"Qwen3-235B", {{"q", 8192, 4096}, {"k", 512, 4096}, {"v", 512, 4096}, {"o", 4096, 8192}}},
};
constexpr int64_t kMostRows = 512;

class Projections {
 public:
  explicit Projections(GpuBench& bench)
      : bench_(bench), x_(Allocate<uint16_t>(kMostWidth)), y_(Allocate<float>(kMostWidth)) {
    Fill<<<static_cast<unsigned>(kMostWidth / 8 / 256), 256, 0, bench.stream()>>>(x_, kMostWidth,
                                                                                  1.0f, 2);
  }
  ~Projections() {
    cudaFree(x_);
    cudaFree(y_);
  }
  Projections(const Projections&) = delete;
  Projections& operator=(const Projections&) = delete;

  void Time(const std::string& model, const Matrix& matrix, int64_t rows, LinearForm form) {
    const LinearArgs args = ArgsOf(matrix, rows);
    bench_.TimeOf({.name = Name(model, matrix.name, rows, form),
                   .bytes = PlanLinear(args).bytes,
                   .flops = 2 * rows * matrix.outputs * matrix.inputs,
                   .output = {.y = y_, .count = rows * matrix.outputs}},
                  [&](int) { Run(args, form); });
  }

  void TimeLayer(const Layer& layer, int64_t rows) {
    int64_t bytes = 0;
    int64_t flops = 0;
    for (const Matrix& matrix : layer.matrices) {
      bytes += PlanLinear(ArgsOf(matrix, rows)).bytes;
      flops += 2 * rows * matrix.outputs * matrix.inputs;
    }
    bench_.TimeOf(
        Name(layer.model, "layer", rows, LinearForm::kFast), bytes,
        [&](int) {
          for (const Matrix& matrix : layer.matrices) {
            Run(ArgsOf(matrix, rows), LinearForm::kFast);
          }
        },
        flops);
  }

 private:
  static constexpr int64_t kMostWidth = kMostRows * 24576;

  static std::string Name(const std::string& model, const std::string& part, int64_t rows,
                          LinearForm form) {
    return model + " " + part + " bf16 " + (form == LinearForm::kFast ? "fast" : "plain") + ", " +
           std::to_string(rows) + " rows";
  }

  LinearArgs ArgsOf(const Matrix& matrix, int64_t rows) const {
    return {.x = x_,
            .x_dtype = DType::kBFloat16,
            .weight_dtype = DType::kBFloat16,
            .y = y_,
            .rows = rows,
            .outputs = matrix.outputs,
            .inputs = matrix.inputs};
  }

  void Run(LinearArgs args, LinearForm form) const {
    args.weight = bench_.arena() + bench_.rotation().Next(2 * args.outputs * args.inputs) / 2;
    Check(RunLinear({.device = Device::kCuda, .native = bench_.stream()}, args, form));
  }

  GpuBench& bench_;
  uint16_t* const x_;
  float* const y_;
};

void RunAll(GpuBench& bench, Results& /*results*/) {
  Projections projections(bench);
  for (const int64_t rows : {8, 64, 1, 32, 16, 512}) {  // the most informative first
    for (const Layer& layer : kLayers) projections.TimeLayer(layer, rows);
  }
  for (const int64_t rows : {8, 64, 1}) {
    for (const Layer& layer : kLayers) {
      for (const Matrix& matrix : layer.matrices) {
        projections.Time(layer.model, matrix, rows, LinearForm::kFast);
      }
    }
  }
  projections.Time("DeepSeek-V3", kLayers[0].matrices[0], 8, LinearForm::kPlain);
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunAll);
}
