// What do identical bits cost in a projection? Our kernel computes a row the same way in every
// batch. oneDNN, as an example of kernels that need not, chooses an algorithm and a layout of the
// weights for each number of rows. Both use the same bytes, threads and rotation of weights, and
// alternate within one run.
//
// The first pass limits oneDNN to the instructions that ours uses; the second allows all that the
// CPU has.

#include <sys/wait.h>
#include <unistd.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench/measure.h"
#include "bench/read_bandwidth.h"
#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"

namespace janus::bench {
namespace {

using namespace kernels;  // NOLINT: a bench of them

constexpr int64_t kOutputs = 4096;
constexpr int64_t kInputs = 4096;
constexpr int64_t kCopies = 24;  // of the weights, 32 MB each, so that no copy stays in a cache

// y[M, N] fp32 = x[M, K] w[N, K]^T with bf16 x and w, in the form that oneDNN prefers for this M.
class FreeLinear {
 public:
  FreeLinear(const Arena& arena, int64_t rows) : engine_(dnnl::engine::kind::cpu, 0) {
    using dnnl::memory;
    const memory::desc x({rows, kInputs}, memory::data_type::bf16, memory::format_tag::ab);
    const memory::desc any({kInputs, kOutputs}, memory::data_type::bf16, memory::format_tag::any);
    const memory::desc y({rows, kOutputs}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(x, any, y), engine_);
    name_ = chosen.impl_info_str();
    matmul_ = dnnl::matmul(chosen);
    x_ = memory(x, engine_);
    y_ = memory(y, engine_);
    std::memcpy(x_.get_data_handle(), arena.data(), static_cast<size_t>(rows * kInputs * 2));
    const memory::desc checkpoint({kInputs, kOutputs}, memory::data_type::bf16,
                                  memory::format_tag::ba);
    for (int64_t c = 0; c < kCopies; ++c) {
      memory plain(checkpoint, engine_);
      std::memcpy(plain.get_data_handle(), arena.Piece(c, kOutputs * kInputs * 2),
                  static_cast<size_t>(kOutputs * kInputs * 2));
      memory& packed = weights_.emplace_back(chosen.weights_desc(), engine_);
      dnnl::reorder(plain, packed).execute(stream_, plain, packed);
      stream_.wait();
    }
  }
  void Run(int64_t i) {
    matmul_.execute(stream_, {{DNNL_ARG_SRC, x_},
                              {DNNL_ARG_WEIGHTS, weights_[static_cast<size_t>(i % kCopies)]},
                              {DNNL_ARG_DST, y_}});
    stream_.wait();
  }
  const std::string& name() const { return name_; }
  const float* y() const { return static_cast<const float*>(y_.get_data_handle()); }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_{engine_};
  dnnl::matmul matmul_;
  dnnl::memory x_;
  dnnl::memory y_;
  std::vector<dnnl::memory> weights_;
  std::string name_;
};

void Compare(const Arena& arena, const Stream& stream, int64_t rows) {
  FreeLinear free(arena, rows);
  std::vector<float> y(static_cast<size_t>(rows * kOutputs));
  const auto ours = [&](int64_t i) {
    const Status status =
        Linear(stream, {.x = arena.data(),
                        .x_dtype = DType::kBFloat16,
                        .weight = arena.Piece(i % kCopies, kOutputs * kInputs * 2),
                        .weight_dtype = DType::kBFloat16,
                        .y = y.data(),
                        .rows = rows,
                        .outputs = kOutputs,
                        .inputs = kInputs});
    JANUS_CHECK(status.ok(), status.ToString());
  };
  // Both must give the same result.
  ours(0);
  free.Run(0);
  float range = 0.0f;
  float worst = 0.0f;
  for (size_t i = 0; i < y.size(); ++i) {
    range = std::max(range, std::abs(y[i]));
    worst = std::max(worst, std::abs(y[i] - free.y()[i]));
  }
  JANUS_CHECK(worst <= 0.01f * range, worst, range);
  std::vector<double> invariant_seconds;
  std::vector<double> free_seconds;
  for (int block = 0; block < 5; ++block) {
    invariant_seconds.push_back(Measure(5, 0.2, ours).median);
    free_seconds.push_back(Measure(5, 0.2, [&](int64_t i) { free.Run(i); }).median);
  }
  const double invariant = SpreadOf(invariant_seconds).median;
  const double chosen = SpreadOf(free_seconds).median;
  JsonLine("free_kernels")
      .Int("rows", rows)
      .Int("outputs", kOutputs)
      .Int("inputs", kInputs)
      .Text("isa", ToString(stream.isa))
      .Int("threads", stream.team->size())
      .Number("invariant_us", invariant * 1e6)
      .Number("free_us", chosen * 1e6)
      .Text("free", free.name())
      .Number("invariant_over_free", invariant / chosen);
}

// oneDNN's name of an instruction set.
const char* BoundOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX512_CORE";
    case Isa::kAvx512Bf16:
      break;
  }
  return "AVX512_CORE_BF16";
}

int CompareAll(bool same_instructions) {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  const Result<Isa> isa = SelectIsa(DetectCpu(), std::nullopt);
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().ToString().c_str());
    return 1;
  }
  if (same_instructions) setenv("DNNL_MAX_CPU_ISA", BoundOf(*isa), 1);
  const Arena arena;
  Team team(threads);
  const Stream stream{Device::kCpu, &team, *isa, nullptr};
  for (const int64_t rows : {1, 4, 16, 64, 256}) Compare(arena, stream, rows);
  return 0;
}

}  // namespace
}  // namespace janus::bench

int main() {
  // oneDNN reads its limit only once: each limit gets a process.
  for (const bool same_instructions : {true, false}) {
    const pid_t pid = fork();
    JANUS_CHECK(pid >= 0);
    if (pid == 0) return janus::bench::CompareAll(same_instructions);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) return 1;
  }
  return 0;
}
