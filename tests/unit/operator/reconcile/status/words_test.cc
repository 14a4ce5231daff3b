#include "operator/reconcile/status/words.h"

#include <gtest/gtest.h>

#include "operator/api/rfc3339.h"
#include "operator/api/yaml.h"

namespace janus::control {
namespace {

PodSeen PodOf(const std::string& status) {
  const Result<Node> pod = ParseYaml(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: demo-experts-r1-3}\nstatus:\n" + status, "pod");
  EXPECT_TRUE(pod.ok()) << pod.status().ToString();
  return pod.ok() ? ReadStart(*pod) : PodSeen{};
}

std::string ConditionOf(const std::string& type, const std::string& more) {
  return "  - {type: " + type + ", status: 'False', lastTransitionTime: '2026-11-29T03:12:05Z'" +
         more + "}\n";
}

std::string Waiting(const std::string& reason, const std::string& message) {
  return "  conditions:\n" + ConditionOf("ContainersReady", "") +
         "  containerStatuses:\n  - {name: worker, state: {waiting: {reason: " + reason +
         ", message: '" + message + "'}}}\n";
}

TEST(Words, SayThatNoNodeTakesAPodSinceWhenAndWhatToDo) {
  const PodSeen pod = PodOf(
      "  conditions:\n" +
      ConditionOf("PodScheduled",
                  ", reason: Unschedulable, message: '0/2 nodes are available: 2 Insufficient "
                  "memory. '"));
  const std::string words =
      "no node takes pod demo-experts-r1-3 since 2026-11-29T03:12:05Z: 0/2 nodes are available: 2 "
      "Insufficient memory; add a node that fits, or change resources, nodeSelector or tolerations "
      "in the spec";
  EXPECT_EQ(NoNodeWords(pod), words);
  EXPECT_EQ(WhyNotRunning(pod), words);
}

TEST(Words, SayThatAnImageIsNotThereSinceWhenAndWhatToDo) {
  const PodSeen pod = PodOf(Waiting("ImagePullBackOff", "Back-off pulling image \"worker:1\""));
  const std::string words =
      "pod demo-experts-r1-3 does not start since 2026-11-29T03:12:05Z: container worker: "
      "ImagePullBackOff: Back-off pulling image \"worker:1\"; correct spec.image or the image of "
      "the chart; a private registry needs spec.imagePullSecrets";
  EXPECT_EQ(NotStartingWords(pod), words);
  EXPECT_EQ(WhyNotRunning(pod), words);
}

TEST(Words, NameTheRemedyOfEachReasonThatKeepsAContainerFromStarting) {
  const auto ends = [](const std::string& reason, const std::string& remedy) {
    const std::string words = NotStartingWords(PodOf(Waiting(reason, "x")));
    EXPECT_TRUE(words.ends_with("x; " + remedy)) << words;
  };
  const std::string image =
      "correct spec.image or the image of the chart; a private registry needs "
      "spec.imagePullSecrets";
  for (const char* reason :
       {"ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable"}) {
    ends(reason, image);
  }
  ends("CreateContainerConfigError", "create the Secret or ConfigMap that it names");
  ends("RunContainerError", "see the Events of the pod");
}

TEST(Words, SayThatAPodIsNotReadySinceWhenAndWhatToDo) {
  const PodSeen pod = PodOf("  conditions:\n" + ConditionOf("ContainersReady", ""));
  EXPECT_EQ(NotReadyWords(pod),
            "pod demo-experts-r1-3 is not ready since 2026-11-29T03:12:05Z; wait while it loads, "
            "or see its log");
  EXPECT_EQ(WhyNotRunning(pod), "") << "it is on its way";
  EXPECT_EQ(NotReadyWords(PodOf("  {}\n")),
            "pod demo-experts-r1-3 is not ready; wait while it loads, or see its log")
      << "no kubelet has seen it";
}

TEST(Words, SayWhatTheServerRefusesSinceWhenAndWhatToDo) {
  Refusal refusal;
  refusal.since = *ParseTime("2026-11-29T03:12:05Z");
  refusal.cause = {"QuotaExceeded", "create Pod a: exceeded quota: small"};
  EXPECT_EQ(RefusalWords(refusal),
            "create Pod a: exceeded quota: small since 2026-11-29T03:12:05Z; raise the quota, or "
            "lower resources or replicas");
  refusal.cause = {"AdmissionDenied", "create Pod a: maximum cpu is 1."};
  EXPECT_EQ(RefusalWords(refusal),
            "create Pod a: maximum cpu is 1 since 2026-11-29T03:12:05Z; change what it names in "
            "resources or podTemplate of the role, or exempt the namespace");
}

}  // namespace
}  // namespace janus::control
