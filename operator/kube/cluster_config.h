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

// Text that stands in the configuration, or in a file that may change while we run. At most one of
// the two is set.
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
      command;  // a name is looked for in PATH; a relative path is of the kubeconfig's folder
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> environment;  // beside ours
  std::string install_hint;  // shown when there is no such program
  bool provide_cluster_info = false;

  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

// What a host begins with that is the path of a Unix socket: for a server of this machine, without
// TLS.
inline constexpr std::string_view kUnixHost = "unix:";

// The API server's address, the authorities to trust, and our own credentials.
struct ClusterConfig {
  std::string origin;  // for messages: "/etc/kube/config, context 'prod'", "service account"
  std::string host;    // a name or an address, IPv6 without brackets; or kUnixHost and a path
  int port = 443;
  std::string path_prefix;  // of every URL; empty, or "/k8s/clusters/c-1"
  bool use_tls = true;
  std::string tls_server_name;            // what the server's certificate must name; empty: host
  bool insecure_skip_tls_verify = false;  // any server passes for the right one
  TextSource ca;                          // PEM; empty: the system's roots
  // One of these, or none (anonymous). Certificate and key come together.
  TextSource client_certificate;  // PEM, with its chain
  TextSource client_key;          // PEM
  TextSource token;
  std::optional<ExecPlugin> exec;
  Node plugin_config;                  // more about the cluster, for plugins; null: nothing
  std::string namespace_ = "default";  // ours: the context's, the pod's
};

// Reads a kubeconfig; `file` names it in messages and is what relative paths in it are relative to.
// An empty `context` means current-context. Takes what kubectl takes of it, apart from what is
// refused by name: password, auth-provider, impersonation, proxy-url.
// InvalidArgument: "<file>: contexts[prod].user: there is no user 'x'; the users are 'a', 'b'".
Result<ClusterConfig> ParseKubeconfig(std::string_view text, const std::string& file,
                                      const std::string& context);

// The same of a file, or of several with colons between them, as KUBECONFIG has it and kubectl
// reads it: of clusters, users and contexts of one name, and of current-context, the first file's
// counts; files that are not there are passed by, unless none is. What a file names is relative to
// its own folder. NotFound, PermissionDenied as ReadFile has them.
Result<ClusterConfig> LoadKubeconfig(const std::string& files, const std::string& context);

// What a pod is given: `folder` holds token, ca.crt and namespace, `host` and `port` are
// KUBERNETES_SERVICE_HOST and _PORT. FailedPrecondition: we are in no pod, or in one without a
// service account's token; says which it is.
inline constexpr std::string_view kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";
Result<ClusterConfig> InClusterConfig(const std::string& folder, const std::string& host,
                                      const std::string& port);

}  // namespace janus::control
