// A model on one GPU with instances in separate processes, like pods. It shows whether processes
// can map each other's memory on this GPU, and whether they give the same bits as threads of one
// process. It serves only some layers of DeepSeek-V2-Lite and Mixtral, as each process loads its
// weights separately; otherwise it works like serve_gpu_bench. Processes take turns on the GPU
// unless its Multi-Process Service runs. In that case give --mps, so that the lines say it.

#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "bench/gpu/gpu_clock.h"
#include "bench/gpu/gpu_model.h"
#include "bench/gpu/process_serving.h"
#include "bench/gpu/serving.h"
#include "bench/gpu/shapes.h"

namespace janus::bench {
namespace {

constexpr ServingLoad kLoad{64, 64, 64};

// Serves with processes first and threads second: threads use the GPU in this process.
bool ServeModel(const std::string& name, const ModelDescription& model, bool has_threads,
                kernels::cuda::Results& results) {
  ProcessService service;
  service.options.device = kernels::Device::kCuda;
  service.options.make_context = OpenGpu;
  service.options.weights_are_placed = true;
  service.make_model = [&] { return RandomModelOnGpu(model); };
  const int experts = model.moe.experts, half = experts / 2;
  std::vector<ServingTopology> topologies = {
      {.m = 1, .slots = {experts}, .in_place = true},
      {.m = 1, .slots = {experts}},
      {.m = 2, .slots = {half, half, half}, .micro_batches = 2, .in_place = true},
      {.m = 2, .slots = {half, half, half}, .micro_batches = 2}};
  for (ServingTopology& topology : topologies) topology.has_processes = true;
  if (has_threads) topologies.push_back({.m = 1, .slots = {experts}});
  const ServeOne serve = [&](const ServingTopology& topology) -> Result<Served> {
    if (topology.has_processes) return ServeByProcesses(service, topology, kLoad);
    const auto clock = MakeGpuClock();
    return Serve(RandomModelOnGpu(model), service.options, *clock, topology, kLoad);
  };
  return ServeEach(name, serve, topologies, kLoad, results);
}

// A child process checks and exits: this process must not touch the GPU.
bool HasGpu() {
  const pid_t pid = fork();
  JANUS_CHECK(pid >= 0);
  if (pid == 0) {
    static_cast<void>(OpenGpu());
    _exit(0);
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool has_mps = arguments.size() == 3 && arguments[0] == "--mps";
  if ((arguments.size() != 2 && !has_mps) || arguments[arguments.size() - 2] != "--results") {
    std::cerr << "usage: " << argv[0] << " [--mps] --results FILE\n";
    return 2;
  }
  kernels::cuda::Results results(arguments.back());
  if (!results.ok()) {
    std::cerr << "cannot write " << arguments.back() << '\n';
    return 2;
  }
  if (!HasGpu()) return 3;
  const std::string with = has_mps ? ", MPS" : "";
  ModelDescription v2_lite = DeepSeekV2Lite();
  v2_lite.layers = 4;
  bool alike = true;
  for (const bool has_threads : {false, true}) {
    alike = ServeModel("V2-Lite of 4 layers" + with, v2_lite, has_threads, results) && alike;
    alike = ServeModel("Mixtral of 2 layers" + with, Mixtral(2), has_threads, results) && alike;
  }
  return alike ? 0 : 1;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  return janus::bench::Main(argc, argv);
}
