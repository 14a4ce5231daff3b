#include "dataplane/worker/print_gpus.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "kernels/device/cuda_devices.h"

namespace janus::dataplane {

int PrintGpus() {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  const Result<std::vector<kernels::CudaDevice>> found = kernels::FindCudaDevices();
  if (found.ok()) {
    for (const kernels::CudaDevice& one : *found) {
      gpus.push_back({{"id", one.id},
                      {"name", one.name},
                      {"totalBytes", one.total_bytes},
                      {"freeBytes", one.free_bytes}});
    }
  }
  nlohmann::ordered_json out = {{"gpus", std::move(gpus)}};
  if (!found.ok()) out["why"] = found.status().message();
  std::printf("%s\n", out.dump().c_str());
  return 0;
}

}  // namespace janus::dataplane
