#pragma once

// Operations over rows: their forms on the device.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class RowForm {
  kFast,   // vectors of each lane's own, at the rate of a copy: what runs
  kPlain,  // thread per element; what the fast ones are held to
};

// Arguments are valid, as after the function of kernels.h. The fast forms take them all, but for
// Rope beyond kMostFastRotary (rope_fast.h), which has the plain one.
Status RunEmbed(const Stream& stream, const EmbedArgs& args, RowForm form);
Status RunRmsNorm(const Stream& stream, const RmsNormArgs& args, RowForm form);
Status RunRope(const Stream& stream, const RopeArgs& args, RowForm form);
Status RunCombineSlots(const Stream& stream, const CombineSlotsArgs& args, RowForm form);

}  // namespace janus::kernels::cuda
