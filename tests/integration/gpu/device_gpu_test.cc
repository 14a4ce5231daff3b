// The tests that every device must pass, on the GPU. Streams run beside the host, as in serving.

#include "common/check.h"
#include "kernels/device/cuda_context.h"
#include "tests/integration/device/made_device.h"
#include "tests/support/gpu_cases/run.h"

namespace janus::kernels {

std::unique_ptr<Context> MakeDevice() {
  auto context = MakeCudaContext();
  JANUS_CHECK(context.ok(), context.status().ToString());
  return *std::move(context);
}

}  // namespace janus::kernels

int main(int argc, char** argv) {
  return janus::kernels::RunGpuCases(argc, argv, [](bool) { return cudaSuccess; });
}
