#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "common/exposition/metrics_text.h"
#include "common/pools.h"
#include "common/stop_signals.h"
#include "dataplane/calibrate/calibrate.h"
#include "dataplane/fetch/fetch.h"
#include "dataplane/worker/changed_files.h"
#include "dataplane/worker/control_service.h"
#include "dataplane/worker/hung_device.h"
#include "dataplane/worker/open_device.h"
#include "dataplane/worker/supervise/supervise.h"
#include "dataplane/worker/tokens_service.h"
#include "dataplane/worker/worker.h"
#include "dataplane/worker/worker_pages.h"
#include "rpc/channel.h"
#include "rpc/credentials/handshake_counter.h"
#include "rpc/credentials/own_certificate.h"
#include "rpc/credentials/trust_folder.h"

namespace janus::dataplane {
namespace {

// Waits until the service can do without this worker, at most for `longest`, or until another stop
// signal arrives.
void Depart(Worker& worker, StopSignals& stop, Seconds longest, const Logger& log) {
  constexpr std::chrono::milliseconds kLookUp{100};
  const MonotonicTime deadline = Later(MonotonicClock::now(), longest);
  worker.Depart();
  pollfd again{stop.fd(), POLLIN, 0};
  while (longest > Seconds(0) && !worker.HasDeparted()) {
    const bool is_asked = poll(&again, 1, static_cast<int>(kLookUp.count())) > 0;
    if (!is_asked && MonotonicClock::now() < deadline) continue;
    log.Warning(
        is_asked
            ? "this worker ends at a second stop signal, although the service still uses it"
            : "this worker ends because the drain time is over, although the service still uses it",
        {{"drain_seconds", longest.count()}});
    break;
  }
  worker.Leave(std::numeric_limits<uint64_t>::max());
}

int Run(const WorkerFlags& flags, kernels::Context& context, StopSignals& stop) {
  const SystemClock clock;
  Logger log = Logger().With({{"role", ToString(flags.role)}, {"listen", flags.listen}});
  if (flags.index) log = log.With({{"index", *flags.index}});
  const auto isa = kernels::SelectIsa(kernels::DetectCpu());
  if (context.is_host() && !isa.ok()) {
    log.Error("this CPU cannot serve", {{"error", isa.status().message()}});
    return 1;
  }
  EndWhereDeviceHangs(context, log);
  MetricRegistry registry;
  RefusalCounts refusals(registry);
  std::optional<HandshakeCounter> handshakes;
  std::shared_ptr<const TrustFolder> trust;
  if (!flags.trust.empty()) {
    auto opened = TrustFolder::Open(flags.trust, clock, refusals);
    Status status = opened.status();
    if (status.ok() && ToString((*opened)->identity().role) != ToString(flags.role)) {
      status = InvalidArgument("the certificate is " + ToUri((*opened)->identity()) +
                               "; want a certificate of the role of this worker");
    }
    if (!status.ok()) {
      log.Error("--trust", {{"error", status.message()}});
      return 1;
    }
    trust = *std::move(opened);
    log.Info("mutual TLS", {{"identity", ToUri(trust->identity())}});
    handshakes.emplace(refusals, log);
    TellCertificate(trust, registry);
  }
  Worker worker(
      flags, context, clock, log,
      [&](const Status& status) {
        if (context.has_failed()) {
          log.Error(
              "the device has failed and only a new process can use it again; this worker ends",
              {{"error", status.message()}});
          StopSignals::Request();
          return;
        }
        log.Error("the epoch has ended; requests wait for the next epoch",
                  {{"error", status.message()}});
      },
      registry);
  ControlService control(worker, trust != nullptr ? trust->Channel() : nullptr);
  TokensService tokens(worker, log);

  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("worker");
  constexpr int kMostThreads = 64;
  quota.SetMaxThreads(kMostThreads);
  builder.SetResourceQuota(quota);
  constexpr int kMostMessageBytes = 16 << 20;  // a prompt of millions of tokens
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  AllowIdleCallers(builder);
  builder.AddListeningPort(flags.listen,
                           trust != nullptr ? trust->Server() : grpc::InsecureServerCredentials());
  builder.RegisterService(&control);
  builder.RegisterService(&tokens);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    log.Error("cannot listen; check that the address is free and its folder exists");
    return 1;
  }
  std::unique_ptr<PageServer> metrics;
  if (!flags.metrics.empty()) {
    auto listening = PageServer::Create(
        flags.metrics,
        WorkerPages(
            [&] {
              std::vector<MetricFamily> families = worker.metrics();
              for (MetricFamily& one : registry.Collect()) families.push_back(std::move(one));
              return PrometheusText(families);
            },
            // Hangs, and so fails the liveness probe, if a thread holds the lock that all need.
            [&] { static_cast<void>(worker.statistics()); }));
    if (!listening.ok()) {
      log.Error("cannot serve metrics", {{"error", listening.status().message()}});
      return 1;
    }
    metrics = *std::move(listening);
    log.Info("serving metrics", {{"metrics", metrics->address()}});
  }
  // It ends at once, because every further token could be wrong. Peers notice a lost instance.
  const std::jthread watching = WatchMappedFiles([&log](const Status& changed) {
    log.Error("the weights are others now; this process ends", {{"error", changed.message()}});
    std::_Exit(1);
  });
  if (!flags.index) {
    std::printf("ready %s\n", flags.listen.c_str());
    std::fflush(stdout);
  }
  stop.Wait();
  Depart(worker, stop, Seconds(flags.drain_seconds), log);
  worker.Stop();
  // Streams are cut after a moment, which cancels their requests.
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  server->Wait();
  return context.has_failed() ? 1 : 0;
}

// For exchange.hostShared: lets every user make sockets in a folder that this user owns. As in
// /tmp, a user can remove its own ones only.
int ShareFolder(const char* folder) {
  constexpr mode_t kSticky = 01777;
  if (chmod(folder, kSticky) == 0) return 0;
  std::fprintf(stderr,
               "share-folder %s: %s; the init container must run as root, which owns the folder "
               "that the kubelet has made\n",
               folder, std::strerror(errno));
  return 1;
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "fetch") {
    return janus::dataplane::FetchMain(argc - 1, argv + 1);
  }
  if (argc > 1 && std::string_view(argv[1]) == "calibrate") {
    return janus::dataplane::CalibrateMain(argc - 1, argv + 1);
  }
  if (argc > 1 && std::string_view(argv[1]) == "share-folder") {
    return janus::dataplane::ShareFolder(argc > 2 ? argv[2] : "");
  }
  janus::StopSignals stop;
  CLI::App app{
      "janus-worker runs one attention or expert instance of a Janus service, or several with "
      "--supervise."};
  app.footer(
      "janus-worker fetch: downloads a model from a hub; see janus-worker fetch --help\n"
      "janus-worker calibrate: see janusctl calibrate --help");
  app.set_version_flag("--version", "janus-worker " JANUS_VERSION);
  janus::dataplane::WorkerFlags flags;
  std::string role, device = "cpu";
  app.add_option("--role", role, "role of this instance")
      ->required()
      ->check(CLI::IsMember({"attention", "experts"}));
  app.add_option("--model", flags.model, "checkpoint folder")->required();
  app.add_option("--commit", flags.commit,
                 "the checkpoint folder is the snapshot of this commit in a hub's cache, and may "
                 "lack weights of the other role. Default: a folder with all weights");
  app.add_option("--device", device,
                 "device to compute on; cuda needs a build with CUDA. Default: cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--listen", flags.listen, "gRPC address: unix:/path or host:port")->required();
  app.add_option("--service-uid", flags.service_uid,
                 "UID of the service to which this worker belongs")
      ->required();
  app.add_option("--pool", flags.pool,
                 "the service's pool to which this worker belongs. Default: 1")
      ->check(CLI::Range(1, janus::kMostPools));
  app.add_option("--trust", flags.trust,
                 "folder with tls.crt, tls.key and ca.crt for mutual TLS; the worker reads them "
                 "again when they change. Default: no TLS");
  app.add_option("--metrics", flags.metrics,
                 "address for Prometheus metrics: host:port or unix:/path. Default: no metrics");
  app.add_option("--drain-seconds", flags.drain_seconds,
                 "after SIGTERM, the worker waits this long until an epoch without it serves. A "
                 "second SIGTERM ends it at once; with 0, the first one does")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  std::string gpu_direct = "on";
  app.add_option("--gpu-direct", gpu_direct,
                 "with --device cuda. on: network devices read and write the GPU's memory if they "
                 "can. off: data for other machines goes through the host's memory")
      ->check(CLI::IsMember({"on", "off"}))
      ->envname("JANUS_GPU_DIRECT")
      ->capture_default_str();
  janus::dataplane::Supervision supervision;
  app.add_option("--supervise", supervision.instances,
                 "runs so many instances, a process each, which divide this machine or container. "
                 "One that ends or hangs is started again. Each listens 10 ports above the one "
                 "before, and uses a GPU of its own. Default: this process is the instance")
      ->check(CLI::Range(1, janus::dataplane::kMostSupervised));
  app.add_option("--run-folder", supervision.run_folder,
                 "with --supervise: folder for the sockets of the instances' pages")
      ->capture_default_str();
  // Set by the supervisor; an empty group is not in --help.
  app.add_option("--instance", flags.index, "index of a supervised instance")->group("");
  app.add_option("--instances", flags.instances, "number of supervised instances")
      ->group("")
      ->check(CLI::Range(1, janus::dataplane::kMostSupervised));
  CLI11_PARSE(app, argc, argv);
  flags.gpu_direct = gpu_direct == "on";
  if (supervision.instances > 0) {
    supervision.listen = flags.listen;
    supervision.has_gpus = device == "cuda";
    return janus::dataplane::Supervise(supervision, flags.metrics, {argv, argv + argc}, stop);
  }
  const auto context = janus::dataplane::OpenDevice(device);
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().message().c_str());
    return 2;
  }
  flags.role = role == "attention" ? janus::Role::kAttention : janus::Role::kExperts;
  return janus::dataplane::Run(flags, **context, stop);
}
