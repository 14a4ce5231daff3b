#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// Models of a Hugging Face hub. A Job for each service, revision and cache fetches the model into
// the cache (cache PersistentVolumeClaim), or asks the hub for the commit and checks that this
// version serves the model (caches None and Node: an init container of each pod then fetches what
// the pod reads). Its result is recorded in the service's status; from then on every pod uses this
// commit.

inline bool IsFromHub(const MoEService& service) {
  return service.spec.model.source.hugging_face.has_value();
}

// "owner/name@revision".
std::string HubModelText(const MoEService& service);

// <service>-fetch-<key>. The key is a hash of source and cache, so another revision, token or claim
// has another Job.
std::string FetchJobName(const MoEService& service);

// A result in status.model.fetches.
struct FetchedModel {
  std::string job;       // FetchJobName
  std::string revision;  // as in the spec; empty: the newest
  std::string commit;
  int64_t bytes = 0;  // of the weights in the cache; 0 with another cache
  friend bool operator==(const FetchedModel&, const FetchedModel&) = default;
};

// Reads and writes the results in the status. Pure.
std::vector<FetchedModel> FetchedModels(const Node& service);
void SetFetchedModels(Node& service, const std::vector<FetchedModel>& fetched);

// The result of the service's Job, from the status of `tree`; nothing: not fetched yet.
std::optional<FetchedModel> FetchedFor(const Node& tree, const MoEService& service);
// The commit that its revision stands for, if any Job has resolved it.
std::string ResolvedCommit(const Node& tree, const MoEService& service);

// The text of a Job's container that has succeeded: {"commit": ..., "bytes": ...}. Nothing: it is
// no such text, or no commit of 40 digits. Pure.
struct FetchReport {
  std::string commit;
  int64_t bytes = 0;
};
std::optional<FetchReport> ParseFetchReport(std::string_view text);

// The cache's folder below the model's mount, and in it the folder of the service's commit, in the
// layout of Hugging Face's programs.
std::string CacheFolder(const MoEService& service, std::string_view mount);
std::string SnapshotFolder(const MoEService& service, std::string_view mount);

}  // namespace janus::control
