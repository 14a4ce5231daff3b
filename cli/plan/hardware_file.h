#pragma once

#include <string>
#include <string_view>

#include "common/hardware.h"

namespace janus::cli {

// A HardwareProfile object as YAML (docs/api.md). `file` names it in messages. InvalidArgument:
// each line and field that is wrong, and what is wanted.
Result<HardwareProfile> ParseHardware(std::string_view text, const std::string& file);

// A preset by name, or such a file: what ends in .yaml or .yml. NotFound: neither.
Result<HardwareProfile> ReadHardware(const std::string& name_or_file);

}  // namespace janus::cli
