#pragma once

#include <optional>
#include <string>

namespace janus {

// What a worker says of the device that it computes on.

// Rates of dense products of a few rows with weights in memory; per second.
struct ComputeRate {
  double bytes = 0;       // of weights, read for one row
  double operations = 0;  // of many rows; a multiplication and an addition are two

  friend bool operator==(const ComputeRate&, const ComputeRate&) = default;
};

// A process on CPUs, measured by itself with its own kernels.
struct CpuSpeed {
  int threads = 1;  // that `all` was measured with: the cores that the process may use
  ComputeRate one;  // with one thread
  ComputeRate all;

  friend bool operator==(const CpuSpeed&, const CpuSpeed&) = default;
};

struct DeviceReport {
  // Of a GPU, as its driver has it: "NVIDIA H100 80GB HBM3". Empty: it computes on CPUs, or does
  // not say.
  std::string name;
  std::optional<CpuSpeed> cpu = std::nullopt;  // on CPUs; nothing: it was not measured

  friend bool operator==(const DeviceReport&, const DeviceReport&) = default;
};

}  // namespace janus
