#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Interprets a pod's spec as a kubelet does, for the fields that our pods use.

// GET `path`; 2xx and 3xx are success (Kubernetes, "Configure Liveness, Readiness and Startup
// Probes").
struct Probe {
  std::string path;
  Seconds period{10};
  Seconds timeout{1};
  int failures = 3;  // this many in a row fail the probe
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
  // Where to probe: "unix:/path" or "host:port"; empty: the address of its ready line.
  std::string probe_address;
};

// What this machine provides instead of images.
struct NodeGround {
  std::map<std::string, std::string> programs;  // path by container name
  // By container: flags to add, or to replace the pod's flag of the same name.
  std::map<std::string, std::vector<std::string>> arguments;
  // Replacements for flag values that work only on a cluster's network.
  std::map<std::string, std::string> values;
  // Variables of pods that this machine's processes do not get.
  std::set<std::string> left_out;
};

// Addresses of a pod on this machine.
struct PodPlace {
  // Replaces the pod's IP: "unix:<path>". With a suffix such as ":9000" it names a socket.
  std::string ip;
  std::string metrics_address;  // "host:port" of the port "metrics"; empty: on `ip`
};

// How to run the pod's only container. $(NAME) in its arguments is replaced from env, which may
// have values and pod fields as sources. Paths below a mounted hostPath become local paths.
// InvalidArgument: not exactly one container, or an unsupported field; says which.
Result<ContainerRun> RunOf(const Node& pod, const NodeGround& ground, const PodPlace& place);

}  // namespace janus::control
