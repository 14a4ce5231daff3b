#pragma once

#include <string>
#include <string_view>

#include "common/model/description.h"
#include "common/status.h"

namespace janus {

// config.json's text as a description, for every family we know: as published on the hub and as
// transformers 5 writes it. InvalidArgument names the field, its value and what is wanted: an
// unknown architecture (with those supported), quantization_config, another rope than the plain
// one, sizes that cannot be. A checkpoint that does not say its dtype is taken as Float32, which
// holds every value of the others.
Result<ModelDescription> ParseModelConfig(std::string_view json);

// The text of `<model_dir>/config.json`. NotFound: the folder or the file is missing.
Result<std::string> ReadModelConfig(const std::string& model_dir);

// ParseModelConfig of `<model_dir>/config.json`; messages begin with the file.
// NotFound: the folder or the file is missing. Reads one file.
Result<ModelDescription> LoadModelConfig(const std::string& model_dir);

}  // namespace janus
