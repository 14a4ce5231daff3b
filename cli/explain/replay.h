#pragma once

#include <string>

#include "common/status.h"
#include "operator/records/replay.h"

namespace janus::cli {

// janusctl simulate --from: decides again on the recorded worlds of a service, and says which
// decisions are the same. `lines`: operator/records/record_lines.h. Pure. InvalidArgument names the
// line.
Result<std::string> ReplayText(const std::string& lines, const control::ReplayChange& change);

}  // namespace janus::cli
