#include "operator/reconcile/model/plan_fetch.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/quantity.h"
#include "operator/reconcile/children/plan_children.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {
namespace {

const FetchJobSeen* FindJob(const ServiceObserved& seen, const std::string& name) {
  for (const FetchJobSeen& one : seen.fetch_jobs) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

std::optional<FetchReport> ReportIn(const FetchJobSeen& job) {
  for (const FetchPodSeen& pod : job.pods) {
    if (!pod.has_succeeded) continue;
    if (auto report = ParseFetchReport(pod.report)) return report;
  }
  return std::nullopt;
}

// The Jobs whose models may be needed: for the newest spec, and to replace lost pods of the last
// specs that served.
std::set<std::string> WantedJobs(const ServiceObserved& seen, const MoEService& newest) {
  std::set<std::string> out = {FetchJobName(newest)};
  for (const TopologySeen& topology : seen.topologies) {
    const std::optional<MoEService> last = LastServiceOf(seen.tree, &topology);
    if (last && IsFromHub(*last)) out.insert(FetchJobName(*last));
  }
  return out;
}

RecordFetch Record(const ServiceObserved& seen, const MoEService& newest,
                   const std::set<std::string>& wanted, const FetchReport& report) {
  std::vector<FetchedModel> fetched;
  for (FetchedModel& one : FetchedModels(seen.tree)) {
    if (wanted.contains(one.job)) fetched.push_back(std::move(one));
  }
  fetched.push_back({FetchJobName(newest), newest.spec.model.source.hugging_face->revision,
                     report.commit, report.bytes});
  RecordFetch out{seen.tree, HubModelText(newest) + " is commit " + report.commit};
  if (report.bytes > 0) out.what += ", " + FormatBytes(report.bytes) + " of weights";
  SetFetchedModels(out.next, fetched);
  return out;
}

}  // namespace

Cause WhyNotFetched(const ServiceObserved& seen, const MoEService& newest) {
  if (!IsFromHub(newest) || !newest.commit.empty()) return {};
  const std::string name = FetchJobName(newest);
  return FetchCause(HubModelText(newest), name, FindJob(seen, name), seen.wall);
}

std::optional<FetchProgress> ProgressOfFetch(const ServiceObserved& seen,
                                             const MoEService& newest) {
  if (!IsFromHub(newest) || !newest.commit.empty()) return std::nullopt;
  const FetchJobSeen* const job = FindJob(seen, FetchJobName(newest));
  return job == nullptr ? std::nullopt : ProgressOf(*job);
}

void PlanFetch(const ServiceObserved& seen, const ReconcilerOptions& options, PlanBuilder& out) {
  if (options.ground != Ground::kCluster) return;
  const SpecRead read = ReadSpec(seen.tree);
  const MoEService& newest = read.service;
  if (read.invalid || !IsFromHub(newest) || CheckSpec(newest, options)) return;
  const std::set<std::string> wanted = WantedJobs(seen, newest);
  const auto remove = [&](const FetchJobSeen& job, const char* why) {
    if (job.is_leaving) return;
    out.Add(DeleteChild{&kJobs, {seen.key().namespace_, job.name}, job.uid, why});
  };
  for (const FetchJobSeen& job : seen.fetch_jobs) {
    if (!wanted.contains(job.name)) remove(job, "its model is no longer wanted");
  }
  PlanOwnChild(seen, newest, FetchPolicy(newest, options.defaults), out);
  if (!newest.commit.empty()) return;
  const FetchJobSeen* const job = FindJob(seen, FetchJobName(newest));
  if (job == nullptr) {
    out.Add(
        MakeChild{&kJobs, FetchJob(newest, options.defaults, ResolvedCommit(seen.tree, newest))});
  } else if (const auto report = ReportIn(*job)) {
    out.Add(Record(seen, newest, wanted, *report));
  } else if (job->has_ended) {
    remove(*job, "it has ended without a result, and is made again");
  } else if (const auto changes = FetchCauseChanges(*job, seen.wall)) {
    out.LookAgain(At(seen.now, *changes - seen.wall));
  }
}

}  // namespace janus::control
