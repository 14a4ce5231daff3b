#include "operator/local/node/pod_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "operator/api/yaml.h"

namespace janus::control {
namespace {

using Texts = std::vector<std::string>;

const PodPlace kPlace{"unix:/run/p3", ""};

NodeGround Ground() {
  NodeGround out;
  out.programs = {{"worker", "/bin/worker"}};
  return out;
}

Node Pod(const std::string& container, const std::string& spec = "") {
  return *ParseYaml(
      "{apiVersion: v1, kind: Pod, metadata: {name: chat-1, namespace: prod, uid: u-1}, spec: {" +
          spec + "containers: [{name: worker, " + container + "}]}}",
      "test");
}

ContainerRun Ran(const Node& pod, const NodeGround& ground = Ground(),
                 const PodPlace& place = kPlace) {
  Result<ContainerRun> run = RunOf(pod, ground, place);
  EXPECT_TRUE(run.ok()) << run.status().ToString();
  return run.ok() ? *std::move(run) : ContainerRun();
}
std::string Refusal(const Node& pod) {
  const Result<ContainerRun> run = RunOf(pod, Ground(), kPlace);
  EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument);
  return std::string(run.status().message());
}
Texts Arguments(const Node& pod, const NodeGround& ground = Ground(),
                const PodPlace& place = kPlace) {
  return Ran(pod, ground, place).arguments;
}

TEST(RunOf, TakesTheContainersProgramAndNames) {
  const ContainerRun run = Ran(Pod("image: 'worker:1'"));
  EXPECT_EQ(run.name, "worker");
  EXPECT_EQ(run.image, "worker:1");
  EXPECT_EQ(run.program, "/bin/worker");
  EXPECT_TRUE(run.arguments.empty());
  EXPECT_EQ(run.environment, Texts{"HOSTNAME=chat-1"});
  EXPECT_FALSE(run.startup);
  EXPECT_FALSE(run.liveness);
  EXPECT_FALSE(run.readiness);
  EXPECT_EQ(run.probe_address, "");
}

TEST(RunOf, ArgumentsAreExpandedAsKubernetesDoes) {
  const std::string env = "env: [{name: A, value: one}, {name: EMPTY}], ";
  const struct {
    std::string given, expanded;
  } rows[] = {
      {"--a=$(A)", "--a=one"},
      {"$(A)$(A)", "oneone"},
      {"--empty=$(EMPTY).", "--empty=."},
      {"--unknown=$(B)", "--unknown=$(B)"},
      {"$$(A)", "$(A)"},
      {"$$$(A)", "$one"},
      {"$A $", "$A $"},
      {"$(A", "$(A"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Arguments(Pod(env + "args: ['" + row.given + "']")), Texts{row.expanded})
        << row.given;
  }
}

TEST(RunOf, AVariableMayNameThoseBeforeIt) {
  const ContainerRun run = Ran(
      Pod("env: [{name: A, value: '$(B)'}, {name: B, value: 'x$$'}, {name: C, value: '$(B)/$(A)'}],"
          " args: ['$(C)']"));
  EXPECT_EQ(run.arguments, Texts{"x$/$(B)"});
  EXPECT_EQ(run.environment, (Texts{"HOSTNAME=chat-1", "A=$(B)", "B=x$", "C=x$/$(B)"}));
}

TEST(RunOf, AProcessDoesNotGetWhatItsMachineLeavesOut) {
  NodeGround ground = Ground();
  ground.left_out = {"B"};
  const ContainerRun run =
      Ran(Pod("env: [{name: A, value: a}, {name: B, value: b}], args: ['$(A)$(B)']"), ground);
  EXPECT_EQ(run.environment, (Texts{"HOSTNAME=chat-1", "A=a"}));
  EXPECT_EQ(run.arguments, Texts{"ab"});
}

TEST(RunOf, FieldsOfThePodAreItsVariables) {
  const auto field = [](const char* name, const char* path) {
    return "{name: " + std::string(name) + ", valueFrom: {fieldRef: {fieldPath: " + path + "}}}";
  };
  const ContainerRun run =
      Ran(Pod("env: [" + field("IP", "status.podIP") + ", " + field("HOST", "status.hostIP") +
                  ", " + field("NAME", "metadata.name") + ", " +
                  field("NAMESPACE", "metadata.namespace") + ", " + field("NODE", "spec.nodeName") +
                  ", " + field("UID", "metadata.uid") + "], args: ['--listen=$(IP):9000']",
              "nodeName: $(IP), "));
  EXPECT_EQ(run.environment,
            (Texts{"HOSTNAME=chat-1", "HOST=unix:/run/p3", "IP=unix:/run/p3", "NAME=chat-1",
                   "NAMESPACE=prod", "NODE=$(IP)", "UID=u-1"}));  // values of fields are not
                                                                  // expanded
  EXPECT_EQ(run.arguments, Texts{"--listen=unix:/run/p3:9000"});
}

TEST(RunOf, PathsBelowAMountedHostPathBecomeTheMachines) {
  const std::string volumes =
      "volumes: [{name: m, hostPath: {path: /data/llama}}, {name: deep, hostPath: {path: /fast}}, "
      "{name: e, emptyDir: {}}], ";
  const std::string mounts =
      "volumeMounts: [{name: m, mountPath: /model}, {name: deep, mountPath: /model/part}, "
      "{name: e, mountPath: /run/janus}], ";
  const struct {
    std::string given, on_machine;
  } rows[] = {
      {"--model=/model", "--model=/data/llama"},
      {"--model=/model/sub", "--model=/data/llama/sub"},
      {"/model/sub", "/data/llama/sub"},
      {"--model=/models", "--model=/models"},
      {"--model=/x/model", "--model=/x/model"},
      {"--model=/model/part/1", "--model=/fast/1"},  // the innermost mount is visible there
      {"--sockets=/run/janus", "--sockets=/run/janus"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Arguments(Pod(mounts + "args: ['" + row.given + "']", volumes)),
              Texts{row.on_machine});
  }
}

TEST(RunOf, ValuesOfAClustersNetworkAreReplaced) {
  NodeGround ground = Ground();
  ground.values = {{"chat-members:9000", "unix:/run/members"}};
  EXPECT_EQ(
      Arguments(Pod("args: ['--member=chat-members:9000', '--x=chat-members:90001']"), ground),
      (Texts{"--member=unix:/run/members", "--x=chat-members:90001"}));
}

TEST(RunOf, TheMachinesFlagsTakeThePlaceOfThePods) {
  NodeGround ground = Ground();
  ground.arguments["worker"] = {"--drain=5", "--extra"};
  ground.arguments["other"] = {"--role=none"};
  EXPECT_EQ(
      Arguments(Pod("args: ['--role=attention', '--drain=600', '--drain-more=1', '-v']"), ground),
      (Texts{"--role=attention", "--drain-more=1", "-v", "--drain=5", "--extra"}));
}

TEST(RunOf, MetricsAreWhereTheNodeSays) {
  const Node pod =
      Pod("args: ['--metrics=unix:/run/p3:9100'], ports: [{name: metrics, containerPort: 9100}], "
          "readinessProbe: {httpGet: {path: /ready, port: metrics}}");
  const PodPlace elsewhere{"unix:/run/p3", "127.0.0.1:9105"};
  EXPECT_EQ(Arguments(pod, Ground(), elsewhere), Texts{"--metrics=127.0.0.1:9105"});
  EXPECT_EQ(Ran(pod, Ground(), elsewhere).probe_address, "127.0.0.1:9105");
  EXPECT_EQ(Arguments(pod), Texts{"--metrics=unix:/run/p3:9100"});
  EXPECT_EQ(Ran(pod).probe_address, "unix:/run/p3:9100");
}

TEST(RunOf, ProbesAreAsWrittenOrAsKubernetesDefaultsThem) {
  const ContainerRun run = Ran(
      Pod("startupProbe: {httpGet: {path: /startup, port: 9100}, periodSeconds: 2, "
          "timeoutSeconds: 3, failureThreshold: 600}, livenessProbe: {httpGet: {path: /live, port: "
          "9100}}, readinessProbe: {httpGet: {path: /ready, port: 9100}, periodSeconds: 5}"));
  ASSERT_TRUE(run.startup && run.liveness && run.readiness);
  EXPECT_EQ(run.startup->path, "/startup");
  EXPECT_EQ(run.startup->period, Seconds(2));
  EXPECT_EQ(run.startup->timeout, Seconds(3));
  EXPECT_EQ(run.startup->failures, 600);
  EXPECT_EQ(run.liveness->path, "/live");
  EXPECT_EQ(run.liveness->period, Seconds(10));
  EXPECT_EQ(run.liveness->timeout, Seconds(1));
  EXPECT_EQ(run.liveness->failures, 3);
  EXPECT_EQ(run.readiness->path, "/ready");
  EXPECT_EQ(run.readiness->period, Seconds(5));
  EXPECT_EQ(run.probe_address, "unix:/run/p3:9100");
}

TEST(RunOf, WhoListensElsewhereIsProbedWhereItSays) {
  const std::string probe = ", readinessProbe: {httpGet: {path: /health, port: 8000}}";
  EXPECT_EQ(Ran(Pod("args: ['--listen=127.0.0.1:8000']" + probe)).probe_address, "");
  EXPECT_EQ(Ran(Pod("args: ['--listen=unix:/run/p3:8000']" + probe)).probe_address,
            "unix:/run/p3:8000");
  NodeGround ground = Ground();
  ground.arguments["worker"] = {"--listen=127.0.0.1:8000"};
  EXPECT_EQ(Ran(Pod("args: ['--listen=unix:/run/p3:8000']" + probe), ground).probe_address, "");
}

TEST(RunOf, SaysWhatIsNotOnThisMachine) {
  const std::string one = "a pod of this machine has one container and no initContainers";
  EXPECT_EQ(Refusal(*ParseYaml("{metadata: {name: a}}", "test")), one);
  EXPECT_EQ(Refusal(*ParseYaml("{metadata: {name: a}, spec: {containers: [{name: worker}, {name: "
                               "sidecar}]}}",
                               "test")),
            one);
  EXPECT_EQ(Refusal(Pod("image: x", "initContainers: [{name: first}], ")), one);
  EXPECT_EQ(
      Refusal(*ParseYaml("{metadata: {name: a}, spec: {containers: [{name: sidecar}]}}", "test")),
      "there is no program for container 'sidecar' on this machine");
  EXPECT_EQ(Refusal(Pod("env: [{name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}]")),
            "env KEY: only values and fieldRef are known here");
  for (const char* path : {"status.phase", "metadata.labels['x']", "metadata", "spec.", "name"}) {
    EXPECT_EQ(Refusal(Pod("env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"" +
                          std::string(path) + "\"}}}]")),
              "fieldPath '" + std::string(path) + "' is not known on this machine");
  }
  EXPECT_EQ(Refusal(Pod("livenessProbe: {exec: {command: [x]}}")),
            "livenessProbe: only httpGet is known here");
  EXPECT_EQ(Refusal(Pod("readinessProbe: {httpGet: {path: /, port: web}}, ports: [{name: metrics, "
                        "containerPort: 9100}]")),
            "a probe's port 'web' is no port of the container");
}

}  // namespace
}  // namespace janus::control
