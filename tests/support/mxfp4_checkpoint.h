#pragma once

#include <functional>
#include <string>

#include "common/model/description.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {

// Converts the tensors for which `is_chosen` is true to mxfp4, in the form of checkpoints with that
// layout. All must be matrices of Float32 with whole blocks in each row; for kGptOss those of all
// experts of a layer, [experts, inputs, outputs].
FileTensors InMxfp4(FileTensors tensors, Mxfp4Layout layout,
                    const std::function<bool(const std::string& name)>& is_chosen);
// The numbers that these represent, exactly: in BFloat16, under the original names.
FileTensors OutOfMxfp4(FileTensors tensors, Mxfp4Layout layout);

// The quantization_config of such a checkpoint, in its publishers' form.
std::string Mxfp4Config(Mxfp4Layout layout);

// A family's golden checkpoint with hidden and expert sizes rounded up to whole blocks and repeated
// weights. There are three versions: routed experts in mxfp4, the same numbers in BFloat16, and the
// original. Computed in BFloat16.
struct Mxfp4Golden {
  Mxfp4Golden(const std::string& family, Mxfp4Layout layout);
  GoldenCase prompt;  // short; its logits belong to another model
  TempFolder packed;
  TempFolder written_out;
  TempFolder unquantized;
  ModelDescription packed_model;
  ModelDescription plain_model;
};

}  // namespace janus::dataplane
