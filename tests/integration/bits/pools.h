#pragma once

#include <string>

#include "tests/support/golden.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {

// Golden checkpoints by folder, and random models with sizes that are no multiples of vector
// widths.
inline constexpr const char* kBitsModels[] = {
    "mixtral",     "deepseek_v2",  "deepseek_v3",   "deepseek_v2_lite", "glm4_moe",
    "minimax_m2",  "olmoe",        "qwen2_moe",     "qwen3_moe",        "gpt_oss",
    "llama4",      "small",        "small_latent",  "small_fp8",        "small_gated",
    "small_sinks", "small_chunks", "small_sigmoid", "small_mxfp4"};

// Both are made once per process, for its seed; for one test thread.
const HeldModel& Held(const std::string& weights, DType dtype);
// The requests of a model, computed alone once per back end.
const RequestPool& Pool(const std::string& weights, DType dtype, KernelChoice kernels);

}  // namespace janus::dataplane
