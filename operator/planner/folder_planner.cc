#include "operator/planner/folder_planner.h"

#include <map>
#include <string>
#include <utility>

#include "common/fingerprint.h"
#include "common/model/config.h"
#include "common/model/digest.h"
#include "operator/api/enums.h"

namespace janus::control {
namespace {

struct Model {
  ModelDescription description;
  std::string digest;
};

Result<Model> ReadModel(const std::string& folder) {
  Result<std::string> read = ReadModelConfig(folder);
  if (!read.ok()) return std::move(read).status().Annotate("spec.model.source.hostPath.path");
  const std::string config = *std::move(read);
  Model out;
  JANUS_ASSIGN_OR_RETURN(out.description, ParseModelConfig(config));
  // The same digest that its workers will report.
  JANUS_ASSIGN_OR_RETURN(const uint64_t digest, DigestCheckpoint(folder, config));
  out.digest = Fingerprint::Hex(digest);
  return out;
}

// The content of the folders at the time of reading.
class FolderKnowledge final : public ModelKnowledge {
 public:
  FolderKnowledge(std::map<std::string, Result<Model>> models, const MachineRoom& room,
                  std::optional<int64_t> gateway_memory_bytes,
                  std::shared_ptr<const ModelKnowledge> workers)
      : models_(std::move(models)),
        room_(room),
        gateway_memory_bytes_(gateway_memory_bytes),
        workers_(std::move(workers)) {}

  Result<PlannedService> Plan(const MoEService& service,
                              const WorkersToAsk& workers) const override {
    const std::optional<HostPathSource>& source = service.spec.model.source.host_path;
    if (!source) {
      return Unavailable("the model of a source " +
                         std::string(ToString(service.spec.model.source.type)) +
                         " is not known here: this operator reads models of HostPath only");
    }
    const auto found = models_.find(source->path);
    if (found == models_.end()) return Unavailable(source->path + " was not read yet");
    const Result<Model>& model = found->second;
    if (!model.ok()) return model.status();
    PlannedService out;
    out.model = model->description;
    out.model_digest = model->digest;
    JANUS_ASSIGN_OR_RETURN(out.plan, PlanService(service, out.model, room_, gateway_memory_bytes_));
    out.devices = Devices(workers);
    return out;
  }
  RoleDevices Devices(const WorkersToAsk& workers) const override {
    return workers_ == nullptr ? RoleDevices{} : workers_->Devices(workers);
  }

 private:
  const std::map<std::string, Result<Model>> models_;
  const MachineRoom room_;
  const std::optional<int64_t> gateway_memory_bytes_;
  const std::shared_ptr<const ModelKnowledge> workers_;  // null: none is asked
};

}  // namespace

std::shared_ptr<const ModelKnowledge> FolderPlanner::Know(const std::string& service_uid,
                                                          const std::vector<std::string>& folders,
                                                          MonotonicTime now) {
  std::map<std::string, Result<Model>> models;
  for (const std::string& folder : folders) models.emplace(folder, ReadModel(folder));
  return std::make_shared<FolderKnowledge>(
      std::move(models), room_, gateway_memory_bytes_,
      workers_ ? workers_->Know(service_uid, folders, now) : nullptr);
}

bool FolderPlanner::Ask(const std::string& service_uid, const WorkersToAsk& workers) {
  return workers_ && workers_->Ask(service_uid, workers);
}

void FolderPlanner::Forget(const std::string& service_uid) {
  if (workers_) workers_->Forget(service_uid);
}

}  // namespace janus::control
