// A worker for tests with janusctl serve, whose GPUs are emulated:
//   JANUS_EMULATED_GPUS        how many this machine has; default 1
//   JANUS_EMULATED_GPU_BYTES   of the memory of each; default 1 GiB
//   JANUS_EMULATED_GPU_BROKEN  if set, none can be opened

#include <cstdlib>
#include <random>

#include "kernels/device/cuda_context.h"
#include "kernels/device/cuda_devices.h"
#include "tests/support/emulated_device.h"

namespace janus::kernels {
namespace {

uint64_t Asked(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

uint64_t Bytes() {
  return Asked("JANUS_EMULATED_GPU_BYTES", uint64_t{1} << 30);
}

}  // namespace

Result<std::unique_ptr<Context>> MakeCudaContext() {
  if (std::getenv("JANUS_EMULATED_GPU_BROKEN") != nullptr) {
    return Unavailable("the emulated GPU is broken");
  }
  auto device = std::make_unique<EmulatedDevice>(Bytes());
  device->RunBehind(std::random_device{}());
  return std::unique_ptr<Context>(std::move(device));
}

void PrepareCudaEnvironment() {}

Result<std::vector<CudaDevice>> FindCudaDevices() {
  std::vector<CudaDevice> out;
  for (uint64_t i = 0; i < Asked("JANUS_EMULATED_GPUS", 1); ++i) {
    out.push_back({"GPU-" + std::to_string(i), "Emulated GPU", Bytes(), Bytes()});
  }
  if (out.empty()) return Unavailable("no emulated GPU");
  return out;
}

}  // namespace janus::kernels
