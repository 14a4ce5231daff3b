#include <gtest/gtest.h>

#include <algorithm>

#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/objects/owned.h"
#include "tests/support/reconcile/hub_service.h"

namespace janus::control {
namespace {

std::vector<Node> WorkersIn(HubService& sim) {
  std::vector<Node> out;
  for (Node& pod : sim.List(kPods)) {
    if (!TextAt(pod, {"metadata", "labels", kRoleLabel}).empty()) out.push_back(std::move(pod));
  }
  return out;
}

bool Mentions(const Node& tree, const std::string& text) {
  return WriteJson(tree).find(text) != std::string::npos;
}

TEST(FetchModel, AJobFillsTheClaimBeforeAnyPodIsMade) {
  HubService sim;
  sim.ApplyHub(HubService::kClaim);
  sim.Run(Seconds(30));
  const Node job = sim.Job();
  EXPECT_EQ(KeyOf(job).name, "demo-fetch-" + KeyOf(job).name.substr(11));
  EXPECT_TRUE(IsControlledBy(job, UidOf(sim.Service())));
  const Node pod = HubService::TemplateOf(job);
  EXPECT_EQ(
      TextAt(pod.Find("spec")->Find("volumes")->items[0], {"persistentVolumeClaim", "claimName"}),
      "models");
  const Node& container = HubService::Container(pod);
  EXPECT_EQ(TextAt(container, {"image"}), "worker:1");
  EXPECT_EQ(HubService::Flag(container, "--repo"), "org/moe");
  EXPECT_EQ(HubService::Flag(container, "--revision"), "main");
  EXPECT_EQ(HubService::Flag(container, "--into"), "/model/hf");
  EXPECT_EQ(HubService::Flag(container, "--for"), "all");
  EXPECT_TRUE(Mentions(container, R"({"name":"HF_ENDPOINT","value":"http://hub.test:8080"})"));
  EXPECT_TRUE(Mentions(container, R"({"secretKeyRef":{"key":"token","name":"hub"}})"));
  EXPECT_TRUE(WorkersIn(sim).empty());
  EXPECT_TRUE(sim.List(kDeployments).empty());
  EXPECT_EQ(sim.Condition("Ready"), "False/FetchingModel");
  EXPECT_EQ(sim.Condition("TopologyReady"), "False/FetchingModel");
  EXPECT_EQ(sim.Condition("Progressing"), "True/FetchingModel");
  EXPECT_EQ(sim.MessageOf("Progressing"), "Job " + KeyOf(job).name +
                                              " fetches org/moe; kubectl logs job/" +
                                              KeyOf(job).name + " shows how far");
  EXPECT_EQ(sim.op().CountEvents("ModelFetching"), 1);

  sim.Fetch(HubService::kFirst, 5'000'000'000);
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  sim.ExpectWhole(1, 2);
  EXPECT_EQ(sim.op().CountEvents("ModelFetched"), 1);
  EXPECT_EQ(TextAt(sim.Service(), {"status", "model", "repo"}), "org/moe");
  EXPECT_EQ(TextAt(sim.Service(), {"status", "model", "revision"}), HubService::kFirst);
  EXPECT_EQ(IntegerAt(sim.Service(), {"status", "model", "bytes"}), 5'000'000'000);
  const std::string folder = "/model/hf/models--org--moe/snapshots/" + HubService::kFirst;
  for (const Node& worker : WorkersIn(sim)) {
    EXPECT_EQ(HubService::Flag(HubService::Container(worker), "--model"), folder);
    EXPECT_EQ(HubService::Flag(HubService::Container(worker), "--commit"), HubService::kFirst);
    EXPECT_TRUE(
        Mentions(worker, R"("persistentVolumeClaim":{"claimName":"models","readOnly":true})"));
    EXPECT_EQ(FindAt(worker, {"spec", "initContainers"}), nullptr);
    EXPECT_FALSE(Mentions(worker, "HF_TOKEN"));
  }
  const Node gateway = HubService::TemplateOf(*sim.Get(kDeployments, "demo-gateway"));
  EXPECT_EQ(HubService::Flag(HubService::Container(gateway), "--model"), folder);
  EXPECT_FALSE(Mentions(gateway, "HF_TOKEN"));
  EXPECT_EQ(KeyOf(sim.Job()), KeyOf(job)) << "it stays as the record";
}

TEST(FetchModel, WithoutACacheEachPodFetchesWhatItReads) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(2));
  const Node job = HubService::TemplateOf(sim.Job());
  EXPECT_EQ(HubService::Flag(HubService::Container(job), "--for"), "gateway");
  EXPECT_TRUE(Mentions(job, R"({"emptyDir":{},"name":"model"})"));
  sim.Fetch(HubService::kFirst);
  sim.RunUntil("Ready");
  std::multiset<std::string> reader;
  for (const Node& worker : WorkersIn(sim)) {
    const Node& fetch = HubService::Container(worker, "initContainers");
    reader.insert(HubService::Flag(fetch, "--for"));
    EXPECT_EQ(TextAt(worker, {"metadata", "labels", kRoleLabel}), HubService::Flag(fetch, "--for"));
    EXPECT_EQ(HubService::Flag(fetch, "--revision"), HubService::kFirst);
    EXPECT_TRUE(Mentions(fetch, "HF_TOKEN"));
    EXPECT_FALSE(Mentions(HubService::Container(worker), "HF_TOKEN"));
    EXPECT_TRUE(Mentions(HubService::Container(worker),
                         R"({"mountPath":"/model","name":"model","readOnly":true})"));
    EXPECT_TRUE(Mentions(worker, R"({"emptyDir":{},"name":"model"})"));
  }
  EXPECT_EQ(reader, (std::multiset<std::string>{"attention", "experts", "experts"}));
  const Node gateway = HubService::TemplateOf(*sim.Get(kDeployments, "demo-gateway"));
  EXPECT_EQ(HubService::Flag(HubService::Container(gateway, "initContainers"), "--for"), "gateway");
  EXPECT_FALSE(Mentions(HubService::Container(gateway), "HF_TOKEN"));
}

TEST(FetchModel, AFailureIsTheConditionInTheProgramsWordsUntilItSucceeds) {
  HubService sim;
  sim.container = [](const Node&) { return HubService::Fails("org/moe is gated\n"); };
  sim.ApplyHub(HubService::kClaim);
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Ready"), "False/ModelFetchFailed");
  EXPECT_EQ(sim.Condition("Progressing"), "False/ModelFetchFailed");
  EXPECT_EQ(sim.MessageOf("Progressing"),
            "org/moe is gated (pod " + KeyOf(sim.Job()).name + "-p; it is tried again)");
  EXPECT_EQ(sim.op().CountEvents("ModelFetchFailed"), 1);
  EXPECT_TRUE(WorkersIn(sim).empty());
  sim.Fetch(HubService::kFirst);
  sim.RunUntil("Ready");
}

TEST(FetchModel, WhatKeepsTheJobsPodFromRunningIsTheFailure) {
  HubService sim;
  sim.container = [](const Node&) {
    return HubService::Waits("CreateContainerConfigError", "secret \"hub\" not found");
  };
  sim.ApplyHub();
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Progressing"), "False/ModelFetchFailed");
  EXPECT_NE(sim.MessageOf("Progressing").find("secret \"hub\" not found"), std::string::npos);
}

TEST(FetchModel, AKilledContainerGoesOnAndIsNoFailure) {
  HubService sim;
  sim.container = [](const Node&) { return HubService::Fails("", "OOMKilled"); };
  sim.ApplyHub();
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Progressing"), "True/FetchingModel");
  EXPECT_NE(sim.MessageOf("Progressing").find("it was interrupted (OOMKilled, exit code 1)"),
            std::string::npos);
}

TEST(FetchModel, TheStatusTellsHowFarTheDownloadIs) {
  HubService sim;
  sim.ApplyHub(HubService::kClaim);
  sim.downloads.says = FetchProgress{1'700'000'000, 5'000'000'000, 2, 7};
  sim.Run(Seconds(12));
  EXPECT_EQ(sim.MessageOf("Progressing"),
            "Job " + KeyOf(sim.Job()).name + " fetches org/moe: 34 % of 5.0 GB, 2 of 7 files");
  const auto field = [&](std::string_view name) {
    return IntegerAt(sim.Service(), {"status", "model", "download", name});
  };
  EXPECT_EQ(field("percent"), 34);
  EXPECT_EQ(field("bytes"), 1'700'000'000);
  EXPECT_EQ(field("bytesTotal"), 5'000'000'000);
  EXPECT_EQ(field("files"), 2);
  EXPECT_EQ(field("filesTotal"), 7);
  EXPECT_EQ(sim.downloads.questions.begin()->first, "10.0.0.9:9000");
  EXPECT_EQ(
      HubService::Flag(HubService::Container(HubService::TemplateOf(sim.Job())), "--progress-port"),
      "9000");
  // The last numbers do not stay when the pod is silent.
  sim.downloads.says = Unavailable("connection refused");
  sim.Run(Seconds(60));
  EXPECT_FALSE(field("percent"));
  EXPECT_TRUE(sim.MessageOf("Progressing").ends_with(" shows how far"));
  sim.downloads.says = FetchProgress{2'000'000'000, 5'000'000'000, 2, 7};
  sim.Run(Seconds(12));
  EXPECT_EQ(field("percent"), 40);
  sim.Fetch(HubService::kFirst, 5'000'000'000);
  sim.RunUntil("Ready");
  EXPECT_FALSE(field("percent"));
  EXPECT_EQ(TextAt(sim.Service(), {"status", "model", "repo"}), "org/moe");
}

TEST(FetchModel, ADownloadIsAskedAndWrittenAtMostEveryTenSeconds) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(20));
  int64_t bytes = 0;
  std::set<std::string> versions;
  sim.container = [&](const Node&) {
    sim.downloads.says = FetchProgress{++bytes, int64_t{1} << 40, 0, 1};
    versions.emplace(ResourceVersionOf(sim.Service()));
    return HubService::Runs();
  };
  const int before = sim.downloads.questions.begin()->second;
  sim.Run(Seconds(200));
  const int asked = sim.downloads.questions.begin()->second - before;
  EXPECT_GE(asked, 19);
  EXPECT_LE(asked, 21);
  EXPECT_GE(versions.size(), 19u);
  EXPECT_LE(versions.size(), 22u);
}

TEST(FetchModel, AVolumeMayBeMadeForAWhileBeforeTheJobHasFailed) {
  HubService sim;
  sim.container = [](const Node&) { return std::nullopt; };
  sim.ApplyHub(HubService::kClaim);
  sim.Run(Seconds(2));
  const std::string words =
      "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims";
  const auto say = [&](const std::string& what) {
    Node pod = *sim.Get(kPods, KeyOf(sim.Job()).name + "-p");
    SetAt(pod, {"status", "conditions"},
          ListOf({Object({{"type", Text("PodScheduled")},
                          {"status", Text("False")},
                          {"reason", Text("Unschedulable")},
                          {"lastTransitionTime", Text(FormatTime(sim.timeline.WallNow()))},
                          {"message", Text(what)}})}));
    ASSERT_TRUE(sim.user.Update(kPods, pod, Subresource::kStatus, {}, {}).ok());
  };
  // A failure that no volume cures shows at once.
  say(R"(persistentvolumeclaim "models" not found)");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Progressing"), "False/ModelFetchFailed");
  say(words);
  sim.Run(Seconds(100));
  EXPECT_EQ(sim.Condition("Progressing"), "True/FetchingModel");
  EXPECT_NE(sim.MessageOf("Progressing").find(" waits for the volume of its claim: "),
            std::string::npos)
      << sim.MessageOf("Progressing");
  EXPECT_NE(sim.MessageOf("Progressing").find(words), std::string::npos);
  EXPECT_EQ(sim.op().CountEvents("ModelFetchFailed"), 1);
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.Condition("Progressing"), "False/ModelFetchFailed");
}

TEST(FetchModel, ADownloadOfHalfAnHourIsProgress) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(1800));
  EXPECT_EQ(sim.Condition("Progressing"), "True/FetchingModel");
  sim.Fetch(HubService::kFirst);
  sim.Run(Seconds(3));
  EXPECT_EQ(sim.Condition("Progressing"), "True/Working");
}

TEST(FetchModel, ARevisionIsResolvedOnceAndNeverAgain) {
  HubService sim;
  sim.ApplyHub(HubService::kClaim);
  sim.Fetch(HubService::kFirst);
  sim.RunUntil("Ready");
  // The branch moves; a lost pod and a new operator get the old commit.
  sim.Fetch(HubService::kSecond);
  sim.RestartOperator();
  const std::string lost = sim.Pods(Role::kExperts)[0].name;
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", lost}, {}, {}).ok());
  sim.Run(Seconds(20));
  sim.RunUntil("Ready");
  for (const Node& worker : WorkersIn(sim)) {
    EXPECT_EQ(HubService::Flag(HubService::Container(worker), "--commit"), HubService::kFirst);
  }
  EXPECT_EQ(sim.op().CountEvents("ModelFetched"), 0) << "the new operator reads it in the status";
  // Another claim is filled with this commit, too.
  sim.Patch(R"({"spec":{"model":{"cache":{"persistentVolumeClaim":{"claimName":"more"}}}}})");
  std::string asked;
  sim.container = [&](const Node& job) {
    if (!Mentions(job, "more")) return HubService::Succeeds(HubService::kSecond, 7);
    asked = HubService::Flag(HubService::Container(HubService::TemplateOf(job)), "--revision");
    return HubService::Succeeds(asked, 7);
  };
  sim.Run(Seconds(60));
  sim.RunUntil("Ready");
  EXPECT_EQ(asked, HubService::kFirst);
}

TEST(FetchModel, AnEditOfTheRevisionWaitsForItsModelWhileTheOldOneServes) {
  HubService sim;
  sim.planner.digest = "digest of a";
  sim.ApplyHub(HubService::kClaim);
  sim.Fetch(HubService::kFirst);
  sim.RunUntil("Ready");
  const std::string first = KeyOf(sim.Job()).name;
  sim.container = [&](const Node& job) {
    return KeyOf(job).name == first ? HubService::Succeeds(HubService::kFirst, 0)
                                    : HubService::Runs();
  };
  sim.Patch(R"({"spec":{"model":{"source":{"huggingFace":{"revision":"v2"}}}}})");
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Ready"), "False/FetchingModel");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  EXPECT_EQ(sim.List(kJobs).size(), 2u);
  sim.ExpectMembers(1, 2);
  // What is lost meanwhile is replaced by a pod of the old model.
  ASSERT_TRUE(sim.user.Delete(kPods, {"default", sim.Pods(Role::kExperts)[0].name}, {}, {}).ok());
  sim.Run(Seconds(30));
  sim.ExpectMembers(1, 2);
  for (const Node& worker : WorkersIn(sim)) {
    EXPECT_EQ(HubService::Flag(HubService::Container(worker), "--commit"), HubService::kFirst);
  }

  sim.container = [&](const Node& job) {
    return HubService::Succeeds(KeyOf(job).name == first ? HubService::kFirst : HubService::kSecond,
                                0);
  };
  sim.Run(Seconds(60));
  sim.RunUntil("Ready");
  for (const Node& worker : WorkersIn(sim)) {
    EXPECT_EQ(HubService::Flag(HubService::Container(worker), "--commit"), HubService::kSecond);
  }
  const Node gateway = HubService::TemplateOf(*sim.Get(kDeployments, "demo-gateway"));
  EXPECT_TRUE(
      HubService::Flag(HubService::Container(gateway), "--model").ends_with(HubService::kSecond));
  EXPECT_EQ(TextAt(sim.Service(), {"status", "model", "revision"}), HubService::kSecond);
  sim.Run(Seconds(10));
  EXPECT_NE(KeyOf(sim.Job()).name, first) << "the older Job is deleted";
}

TEST(FetchModel, AnEditThatCannotBeFetchedIsTakenBack) {
  HubService sim;
  sim.ApplyHub(HubService::kClaim);
  sim.Fetch(HubService::kFirst);
  sim.RunUntil("Ready");
  const std::string first = KeyOf(sim.Job()).name;
  sim.container = [&](const Node& job) {
    return KeyOf(job).name == first ? HubService::Succeeds(HubService::kFirst, 0)
                                    : HubService::Fails("org/moe has no revision 'v2'");
  };
  sim.Patch(R"({"spec":{"model":{"source":{"huggingFace":{"revision":"v2"}}}}})");
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("Ready"), "False/ModelFetchFailed");
  EXPECT_EQ(sim.Condition("Available"), "True/Serving");
  sim.Patch(R"({"spec":{"model":{"source":{"huggingFace":{"revision":null}}}}})");
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  EXPECT_EQ(KeyOf(sim.Job()).name, first);
  EXPECT_EQ(sim.cluster.pods_ever().size(), 3u) << "no pod is replaced";
}

TEST(FetchModel, AJobThatEndedWithoutAResultIsMadeAgain) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(5));
  Node job = sim.Job();
  const std::string uid(UidOf(job));
  SetAt(job, {"status", "conditions"},
        ListOf({Object({{"type", Text("Failed")}, {"status", Text("True")}})}));
  ASSERT_TRUE(sim.user.Update(kJobs, job, Subresource::kStatus, {}, {}).ok());
  sim.Run(Seconds(10));
  EXPECT_NE(UidOf(sim.Job()), uid);
}

TEST(FetchModel, OnlyAPodOfTheJobIsBelieved) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(5));
  Node pod = *sim.Get(kPods, KeyOf(sim.Job()).name + "-p");
  Node other = Object({{"apiVersion", Text("v1")}, {"kind", Text("Pod")}});
  SetAt(other, {"spec"}, *pod.Find("spec"));
  SetAt(other, {"metadata", "name"}, Text("other"));
  SetAt(other, {"metadata", "namespace"}, Text("default"));
  SetAt(other, {"metadata", "labels"}, *FindAt(pod, {"metadata", "labels"}));
  other = *sim.user.Create(kPods, other, {}, {});
  Node status = HubService::Succeeds(HubService::kSecond, 0);
  status.Add("name", Text(kFetch));
  SetAt(other, {"status", "containerStatuses"}, ListOf({status}));
  ASSERT_TRUE(sim.user.Update(kPods, other, Subresource::kStatus, {}, {}).ok());
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.op().CountEvents("ModelFetched"), 0);
}

TEST(FetchModel, AForeignJobWithTheNameStaysAndIsReported) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(2));
  const Node job = sim.Job();
  sim.Delete();
  sim.Run(Seconds(5));
  EXPECT_TRUE(sim.List(kJobs).empty()) << "it goes with its service";
  Node foreign = Object({{"apiVersion", Text("batch/v1")}, {"kind", Text("Job")}});
  SetAt(foreign, {"metadata", "name"}, Text(KeyOf(job).name));
  SetAt(foreign, {"metadata", "namespace"}, Text("default"));
  SetAt(foreign, {"spec"}, *job.Find("spec"));
  ASSERT_TRUE(sim.user.Create(kJobs, foreign, {}, {}).ok());
  sim.Fetch(HubService::kFirst);
  sim.ApplyHub();
  sim.Run(Seconds(10));
  EXPECT_EQ(sim.Condition("Progressing"), "False/AdoptRefused");
  EXPECT_EQ(sim.op().CountEvents("ModelFetched"), 0);
}

TEST(FetchModel, TheJobsPolicyOpensDnsAndTheHubAloneAndItsPortToTheOperator) {
  HubService sim;
  sim.ApplyHub();
  sim.Run(Seconds(2));
  const Node spec = *sim.Get(kNetworkPolicies, "demo-fetch")->Find("spec");
  EXPECT_TRUE(Mentions(spec, R"("policyTypes":["Ingress","Egress"])"));
  const std::vector<Node>& rules = spec.Find("ingress")->items;
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_TRUE(Mentions(rules[0], R"("ports":[{"port":9000,"protocol":"TCP"}])"));
  const std::vector<Node>& peers = rules[0].Find("from")->items;
  ASSERT_EQ(peers.size(), 1u);
  EXPECT_NE(peers[0].Find("namespaceSelector"), nullptr);
  EXPECT_TRUE(
      Mentions(*peers[0].Find("podSelector"), R"("app.kubernetes.io/component":"operator")"));
  std::set<int64_t> ports;
  for (const Node& port : spec.Find("egress")->items.at(0).Find("ports")->items) {
    ports.insert(*IntegerAt(port, {"port"}));
  }
  EXPECT_EQ(ports, (std::set<int64_t>{53, 443, 5353, 8080}));
  const Node labels = *FindAt(HubService::TemplateOf(sim.Job()), {"metadata", "labels"});
  EXPECT_TRUE(Covers(labels, *FindAt(spec, {"podSelector", "matchLabels"})));
}

TEST(FetchModel, WithANodesFolderPodsFetchIntoIt) {
  HubService sim;
  sim.ApplyHub("{type: Node, node: {path: /models/cache}}");
  sim.Run(Seconds(2));
  EXPECT_TRUE(Mentions(HubService::TemplateOf(sim.Job()), R"({"emptyDir":{},"name":"model"})"))
      << "the Job only finds the commit";
  sim.Fetch(HubService::kFirst);
  sim.RunUntil("Ready");
  std::vector<Node> pods = WorkersIn(sim);
  EXPECT_EQ(pods.size(), 3u);
  pods.push_back(HubService::TemplateOf(*sim.Get(kDeployments, "demo-gateway")));
  for (const Node& pod : pods) {
    EXPECT_TRUE(Mentions(
        pod, R"({"hostPath":{"path":"/models/cache","type":"DirectoryOrCreate"},"name":"model"})"));
    const Node& fetch = HubService::Container(pod, "initContainers");
    // The folder is root's.
    EXPECT_EQ(IntegerAt(fetch, {"securityContext", "runAsUser"}), 0);
    EXPECT_TRUE(Mentions(fetch, R"("drop":["ALL"])"));
    EXPECT_TRUE(Mentions(fetch, R"({"mountPath":"/model","name":"model"})"));
    EXPECT_TRUE(Mentions(HubService::Container(pod),
                         R"({"mountPath":"/model","name":"model","readOnly":true})"));
    EXPECT_EQ(FindAt(HubService::Container(pod), {"securityContext", "runAsUser"}), nullptr);
  }
}

TEST(FetchModel, ANodesFolderThatTheOperatorDoesNotAllowIsRefused) {
  HubService sim;
  sim.ApplyHub("{type: Node, node: {path: /etc}}");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.Condition("Stalled"), "True/InvalidSpec");
  EXPECT_NE(
      sim.MessageOf("Stalled").find("spec.model.cache.node.path: is '/etc', below none of the "
                                    "folders this operator allows"),
      std::string::npos)
      << sim.MessageOf("Stalled");
  EXPECT_TRUE(sim.List(kJobs).empty());
}

TEST(FetchReport, IsReadOrIsNone) {
  const auto report = ParseFetchReport(R"({"commit":")" + HubService::kFirst + R"(","bytes":7})");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->commit, HubService::kFirst);
  EXPECT_EQ(report->bytes, 7);
  for (const std::string& text : {std::string(), std::string("{}"), std::string("org/moe is gated"),
                                  std::string(R"({"commit":"../../etc","bytes":7})"),
                                  R"({"commit":")" + HubService::kFirst + R"(","bytes":-7})"}) {
    EXPECT_FALSE(ParseFetchReport(text)) << text;
  }
}

}  // namespace
}  // namespace janus::control
