#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "common/exposition/metrics_text.h"
#include "common/stop_signals.h"
#include "dataplane/worker/control_service.h"
#include "dataplane/worker/metrics_server.h"
#include "dataplane/worker/tokens_service.h"
#include "dataplane/worker/worker.h"

namespace janus::dataplane {
namespace {

int Run(const WorkerFlags& flags, StopSignals& stop) {
  const SystemClock clock;
  const Logger log = Logger().With({{"role", ToString(flags.role)}, {"listen", flags.listen}});
  if (const auto isa = kernels::SelectIsa(kernels::DetectCpu()); !isa.ok()) {
    log.Error("this CPU cannot serve", {{"error", isa.status().message()}});
    return 1;
  }
  Worker worker(flags, clock, log, [&](const Status& status) {
    log.Error("the epoch has ended; requests are held for the next", {{"error", status.message()}});
  });
  ControlService control(worker);
  TokensService tokens(worker, log);

  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("worker");
  constexpr int kMostThreads = 64;
  quota.SetMaxThreads(kMostThreads);
  builder.SetResourceQuota(quota);
  constexpr int kMostMessageBytes = 16 << 20;  // a prompt of millions of tokens
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  // Pings of idle gateways every 10 s are no abuse.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddListeningPort(flags.listen, grpc::InsecureServerCredentials());
  builder.RegisterService(&control);
  builder.RegisterService(&tokens);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    log.Error("cannot listen; is the address taken, or its folder missing?");
    return 1;
  }
  std::unique_ptr<MetricsServer> metrics;
  if (!flags.metrics.empty()) {
    auto listening =
        MetricsServer::Create(flags.metrics, [&] { return PrometheusText(worker.metrics()); });
    if (!listening.ok()) {
      log.Error("cannot serve metrics", {{"error", listening.status().message()}});
      return 1;
    }
    metrics = *std::move(listening);
    log.Info("serving metrics", {{"metrics", metrics->address()}});
  }
  std::printf("ready %s\n", flags.listen.c_str());
  std::fflush(stdout);
  stop.Wait();
  worker.Stop();
  // Streams are cut after a moment; their requests end with them.
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  janus::StopSignals stop;
  CLI::App app{"One attention or expert instance of a Janus service."};
  janus::dataplane::WorkerFlags flags;
  std::string role, device = "cpu";
  app.add_option("--role", role, "attention or experts")
      ->required()
      ->check(CLI::IsMember({"attention", "experts"}));
  app.add_option("--model", flags.model, "checkpoint folder")->required();
  app.add_option("--device", device, "cpu; this build has no other")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--listen", flags.listen, "gRPC address: unix:/path or host:port")->required();
  app.add_option("--service-uid", flags.service_uid, "UID of the service this worker belongs to")
      ->required();
  app.add_option("--metrics", flags.metrics,
                 "where Prometheus metrics are served: host:port or unix:/path; default: nowhere");
  CLI11_PARSE(app, argc, argv);
  if (device == "cuda") {
    std::fprintf(stderr,
                 "--device cuda: this is a CPU build; use --device cpu or a build with CUDA\n");
    return 2;
  }
  flags.role = role == "attention" ? janus::Role::kAttention : janus::Role::kExperts;
  return janus::dataplane::Run(flags, stop);
}
