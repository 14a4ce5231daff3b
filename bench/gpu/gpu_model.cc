#include "bench/gpu/gpu_model.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "bench/gpu/device_tensors.h"
#include "kernels/device/cuda_context.h"

namespace janus::bench {
namespace {

struct Kept {
  explicit Kept(uint32_t seed) : tensors(*context, seed) {}
  std::unique_ptr<kernels::Context> context = OpenGpu();
  DeviceTensors tensors;
};

}  // namespace

std::unique_ptr<kernels::Context> OpenGpu() {
  Result<std::unique_ptr<kernels::Context>> context = kernels::MakeCudaContext();
  if (!context.ok()) {
    std::cerr << context.status().ToString() << '\n';
    std::exit(3);
  }
  return *std::move(context);
}

dataplane::HeldModel RandomModelOnGpu(const ModelDescription& model, uint32_t seed) {
  const auto kept = std::make_shared<Kept>(seed);
  dataplane::HeldModel held = RandomModel(model, kept->tensors);
  JANUS_CHECK(kept->context->Wait().ok());
  held.keep = kept;
  return held;
}

}  // namespace janus::bench
