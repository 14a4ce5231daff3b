#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "operator/certificates/issue_plan.h"
#include "operator/kube/cluster_config.h"

namespace CLI {
class App;
}

namespace janus::control {

// Options of janus-operator: its flags, and the environment variables that Kubernetes sets. The
// help text of each flag (ParseOperatorOptions) explains it.
struct OperatorOptions {
  std::string kubeconfig;               // empty: the service account of the pod
  std::string context;                  // of the kubeconfig; empty: its current one
  std::vector<std::string> namespaces;  // to watch; empty: all
  bool reads_nodes = true;              // and HardwareProfiles, which are of the whole cluster too
  int workers = 4;
  int worker_connections = 256;
  double calls_per_second = 50;
  double burst = 100;

  bool leader_election = true;
  std::string lease_name = "janus-operator";
  std::string lease_namespace;  // empty: ours
  std::string pod_name;         // empty: the host's name

  std::string trust_domain = "cluster.local";
  Lifetimes lifetimes;

  std::string metrics_address = "0.0.0.0:8080";
  bool metrics_authentication = false;  // and TLS
  std::string metrics_tls;              // folder with tls.crt and tls.key; empty: our own
  std::string health_address = "0.0.0.0:8081";
  std::string records_address;  // of recorded decisions; empty: not served
  bool debug = false;
  LogFormat log_format = LogFormat::kText;

  std::string worker_image;
  std::string worker_cuda_image;
  std::string gateway_image;
  std::string image_pull_policy = "IfNotPresent";
  std::vector<std::string> host_paths;
  std::string hub_endpoint;  // of a Hugging Face hub; empty: the public one
  bool timed_devices = false;
};

struct ParsedOptions {
  OperatorOptions options;
  std::string text;  // of --help or --version: print it and exit
};

// InvalidArgument: names the flag and the problem.
Result<ParsedOptions> ParseOperatorOptions(int argc, const char* const* argv);

// Adds the flag that selects namespaces; shared by all commands.
void DeclareNamespaces(CLI::App& app, const std::string& flag, OperatorOptions& options);

// Adds the flags that choose the API server; shared by all commands.
void DeclareKubeconfig(CLI::App& app, OperatorOptions& options);

// The API server's configuration: from a kubeconfig, or from the pod's service account.
Result<ClusterConfig> ConfigOf(const OperatorOptions& options);

}  // namespace janus::control
