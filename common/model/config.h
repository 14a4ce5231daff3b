#pragma once

#include <string>
#include <string_view>

#include "common/model/description.h"
#include "common/status.h"

namespace janus {

// Parses config.json's text into a description, for every known family: in the form published on
// the hub and that of transformers 5. InvalidArgument names the field, its value and the expected
// one: an unknown architecture (with the supported ones), an unsupported quantization_config or
// rope, impossible sizes. A checkpoint without a dtype counts as Float32, which holds every value
// of the other types.
Result<ModelDescription> ParseModelConfig(std::string_view json);

// The text of `<model_dir>/config.json`. NotFound: the folder or the file is missing; the message
// has the names of the nearest folder that exists.
Result<std::string> ReadModelConfig(const std::string& model_dir);

// ParseModelConfig of `<model_dir>/config.json`; messages begin with the file.
// NotFound: the folder or the file is missing. Reads one file.
Result<ModelDescription> LoadModelConfig(const std::string& model_dir);

}  // namespace janus
