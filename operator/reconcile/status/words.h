#pragma once

#include <string>
#include <string_view>

#include "common/clock.h"
#include "operator/reconcile/pass/refusal.h"
#include "operator/reconcile/pods/pods.h"

// The messages that a new user meets first. Each says what is wrong, since when, and what to do,
// and quotes the scheduler, the kubelet or the API server. All are pure.
namespace janus::control {

// " since 2026-11-22T03:04:05Z"; empty for a time that is not known.
std::string Since(WallTime when);

// No node takes the pod.
std::string NoNodeWords(const PodSeen& pod);

// A container of the pod cannot be started.
std::string NotStartingWords(const PodSeen& pod);

// Which of these two keeps the pod from running; empty: no known reason.
std::string WhyNotRunning(const PodSeen& pod);

// The pod runs, or is about to, but is not ready.
std::string NotReadyWords(const PodSeen& pod);

// A worker of the pod hangs.
std::string HangsWords(const PodSeen& pod);

// An API call that was refused for a reason with a condition of its own.
std::string RefusalWords(const Refusal& refusal);

}  // namespace janus::control
