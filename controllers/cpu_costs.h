#pragma once

#include "common/device_report.h"
#include "common/hardware.h"
#include "controllers/calibrated.h"

namespace janus::controllers {

// CPUs as a plan reckons with them. Their costs are not those of a GPU carried over: nothing is
// launched, weights of a small model stay in caches, and on one machine rows go through memory that
// both sides have mapped.

// An instance that computes on `threads` threads of a process with this speed, and may take
// `memory_bytes`. Rates rise with the threads up to those that were measured with all. Figures of
// the network are assumed (10 Gbit/s); HardwareProfile::is_cpu is set. REQUIRES: threads >= 1.
HardwareProfile CpuHardware(const CpuSpeed& speed, int threads, double memory_bytes);

// Costs of such an instance. What is measured of it are the rates; the fixed parts are constants,
// found on an AMD EPYC virtual machine (bench/cpu_predictor_bench.cc shows how far off they are).
DeviceCosts CpuCosts(const HardwareProfile& hardware);

}  // namespace janus::controllers
