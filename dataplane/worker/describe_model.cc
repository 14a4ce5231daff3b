#include "dataplane/worker/describe_model.h"

#include <utility>

#include "common/fingerprint.h"
#include "common/model/config.h"
#include "common/model/digest.h"
#include "dataplane/model/text_digest.h"

namespace janus::dataplane {

Result<ModelReport> DescribeModel(const std::string& folder, kernels::Context& context,
                                  CpuSpeedOnce& cpu_speed, int instances,
                                  const std::string& commit) {
  constexpr size_t kMostConfigBytes = 1 << 20;  // of the largest known some kilobytes
  ModelReport out;
  JANUS_ASSIGN_OR_RETURN(out.config_json, ReadModelConfig(folder));
  if (out.config_json.size() > kMostConfigBytes) {
    return InvalidArgument(folder + "/config.json: is " + std::to_string(out.config_json.size()) +
                           " bytes; want at most " + std::to_string(kMostConfigBytes));
  }
  JANUS_ASSIGN_OR_RETURN(const uint64_t digest, DigestModel(folder, out.config_json, commit));
  out.digest = Fingerprint::Hex(digest);
  JANUS_ASSIGN_OR_RETURN(out.text_digest, DigestText(folder));
  JANUS_ASSIGN_OR_RETURN(const ProcessRoom room, ReadProcessRoom());
  out.room = ShareOf(room, instances);
  if (context.is_host()) {
    // A config.json that cannot be read is the planner's to report: it reads the same text.
    if (const Result<ModelDescription> model = ParseModelConfig(out.config_json); model.ok()) {
      JANUS_ASSIGN_OR_RETURN(out.device.cpu, cpu_speed.Get(*model, out.room.cores));
    }
    return out;
  }
  out.device.name = context.name();
  JANUS_ASSIGN_OR_RETURN(const kernels::DeviceMemory device, context.memory());
  out.room.device_memory_bytes = static_cast<int64_t>(device.free + device.held);
  return out;
}

}  // namespace janus::dataplane
