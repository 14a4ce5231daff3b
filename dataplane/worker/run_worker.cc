#include "dataplane/worker/run_worker.h"

#include <grpcpp/grpcpp.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "common/exposition/metrics_text.h"
#include "dataplane/worker/control_service.h"
#include "dataplane/worker/hung_device.h"
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
void Depart(Worker& worker, StopRequests& stop, Seconds longest, const Logger& log) {
  constexpr std::chrono::milliseconds kLookUp{100};
  const MonotonicTime deadline = Later(MonotonicClock::now(), longest);
  worker.Depart();
  while (longest > Seconds(0) && !stop.leaves_no_time() && !worker.HasDeparted()) {
    const bool is_asked = stop.Await(MonotonicClock::now() + kLookUp);
    if (stop.leaves_no_time()) break;
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

}  // namespace

int RunWorker(const WorkerFlags& flags, kernels::Context& context, const WorkerProcess& process) {
  const SystemClock clock;
  Logger log = process.log.With({{"role", ToString(flags.role)}, {"listen", flags.listen}});
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
          process.on_failed_device();
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
  process.on_ready();
  process.stop.Await(MonotonicTime::max());
  Depart(worker, process.stop, Seconds(flags.drain_seconds), log);
  worker.Stop();
  // Streams are cut after a moment, which cancels their requests.
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  server->Wait();
  return context.has_failed() ? 1 : 0;
}

}  // namespace janus::dataplane
