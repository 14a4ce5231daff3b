#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fetch_progress.h"
#include "operator/api/tree.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// A pod of a Job that fetches a model.
struct FetchPodSeen {
  std::string name;
  std::string job_uid;  // its owner
  bool has_succeeded = false;
  std::string report;  // of a success
  // The last failure in the program's words; empty: none.
  std::string failure = {};
  // How its container ended without words, for example "OOMKilled, exit code 137".
  std::string interruption = {};
  std::string not_running = {};  // no node, no image, no Secret: in the words of what refuses it
  // Since when `not_running` is that its volume is not bound; nothing: another reason, or none.
  std::optional<WallTime> unbound_since = {};
  std::string address = {};  // where it tells how far it is; empty: it does not run
  std::optional<FetchProgress> progress = {};  // that it told lately
};

// Such a Job of the service.
struct FetchJobSeen {
  std::string name;
  std::string uid;
  bool is_leaving = false;
  bool has_ended = false;  // its pods will not run again
  std::vector<FetchPodSeen> pods = {};
};

// Reads what decisions use. Pure.
FetchJobSeen ReadFetchJob(const Node& job);
FetchPodSeen ReadFetchPod(const Node& pod);

// How long a volume may be made until a Job without it has failed. A claim that is made with the
// service has no volume at first, and the scheduler says so at once.
inline constexpr std::chrono::minutes kVolumeIsMade{2};

// What keeps the model from being there: FetchingModel, or ModelFetchFailed with the last failure.
// `what`: "owner/name@revision". `job`: null: it is not there yet. Pure.
Cause FetchCause(const std::string& what, const std::string& name, const FetchJobSeen* job,
                 WallTime now);
// When another result follows though nothing is seen to change; nothing: never. Pure.
std::optional<WallTime> FetchCauseChanges(const FetchJobSeen& job, WallTime now);
// That a pod of the Job told; nothing: none did. Pure.
std::optional<FetchProgress> ProgressOf(const FetchJobSeen& job);

}  // namespace janus::control
