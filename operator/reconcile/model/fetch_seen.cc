#include "operator/reconcile/model/fetch_seen.h"

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
  out.not_running = WhyNotRunning(ReadStart(pod));
  const Node* const containers = FindAt(pod, {"status", "containerStatuses"});
  if (containers == nullptr) return out;
  for (const Node& one : containers->items) {
    if (TextAt(one, {"name"}) != kFetch) continue;
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

Cause FetchCause(const std::string& what, const std::string& name, const FetchJobSeen* job) {
  const std::string call = "Job " + name;
  if (job != nullptr) {
    for (const FetchPodSeen& pod : job->pods) {
      const std::string tail = " (pod " + pod.name + "; it is tried again)";
      if (!pod.failure.empty()) return {"ModelFetchFailed", pod.failure + tail};
      if (!pod.not_running.empty())
        return {"ModelFetchFailed", call + ": " + pod.not_running + tail};
    }
  }
  std::string message = call + " fetches " + what + "; kubectl logs job/" + name + " shows how far";
  if (job != nullptr) {
    for (const FetchPodSeen& pod : job->pods) {
      if (pod.interruption.empty()) continue;
      message += "; it was interrupted (" + pod.interruption + ") and goes on";
    }
  }
  return {"FetchingModel", std::move(message)};
}

}  // namespace janus::control
