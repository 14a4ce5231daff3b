#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/pools.h"
#include "common/stop_signals.h"
#include "dataplane/calibrate/calibrate.h"
#include "dataplane/fetch/fetch.h"
#include "dataplane/worker/changed_files.h"
#include "dataplane/worker/gpu_process/gpu_process.h"
#include "dataplane/worker/gpu_process/join_gpu.h"
#include "dataplane/worker/open_device.h"
#include "dataplane/worker/print_gpus.h"
#include "dataplane/worker/run_worker.h"
#include "dataplane/worker/stop_by_signals.h"
#include "dataplane/worker/supervise/supervise.h"

namespace janus::dataplane {
namespace {

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

// The arguments of a worker.
struct Command {
  WorkerFlags flags;
  std::string role;
  std::string device = "cpu";
  std::string gpu_direct = "on";
  std::string gpu_process;  // socket; empty: the instance runs in this process
  Supervision supervision;
};

void Declare(CLI::App& app, Command& command) {
  app.add_option("--role", command.role, "role of this instance")
      ->required()
      ->check(CLI::IsMember({"attention", "experts"}));
  app.add_option("--model", command.flags.model, "checkpoint folder")->required();
  app.add_option("--commit", command.flags.commit,
                 "the checkpoint folder is the snapshot of this commit in a hub's cache, and may "
                 "lack weights of the other role. Default: a folder with all weights");
  app.add_option("--device", command.device,
                 "device to compute on; cuda needs a build with CUDA. Default: cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--listen", command.flags.listen, "gRPC address: unix:/path or host:port")
      ->required();
  app.add_option("--service-uid", command.flags.service_uid,
                 "UID of the service to which this worker belongs")
      ->required();
  app.add_option("--pool", command.flags.pool,
                 "the service's pool to which this worker belongs. Default: 1")
      ->check(CLI::Range(1, kMostPools));
  app.add_option("--trust", command.flags.trust,
                 "folder with tls.crt, tls.key and ca.crt for mutual TLS; the worker reads them "
                 "again when they change. Default: no TLS");
  app.add_option("--metrics", command.flags.metrics,
                 "address for Prometheus metrics: host:port or unix:/path. Default: no metrics");
  app.add_option("--drain-seconds", command.flags.drain_seconds,
                 "after SIGTERM, the worker waits this long until an epoch without it serves. A "
                 "second SIGTERM ends it at once; with 0, the first one does")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  app.add_option("--gpu-direct", command.gpu_direct,
                 "with --device cuda. on: network devices read and write the GPU's memory if they "
                 "can. off: data for other machines goes through the host's memory")
      ->check(CLI::IsMember({"on", "off"}))
      ->envname("JANUS_GPU_DIRECT")
      ->capture_default_str();
  app.add_option("--supervise", command.supervision.instances,
                 "runs so many instances, a process each, which divide this machine or container. "
                 "One that ends or hangs is started again. Each listens 10 ports above the one "
                 "before, and uses a GPU of its own. Default: this process is the instance")
      ->check(CLI::Range(1, kMostSupervised));
  app.add_option("--run-folder", command.supervision.run_folder,
                 "with --supervise: folder for the sockets of the instances' pages")
      ->capture_default_str();
  // Set by the supervisor; an empty group is not in --help.
  app.add_option("--instance", command.flags.index, "index of a supervised instance")->group("");
  app.add_option("--instances", command.flags.instances, "number of supervised instances")
      ->group("")
      ->check(CLI::Range(1, kMostSupervised));
  app.add_option("--gpu-process", command.gpu_process,
                 "with --device cuda: socket of the process in which this instance runs "
                 "(janus-worker gpu-process), so that instances on one GPU share it. Default: this "
                 "process")
      ->excludes("--supervise");
}

void Complete(Command& command) {
  command.flags.role = command.role == "attention" ? Role::kAttention : Role::kExperts;
  command.flags.gpu_direct = command.gpu_direct == "on";
}

// It ends at once, because every further token could be wrong. Peers notice a lost instance.
std::jthread EndWhereWeightsChange(const Logger& log) {
  return WatchMappedFiles([log](const Status& changed) {
    log.Error("the weights are others now; this process ends", {{"error", changed.message()}});
    std::_Exit(1);
  });
}

int Run(const Command& command, StopSignals& stop) {
  const auto context = OpenDevice(command.device);
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().message().c_str());
    return 2;
  }
  StopBySignals requests(stop);
  const auto on_ready = [&command] {
    if (command.flags.index) return;
    std::printf("ready %s\n", command.flags.listen.c_str());
    std::fflush(stdout);
  };
  const std::jthread watching = EndWhereWeightsChange(Logger());
  return RunWorker(command.flags, **context, {Logger(), requests, on_ready, StopSignals::Request});
}

// An instance of a worker that has ordered it (gpu_process/gpu_process.h), on this process's GPU.
int RunOrdered(const InstanceOrder& order, StopRequests& stop) {
  Command command;
  CLI::App app;
  Declare(app, command);
  // CLI11 wants them in reverse, without the program's name. The worker has parsed them already.
  try {
    app.parse(std::vector<std::string>(order.arguments.rbegin(), order.arguments.rend() - 1));
  } catch (const CLI::ParseError& error) {
    dprintf(order.err.get(), "%s\n", error.what());
    return 2;
  }
  Complete(command);
  const Logger log(order.err.get());
  const auto context = OpenDevice(command.device);
  if (!context.ok()) {
    dprintf(order.err.get(), "%s\n", context.status().message().c_str());
    return 2;
  }
  const auto on_ready = [&] {
    dprintf(order.out.get(), "ready %s\n", command.flags.listen.c_str());
  };
  // Every instance of this process has lost the device.
  const auto on_failed_device = [] { std::_Exit(1); };
  return RunWorker(command.flags, **context, {log, stop, on_ready, on_failed_device});
}

int RunGpuProcessMain(int argc, char** argv) {
  StopSignals stop;
  CLI::App app{
      "Runs the instances of several workers on this process's GPU: the first that "
      "CUDA_VISIBLE_DEVICES leaves. janusctl serve starts it."};
  GpuProcessOptions options;
  app.add_option("--socket", options.socket, "Unix socket for janus-worker --gpu-process")
      ->required();
  CLI11_PARSE(app, argc, argv);
  // An error of the GPU ends this process now, and the context stays when no instance runs.
  const auto context = OpenDevice("cuda");
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().message().c_str());
    return 2;
  }
  const Logger log;
  options.run = RunOrdered;
  options.on_ready = [&options] {
    std::printf("ready %s\n", options.socket.c_str());
    std::fflush(stdout);
  };
  options.on_stuck = [] { std::_Exit(1); };
  const std::jthread watching = EndWhereWeightsChange(log);
  const Status served = RunGpuProcess(options, stop, log);
  if (served.ok()) return 0;
  std::fprintf(stderr, "%s\n", served.message().c_str());
  return 1;
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  using namespace janus::dataplane;  // NOLINT: the program's own room
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "fetch") return FetchMain(argc - 1, argv + 1);
  if (verb == "calibrate") return CalibrateMain(argc - 1, argv + 1);
  if (verb == "share-folder") return ShareFolder(argc > 2 ? argv[2] : "");
  if (verb == "gpus") return PrintGpus();
  if (verb == "gpu-process") return RunGpuProcessMain(argc - 1, argv + 1);
  janus::StopSignals stop;
  CLI::App app{
      "janus-worker runs one attention or expert instance of a Janus service, or several with "
      "--supervise."};
  app.footer(
      "janus-worker fetch: downloads a model from a hub; see janus-worker fetch --help\n"
      "janus-worker calibrate: see janusctl calibrate --help\n"
      "janus-worker gpus: prints the GPUs that this build can use here, in JSON\n"
      "janus-worker gpu-process: see janus-worker gpu-process --help");
  app.set_version_flag("--version", "janus-worker " JANUS_VERSION);
  Command command;
  Declare(app, command);
  CLI11_PARSE(app, argc, argv);
  Complete(command);
  const std::vector<std::string> arguments(argv, argv + argc);
  if (command.supervision.instances > 0) {
    command.supervision.listen = command.flags.listen;
    command.supervision.has_gpus = command.device == "cuda";
    return Supervise(command.supervision, command.flags.metrics, arguments, stop);
  }
  if (!command.gpu_process.empty()) {
    return RunInGpuProcess(command.gpu_process, command.flags.listen, arguments, stop);
  }
  return Run(command, stop);
}
