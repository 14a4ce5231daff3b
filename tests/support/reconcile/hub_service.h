#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {

// A service whose model comes from a hub, in a cluster that runs Jobs: each Job has one pod, with
// the state of its container that `container` tells.
struct HubService : SimulatedService {
  static inline const std::string kFirst = std::string(40, 'a');
  static inline const std::string kSecond = std::string(40, 'b');
  static constexpr const char* kClaim =
      "{type: PersistentVolumeClaim, persistentVolumeClaim: {claimName: models, path: hf}}";

  // How far the Jobs' pods say they are; an error: they do not answer. Questions are counted.
  struct Downloads final : FetchQuestions {
    struct Answer final : FetchQuestion {
      explicit Answer(Result<FetchProgress> says) : said(std::move(says)) {}
      bool done() const override { return true; }
      Result<FetchProgress> result() const override { return said; }
      const Result<FetchProgress> said;
    };
    std::unique_ptr<FetchQuestion> Ask(const std::string& address, Wake wake) override {
      ++questions[address];
      wake();
      return std::make_unique<Answer>(says);
    }
    Result<FetchProgress> says = Unavailable("connection refused");
    std::map<std::string, int> questions;  // by address
  };
  Downloads downloads;

  HubService() {
    options.fetches = &downloads;
    options.defaults.fetch_image = "worker:1";
    options.defaults.hub_endpoint = "http://hub.test:8080";
    on_step = [this] { StepJobs(); };
    RestartOperator();
  }

  // With one attention and two expert instances.
  void ApplyHub(const std::string& cache = "{type: None}", const std::string& revision = "",
                const std::string& more = "") {
    const Result<Node> object = ParseYaml(
        "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
        "metadata: {name: demo, namespace: default}\nspec:\n"
        "  model:\n    cache: " +
            cache + "\n    source: {type: HuggingFace, huggingFace: {repo: org/moe" +
            (revision.empty() ? "" : ", revision: " + revision) +
            ", tokenSecretRef: {name: hub, key: token}}}\n"
            "  roles: {attention: {replicas: 1}, experts: {replicas: 2}}\n" +
            more,
        "demo.yaml");
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    const auto applied = user.Apply(kMoEServices, *object, Subresource::kNone, {}, {});
    ASSERT_TRUE(applied.ok()) << applied.status().ToString();
  }

  // States of the container that fetches.
  static Node Runs() { return Object({{"state", Object({{"running", Node::Map()}})}}); }
  static Node Succeeds(const std::string& commit, int64_t bytes) {
    const std::string report =
        R"({"commit":")" + commit + R"(","bytes":)" + std::to_string(bytes) + R"(,"fetched":1})";
    return Object({{"state", Object({{"terminated", Ended(0, "Completed", report)}})}});
  }
  static Node Fails(const std::string& words, const std::string& reason = "Error") {
    return Object({{"lastState", Object({{"terminated", Ended(1, reason, words)}})},
                   {"state", Object({{"running", Node::Map()}})}});
  }
  static Node Waits(const std::string& reason, const std::string& words) {
    return Object(
        {{"state",
          Object({{"waiting", Object({{"reason", Text(reason)}, {"message", Text(words)}})}})}});
  }
  static Node Ended(int code, const std::string& reason, const std::string& words) {
    Node out = Object({{"exitCode", Node::Integer(code)}, {"reason", Text(reason)}});
    if (!words.empty()) out.Add("message", Text(words));
    return out;
  }
  void Fetch(const std::string& commit, int64_t bytes = 0) {
    container = [=](const Node&) { return Succeeds(commit, bytes); };
  }

  // The only Job; fails the test if there is another number.
  Node Job() {
    const std::vector<Node> jobs = List(kJobs);
    EXPECT_EQ(jobs.size(), 1u);
    return jobs.empty() ? Node::Map() : jobs[0];
  }
  // A flag of the Job's container, of which `name` is the beginning.
  static std::string Flag(const Node& container, const std::string& name) {
    const Node* const args = FindAt(container, {"args"});
    if (args == nullptr) return "";
    for (const Node& arg : args->items) {
      if (arg.text.starts_with(name + "=")) return arg.text.substr(name.size() + 1);
    }
    return "";
  }
  static const Node& Container(const Node& pod, std::string_view list = "containers") {
    return FindAt(pod, {"spec", list})->items.at(0);
  }
  static Node TemplateOf(const Node& job) { return *FindAt(job, {"spec", "template"}); }

  // How the container of a Job's pod is; nothing: the pod does not start yet.
  std::function<std::optional<Node>(const Node& job)> container = [](const Node&) {
    return Runs();
  };

 private:
  void StepJobs() {
    const std::vector<Node> pods = List(kPods);
    for (const Node& job : List(kJobs)) {
      const std::string name = KeyOf(job).name + "-p";
      std::optional<Node> pod = Get(kPods, name);
      if (!pod) pod = MakePod(job, name);
      std::optional<Node> status = container(job);
      if (!status) continue;
      status->Add("name", Text(kFetch));
      Node next = *pod;
      SetAt(next, {"status", "containerStatuses"}, ListOf({*std::move(status)}));
      SetAt(next, {"status", "podIP"}, Text("10.0.0.9"));
      if (next == *pod) continue;
      static_cast<void>(user.Update(kPods, next, Subresource::kStatus, {}, {}));
    }
  }
  Node MakePod(const Node& job, const std::string& name) {
    Node pod = TemplateOf(job);
    SetAt(pod, {"apiVersion"}, Text("v1"));
    SetAt(pod, {"kind"}, Text("Pod"));
    SetAt(pod, {"metadata", "name"}, Text(name));
    SetAt(pod, {"metadata", "namespace"}, Text("default"));
    SetAt(pod, {"metadata", "ownerReferences"},
          ListOf({Object({{"apiVersion", Text("batch/v1")},
                          {"kind", Text("Job")},
                          {"name", Text(KeyOf(job).name)},
                          {"uid", Text(UidOf(job))},
                          {"controller", Node::Bool(true)}})}));
    const auto made = user.Create(kPods, pod, {}, {});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *made : pod;
  }
};

}  // namespace janus::control
