#include "operator/reconcile/status/words.h"

#include <algorithm>
#include <array>

#include "operator/api/rfc3339.h"

namespace janus::control {
namespace {

// Without the full stop at its end, since more follows.
std::string Quoted(std::string_view words) {
  const size_t end = words.find_last_not_of(" .\n");
  return std::string(words.substr(0, end == words.npos ? 0 : end + 1));
}

std::string RemedyOf(std::string_view not_starting) {
  const auto has = [&](std::string_view part) {
    return not_starting.find(part) != not_starting.npos;
  };
  static constexpr std::array<std::string_view, 5> kOfImages = {
      "ImagePull", "InvalidImageName", "ErrImage", "ImageInspectError", "RegistryUnavailable"};
  if (std::any_of(kOfImages.begin(), kOfImages.end(), has)) {
    return "correct spec.image or the image of the chart; a private registry needs "
           "spec.imagePullSecrets";
  }
  if (has("CreateContainerConfigError")) return "create the Secret or ConfigMap that it names";
  if (has("CrashLoopBackOff")) return "see the log of that container";
  return "see the Events of the pod";
}

}  // namespace

std::string Since(WallTime when) {
  return when == WallTime{} ? "" : " since " + FormatTime(when);
}

std::string NoNodeWords(const PodSeen& pod) {
  return "no node takes pod " + pod.name + Since(pod.unplaceable_since) + ": " +
         Quoted(pod.unplaceable) +
         "; add a node that fits, or change resources, nodeSelector or tolerations in the spec";
}

std::string NotStartingWords(const PodSeen& pod) {
  return "pod " + pod.name + " does not start" + Since(pod.unready_since) + ": " +
         Quoted(pod.not_starting) + "; " + RemedyOf(pod.not_starting);
}

std::string WhyNotRunning(const PodSeen& pod) {
  if (!pod.not_starting.empty()) return NotStartingWords(pod);
  return pod.unplaceable.empty() ? "" : NoNodeWords(pod);
}

std::string NotReadyWords(const PodSeen& pod) {
  if (pod.fetches) return "pod " + pod.name + " fetches its weights" + Since(pod.unready_since);
  return "pod " + pod.name + " is not ready" + Since(pod.unready_since) +
         "; wait while it loads, or see its log";
}

std::string HangsWords(const PodSeen& pod) {
  return "pod " + pod.name + " hangs" + Since(pod.unready_since) +
         ": it answers neither its readiness probe nor the operator; its liveness probe restarts "
         "it, then see its log";
}

std::string RefusalWords(const Refusal& refusal) {
  const std::string what = Quoted(refusal.cause.message) + Since(refusal.since);
  if (refusal.cause.reason == "QuotaExceeded") {
    return what + "; raise the quota, or lower resources or replicas";
  }
  if (refusal.cause.reason == "AdmissionDenied") {
    return what +
           "; change what it names in resources or podTemplate of the role, or exempt the "
           "namespace";
  }
  return what;
}

}  // namespace janus::control
