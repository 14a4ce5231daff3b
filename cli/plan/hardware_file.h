#pragma once

#include <string>
#include <string_view>

#include "common/hardware.h"

namespace janus::cli {

// Reads a HardwareProfile object from YAML (docs/api.md). `file` names it in messages.
// InvalidArgument lists each wrong line and field, and what is expected.
Result<HardwareProfile> ParseHardware(std::string_view text, const std::string& file);

// A name that ends in .yaml or .yml is a file; any other is a preset. NotFound: there is no such
// file or preset.
Result<HardwareProfile> ReadHardware(const std::string& name_or_file);

}  // namespace janus::cli
