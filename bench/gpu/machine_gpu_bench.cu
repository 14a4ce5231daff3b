// Describes the GPU and its limits, to compare everything else with: an empty kernel, and the
// bandwidth of reads and of copies.

#include "bench/gpu/gpu_bench.h"

namespace janus::kernels::cuda {
namespace {

int64_t Attribute(cudaDeviceAttr attribute) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, attribute, 0), "device");
  return value;
}

void RunAll(GpuBench& bench, Results& results) {
  size_t free = 0;
  size_t total = 0;
  Check(cudaMemGetInfo(&free, &total), "memory of the device");
  const auto field = [](const char* key, int64_t value) {
    return std::string("\"") + key + "\": " + std::to_string(value);
  };
  results.Write("machine", field("multiprocessors", Attribute(cudaDevAttrMultiProcessorCount)) +
                               ", " + field("clock_khz", Attribute(cudaDevAttrClockRate)) + ", " +
                               field("memory_clock_khz", Attribute(cudaDevAttrMemoryClockRate)) +
                               ", " + field("l2_bytes", Attribute(cudaDevAttrL2CacheSize)) + ", " +
                               field("shared_bytes_of_a_block",
                                     Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) +
                               ", " + field("memory_bytes", static_cast<int64_t>(total)) + ", " +
                               field("free_bytes", static_cast<int64_t>(free)));
  constexpr int64_t kBytes = int64_t{1} << 30;
  auto* const to = Allocate<char>(kBytes);
  bench.TimeAnew("copy 1 GiB", 2 * kBytes, [&](int i) {
    const char* const from = reinterpret_cast<const char*>(bench.arena()) + i % 4 * kBytes;
    Check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, bench.stream()), "copy");
  });
  cudaFree(to);
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  using namespace janus::kernels::cuda;
  return BenchMain(argc, argv, RunAll);
}
