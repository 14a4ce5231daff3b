#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/fixed_point.h"
#include "common/model/description.h"
#include "common/status.h"
#include "dataplane/weights/attention_weights.h"
#include "dataplane/weights/expert_weights.h"
#include "kernels/device/context.h"

// Chooses what the sum rule FixedPoint adds by: runs a model over texts and looks at the
// contributions of its experts (docs/design/015-exact-sums.md).
//
// May include: dataplane/{attention,comm/exchange,comm/wire,engine,experts,model,text,weights},
// kernels, common.
namespace janus::dataplane {

// Positions of a prompt that are computed, at most. The first position of each is among them: its
// numbers can be a thousand times larger (Sun et al., Massive Activations, 2024).
inline constexpr int kMostCalibratedPositions = 512;

// Called after each prompt with the number of prompts so far, on the calling thread.
using CalibrationProgress = std::function<void(size_t prompts)>;

// Computes the prompts, token ids each, and returns the range of contributions by MoE layer.
// `experts`: expert i of each layer is in slot i. Both weights lie in the memory of the place,
// which is a CPU. InvalidArgument: no prompt; contributions that are not finite, with the layer.
Result<std::vector<ContributionRange>> MeasureContributions(
    const ModelDescription& model, const AttentionWeights& attention, const ExpertWeights& experts,
    std::span<const std::vector<int32_t>> prompts, const kernels::Place& place,
    const CalibrationProgress& progress = nullptr);

// InvalidArgument: names the MoE layer for which ChooseExponent fails.
Result<FixedPointSums> ChooseExponents(std::span<const ContributionRange> ranges, int bits,
                                       int top_k);

// Texts for a calibration: prose, code, numbers and other languages.
std::vector<std::string> CalibrationTexts();

// What `janusctl serve -f` takes below spec, with a comment that says where it comes from.
std::string ToYaml(const FixedPointSums& sums, const std::string& from);

// `janus-worker calibrate`: prints the YAML. Returns the exit status.
int CalibrateMain(int argc, char** argv);

}  // namespace janus::dataplane
