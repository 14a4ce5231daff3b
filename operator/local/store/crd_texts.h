#pragma once

#include <string_view>

namespace janus::control {

// The files of crds/, compiled in, so that janusctl validates like a cluster without other files.
extern const std::string_view kMoEServiceCrd;
extern const std::string_view kRoleScalerCrd;
extern const std::string_view kTopologyCrd;
extern const std::string_view kHardwareProfileCrd;

}  // namespace janus::control
