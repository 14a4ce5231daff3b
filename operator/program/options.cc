#include "operator/program/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "operator/kube/proxy.h"

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
  app.add_option("--kubeconfig", o.kubeconfig,
                 "file that says where the API server is; else the pod's service account")
      ->envname("KUBECONFIG");
  app.add_option("--context", o.context, "of the kubeconfig (its current-context)");
  DeclareNamespaces(app, "--watch-namespace", o);
  app.add_option("--workers", o.workers, "services that are looked at at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--worker-connections", o.worker_connections,
                 "connections to workers, one per service; beyond, the least used is let go")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_option("--api-qps", o.calls_per_second, "requests per second to the API server")
      ->check(CLI::Range(1.0, 10'000.0))
      ->capture_default_str();
  app.add_option("--api-burst", o.burst, "requests that may go at once")
      ->check(CLI::Range(1.0, 10'000.0))
      ->capture_default_str();
}

void DeclareElection(CLI::App& app, OperatorOptions& o) {
  app.add_option("--leader-election", o.leader_election,
                 "of several operators one acts; false: this is the only one")
      ->capture_default_str();
  app.add_option("--lease-name", o.lease_name, "the Lease that the leader holds")
      ->capture_default_str();
  app.add_option("--lease-namespace", o.lease_namespace,
                 "where it is (the pod's namespace, or the context's)")
      ->envname("POD_NAMESPACE");
  app.add_option("--pod-name", o.pod_name, "who this is, in the Lease and in Events (the machine)")
      ->envname("POD_NAME");
}

void DeclareLifetime(CLI::App& app, const std::string& name, Seconds& lifetime,
                     const std::string& help) {
  app.add_option_function<int64_t>(
         name, [&lifetime](int64_t seconds) { lifetime = Seconds(seconds); },
         help + " (" + std::to_string(static_cast<int64_t>(lifetime.count())) + ")")
      ->check(CLI::Range(int64_t{5}, int64_t{100} * 365 * 86'400));
}

void DeclareCertificates(CLI::App& app, OperatorOptions& o) {
  app.add_option("--trust-domain", o.trust_domain,
                 "first part of the names in certificates, spiffe://DOMAIN/ns/...")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return ParseIdentity(ServiceAuthority(text, "a", "b") + "/gateway")
                       ? ""
                       : "'" + text + "' is no DNS name in small letters";
          },
          "DOMAIN"))
      ->capture_default_str();
  DeclareLifetime(app, "--authority-seconds", o.lifetimes.authority,
                  "how long an authority lasts; each is followed by the next after two thirds");
  DeclareLifetime(app, "--leaf-seconds", o.lifetimes.leaf,
                  "how long a certificate lasts; each is renewed after two thirds");
  DeclareLifetime(app, "--spread-seconds", o.lifetimes.spread,
                  "how long all have a new authority before its first certificate");
}

void DeclarePages(CLI::App& app, OperatorOptions& o) {
  app.add_option("--metrics-address", o.metrics_address, "HOST:PORT of /metrics")
      ->capture_default_str();
  app.add_option("--records-address", o.records_address,
                 "HOST:PORT of recorded decisions (none). They need no credentials: give "
                 "127.0.0.1, so that only kubectl port-forward reaches them");
  app.add_option("--health-address", o.health_address, "HOST:PORT of /healthz and /readyz")
      ->capture_default_str();
  app.add_flag("--debug", o.debug, "log more, for who works on the operator itself");
  app.add_option_function<std::string>(
         "--log-format",
         [&o](const std::string& format) {
           o.log_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
         },
         "of each line: text, as key=value, or json (text)")
      ->check(CLI::IsMember({"text", "json"}));
}

void DeclareDefaults(CLI::App& app, OperatorOptions& o) {
  app.add_option("--worker-image", o.worker_image, "of workers whose MoEService names none")
      ->envname("JANUS_WORKER_IMAGE")
      ->required();
  app.add_option("--worker-cuda-image", o.worker_cuda_image,
                 "the same of workers on GPUs (none: such a MoEService has to name one)")
      ->envname("JANUS_WORKER_CUDA_IMAGE");
  app.add_option("--gateway-image", o.gateway_image, "of gateways")
      ->envname("JANUS_GATEWAY_IMAGE")
      ->required();
  app.add_option("--image-pull-policy", o.image_pull_policy)
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}))
      ->capture_default_str();
  app.add_option("--host-path", o.host_paths,
                 "folder below which a source HostPath may lie; may be repeated (none)");
  app.add_flag("--timed-devices", o.timed_devices,
               "a MoEService may have device Timed: workers that emulate the times of a GPU");
}

}  // namespace

void DeclareNamespaces(CLI::App& app, const std::string& flag, OperatorOptions& options) {
  app.add_option(flag, options.namespaces,
                 "the services of this namespace alone; may be repeated, or a list with commas "
                 "(all)")
      ->envname("WATCH_NAMESPACE")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& name) {
            return IsLabel(name) ? "" : "'" + name + "' is no name of a namespace";
          },
          "NAMESPACE"));
}

Result<ParsedOptions> ParseOperatorOptions(int argc, const char* const* argv) {
  ParsedOptions out;
  CLI::App app{"Keeps what MoEServices ask for: the operator of Janus.", "janus-operator"};
  app.footer("janus-operator services: prints the MoEServices that there are; see its --help");
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
    return InvalidArgument(std::string(error.what()) + "; --help lists the flags");
  }
  for (const std::string& path : out.options.host_paths) {
    if (!path.starts_with('/')) {
      return InvalidArgument("--host-path: '" + path + "' does not begin with a slash");
    }
  }
  std::vector<std::string>& namespaces = out.options.namespaces;
  std::ranges::sort(namespaces);
  namespaces.erase(std::ranges::unique(namespaces).begin(), namespaces.end());
  if (namespaces.size() > kMostNamespaces) {
    return InvalidArgument("--watch-namespace: " + std::to_string(namespaces.size()) +
                           " namespaces are more than the " + std::to_string(kMostNamespaces) +
                           " that one operator watches each for itself; watch all, or run another");
  }
  const Lifetimes& lifetimes = out.options.lifetimes;
  if (lifetimes.leaf > lifetimes.authority || lifetimes.spread > lifetimes.authority / 6) {
    return InvalidArgument(
        "--leaf-seconds is at most --authority-seconds, --spread-seconds a sixth of it: an "
        "authority must not end before the next one's certificates are there");
  }
  if (out.options.pod_name.empty()) out.options.pod_name = MachineName();
  return out;
}

Result<ClusterConfig> ConfigOf(const OperatorOptions& options) {
  if (options.kubeconfig.empty() && !options.context.empty()) {
    return InvalidArgument("--context: needs --kubeconfig, or KUBECONFIG in the environment");
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
