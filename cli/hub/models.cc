#include "cli/hub/models.h"

#include <unistd.h>

#include <cstdio>
#include <thread>

#include "cli/hub/fetch.h"
#include "cli/objects/columns.h"
#include "cli/objects/running_services.h"
#include "cli/service_file.h"
#include "common/free_memory.h"
#include "common/model/config.h"
#include "operator/api/quantity.h"
#include "operator/kube/object.h"
#include "operator/reconcile/capacity/service_plan.h"
#include "operator/reconcile/objects/names.h"

namespace janus::cli {
namespace {

// More than any machine has: the plan then says what a model would like to have.
constexpr int64_t kMuchMemory = int64_t{1} << 50;
constexpr size_t kMostNamed = 2;

const control::CallLimits kLimits{Seconds(30), {}};

// The state of a snapshot in one cell.
std::string StateOf(const hub::CachedSnapshot& snapshot) {
  if (snapshot.missing.empty()) return "complete";
  std::string out = "lacks ";
  for (size_t i = 0; i < std::min(snapshot.missing.size(), kMostNamed); ++i) {
    out += (i == 0 ? "" : ", ") + snapshot.missing[i];
  }
  if (snapshot.missing.size() <= kMostNamed) return out;
  return out + " and " + std::to_string(snapshot.missing.size() - kMostNamed) + " more";
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::string FamilyOf(const hub::CachedSnapshot& snapshot) {
  const Result<std::string> config = ReadModelConfig(snapshot.folder);
  if (!config.ok()) return "";
  const Result<ModelDescription> model = ParseModelConfig(*config);
  if (model.ok()) return model->family;
  const std::string why = model.status().message();
  // The list of supported families would be too long for a table.
  return "not served: " + why.substr(0, why.find("; supported"));
}

// The services that run here, with the folders of their models.
std::vector<std::pair<std::string, std::string>> FoldersInUse() {
  std::vector<std::pair<std::string, std::string>> out;
  const control::SystemTimeline timeline;
  for (const RunningService& service : FindRunningServices(control::ReadEnvironment(), timeline)) {
    const auto object =
        service.api->Get(control::kMoEServices, service.key, control::Subresource::kNone, kLimits);
    if (!object.ok()) continue;
    out.emplace_back(service.key.name,
                     control::TextAt(*object, {"spec", "model", "source", "hostPath", "path"}));
  }
  return out;
}

Result<control::ServicePlan> PlanOne(const std::string& folder, const ModelDescription& model,
                                     int64_t memory) {
  JANUS_ASSIGN_OR_RETURN(const control::MoEService service,
                         ParseServiceText(ComposeServiceText({"model", "", folder}), "the object"));
  control::MachineRoom room;
  room.memory_bytes = memory;
  room.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return control::PlanService(service, model, room);
}

std::string DescribeRole(const control::PodNeed& need, const std::string& name) {
  std::string out =
      name + control::FormatBytes(need.total()) + " (weights " + control::FormatBytes(need.weights);
  if (need.kv > 0) out += ", KV cache " + control::FormatBytes(need.kv);
  return out + ")\n";
}

Status ShowCache(const hub::Settings& settings) {
  const std::vector<std::pair<std::string, std::string>> in_use = FoldersInUse();
  std::vector<ModelRow> rows;
  for (hub::CachedSnapshot& snapshot : hub::ListSnapshots(hub::Cache(settings.cache))) {
    ModelRow row{std::move(snapshot), "", {}};
    row.family = FamilyOf(row.snapshot);
    for (const auto& [service, folder] : in_use) {
      if (folder == row.snapshot.folder) row.services.push_back(service);
    }
    rows.push_back(std::move(row));
  }
  std::fputs(RenderModels(rows, settings.cache).c_str(), stdout);
  return OkStatus();
}

}  // namespace

std::string RenderModels(const std::vector<ModelRow>& rows, const std::string& cache) {
  if (rows.empty()) {
    return "no models in " + cache +
           "; janusctl serve --model owner/name downloads one, and so does janusctl models "
           "owner/name --download\n";
  }
  std::vector<std::vector<std::string>> cells{
      {"MODEL", "REVISION", "SIZE", "STATE", "FAMILY", "SERVICES"}};
  for (const ModelRow& row : rows) {
    const hub::CachedSnapshot& snapshot = row.snapshot;
    std::string revision = snapshot.commit.substr(0, 12);
    if (!snapshot.revisions.empty()) revision = Joined(snapshot.revisions) + " " + revision;
    cells.push_back({snapshot.repo, revision, control::FormatBytes(snapshot.bytes),
                     StateOf(snapshot), row.family.empty() ? "-" : row.family,
                     row.services.empty() ? "-" : Joined(row.services)});
  }
  return RenderColumns(cells) + "cache: " + cache + "\n";
}

Result<std::string> DescribeNeeds(const hub::ModelId& model, const hub::LocalModel& local) {
  JANUS_ASSIGN_OR_RETURN(const ModelDescription description, LoadModelConfig(local.folder));
  JANUS_ASSIGN_OR_RETURN(const control::ServicePlan plan,
                         PlanOne(local.folder, description, kMuchMemory));
  std::string out = "model:      " + model.repo + "@" + model.revision + ", commit " +
                    local.commit.substr(0, 12) + "\n" + "family:     " + description.family + " (" +
                    description.architecture + ")\n";
  if (local.weight_bytes > 0) {
    out += "weights:    " + control::FormatBytes(local.weight_bytes) + ", to download " +
           control::FormatBytes(local.weight_bytes - local.weight_bytes_held) + "\n";
  }
  out += DescribeRole(plan.need.attention_pod(), "attention:  ") +
         DescribeRole(plan.need.expert_pod(), "experts:    ");
  JANUS_ASSIGN_OR_RETURN(const int64_t memory, AvailableMemoryBytes());
  const Result<control::ServicePlan> here = PlanOne(local.folder, description, memory);
  if (!here.ok()) return out + "here:       " + here.status().message() + "\n";
  return out + "here:       one instance of each role needs " +
         control::FormatBytes(here->need.total()) + " of " + control::FormatBytes(memory) +
         " free\n";
}

Status Models(const ModelsOptions& options, StopSignals& stop) {
  JANUS_ASSIGN_OR_RETURN(const hub::Settings settings, hub::ReadSettings());
  if (options.model.empty()) {
    if (options.download) return InvalidArgument("models: --download needs a model, owner/name");
    return ShowCache(settings);
  }
  JANUS_ASSIGN_OR_RETURN(const hub::ModelId model, hub::ParseModelId(options.model));
  Screen screen(STDOUT_FILENO, isatty(STDOUT_FILENO) == 1);
  hub::DownloadOptions download;
  download.weights = options.download;
  download.judge = [](const std::string& folder) { return LoadModelConfig(folder).status(); };
  JANUS_ASSIGN_OR_RETURN(const hub::LocalModel local,
                         FetchShown(settings, model, download, screen, stop));
  if (options.download) return OkStatus();
  JANUS_ASSIGN_OR_RETURN(const std::string needs, DescribeNeeds(model, local));
  std::fputs(needs.c_str(), stdout);
  return OkStatus();
}

}  // namespace janus::cli
