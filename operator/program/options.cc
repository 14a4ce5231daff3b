#include "operator/program/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "operator/kube/proxy.h"
#include "operator/kube/server_url.h"

namespace janus::control {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string MachineName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// An RFC 1123 label, as names of namespaces are.
bool IsLabel(std::string_view name) {
  constexpr std::string_view kAtEnds = "abcdefghijklmnopqrstuvwxyz0123456789";
  return !name.empty() && name.size() <= 63 &&
         kAtEnds.find(name.front()) != std::string_view::npos &&
         kAtEnds.find(name.back()) != std::string_view::npos &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

// Each namespace needs a watch for every kind, and each watch a connection.
constexpr size_t kMostNamespaces = 16;

void DeclareCluster(CLI::App& app, OperatorOptions& o) {
  DeclareKubeconfig(app, o);
  DeclareNamespaces(app, "--watch-namespace", o);
  app.add_option("--nodes", o.reads_nodes,
                 "true: read nodes and HardwareProfiles, which needs rights in the whole cluster. "
                 "false: workers are not moved before a node is drained, those on a silent node "
                 "wait until Kubernetes deletes them, and HardwareProfiles are ignored")
      ->capture_default_str();
  app.add_option("--workers", o.workers, "how many services the operator works on at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--worker-connections", o.worker_connections,
                 "most connections to workers, one per service; beyond it, the operator closes the "
                 "least used one")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_option("--api-qps", o.calls_per_second, "most requests per second to the API server")
      ->check(CLI::Range(1.0, 10'000.0))
      ->capture_default_str();
  app.add_option("--api-burst", o.burst, "most requests to the API server at once")
      ->check(CLI::Range(1.0, 10'000.0))
      ->capture_default_str();
}

void DeclareElection(CLI::App& app, OperatorOptions& o) {
  app.add_option(
         "--leader-election", o.leader_election,
         "true: of several operators only the leader acts. false: this is the only operator")
      ->capture_default_str();
  app.add_option("--lease-name", o.lease_name, "name of the Lease that the leader holds")
      ->capture_default_str();
  app.add_option("--lease-namespace", o.lease_namespace,
                 "namespace of the Lease. Default: that of the pod, or of the context")
      ->envname("POD_NAMESPACE");
  app.add_option("--pod-name", o.pod_name,
                 "name of this operator in the Lease and in Events. Default: the machine's name")
      ->envname("POD_NAME");
}

void DeclareLifetime(CLI::App& app, const std::string& name, Seconds& lifetime,
                     const std::string& help) {
  app.add_option_function<int64_t>(
         name, [&lifetime](int64_t seconds) { lifetime = Seconds(seconds); },
         help + ". Default: " + std::to_string(static_cast<int64_t>(lifetime.count())))
      ->check(CLI::Range(int64_t{5}, int64_t{100} * 365 * 86'400));
}

void DeclareCertificates(CLI::App& app, OperatorOptions& o) {
  app.add_option("--trust-domain", o.trust_domain,
                 "first part of the names in certificates: spiffe://DOMAIN/ns/...")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return ParseIdentity(ServiceAuthority(text, "a", "b") + "/gateway")
                       ? ""
                       : "'" + text +
                             "' is not a DNS name; want lower-case letters, digits, '-' and '.'";
          },
          "DOMAIN"))
      ->capture_default_str();
  DeclareLifetime(app, "--authority-seconds", o.lifetimes.authority,
                  "lifetime of a certificate authority in seconds; the next one follows after two "
                  "thirds of it");
  DeclareLifetime(
      app, "--leaf-seconds", o.lifetimes.leaf,
      "lifetime of a certificate in seconds; the operator renews it after two thirds of it");
  DeclareLifetime(
      app, "--spread-seconds", o.lifetimes.spread,
      "seconds from the distribution of a new certificate authority to its first certificate");
}

void DeclarePages(CLI::App& app, OperatorOptions& o) {
  app.add_option("--metrics-address", o.metrics_address, "HOST:PORT that serves /metrics")
      ->capture_default_str();
  CLI::Option* const authentication = app.add_flag(
      "--metrics-authentication", o.metrics_authentication,
      "serve /metrics over HTTPS, and only to users with the right to get it: the API server "
      "reviews each bearer token (TokenReview, SubjectAccessReview)");
  app.add_option("--metrics-tls", o.metrics_tls,
                 "DIR with tls.crt and tls.key for it, read again for each connection (none: a "
                 "certificate that scrapers cannot verify)")
      ->needs(authentication);
  app.add_option("--records-address", o.records_address,
                 "HOST:PORT that serves recorded decisions and their page (none). It asks for no "
                 "credentials: give 127.0.0.1, so that only kubectl port-forward reaches it");
  app.add_option("--health-address", o.health_address, "HOST:PORT that serves /healthz and /readyz")
      ->capture_default_str();
  app.add_flag("--debug", o.debug, "log more, to debug the operator itself");
  app.add_option_function<std::string>(
         "--log-format",
         [&o](const std::string& format) {
           o.log_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
         },
         "format of log lines: text (key=value) or json. Default: text")
      ->check(CLI::IsMember({"text", "json"}));
}

void DeclareDefaults(CLI::App& app, OperatorOptions& o) {
  app.add_option("--worker-image", o.worker_image,
                 "image of workers, unless the MoEService names one")
      ->envname("JANUS_WORKER_IMAGE")
      ->required();
  app.add_option("--worker-cuda-image", o.worker_cuda_image,
                 "image of workers on GPUs. Default: none; the MoEService must name one")
      ->envname("JANUS_WORKER_CUDA_IMAGE");
  app.add_option("--gateway-image", o.gateway_image, "image of gateways")
      ->envname("JANUS_GATEWAY_IMAGE")
      ->required();
  app.add_option("--image-pull-policy", o.image_pull_policy, "when the kubelet pulls images")
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}))
      ->capture_default_str();
  app.add_option(
      "--host-path", o.host_paths,
      "folder that may contain models of source type HostPath; may be repeated. Default: none");
  app.add_option("--hub-endpoint", o.hub_endpoint,
                 "URL of the hub for models of source type HuggingFace: http(s)://HOST[:PORT]. "
                 "Default: the public hub")
      ->check(CLI::Validator(
          [](const std::string& url) {
            const bool has_scheme = url.starts_with("http://") || url.starts_with("https://");
            return has_scheme && ParseServerUrl(url).ok()
                       ? ""
                       : "'" + url + "' is not a hub's URL; want http(s)://HOST[:PORT]";
          },
          "URL"));
  app.add_flag("--timed-devices", o.timed_devices,
               "allow a MoEService with device Timed: its workers emulate the times of a GPU");
}

}  // namespace

void DeclareNamespaces(CLI::App& app, const std::string& flag, OperatorOptions& options) {
  app.add_option(flag, options.namespaces,
                 "only the services of this namespace; may be repeated, or a list with commas. "
                 "Default: all namespaces")
      ->envname("WATCH_NAMESPACE")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& name) {
            return IsLabel(name) ? ""
                                 : "'" + name +
                                       "' is not a name of a namespace; want lower-case letters, "
                                       "digits and '-'";
          },
          "NAMESPACE"));
}

void DeclareKubeconfig(CLI::App& app, OperatorOptions& options) {
  app.add_option("--kubeconfig", options.kubeconfig,
                 "kubeconfig file that names the API server. Default: the pod's service account")
      ->envname("KUBECONFIG");
  app.add_option("--context", options.context,
                 "context of the kubeconfig. Default: its current-context");
}

Result<ParsedOptions> ParseOperatorOptions(int argc, const char* const* argv) {
  ParsedOptions out;
  CLI::App app{"janus-operator runs the services that MoEServices describe.", "janus-operator"};
  app.footer(
      "janus-operator services: lists all MoEServices; see janus-operator services --help\n"
      "janus-operator check: asks an operator or a service; see janus-operator check --help");
  app.set_version_flag("--version", std::string("janus-operator ") + JANUS_VERSION);
  DeclareCluster(app, out.options);
  DeclareElection(app, out.options);
  DeclareCertificates(app, out.options);
  DeclarePages(app, out.options);
  DeclareDefaults(app, out.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    app.exit(asked, text, text);
    out.text = text.str();
    return out;
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(std::string(error.what()) + "; see janus-operator --help");
  }
  for (const std::string& path : out.options.host_paths) {
    if (!path.starts_with('/')) {
      return InvalidArgument("--host-path: '" + path +
                             "' is not an absolute path; want one that begins with /");
    }
  }
  std::vector<std::string>& namespaces = out.options.namespaces;
  std::ranges::sort(namespaces);
  namespaces.erase(std::ranges::unique(namespaces).begin(), namespaces.end());
  if (namespaces.size() > kMostNamespaces) {
    return InvalidArgument(
        "--watch-namespace: " + std::to_string(namespaces.size()) +
        " namespaces are more than the " + std::to_string(kMostNamespaces) +
        " that one operator can watch separately; watch all namespaces, or run a second operator");
  }
  const Lifetimes& lifetimes = out.options.lifetimes;
  if (lifetimes.leaf > lifetimes.authority || lifetimes.spread > lifetimes.authority / 6) {
    return InvalidArgument(
        "want --leaf-seconds of at most --authority-seconds, and --spread-seconds of at most a "
        "sixth of --authority-seconds. Otherwise an authority ends before the next one has "
        "certificates");
  }
  if (out.options.pod_name.empty()) out.options.pod_name = MachineName();
  return out;
}

Result<ClusterConfig> ConfigOf(const OperatorOptions& options) {
  if (options.kubeconfig.empty() && !options.context.empty()) {
    return InvalidArgument("--context needs --kubeconfig, or KUBECONFIG in the environment");
  }
  JANUS_ASSIGN_OR_RETURN(
      ClusterConfig config,
      options.kubeconfig.empty()
          ? InClusterConfig(std::string(kServiceAccountFolder), Variable("KUBERNETES_SERVICE_HOST"),
                            Variable("KUBERNETES_SERVICE_PORT"))
          : LoadKubeconfig(options.kubeconfig, options.context));
  JANUS_RETURN_IF_ERROR(
      RefuseProxy(config, [](const std::string& name) { return Variable(name.c_str()); }));
  return config;
}

}  // namespace janus::control
