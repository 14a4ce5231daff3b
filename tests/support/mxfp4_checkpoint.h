#pragma once

#include <functional>
#include <string>

#include "common/model/description.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {

// The tensors whose name `is_chosen`, all matrices of Float32 whose rows are whole blocks, in mxfp4
// as checkpoints of that layout have them.
FileTensors InMxfp4(FileTensors tensors, Mxfp4Layout layout,
                    const std::function<bool(const std::string& name)>& is_chosen);
// What these stand for, exactly: in BFloat16, under the names that they have without.
FileTensors OutOfMxfp4(FileTensors tensors, Mxfp4Layout layout);

// The quantization_config of such a checkpoint, as its publishers write it.
std::string Mxfp4Config(Mxfp4Layout layout);

// A family's golden checkpoint with hidden and expert sizes rounded up to whole blocks, its weights
// repeated: with its routed experts in mxfp4, with the same numbers in BFloat16, and as it was.
// Computed in BFloat16.
struct Mxfp4Golden {
  Mxfp4Golden(const std::string& family, Mxfp4Layout layout);
  GoldenCase prompt;  // short; its logits are another model's
  TempFolder packed;
  TempFolder written_out;
  TempFolder unquantized;
  ModelDescription packed_model;
  ModelDescription plain_model;
};

}  // namespace janus::dataplane
