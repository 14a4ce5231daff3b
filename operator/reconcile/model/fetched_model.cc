#include "operator/reconcile/model/fetched_model.h"

#include <algorithm>
#include <utility>

#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/revision.h"

namespace janus::control {
namespace {

bool IsCommit(std::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string HubModelText(const MoEService& service) {
  const HuggingFaceSource& source = *service.spec.model.source.hugging_face;
  return source.revision.empty() ? source.repo : source.repo + "@" + source.revision;
}

std::string FetchJobName(const MoEService& service) {
  return FetchPolicyName(service.metadata.name) + "-" + SourceKeyOf(service);
}

std::vector<FetchedModel> FetchedModels(const Node& service) {
  std::vector<FetchedModel> out;
  const Node* const fetches = FindAt(service, {"status", "model", "fetches"});
  if (fetches == nullptr) return out;
  for (const Node& one : fetches->items) {
    FetchedModel fetched{std::string(TextAt(one, {"job"})), std::string(TextAt(one, {"revision"})),
                         std::string(TextAt(one, {"commit"})),
                         IntegerAt(one, {"bytes"}).value_or(0)};
    if (IsCommit(fetched.commit)) out.push_back(std::move(fetched));
  }
  return out;
}

void SetFetchedModels(Node& service, const std::vector<FetchedModel>& fetched) {
  Node list = Node::List();
  for (const FetchedModel& one : fetched) {
    list.items.push_back(Object({{"job", Text(one.job)},
                                 {"revision", Text(one.revision)},
                                 {"commit", Text(one.commit)},
                                 {"bytes", Node::Integer(one.bytes)}}));
  }
  SetAt(service, {"status", "model", "fetches"}, std::move(list));
}

std::optional<FetchedModel> FetchedFor(const Node& tree, const MoEService& service) {
  if (!IsFromHub(service)) return std::nullopt;
  const std::string job = FetchJobName(service);
  for (FetchedModel& one : FetchedModels(tree)) {
    if (one.job == job) return std::move(one);
  }
  return std::nullopt;
}

std::string ResolvedCommit(const Node& tree, const MoEService& service) {
  for (const FetchedModel& one : FetchedModels(tree)) {
    if (one.revision == service.spec.model.source.hugging_face->revision) return one.commit;
  }
  return "";
}

std::optional<FetchReport> ParseFetchReport(std::string_view text) {
  const Result<Node> report = ParseJson(text, "the report");
  if (!report.ok()) return std::nullopt;
  const std::string_view commit = TextAt(*report, {"commit"});
  const int64_t bytes = IntegerAt(*report, {"bytes"}).value_or(0);
  if (!IsCommit(commit) || bytes < 0) return std::nullopt;
  std::optional<FetchReport> out(std::in_place);
  out->commit = commit;
  out->bytes = bytes;
  return out;
}

std::string CacheFolder(const MoEService& service, std::string_view mount) {
  const auto& claim = service.spec.model.cache.persistent_volume_claim;
  std::string out(mount);
  if (claim && !claim->path.empty()) out += "/" + claim->path;
  return out;
}

std::string SnapshotFolder(const MoEService& service, std::string_view mount) {
  std::string model = service.spec.model.source.hugging_face->repo;
  if (const size_t slash = model.find('/'); slash != std::string::npos) {
    model.replace(slash, 1, "--");
  }
  return CacheFolder(service, mount) + "/models--" + model + "/snapshots/" + service.commit;
}

}  // namespace janus::control
