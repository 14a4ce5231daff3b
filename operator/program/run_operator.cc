#include "operator/program/run_operator.h"

#include <malloc.h>

#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/exposition/metrics_text.h"
#include "common/log.h"
#include "common/stop_signals.h"
#include "operator/kube/client.h"
#include "operator/manager/manager.h"
#include "operator/planner/worker_planner.h"
#include "operator/program/check.h"
#include "operator/program/decision_pages.h"
#include "operator/program/metrics_access.h"
#include "operator/program/metrics_certificate.h"
#include "operator/program/options.h"
#include "operator/program/rights.h"
#include "operator/program/services.h"
#include "operator/records/record_book.h"
#include "rpc/page_server.h"

namespace janus::control {
namespace {

// Unique among processes, including earlier ones of this pod.
std::string NewIdentity(const std::string& pod) {
  std::random_device device;
  char text[16];
  std::snprintf(text, sizeof text, "_%08x", device());
  return pod + text;
}

Page PageOf(const Status& status) {
  if (status.ok()) return {200, "ok\n"};
  return {503, status.message() + "\n"};
}

std::string Joined(const std::vector<std::string>& namespaces) {
  if (namespaces.empty()) return "(all)";
  std::string out;
  for (const std::string& ns : namespaces) out += (out.empty() ? "" : ",") + ns;
  return out;
}

ManagerOptions ManagerOf(const OperatorOptions& options) {
  ManagerOptions out;
  out.reconciler.worker_image = options.worker_image;
  out.reconciler.worker_cuda_image = options.worker_cuda_image;
  out.reconciler.defaults.gateway_image = options.gateway_image;
  out.reconciler.defaults.image_pull_policy = options.image_pull_policy;
  out.reconciler.defaults.fetch_image = options.worker_image;
  out.reconciler.defaults.hub_endpoint = options.hub_endpoint;
  out.reconciler.host_paths = options.host_paths;
  out.reconciler.timed_devices = options.timed_devices;
  out.namespaces = options.namespaces;
  out.reads_nodes = options.reads_nodes;
  out.workers = options.workers;
  out.instance = options.pod_name;
  return out;
}

Status Run(const OperatorOptions& options, const MakeWorkerCalls& make_calls,
           StopSignals& signals) {
  // One heap for all threads. With one heap each, long-lived memory is scattered among short-lived
  // memory, and a third more pages stay resident. Threads wait for the API server, not for the
  // heap.
  mallopt(M_ARENA_MAX, 1);
  const Logger log(2, options.debug ? LogLevel::kDebug : LogLevel::kInfo, options.log_format);
  const SystemTimeline timeline;
  MetricRegistry registry;
  JANUS_ASSIGN_OR_RETURN(const ClusterConfig config, ConfigOf(options));
  ClientMetrics client_metrics(registry, config.host + ":" + std::to_string(config.port));
  KubeClientOptions client_options;
  client_options.transport.metrics = &client_metrics;
  client_options.transport.warnings = std::make_shared<ServerWarnings>(log);
  KubeClientOptions election_client_options = client_options;
  client_options.transport.calls_per_second = options.calls_per_second;
  client_options.transport.burst = options.burst;
  client_options.transport.watches = CountWatches(options.namespaces, options.reads_nodes);
  KubeClient client(config, client_options, timeline);
  KubeClient election_client(config, election_client_options, timeline);
  // Without the limit of calls, which passes share.
  KubeClient rights_client(config, election_client_options, timeline);
  KubeClient review_client(config, election_client_options, timeline);

  ManagerOptions manager_options = ManagerOf(options);
  if (options.leader_election) {
    ElectionOptions election;
    election.api = &election_client;
    election.lease.lease = {
        options.lease_namespace.empty() ? config.namespace_ : options.lease_namespace,
        options.lease_name};
    election.lease.identity = NewIdentity(options.pod_name);
    manager_options.election = std::move(election);
  }
  CertificateOptions certificate_options;
  certificate_options.ns =
      options.lease_namespace.empty() ? config.namespace_ : options.lease_namespace;
  certificate_options.watched = options.namespaces;
  certificate_options.trust_domain = options.trust_domain;
  certificate_options.lifetimes = options.lifetimes;
  CertificateKeeper certificates(certificate_options);
  manager_options.reconciler.certificates = &certificates;
  manager_options.reconciler.defaults.certificates = true;
  manager_options.reconciler.defaults.operator_namespace = certificate_options.ns;
  manager_options.reconciler.release = certificate_options.ns + "/" + options.lease_name;
  const WorkerCalls calls = make_calls(options, timeline, certificates);
  WorkerPlanner planner(*calls.models);
  RecordBook records;
  RightsCheck rights(rights_client, NeededRights(options, certificate_options.ns), timeline, log);
  manager_options.reconciler.records = &records;
  manager_options.reconciler.fetches = calls.fetches.get();
  Manager manager(client, planner, *calls.members, timeline, registry, log,
                  std::move(manager_options));
  MetricsAccess access(review_client, timeline, log);
  MetricsCertificate certificate(options.metrics_tls, timeline, log);
  PageAccess metrics_access;
  if (options.metrics_authentication) {
    metrics_access.certificate = [&] { return certificate.Now(); };
    metrics_access.refuse = [&](const std::string& authorization, const std::string& path) {
      return access.Refuse(authorization, path);
    };
  }
  JANUS_ASSIGN_OR_RETURN(
      const std::unique_ptr<PageServer> metrics,
      PageServer::Create(
          options.metrics_address,
          {{"/metrics",
            [&] {
              return Page{200, PrometheusText(manager.Collect()), kPrometheusContentType};
            }}},
          nullptr, std::move(metrics_access)));
  JANUS_ASSIGN_OR_RETURN(
      const std::unique_ptr<PageServer> health,
      PageServer::Create(options.health_address,
                         {{"/healthz", [&] { return PageOf(manager.Live()); }},
                          {"/readyz", [&] {
                             const Status missing = rights.Missing();
                             return PageOf(missing.ok() ? manager.Ready() : missing);
                           }}}));
  std::unique_ptr<PageServer> decisions;
  if (!options.records_address.empty()) {
    JANUS_ASSIGN_OR_RETURN(decisions, PageServer::Create(options.records_address, {},
                                                         DecisionPages(records, timeline)));
  }
  log.Info("started", {{"version", JANUS_VERSION},
                       {"cluster", config.origin},
                       {"namespaces", Joined(options.namespaces)},
                       {"workers", options.workers},
                       {"leader_election", options.leader_election ? "yes" : "no"},
                       {"worker_image", options.worker_image},
                       {"worker_cuda_image", options.worker_cuda_image},
                       {"gateway_image", options.gateway_image}});
  if (!options.reads_nodes) {
    log.Warning(
        "nodes and HardwareProfiles are not read (--nodes=false): workers are not moved before a "
        "node is drained, and those on a silent node wait until Kubernetes deletes them");
  }
  // The parent process reads this line.
  std::printf("janus-operator ready metrics=%s health=%s\n", metrics->address().c_str(),
              health->address().c_str());
  std::fflush(stdout);
  rights.Start();
  std::jthread running([&](const std::stop_token& stop) { manager.Run(stop); });
  signals.Wait();
  running.request_stop();
  running.join();
  log.Info("stopped");
  return OkStatus();
}

}  // namespace

int RunOperator(int argc, const char* const* argv, const MakeWorkerCalls& make_calls) {
  if (argc > 1 && std::string_view(argv[1]) == "services") return RunServices(argc - 1, argv + 1);
  if (argc > 1 && std::string_view(argv[1]) == "check") return RunCheck(argc - 1, argv + 1);
  StopSignals signals;
  const Result<ParsedOptions> parsed = ParseOperatorOptions(argc, argv);
  if (!parsed.ok()) {
    std::fprintf(stderr, "janus-operator: %s\n", parsed.status().message().c_str());
    return 2;
  }
  if (!parsed->text.empty()) {
    std::fputs(parsed->text.c_str(), stdout);
    return 0;
  }
  const Status status = Run(parsed->options, make_calls, signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "janus-operator: %s\n", status.message().c_str());
  return 1;
}

}  // namespace janus::control
