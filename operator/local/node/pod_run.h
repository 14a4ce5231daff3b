#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// What a kubelet makes of a pod's spec, as far as our pods use it.

// GET `path`; 2xx and 3xx are a success (Kubernetes, "Configure Liveness, Readiness and Startup
// Probes").
struct Probe {
  std::string path;
  Seconds period{10};
  Seconds timeout{1};
  int failures = 3;  // in a row, that make it fail
};

struct ContainerRun {
  std::string name;
  std::string image;
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value"; HOSTNAME is the pod's name
  std::optional<Probe> startup;
  std::optional<Probe> liveness;
  std::optional<Probe> readiness;
  // Where it is probed: "unix:/path" or "host:port"; empty: where its ready line says it serves.
  std::string probe_address;
};

// What the machine gives instead of images.
struct NodeGround {
  std::map<std::string, std::string> programs;  // by container: a path
  // By container: flags that it gets besides the pod's, or in place of the pod's of that name.
  std::map<std::string, std::vector<std::string>> arguments;
  // Values of flags that mean something on a cluster's network alone, and what they are here.
  std::map<std::string, std::string> values;
};

// Where a pod is on the machine.
struct PodPlace {
  // In the place of an IP: "unix:<path>", so that what follows it, ":9000", makes the name of a
  // socket.
  std::string ip;
  std::string metrics_address;  // of the port "metrics", "host:port"; empty: on `ip`
};

// How to run the pod's one container. The arguments' $(NAME) are those of its env, whose sources
// are values and fields of the pod; paths below a mounted hostPath become the machine's.
// InvalidArgument: it has more or fewer containers, or wants something that is not here; says what.
Result<ContainerRun> RunOf(const Node& pod, const NodeGround& ground, const PodPlace& place);

}  // namespace janus::control
