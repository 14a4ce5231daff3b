#include "dataplane/worker/hung_device.h"

#include <cstdlib>
#include <string>

namespace janus::dataplane {

void EndWhereDeviceHangs(kernels::Context& context, const Logger& log, Seconds most) {
  if (context.is_host()) return;
  context.WatchWaits(most, [log](std::string_view what, Seconds so_long) {
    log.Error("the device hangs; this process ends, so that another can use it",
              {{"waits_for", std::string(what)}, {"seconds", so_long.count()}});
    std::_Exit(1);
  });
}

}  // namespace janus::dataplane
