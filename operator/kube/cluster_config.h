#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Text given in the configuration itself, or the path of a file that may change while we run. At
// most one is set.
struct TextSource {
  std::string text;
  std::string file;

  bool empty() const { return text.empty() && file.empty(); }
  friend bool operator==(const TextSource&, const TextSource&) = default;
};

// A program that prints credentials (client.authentication.k8s.io).
struct ExecPlugin {
  std::string api_version;  // client.authentication.k8s.io/v1 or v1beta1
  std::string
      command;  // a name is searched in PATH; a relative path starts at the kubeconfig's folder
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::string install_hint;                                      // shown if the program is missing
  bool provide_cluster_info = false;

  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

// Prefix of a host that is the path of a Unix socket: a local server, without TLS.
inline constexpr std::string_view kUnixHost = "unix:";

// The API server's address, the authorities to trust, and our own credentials.
struct ClusterConfig {
  std::string origin;  // for messages: "/etc/kube/config, context 'prod'", "service account"
  std::string host;    // a name or an address, IPv6 without brackets; or kUnixHost and a path
  int port = 443;
  std::string path_prefix;  // of every URL; empty, or "/k8s/clusters/c-1"
  bool use_tls = true;
  std::string tls_server_name;            // name in the server's certificate; empty: host
  bool insecure_skip_tls_verify = false;  // accept any server certificate
  TextSource ca;                          // PEM; empty: the system's roots
  // At most one of these; none: anonymous. A certificate needs its key.
  TextSource client_certificate;  // PEM, with its chain
  TextSource client_key;          // PEM
  TextSource token;
  std::optional<ExecPlugin> exec;
  Node plugin_config;                  // passed on to plugins as cluster info; null: none
  std::string namespace_ = "default";  // of the context or the pod
};

// Reads a kubeconfig. `file` names it in messages, and relative paths in it start at its folder. An
// empty `context` means current-context. Supports what kubectl supports, but refuses: password,
// auth-provider, impersonation, proxy-url. InvalidArgument: "<file>: contexts[prod].user: there is
// no user 'x'; the users are 'a', 'b'".
Result<ClusterConfig> ParseKubeconfig(std::string_view text, const std::string& file,
                                      const std::string& context);

// Reads a file, or several separated by colons as in KUBECONFIG. As in kubectl, the first file wins
// for current-context and for a cluster, user or context of the same name. Missing files are
// skipped, but at least one must exist. Relative paths start at the folder of the file that has
// them. NotFound, PermissionDenied: from ReadFile.
Result<ClusterConfig> LoadKubeconfig(const std::string& files, const std::string& context);

// The configuration that Kubernetes gives a pod: `folder` holds token, ca.crt and namespace; `host`
// and `port` are KUBERNETES_SERVICE_HOST and _PORT. FailedPrecondition: this process is not in a
// pod, or the pod has no service account token; the message says which.
inline constexpr std::string_view kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";
Result<ClusterConfig> InClusterConfig(const std::string& folder, const std::string& host,
                                      const std::string& port);

}  // namespace janus::control
