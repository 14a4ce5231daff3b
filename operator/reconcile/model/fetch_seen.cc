#include "operator/reconcile/model/fetch_seen.h"

#include <algorithm>

#include "common/format.h"
#include "operator/api/quantity.h"
#include "operator/kube/object.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/status/words.h"

namespace janus::control {
namespace {

// "OOMKilled, exit code 137".
std::string HowItEnded(const Node& terminated) {
  return std::string(TextAt(terminated, {"reason"})) + ", exit code " +
         std::to_string(IntegerAt(terminated, {"exitCode"}).value_or(0));
}

// What the container wrote before it ended, without its last line feed.
std::string WordsOf(const Node& terminated) {
  std::string words(TextAt(terminated, {"message"}));
  words.erase(words.find_last_not_of(" \n") + 1);
  return words;
}

// In the scheduler's words on a pod whose claim has no volume yet.
constexpr std::string_view kUnbound = "unbound immediate PersistentVolumeClaims";

std::string AddressOf(std::string_view ip) {
  if (ip.empty()) return "";
  std::string host(ip);
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return host + ":" + std::to_string(kFetchPort);
}

bool IsBeingBound(const FetchPodSeen& pod, WallTime now) {
  return pod.unbound_since && now < *pod.unbound_since + kVolumeIsMade;
}

// "34 % of 5.2 GB, 2 of 7 files".
std::string HowFar(const FetchProgress& progress) {
  return Format("%.0f %% of ",
                100 * static_cast<double>(progress.bytes_done) /
                    static_cast<double>(std::max<int64_t>(progress.bytes_total, 1))) +
         FormatBytes(progress.bytes_total) + ", " + std::to_string(progress.files_done) + " of " +
         std::to_string(progress.files_total) + " files";
}

}  // namespace

FetchJobSeen ReadFetchJob(const Node& job) {
  FetchJobSeen out;
  out.name = KeyOf(job).name;
  out.uid = UidOf(job);
  out.is_leaving = FindAt(job, {"metadata", "deletionTimestamp"}) != nullptr;
  const Node* const conditions = FindAt(job, {"status", "conditions"});
  if (conditions == nullptr) return out;
  for (const Node& one : conditions->items) {
    const std::string_view type = TextAt(one, {"type"});
    if (TextAt(one, {"status"}) != "True") continue;
    out.has_ended |= type == "Complete" || type == "Failed";
  }
  return out;
}

FetchPodSeen ReadFetchPod(const Node& pod) {
  FetchPodSeen out;
  out.name = KeyOf(pod).name;
  if (const Node* const owners = FindAt(pod, {"metadata", "ownerReferences"})) {
    for (const Node& owner : owners->items) {
      if (TextAt(owner, {"kind"}) == "Job") out.job_uid = TextAt(owner, {"uid"});
    }
  }
  const PodSeen start = ReadStart(pod);
  out.not_running = WhyNotRunning(start);
  if (start.not_starting.empty() && start.unplaceable.find(kUnbound) != std::string::npos) {
    out.unbound_since = start.unplaceable_since;
  }
  const Node* const containers = FindAt(pod, {"status", "containerStatuses"});
  if (containers == nullptr) return out;
  for (const Node& one : containers->items) {
    if (TextAt(one, {"name"}) != kFetch) continue;
    const bool runs = FindAt(one, {"state", "waiting"}) == nullptr &&
                      FindAt(one, {"state", "terminated"}) == nullptr;
    if (runs) out.address = AddressOf(TextAt(pod, {"status", "podIP"}));
    // Of a container that has failed and is started again, or is about to be.
    const Node* failed = FindAt(one, {"lastState", "terminated"});
    if (const Node* const ended = FindAt(one, {"state", "terminated"})) {
      out.has_succeeded = IntegerAt(*ended, {"exitCode"}) == 0;
      if (out.has_succeeded) {
        out.report = WordsOf(*ended);
        return out;
      }
      failed = ended;
    }
    if (failed == nullptr) continue;
    out.failure = WordsOf(*failed);
    if (out.failure.empty()) out.interruption = HowItEnded(*failed);
  }
  return out;
}

std::optional<WallTime> FetchCauseChanges(const FetchJobSeen& job, WallTime now) {
  for (const FetchPodSeen& pod : job.pods) {
    if (IsBeingBound(pod, now)) return *pod.unbound_since + kVolumeIsMade;
  }
  return std::nullopt;
}

std::optional<FetchProgress> ProgressOf(const FetchJobSeen& job) {
  for (const FetchPodSeen& pod : job.pods) {
    if (pod.progress) return pod.progress;
  }
  return std::nullopt;
}

Cause FetchCause(const std::string& what, const std::string& name, const FetchJobSeen* job,
                 WallTime now) {
  const std::string call = "Job " + name;
  if (job != nullptr) {
    for (const FetchPodSeen& pod : job->pods) {
      const std::string tail = " (pod " + pod.name + "; it is tried again)";
      if (!pod.failure.empty()) return {"ModelFetchFailed", pod.failure + tail};
      if (IsBeingBound(pod, now)) {
        return {"FetchingModel", call + " waits for the volume of its claim: " + pod.not_running};
      }
      if (!pod.not_running.empty())
        return {"ModelFetchFailed", call + ": " + pod.not_running + tail};
    }
  }
  const std::optional<FetchProgress> progress = job ? ProgressOf(*job) : std::nullopt;
  std::string message = call + " fetches " + what;
  message += progress ? ": " + HowFar(*progress) : "; kubectl logs job/" + name + " shows how far";
  if (job != nullptr) {
    for (const FetchPodSeen& pod : job->pods) {
      if (pod.interruption.empty()) continue;
      message += "; it was interrupted (" + pod.interruption + ") and goes on";
    }
  }
  return {"FetchingModel", std::move(message)};
}

}  // namespace janus::control
