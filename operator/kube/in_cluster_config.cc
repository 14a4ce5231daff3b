// Implements InClusterConfig of cluster_config.h.

#include <charconv>

#include "common/read_file.h"
#include "operator/kube/cluster_config.h"

namespace janus::control {

Result<ClusterConfig> InClusterConfig(const std::string& folder, const std::string& host,
                                      const std::string& port) {
  if (host.empty() || port.empty()) {
    return FailedPrecondition(
        "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give a "
        "kubeconfig");
  }
  ClusterConfig out;
  out.origin = "service account in " + folder;
  out.host = host;
  const char* const end = port.data() + port.size();
  const auto read = std::from_chars(port.data(), end, out.port);
  if (read.ptr != end || read.ec != std::errc() || out.port < 1 || out.port > 65535) {
    return FailedPrecondition("KUBERNETES_SERVICE_PORT is '" + port + "', no port in 1..65535");
  }
  out.token.file = folder + "/token";
  out.ca.file = folder + "/ca.crt";
  for (const std::string& file : {out.token.file, out.ca.file}) {
    if (const Result<std::string> there = ReadFile(file); !there.ok()) {
      return FailedPrecondition(there.status().message() +
                                "; is automountServiceAccountToken false for this pod?");
    }
  }
  if (Result<std::string> ours = ReadFile(folder + "/namespace"); ours.ok() && !ours->empty()) {
    out.namespace_ = *std::move(ours);
    while (out.namespace_.ends_with('\n')) out.namespace_.pop_back();
  }
  return out;
}

}  // namespace janus::control
