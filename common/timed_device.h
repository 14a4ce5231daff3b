#pragma once

#include <cstdint>
#include <string>

namespace janus {

// What a timed device stands for: a worker computes the served model on the CPU, and shows each
// result when a device of this kind would have it for a model of this name (docs/timed-devices.md).
struct TimedDevice {
  std::string hardware;  // a preset of common/hardware.h
  std::string model;     // a preset of controllers/plan/model_shape.h
  int scale = 1;         // rows and sequences that one row and sequence stand for; >= 1
  int time_scale = 1;    // all modelled times are divided by it; >= 1

  friend bool operator==(const TimedDevice&, const TimedDevice&) = default;
};

// The most of either factor.
inline constexpr int kMostTimedScale = 65'536;
inline constexpr int kMostTimeScale = 1'000;

// For people: "H200 as deepseek-v3, scale 64, time scale 8".
inline std::string ToString(const TimedDevice& device) {
  std::string out = device.hardware + " as " + device.model;
  out += ", scale " + std::to_string(device.scale);
  return out + ", time scale " + std::to_string(device.time_scale);
}

// More waits than this share overran: the times that the run shows are those of this machine.
inline constexpr double kMostOverruns = 0.01;
constexpr bool IsVoid(uint64_t waits, uint64_t overruns) {
  return static_cast<double>(overruns) > kMostOverruns * static_cast<double>(waits);
}

}  // namespace janus
