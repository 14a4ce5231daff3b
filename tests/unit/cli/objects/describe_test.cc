#include "cli/objects/describe.h"

#include <gtest/gtest.h>

#include "operator/api/rfc3339.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"

namespace janus::cli {
namespace {

using control::Node;

const WallTime kNow = *control::ParseTime("2026-01-02T03:04:05Z");

Node Yaml(const std::string& text) {
  Result<Node> read = control::ParseYaml(text, "test");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return *std::move(read);
}

Node Service() {
  return Yaml(R"(
metadata: {name: demo, namespace: default, creationTimestamp: "2026-01-02T03:00:00Z"}
spec: {model: {source: {type: HostPath, hostPath: {path: /models/demo}}}}
status:
  effective: {modelName: demo-model}
  topology: {epoch: 3, m: 1, "n": 2, exchangeMode: Direct}
  roles: [{name: attention, ready: 1/1}, {name: experts, ready: 1/2}]
  conditions:
  - {type: Ready, status: "False", reason: WaitingForPods, message: a pod is awaited,
     lastTransitionTime: "2026-01-02T03:04:00Z"}
  - {type: SLOMet, status: Unknown, reason: NoMetrics, message: none,
     lastTransitionTime: "2026-01-02T03:00:00Z"}
)");
}

Node Pod(const std::string& more) {
  return Yaml(
      "metadata: {name: demo-experts-abc-2, creationTimestamp: \"2026-01-02T03:04:00Z\", "
      "labels: {serving.janus.dev/member: \"true\", serving.janus.dev/role: experts}}\n" +
      more);
}

TEST(Describe, AServiceIsOneLine) {
  EXPECT_EQ(ServiceTable({Service()}, kNow),
            "NAME   MODEL        ATTENTION   EXPERTS   READY   AGE    REASON           EPOCH\n"
            "demo   demo-model   1/1         1/2       False   4m5s   WaitingForPods   3\n");
}

TEST(Describe, AServiceOfTimedDevicesIsEmulated) {
  Node service = Service();
  control::SetAt(service, {"spec", "timed"},
                 Yaml("{hardware: H200, model: deepseek-v3, scale: 64}"));
  EXPECT_NE(ServiceTable({service}, kNow).find("demo-model (emulated)"), std::string::npos);
  const std::string text = DescribeService(service, {}, {}, kNow);
  EXPECT_NE(text.find("Emulated:    H200 as deepseek-v3, scale 64, time scale 1\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(DescribeService(Service(), {}, {}, kNow).find("Emulated"), std::string::npos);
}

TEST(Describe, AServiceSaysWhereItsGateIsIfThatIsUnusual) {
  Node service = Service();
  control::SetAt(service, {"status", "topology", "gate"}, Node::String("Experts"));
  EXPECT_EQ(DescribeService(service, {}, {}, kNow).find("gate"), std::string::npos);
  control::SetAt(service, {"status", "topology", "gate"}, Node::String("Attention"));
  const std::string text = DescribeService(service, {}, {}, kNow);
  EXPECT_NE(text.find("exchange Direct, gate on attention\n"), std::string::npos) << text;
}

TEST(Describe, PoolsHaveALineEachWithTheirExchange) {
  Node service = Service();
  control::SetAt(service, {"status", "pools"}, Yaml(R"(
- {number: 1, state: Serving, attention: 1, experts: 2, epoch: 3, topology: demo-abc, exchangeMode: Direct, gate: Experts}
- {number: 2, state: Starting, attention: 0, experts: 0, epoch: 0}
- {number: 3, state: Serving, attention: 1, experts: 2, epoch: 8, topology: demo-abc-3,
   exchangeMode: TwoPhaseParallel, gate: Attention}
)"));
  const std::string text = DescribeService(service, {}, {}, kNow);
  EXPECT_NE(text.find("  POOL   STATE      ATTENTION   EXPERTS   EPOCH   TOPOLOGY     EXCHANGE\n"
                      "  1      Serving    1           2         3       demo-abc     Direct\n"
                      "  2      Starting   0           0         0       <none>       <none>\n"
                      "  3      Serving    1           2         8       demo-abc-3   "
                      "TwoPhaseParallel, gate on "
                      "attention\n"),
            std::string::npos)
      << text;
}

TEST(Describe, ATopologyIsOneLine) {
  const Node topology = Yaml(R"(
metadata: {name: demo-abc, creationTimestamp: "2026-01-02T03:00:00Z"}
spec:
  fence: 2
  committed: {epoch: 3, mode: Direct, instances: [{role: attention}, {role: experts}, {role: experts}]}
)");
  EXPECT_EQ(TopologyTable({topology, Yaml("metadata: {name: new}")}, kNow),
            "NAME       EPOCH    PROPOSED   FENCE    MODE     ATTENTION   EXPERTS   AGE\n"
            "demo-abc   3        <none>     2        Direct   1           2         4m5s\n"
            "new        <none>   <none>     <none>   <none>   0           0         <unknown>\n");
}

TEST(Describe, ADeploymentIsOneLine) {
  const Node gateway = Yaml(R"(
metadata: {name: demo-gateway, creationTimestamp: "2026-01-02T03:00:00Z"}
spec: {replicas: 2}
status: {readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1}
)");
  EXPECT_EQ(DeploymentTable({gateway}, kNow),
            "NAME           READY   UP-TO-DATE   AVAILABLE   AGE\n"
            "demo-gateway   1/2     2            1           4m5s\n");
}

TEST(Describe, AServiceThatNobodyHasLookedAtYet) {
  EXPECT_EQ(ServiceTable({Yaml("metadata: {name: demo}")}, kNow),
            "NAME   MODEL    ATTENTION   EXPERTS   READY     AGE         REASON   EPOCH\n"
            "demo   <none>   <none>      <none>    Unknown   <unknown>   <none>   0\n");
}

TEST(Describe, PodsHaveTheStatusThatKubectlShows) {
  const std::string head = "NAME                 READY   STATUS";
  const auto status = [&](const std::string& more) {
    const std::string table = PodTable({Pod(more)}, kNow);
    return table.substr(table.find('\n') + 1);
  };
  EXPECT_EQ(status("status: {phase: Running, containerStatuses: [{ready: true, restartCount: 2, "
                   "state: {running: {}}}]}"),
            "demo-experts-abc-2   1/1     Running   2          5s    yes\n");
  EXPECT_NE(status("status: {phase: Running, containerStatuses: [{ready: false, restartCount: 4, "
                   "state: {waiting: {reason: CrashLoopBackOff}}}]}")
                .find("0/1     CrashLoopBackOff   4"),
            std::string::npos);
  EXPECT_NE(status("status: {phase: Failed, reason: NotForThisMachine}")
                .find("0/1     NotForThisMachine   0"),
            std::string::npos);
  EXPECT_NE(status("status: {phase: Pending}").find("0/1     Pending"), std::string::npos);
  Node leaving = Pod("status: {phase: Running}");
  control::SetAt(leaving, {"metadata", "deletionTimestamp"}, Node::String("2026-01-02T03:04:05Z"));
  EXPECT_NE(PodTable({leaving}, kNow).find("Terminating"), std::string::npos);
}

TEST(Describe, OnlyWorkersAreMembersOrNot) {
  Node pod = Pod("status: {phase: Running}");
  EXPECT_NE(PodTable({pod}, kNow).find("yes\n"), std::string::npos);
  control::SetAt(pod, {"metadata", "labels", control::kMemberLabel}, Node::String("false"));
  EXPECT_NE(PodTable({pod}, kNow).find("no\n"), std::string::npos);
  control::SetAt(pod, {"metadata", "labels"}, Node::Map());
  EXPECT_NE(PodTable({pod}, kNow).find("<none>\n"), std::string::npos) << "a gateway's";
}

TEST(Describe, EventsStandInTheirOrderAndCountTheirRepeats) {
  const Node late = Yaml(
      "{type: Warning, reason: CrashLooping, note: it ends, eventTime: "
      "\"2026-01-02T03:00:00.000000Z\", series: {count: 4, lastObservedTime: "
      "\"2026-01-02T03:04:00.000000Z\"}}");
  const Node early = Yaml(
      "{type: Normal, reason: Created, note: pod a, eventTime: \"2026-01-02T03:01:05.000000Z\"}");
  EXPECT_EQ(EventTable({late, early}, kNow),
            "LAST SEEN   TYPE      REASON         NOTE\n"
            "3m          Normal    Created        pod a\n"
            "5s (x4)     Warning   CrashLooping   it ends\n");
}

TEST(Describe, AServiceWhole) {
  EXPECT_EQ(DescribeService(Service(), {Pod("status: {phase: Pending}")}, {}, kNow),
            "Name:        demo\n"
            "Namespace:   default\n"
            "Model:       demo-model\n"
            "Source:      HostPath /models/demo\n"
            "Attention:   1/1 ready\n"
            "Experts:     1/2 ready\n"
            "Topology:    epoch 3, 1 attention, 2 experts, exchange Direct\n"
            "Exchange:    <none>\n"
            "Age:         4m5s\n"
            "Conditions:\n"
            "  TYPE     STATUS    REASON           SINCE   MESSAGE\n"
            "  Ready    False     WaitingForPods   5s      a pod is awaited\n"
            "  SLOMet   Unknown   NoMetrics        4m5s    none\n"
            "Pods:\n"
            "  NAME                 READY   STATUS    RESTARTS   AGE   MEMBER\n"
            "  demo-experts-abc-2   0/1     Pending   0          5s    yes\n"
            "Events:\n"
            "  LAST SEEN   TYPE   REASON   NOTE\n");
}

TEST(Describe, AgesAreRoundedAsTheyGrow) {
  for (const auto& [seconds, text] :
       std::vector<std::pair<double, std::string>>{{-5, "0s"},
                                                   {0.9, "0s"},
                                                   {119, "119s"},
                                                   {120, "2m"},
                                                   {125, "2m5s"},
                                                   {600, "10m"},
                                                   {3 * 3600 - 1, "179m"},
                                                   {3 * 3600 + 300, "3h5m"},
                                                   {8 * 3600, "8h"},
                                                   {47.9 * 3600, "47h"},
                                                   {49 * 3600, "2d"}}) {
    EXPECT_EQ(FormatAge(Seconds(seconds)), text) << seconds;
  }
}

}  // namespace
}  // namespace janus::cli
