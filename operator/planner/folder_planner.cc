#include "operator/planner/folder_planner.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "common/fingerprint.h"
#include "common/model/config.h"
#include "common/model/digest.h"
#include "operator/api/enums.h"

namespace janus::control {
Result<PlannedService> FolderPlanner::Plan(const MoEService& service) {
  const std::optional<HostPathSource>& source = service.spec.model.source.host_path;
  if (!source) {
    return Unavailable("the model of a source " +
                       std::string(ToString(service.spec.model.source.type)) +
                       " is not known here: this operator reads models of HostPath only");
  }
  const std::string& folder = source->path;
  std::error_code error;
  if (!std::filesystem::exists(folder + "/config.json", error)) {
    return Unavailable("spec.model.source.hostPath.path: there is no " + folder +
                       "/config.json on the operator's machine");
  }
  JANUS_ASSIGN_OR_RETURN(const std::string config, ReadModelConfig(folder));
  PlannedService out;
  JANUS_ASSIGN_OR_RETURN(out.model, ParseModelConfig(config));
  // As its workers will say it.
  JANUS_ASSIGN_OR_RETURN(const uint64_t digest, DigestCheckpoint(folder, config));
  out.model_digest = Fingerprint::Hex(digest);
  JANUS_ASSIGN_OR_RETURN(out.plan, PlanService(service, out.model, room_, gateway_memory_bytes_));
  return out;
}

}  // namespace janus::control
