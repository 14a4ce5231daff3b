#pragma once

#include <optional>
#include <string>
#include <vector>

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

// What keeps the model from being there: FetchingModel, or ModelFetchFailed with the last failure.
// `what`: "owner/name@revision". `job`: null: it is not there yet. Pure.
Cause FetchCause(const std::string& what, const std::string& name, const FetchJobSeen* job);

}  // namespace janus::control
