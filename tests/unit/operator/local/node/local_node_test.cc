// The node on the store, with real processes. No test waits for a fixed time; each waits until an
// event happens.

#include "operator/local/node/local_node.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "common/fd.h"
#include "common/mutex.h"
#include "operator/api/yaml.h"
#include "operator/local/store/store_client.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "tests/support/kube/passing_api.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

namespace fs = std::filesystem;
using Kind = ContainerEvent::Kind;

const CallLimits kLimits;
const std::string kProgram =
    test::BinDir() + "/scripted-container";  // NOLINT(cert-err58-cpp): a path

void Await(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

std::string ReadText(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The folder with instructions for a pod's container.
class Script {
 public:
  pid_t pid() const { return static_cast<pid_t>(std::atoi(ReadText(path("pid")).c_str())); }
  std::string arguments() const { return ReadText(path("arguments")); }
  void Set(const std::string& name, const std::string& text = "") const {
    folder_.Write(name, text);
  }
  void Clear(const std::string& name) const { fs::remove(path(name)); }
  fs::path path(const std::string& name) const { return fs::path(folder_.path()) / name; }
  const std::string& folder() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

// A process that the test can wait for although it is not our child.
class Watched {
 public:
  explicit Watched(pid_t pid) : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  bool is_gone() const {
    pollfd exit = {fd_.get(), POLLIN, 0};
    return !fd_ || poll(&exit, 1, 0) == 1;
  }
  void AwaitEnd() const {
    pollfd exit = {fd_.get(), POLLIN, 0};
    while (fd_ && poll(&exit, 1, -1) != 1) {
    }
  }
  void Kill() const { syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0); }

 private:
  Fd fd_;
};

std::string WorkerPod(const std::string& name, const Script& script, const std::string& more = "") {
  const auto probe = [](const char* path, int failures) {
    return "{httpGet: {path: " + std::string(path) +
           ", port: metrics}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: " +
           std::to_string(failures) + "}";
  };
  return "{apiVersion: v1, kind: Pod, metadata: {name: " + name +
         ", namespace: default, labels: {serving.janus.dev/role: attention}}, spec: {" + more +
         "containers: [{name: worker, image: 'worker:1', args: ['--listen=$(POD_IP):9000', "
         "'--metrics=$(POD_IP):9100'], env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: "
         "status.podIP}}}, {name: SCRIPT, value: " +
         script.folder() + "}], ports: [{name: metrics, containerPort: 9100}], startupProbe: " +
         probe("/startup", 10000) + ", livenessProbe: " + probe("/live", 1) +
         ", readinessProbe: " + probe("/ready", 1) + "}]}}";
}

std::string GatewayDeployment(int replicas, const Script& script, const std::string& image) {
  return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: gate, namespace: default}, "
         "spec: {replicas: " +
         std::to_string(replicas) +
         ", selector: {matchLabels: {app: gate}}, template: {metadata: {labels: {app: gate}}, "
         "spec: {containers: [{name: gateway, image: '" +
         image +
         "', args: ['--listen=0.0.0.0:8000'], env: [{name: SCRIPT, value: " + script.folder() +
         "}], ports: [{name: http, containerPort: 8000}], readinessProbe: {httpGet: {path: /ready, "
         "port: http}, periodSeconds: 1, timeoutSeconds: 60}}]}}}}";
}

bool IsTrue(const Node& pod, std::string_view type) {
  const Node* const conditions = FindAt(pod, {"status", "conditions"});
  return conditions != nullptr &&
         std::any_of(conditions->items.begin(), conditions->items.end(), [&](const Node& one) {
           return TextAt(one, {"type"}) == type && TextAt(one, {"status"}) == "True";
         });
}
const Node& Container(const Node& pod) {
  static const Node nothing;
  const Node* const list = FindAt(pod, {"status", "containerStatuses"});
  return list == nullptr || list->items.empty() ? nothing : list->items[0];
}
int64_t Restarts(const Node& pod) {
  return IntegerAt(Container(pod), {"restartCount"}).value_or(0);
}
bool IsRunning(const Node& pod) {
  return FindAt(Container(pod), {"state", "running"}) != nullptr;
}
bool IsUp(const Node& pod) {
  return IsTrue(pod, "ContainersReady");
}

class LocalNodeTest : public testing::Test {
 protected:
  LocalNodeTest() {
    options_.folder = folder_.path();
    options_.log_dir = logs_.path();
    options_.ground.programs = {{"worker", kProgram}, {"gateway", kProgram}};
    options_.ground.arguments["gateway"] = {"--listen=127.0.0.1:0"};
    options_.process_name = [](const Node& pod) {
      const bool is_gateway = TextAt(pod, {"metadata", "labels", "app"}) == "gate";
      return is_gateway ? "gateway" : KeyOf(pod).name;
    };
    options_.pauses = {.first = Seconds(0.01), .longest = Seconds(0.04)};
    options_.starting_probe_period = Seconds(0.01);
    // Kill processes that ignore SIGTERM soon.
    options_.stop_grace = Seconds(0.1);
  }
  ~LocalNodeTest() override { Stop(); }

  void Start(ObjectApi* api = nullptr) {
    node_ = std::make_unique<LocalNode>(api == nullptr ? kubelet_ : *api, timeline_,
                                        Logger(2, LogLevel::kError), options_,
                                        [this](const ContainerEvent& event) {
                                          const MutexLock lock(mu_);
                                          events_.push_back(event);
                                        });
    thread_ = std::jthread([this](const std::stop_token& stop) { ended_ = node_->Run(stop); });
  }
  void Stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

  void Create(const Resource& resource, const std::string& yaml) {
    const Result<Node> object = ParseYaml(yaml, "test");
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    const ApiResult<Node> made = user_.Create(resource, *object, {}, kLimits);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  void CreatePod(const std::string& yaml) { Create(kPods, yaml); }
  void Delete(const std::string& name, std::optional<int64_t> grace = std::nullopt) {
    DeleteOptions options;
    options.grace_period_seconds = grace;
    const ApiResult<Node> gone = user_.Delete(kPods, {"default", name}, options, kLimits);
    ASSERT_TRUE(gone.ok()) << gone.error().message;
  }
  void Patch(const Resource& resource, const std::string& name, const std::string& yaml,
             Subresource subresource = Subresource::kNone) {
    const ApiResult<Node> done = user_.Patch(resource, {"default", name}, PatchKind::kMerge,
                                             *ParseYaml(yaml, "test"), subresource, {}, kLimits);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  // A condition from another writer, beside the node's.
  void SetMemberGate(const std::string& name) {
    ApiResult<Node> done = LocalError(Unavailable("not yet"));
    while (!done.ok()) {
      Node pod = *Pod(name);
      Node conditions = *FindAt(pod, {"status", "conditions"});
      conditions.items.push_back(
          Object({{"type", Text(kMemberCondition)}, {"status", Text("True")}}));
      SetAt(pod, {"status", "conditions"}, std::move(conditions));
      done = user_.Update(kPods, pod, Subresource::kStatus, {}, kLimits);
    }
  }

  std::optional<Node> Get(const Resource& resource, const ObjectKey& key) {
    ApiResult<Node> found = user_.Get(resource, key, Subresource::kNone, kLimits);
    if (!found.ok()) return std::nullopt;
    return *std::move(found);
  }
  std::optional<Node> Pod(const std::string& name) { return Get(kPods, {"default", name}); }
  // Returns the pod once `holds` is true.
  Node AwaitPod(const std::string& name, const std::function<bool(const Node&)>& holds) {
    std::optional<Node> pod;
    Await([&] { return (pod = Pod(name)) && holds(*pod); });
    return *pod;
  }
  void AwaitNoPod(const std::string& name) {
    Await([&] { return !Pod(name); });
  }
  std::vector<Node> Pods() { return user_.List(kPods, {}, kLimits)->items; }
  int64_t Version() { return std::stoll(user_.List(kPods, {}, kLimits)->resource_version); }

  std::vector<ContainerEvent> Events() {
    const MutexLock lock(mu_);
    return events_;
  }
  // The n-th end of the pod's container, from 0.
  ContainerEvent AwaitEnd(const std::string& pod, size_t number = 0) {
    std::vector<ContainerEvent> ends;
    Await([&] {
      ends = Events();
      std::erase_if(ends, [&](const ContainerEvent& one) {
        return one.kind != Kind::kEnded || one.pod.name != pod;
      });
      return ends.size() > number;
    });
    return ends[number];
  }

  TempFolder folder_;
  TempFolder logs_;
  SystemTimeline timeline_;
  LocalStore store_{LocalStoreOptions(), timeline_};
  StoreClient kubelet_{store_, "kubelet"};
  StoreClient user_{store_, "user"};
  LocalNodeOptions options_;
  Mutex mu_;
  std::vector<ContainerEvent> events_ JANUS_GUARDED_BY(mu_);
  std::unique_ptr<LocalNode> node_;
  Status ended_;  // of Run, after it was stopped
  std::jthread thread_;
};

TEST_F(LocalNodeTest, IsANodeThatIsReady) {
  Start();
  std::optional<Node> node;
  Await([&] { return (node = Get(kNodes, {"", "local"})) && IsTrue(*node, "Ready"); });
  Stop();
  EXPECT_TRUE(ended_.ok()) << ended_.ToString();
  // Another run finds it, and goes on to its pods.
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  Stop();
  EXPECT_TRUE(ended_.ok()) << ended_.ToString();
}

TEST_F(LocalNodeTest, APodRunsAndIsReadyWhenItsGateIsSetBySomebodyElse) {
  Start();
  Script script;
  script.Set("not-started");
  CreatePod(
      WorkerPod("a", script, "readinessGates: [{conditionType: serving.janus.dev/member}], "));
  const Node starting = AwaitPod("a", IsRunning);
  EXPECT_EQ(TextAt(starting, {"spec", "nodeName"}), "local");
  EXPECT_EQ(TextAt(starting, {"status", "phase"}), "Running");
  EXPECT_FALSE(IsUp(starting));
  EXPECT_FALSE(FindAt(Container(starting), {"started"})->boolean);

  script.Clear("not-started");
  const Node up = AwaitPod("a", IsUp);
  EXPECT_FALSE(IsTrue(up, "Ready"));
  EXPECT_TRUE(FindAt(Container(up), {"started"})->boolean);
  const std::string ip(TextAt(up, {"status", "podIP"}));
  EXPECT_EQ(ip, "unix:" + folder_.path() + "/p1");
  EXPECT_EQ(script.arguments(), "--listen=" + ip + ":9000\n--metrics=" + ip + ":9100\n");
  const std::vector<ContainerEvent> events = Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kReady);
  EXPECT_EQ(events[0].pod, (ObjectKey{"default", "a"}));
  EXPECT_EQ(events[0].process, "a");
  EXPECT_EQ(events[0].container, "worker");
  EXPECT_EQ(events[0].text, ip + ":9100");

  SetMemberGate("a");
  const Node ready = AwaitPod("a", [](const Node& pod) { return IsTrue(pod, "Ready"); });
  EXPECT_TRUE(IsTrue(ready, kMemberCondition));
}

TEST_F(LocalNodeTest, APodThatWantsAGpuFailsWhereThereIsNone) {
  Start();
  Script script;
  std::string pod = WorkerPod("a", script);
  pod.replace(pod.find("name: worker,"), 13,
              "name: worker, resources: {limits: {nvidia.com/gpu: 1}},");
  CreatePod(pod);
  const Node failed = AwaitPod("a", [](const Node& seen) {
    return TextAt(seen, {"status", "phase"}) == "Failed";
  });
  EXPECT_EQ(TextAt(failed, {"status", "message"}),
            "its container has a GPU limit, and the workers of this machine can use no GPU "
            "(janus-worker gpus says why)");
}

TEST_F(LocalNodeTest, FindsPodsThatWereThereBeforeIt) {
  // Either list may arrive first, and the other much later.
  for (const Resource* const late : {&kPods, &kDeployments}) {
    class Late final : public PassingApi {
     public:
      Late(ObjectApi& api, const Resource& resource) : PassingApi(api), resource_(resource) {}
      ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                                FunctionRef<bool(WatchEvent)> deliver,
                                const std::stop_token& stop) override {
        if (resource.plural == resource_.plural) {
          Await([this] { return may_go_on.load(); });
        }
        const auto tell = [&](WatchEvent event) {
          const bool is_last = event.type == WatchEventType::kBookmark;
          const bool goes_on = deliver(std::move(event));
          if (is_last) has_listed = true;
          return goes_on;
        };
        return PassingApi::Watch(resource, options, tell, stop);
      }
      std::atomic<bool> may_go_on = false;
      std::atomic<bool> has_listed = false;  // of the list that is not late

     private:
      const Resource resource_;
    };
    Script script;
    CreatePod(WorkerPod(late->plural, script));
    Late api(kubelet_, *late);
    Start(&api);
    // One list is delivered while the other is still missing.
    Await([&] { return api.has_listed.load(); });
    api.may_go_on = true;
    AwaitPod(late->plural, IsUp);
    Stop();
  }
}

TEST_F(LocalNodeTest, WhatIsKilledIsStartedAgainAndSaysHowItEnded) {
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  const Watched first(script.pid());
  first.Kill();
  first.AwaitEnd();
  const Node again = AwaitPod("a", [](const Node& pod) { return Restarts(pod) == 1 && IsUp(pod); });
  const FieldPath last = {"lastState", "terminated", "signal"};
  EXPECT_EQ(IntegerAt(Container(again), last), SIGKILL);
  EXPECT_EQ(IntegerAt(Container(again), {"lastState", "terminated", "exitCode"}), 128 + SIGKILL);
  EXPECT_TRUE(IsRunning(again));
  // The address stays the same, so its clients still find it.
  EXPECT_EQ(TextAt(again, {"status", "podIP"}), "unix:" + folder_.path() + "/p1");
  const ContainerEvent end = AwaitEnd("a");
  EXPECT_FALSE(end.expected);
  EXPECT_NE(end.text.find("SIGKILL"), std::string::npos) << end.text;
}

TEST_F(LocalNodeTest, WhatKeepsEndingIsStartedLaterAndLater) {
  // The second restart would come in an hour.
  options_.pauses = {.first = Seconds(3600), .longest = Seconds(7200)};
  Start();
  Script script;
  script.Set("fails", "error: the model is not there");
  CreatePod(WorkerPod("a", script));
  const auto waits = [](const Node& pod) {
    return TextAt(Container(pod), {"state", "waiting", "reason"}) == "CrashLoopBackOff";
  };
  const Node waiting = AwaitPod("a", waits);
  EXPECT_EQ(Restarts(waiting), 1);
  EXPECT_EQ(IntegerAt(Container(waiting), {"lastState", "terminated", "exitCode"}), 3);
  const std::string why(TextAt(Container(waiting), {"lastState", "terminated", "message"}));
  EXPECT_NE(why.find("the model is not there"), std::string::npos) << why;
  EXPECT_EQ(TextAt(waiting, {"status", "phase"}), "Running");
  EXPECT_EQ(Events().size(), 2u);
  EXPECT_FALSE(AwaitEnd("a", 1).expected);
  // It is deleted without a restart.
  Delete("a");
  AwaitNoPod("a");
}

TEST_F(LocalNodeTest, WhatKeepsEndingComesBackWhenItCan) {
  Start();
  Script script;
  script.Set("fails", "error: not yet");
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", [](const Node& pod) { return Restarts(pod) >= 4; });
  script.Clear("fails");
  AwaitPod("a", IsUp);
}

TEST_F(LocalNodeTest, ReadinessIsLostAndFound) {
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  script.Set("not-ready");
  const Node lost = AwaitPod("a", [](const Node& pod) { return !IsUp(pod); });
  EXPECT_TRUE(IsRunning(lost));
  EXPECT_FALSE(FindAt(Container(lost), {"ready"})->boolean);
  script.Clear("not-ready");
  EXPECT_EQ(Restarts(AwaitPod("a", IsUp)), 0);
}

TEST_F(LocalNodeTest, WhatIsNoLongerLiveIsEndedAndStartedAnew) {
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  const Watched first(script.pid());
  script.Set("not-live");
  first.AwaitEnd();
  script.Clear("not-live");
  const Node again = AwaitPod("a", [](const Node& pod) { return Restarts(pod) > 0 && IsUp(pod); });
  const ContainerEvent end = AwaitEnd("a");
  EXPECT_TRUE(end.text.starts_with("Liveness probe failed 1 times; a ")) << end.text;
  EXPECT_FALSE(end.expected);
  if (Restarts(again) == 1) {
    EXPECT_EQ(TextAt(Container(again), {"lastState", "terminated", "message"}), end.text);
  }
}

TEST_F(LocalNodeTest, WhatHangsIsKilled) {
  Start();
  Script script;
  script.Set("ignores-sigterm");
  std::string pod = WorkerPod("a", script);
  for (size_t at; (at = pod.find("timeoutSeconds: 60")) != std::string::npos;) {
    pod.replace(at, 18, "timeoutSeconds: 1");
  }
  CreatePod(pod);
  AwaitPod("a", IsUp);
  const Watched first(script.pid());
  script.Set("hung");
  first.AwaitEnd();
  script.Clear("hung");
  EXPECT_NE(AwaitEnd("a").text.find("Liveness probe failed"), std::string::npos);
  AwaitPod("a", [](const Node& seen) { return Restarts(seen) > 0 && IsUp(seen); });
}

TEST_F(LocalNodeTest, ADeletedPodIsToldToEndAndGoes) {
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  const Watched process(script.pid());
  Delete("a");
  AwaitNoPod("a");
  EXPECT_TRUE(process.is_gone());
  const ContainerEvent end = AwaitEnd("a");
  EXPECT_TRUE(end.expected);
  EXPECT_NE(end.text.find("SIGTERM"), std::string::npos) << end.text;
}

TEST_F(LocalNodeTest, ADeletedPodThatDoesNotEndIsKilledWhenItsGraceIsOver) {
  Start();
  Script script;
  script.Set("ignores-sigterm");
  CreatePod(WorkerPod("a", script, "terminationGracePeriodSeconds: 1, "));
  AwaitPod("a", IsUp);
  Delete("a");
  AwaitNoPod("a");
  const ContainerEvent end = AwaitEnd("a");
  EXPECT_TRUE(end.expected);
  EXPECT_NE(end.text.find("SIGKILL"), std::string::npos) << end.text;
}

TEST_F(LocalNodeTest, AShorterGraceTakesTheLongerOnesPlace) {
  Start();
  Script script;
  script.Set("ignores-sigterm");
  CreatePod(WorkerPod("a", script, "terminationGracePeriodSeconds: 36000, "));
  AwaitPod("a", IsUp);
  Delete("a");
  Delete("a", 1);
  AwaitNoPod("a");
  EXPECT_NE(AwaitEnd("a").text.find("SIGKILL"), std::string::npos);
}

TEST_F(LocalNodeTest, APodThatIsRemovedByForceTakesItsProcessWithIt) {
  Start();
  Script script;
  script.Set("ignores-sigterm");
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  const Watched process(script.pid());
  Delete("a", 0);
  EXPECT_FALSE(Pod("a"));
  process.AwaitEnd();
  EXPECT_TRUE(AwaitEnd("a").expected);
}

TEST_F(LocalNodeTest, ANameIsUsedAgainWhenItsProcessHasGone) {
  // A pod ends slowly while another pod's process needs the same name.
  options_.process_name = [](const Node&) { return "same"; };
  Start();
  Script slow, next;
  slow.Set("ignores-sigterm");
  CreatePod(WorkerPod("a", slow, "terminationGracePeriodSeconds: 36000, "));
  AwaitPod("a", IsUp);
  const Watched first(slow.pid());
  Delete("a");
  CreatePod(WorkerPod("b", next));
  const Node waits = AwaitPod("b", [](const Node& pod) {
    return FindAt(pod, {"status", "containerStatuses"}) != nullptr;
  });
  EXPECT_EQ(TextAt(waits, {"status", "phase"}), "Pending");
  EXPECT_FALSE(first.is_gone());
  EXPECT_FALSE(fs::exists(next.path("pid")));
  first.Kill();
  AwaitNoPod("a");
  const Node up = AwaitPod("b", IsUp);
  EXPECT_EQ(Restarts(up), 0);
}

TEST_F(LocalNodeTest, APodThatNeverRanGoesWhenItIsDeleted) {
  options_.ground.programs["worker"] = folder_.path() + "/no-such-program";
  options_.pauses = {.first = Seconds(3600), .longest = Seconds(7200)};
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  const Node pod = AwaitPod("a", [](const Node& one) {
    return FindAt(Container(one), {"state", "waiting"}) != nullptr &&
           FindAt(Container(one), {"lastState", "terminated"}) != nullptr;
  });
  EXPECT_EQ(IntegerAt(Container(pod), {"lastState", "terminated", "exitCode"}), 128);
  const ContainerEvent end = AwaitEnd("a");
  EXPECT_FALSE(end.expected);
  EXPECT_NE(end.text.find("no-such-program: cannot be started"), std::string::npos) << end.text;
  Delete("a");
  AwaitNoPod("a");
}

TEST_F(LocalNodeTest, AContainerWithoutAProgramFails) {
  options_.ground.programs.erase("worker");
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  const Node pod = AwaitPod("a", [](const Node& one) {
    return TextAt(one, {"status", "phase"}) == "Failed";
  });
  EXPECT_EQ(TextAt(pod, {"status", "reason"}), "NotForThisMachine");
  EXPECT_EQ(TextAt(pod, {"status", "message"}),
            "there is no program for container 'worker' on this machine");
  EXPECT_FALSE(fs::exists(script.path("pid")));
  Delete("a");
  AwaitNoPod("a");
}

TEST_F(LocalNodeTest, ContainersOfAPodThatHasFailedAreEnded) {
  Start();
  Script script;
  CreatePod(WorkerPod("a", script));
  AwaitPod("a", IsUp);
  const Watched process(script.pid());
  // As an eviction writes it.
  Patch(kPods, "a", "{status: {phase: Failed, reason: Evicted}}", Subresource::kStatus);
  process.AwaitEnd();
  EXPECT_TRUE(AwaitEnd("a").expected);
  Delete("a");
  AwaitNoPod("a");
  EXPECT_EQ(Events().size(), 2u);  // ready, ended: no restart
}

TEST_F(LocalNodeTest, PodsOfAnotherNodeAreLeftAlone) {
  Start();
  Script script, ours;
  CreatePod(WorkerPod("other", script, "nodeName: elsewhere, "));
  const std::string before(ResourceVersionOf(*Pod("other")));
  CreatePod(WorkerPod("ours", ours));
  AwaitPod("ours", IsUp);
  Delete("other");
  Delete("ours");
  AwaitNoPod("ours");
  const std::optional<Node> other = Pod("other");
  ASSERT_TRUE(other);  // the node writes its status last
  EXPECT_EQ(FindAt(*other, {"status", "containerStatuses"}), nullptr);
  EXPECT_FALSE(fs::exists(script.path("pid")));
}

TEST_F(LocalNodeTest, ADeploymentGetsItsPodsAndSaysSo) {
  Start();
  Script script;
  Create(kDeployments, GatewayDeployment(1, script, "gateway:1"));
  std::optional<Node> deployment;
  const auto is_ready = [&] {
    deployment = Get(kDeployments, {"default", "gate"});
    return IntegerAt(*deployment, {"status", "readyReplicas"}) == 1;
  };
  Await(is_ready);
  EXPECT_EQ(IntegerAt(*deployment, {"status", "availableReplicas"}), 1);
  ASSERT_EQ(Pods().size(), 1u);
  const Node first = Pods()[0];
  EXPECT_TRUE(IsTrue(first, "Ready"));
  // It listens where its flag says and is probed at the address it prints; it does not get the
  // pod's address.
  const ContainerEvent ready = Events().at(0);
  EXPECT_TRUE(ready.text.starts_with("127.0.0.1:")) << ready.text;
  EXPECT_EQ(script.arguments(), "--listen=127.0.0.1:0\n");

  const Watched old(script.pid());
  Patch(kDeployments, "gate",
        "{spec: {template: {spec: {containers: " +
            std::string("[{name: gateway, image: 'gateway:2', env: [{name: SCRIPT, value: ") +
            script.folder() +
            "}], ports: [{name: http, containerPort: 8000}], readinessProbe: {httpGet: {path: "
            "/ready, port: http}, timeoutSeconds: 60}}]}}}}");
  old.AwaitEnd();
  AwaitNoPod(KeyOf(first).name);
  Await([&] {
    const std::vector<Node> pods = Pods();
    return pods.size() == 1 && UidOf(pods[0]) != UidOf(first) && IsTrue(pods[0], "Ready");
  });
  EXPECT_EQ(TextAt(Container(Pods()[0]), {"image"}), "gateway:2");
  Await(is_ready);

  const Watched process(script.pid());
  ASSERT_TRUE(user_.Delete(kDeployments, {"default", "gate"}, {}, kLimits).ok());
  Await([&] { return Pods().empty(); });
  EXPECT_TRUE(process.is_gone());
  for (const ContainerEvent& event : Events()) {
    if (event.kind == Kind::kEnded) {
      EXPECT_TRUE(event.expected) << event.text;
    }
  }
}

TEST_F(LocalNodeTest, APodOfADeploymentThatIsRemovedByForceIsReplaced) {
  Start();
  Script script;
  Create(kDeployments, GatewayDeployment(1, script, "gateway:1"));
  const auto ready_pod = [&](std::string_view but) {
    std::vector<Node> pods;
    Await([&] {
      pods = Pods();
      return pods.size() == 1 && IsTrue(pods[0], "Ready") && UidOf(pods[0]) != but;
    });
    return pods[0];
  };
  Node pod = ready_pod("");
  for (int i = 0; i < 5; ++i) {
    Delete(KeyOf(pod).name, 0);
    pod = ready_pod(UidOf(pod));
    EXPECT_EQ(Restarts(pod), 0);  // the old process's end was not taken for the new one's
  }
}

TEST_F(LocalNodeTest, TheMembersLinkLeadsToAReadyWorkerAndMovesWhenThatGoes) {
  options_.members_link = "members";
  Start();
  const auto leads_to = [&](const std::string& name) {
    const std::string ip(TextAt(*Pod(name), {"status", "podIP"}));
    std::error_code error;
    return "unix:" + fs::read_symlink(folder_.path() + "/members-1", error).string() ==
           ip + ":9000";
  };
  Script a, b, c;
  a.Set("not-ready");
  CreatePod(WorkerPod("a", a));
  AwaitPod("a", IsRunning);
  Await([&] { return leads_to("a"); });  // no worker is ready
  CreatePod(WorkerPod("b", b));
  AwaitPod("b", IsUp);
  Await([&] { return leads_to("b"); });
  a.Clear("not-ready");
  CreatePod(WorkerPod("c", c));
  AwaitPod("a", IsUp);
  AwaitPod("c", IsUp);
  EXPECT_TRUE(leads_to("b"));  // no change without need
  Delete("b");
  AwaitNoPod("b");
  Await([&] { return leads_to("a") || leads_to("c"); });
}

TEST_F(LocalNodeTest, MetricsPortsAreTheFirstFreeOnes) {
  options_.first_metrics_port = 47310;
  Start();
  Script a, b, c, d;
  const auto port_of = [&](const std::string& name, const Script& script) {
    AwaitPod(name, IsUp);
    const std::string all = script.arguments();
    return all.substr(all.find("--metrics="));
  };
  CreatePod(WorkerPod("a", a));
  EXPECT_EQ(port_of("a", a), "--metrics=127.0.0.1:47310\n");
  CreatePod(WorkerPod("b", b));
  EXPECT_EQ(port_of("b", b), "--metrics=127.0.0.1:47311\n");
  Delete("a");
  AwaitNoPod("a");
  CreatePod(WorkerPod("c", c));
  EXPECT_EQ(port_of("c", c), "--metrics=127.0.0.1:47310\n");
  CreatePod(WorkerPod("d", d));
  EXPECT_EQ(port_of("d", d), "--metrics=127.0.0.1:47312\n");
}

TEST_F(LocalNodeTest, NoProcessOutlivesRun) {
  Start();
  Script a, b;
  b.Set("ignores-sigterm");
  CreatePod(WorkerPod("a", a));
  CreatePod(WorkerPod("b", b));
  AwaitPod("a", IsUp);
  AwaitPod("b", IsUp);
  const Watched first(a.pid()), second(b.pid());
  Stop();
  EXPECT_TRUE(ended_.ok()) << ended_.ToString();
  EXPECT_TRUE(first.is_gone());
  EXPECT_TRUE(second.is_gone());
  EXPECT_TRUE(AwaitEnd("a").expected);
  EXPECT_TRUE(AwaitEnd("b").expected);
  EXPECT_TRUE(Pod("a"));  // the node does not delete pods when it stops
}

TEST_F(LocalNodeTest, AnIdleNodeWritesNothing) {
  Start();
  Script a, b, gateway;
  b.Set("fails", "error: no");
  CreatePod(WorkerPod("a", a));
  Create(kDeployments, GatewayDeployment(1, gateway, "gateway:1"));
  AwaitPod("a", IsUp);
  // A pod that is being deleted but has a finalizer of another writer.
  CreatePod(WorkerPod("held", b));
  Patch(kPods, "held", "{metadata: {finalizers: [test/held]}}");
  AwaitPod("held", [](const Node& pod) { return Restarts(pod) > 0; });
  Delete("held");
  AwaitPod("held", [](const Node& pod) {
    return IntegerAt(pod, {"metadata", "deletionGracePeriodSeconds"}) == 0;
  });
  Await([&] {
    return IntegerAt(*Get(kDeployments, {"default", "gate"}), {"status", "readyReplicas"}) == 1;
  });
  // A marker pod is written exactly twice, for its binding and its failure, after a look at all
  // pods.
  const auto mark = [&](int number) {
    const std::string name = "marker-" + std::to_string(number);
    CreatePod("{apiVersion: v1, kind: Pod, metadata: {name: " + name +
              ", namespace: default}, spec: {containers: [{name: other, image: other}]}}");
    AwaitPod(name, [](const Node& pod) { return TextAt(pod, {"status", "phase"}) == "Failed"; });
  };
  mark(0);
  const int64_t before = Version();
  for (int i = 1; i <= 20; ++i) {
    Patch(kPods, "a", "{metadata: {annotations: {number: '" + std::to_string(i) + "'}}}");
    mark(i);
  }
  EXPECT_EQ(Version() - before, 20 * (1 + 3));
}

}  // namespace
}  // namespace janus::control
