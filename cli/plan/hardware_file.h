#pragma once

#include <string>
#include <string_view>

#include "common/hardware.h"

namespace janus::cli {

// A HardwareProfile object as YAML. Under `spec`: memory, memoryBandwidth, intraNodeBandwidth,
// interNodeBandwidth (quantities: bytes, bytes per second), peak (operations per second by type:
// bf16, and fp8 where there is such arithmetic), instancesPerNode and price (1). `file` names it in
// messages. InvalidArgument: the line and field that is wrong, and what is wanted.
Result<HardwareProfile> ParseHardware(std::string_view text, const std::string& file);

// A preset by name, or such a file: what ends in .yaml or .yml. NotFound: neither.
Result<HardwareProfile> ReadHardware(const std::string& name_or_file);

}  // namespace janus::cli
