#include "operator/planner/folder_planner.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/fingerprint.h"
#include "common/model/config.h"
#include "operator/api/enums.h"

namespace janus::control {
namespace {

namespace fs = std::filesystem;

// Other weights have other names or sizes, but for those of a training that went on; whoever
// replaces a folder's files by such ones makes another folder.
Result<std::string> DigestOf(const std::string& folder, const std::string& config) {
  std::vector<std::pair<std::string, uint64_t>> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".safetensors") continue;
    const uint64_t size = it->file_size(error);
    if (error) break;
    files.emplace_back(it->path().filename().string(), size);
  }
  if (error) return Unavailable(folder + ": " + error.message());
  std::sort(files.begin(), files.end());
  Fingerprint digest;
  digest.Mix(config);
  for (const auto& [name, size] : files) digest.Mix(name).Mix(size);
  return digest.Hex();
}

}  // namespace

Result<PlannedService> FolderPlanner::Plan(const MoEService& service) {
  const std::optional<HostPathSource>& source = service.spec.model.source.host_path;
  if (!source) {
    return Unavailable("the model of a source " +
                       std::string(ToString(service.spec.model.source.type)) +
                       " is not known here: this operator reads models of HostPath only");
  }
  const std::string& folder = source->path;
  std::error_code error;
  if (!fs::exists(folder + "/config.json", error)) {
    return Unavailable("spec.model.source.hostPath.path: there is no " + folder +
                       "/config.json on the operator's machine");
  }
  JANUS_ASSIGN_OR_RETURN(const std::string config, ReadModelConfig(folder));
  PlannedService out;
  JANUS_ASSIGN_OR_RETURN(out.model, ParseModelConfig(config));
  JANUS_ASSIGN_OR_RETURN(out.model_digest, DigestOf(folder, config));
  JANUS_ASSIGN_OR_RETURN(out.plan, PlanService(service, out.model, room_, gateway_memory_bytes_));
  return out;
}

}  // namespace janus::control
