#include "cli/serve.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/screen.h"
#include "cli/service_file.h"
#include "cli/table.h"
#include "common/free_memory.h"
#include "common/model/config.h"
#include "operator/local/environment.h"
#include "operator/local/machine.h"
#include "operator/local/service.h"
#include "operator/reconcile/plan.h"

namespace janus::cli {
namespace {

using control::LocalService;

constexpr std::chrono::milliseconds kTick{100};
constexpr Seconds kTableInterval{1};
constexpr Seconds kLineInterval{10};
constexpr Seconds kStopGrace{5};

struct Object {
  control::MoEService service;
  std::string text;  // as it was written
};

Result<Object> ReadObject(const ServeOptions& options) {
  std::string file = options.file;
  std::string text;
  if (!options.model_dir.empty()) {
    std::error_code error;
    const std::string dir = std::filesystem::absolute(options.model_dir, error).lexically_normal();
    file = "service.yaml";
    ServiceAsked asked{options.name, "", dir, options.attention, options.experts};
    if (asked.name.empty()) {
      asked.name = ServiceNameFor(dir);
      if (ModelNameFor(dir) != asked.name) asked.model_name = ModelNameFor(dir);
    } else {
      JANUS_RETURN_IF_ERROR(CheckServiceName(asked.name));
    }
    text = ComposeServiceText(asked);
  } else {
    JANUS_ASSIGN_OR_RETURN(text, ReadTextFile(file));
  }
  JANUS_ASSIGN_OR_RETURN(control::MoEService service, ParseServiceText(text, file));
  return Object{std::move(service), std::move(text)};
}

Status WriteObject(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  return out ? OkStatus() : FailedPrecondition(path + ": cannot be written");
}

Status RequireFile(const std::string& path, const std::string& what) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return OkStatus();
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument(path + ": is a folder; want " + what);
  }
  return NotFound(path + ": no such file; want " + what);
}

// Everything that can be known before a process is started.
Result<control::LocalServiceOptions> Check(const ServeOptions& options,
                                           const control::MoEService& service) {
  control::LocalServiceOptions out;
  out.name = service.metadata.name;
  out.model_dir = service.spec.model.source.host_path->path;
  out.host = options.host;
  out.port = options.port;
  out.chat_template = options.chat_template;
  out.api_keys_file = options.api_keys_file;
  out.worker_metrics_port = options.worker_metrics_port;
  out.debug_logits_hash = options.debug_logits_hash;
  out.gateway = options.gateway;
  out.request_bytes = service.spec.gateway.limits.request_size.value;
  out.open_streams = service.spec.gateway.limits.open_streams;
  JANUS_ASSIGN_OR_RETURN(out.worker_program, control::FindSibling("janus-worker"));
  JANUS_ASSIGN_OR_RETURN(out.gateway_program, control::FindSibling("janus-gateway"));
  JANUS_RETURN_IF_ERROR(control::CheckCanListen(options.host, options.port));
  JANUS_ASSIGN_OR_RETURN(out.model, LoadModelConfig(out.model_dir));
  JANUS_RETURN_IF_ERROR(RequireFile(out.model_dir + "/tokenizer.json", "the model's tokenizer"));
  if (!options.chat_template.empty()) {
    JANUS_RETURN_IF_ERROR(RequireFile(options.chat_template, "a chat template"));
  }
  if (!options.api_keys_file.empty()) {
    JANUS_RETURN_IF_ERROR(RequireFile(options.api_keys_file, "API keys, one per line"));
  }
  control::MachineRoom room;
  JANUS_ASSIGN_OR_RETURN(room.memory_bytes, AvailableMemoryBytes());
  room.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  JANUS_ASSIGN_OR_RETURN(out.plan,
                         control::PlanService(service, out.model, room, options.memory_bytes));
  if (options.worker_metrics_port + out.plan.m + out.plan.n > 65'536) {
    return InvalidArgument("--worker-metrics-port " + std::to_string(options.worker_metrics_port) +
                           ": " + std::to_string(out.plan.m + out.plan.n) +
                           " workers need as many ports from there on");
  }
  return out;
}

// Shows how a service comes up and how it does.
class Display {
 public:
  Display(Screen& screen, const control::LocalServiceOptions& options)
      : screen_(screen), options_(options) {}

  void Show(LocalService& service, MonotonicTime now) {
    if (service.phase() != phase_) {
      phase_ = service.phase();
      if (phase_ == LocalService::Phase::kServing) Announce(service, now);
    }
    switch (phase_) {
      case LocalService::Phase::kStarting:
        ShowStarting(service);
        break;
      case LocalService::Phase::kLoading:
        ShowLoading(service);
        break;
      case LocalService::Phase::kOpening:
        Progress("opening the gateway");
        break;
      case LocalService::Phase::kServing:
        ShowFigures(service, now);
        break;
    }
  }

 private:
  // On a terminal in place; elsewhere a line whenever it says something new.
  void Progress(const std::string& text) {
    if (text == last_) return;
    last_ = text;
    if (screen_.is_terminal()) {
      screen_.Block(text, ReadTerminalSize(STDOUT_FILENO));
    } else {
      screen_.Line(text);
    }
  }

  void ShowStarting(LocalService& service) {
    const std::string all = std::to_string(options_.plan.m + options_.plan.n);
    if (!screen_.is_terminal()) return Progress("starting " + all + " workers");
    Progress("starting workers: " + std::to_string(service.workers_ready()) + " of " + all);
  }

  void ShowLoading(LocalService& service) {
    const PrepareProgress progress = service.progress();
    if (progress.bytes_total == 0) return Progress("loading weights");
    // Tenths where every line stays.
    const uint64_t step = screen_.is_terminal() ? 1 : 10;
    const uint64_t percent = progress.bytes_done * 100 / progress.bytes_total / step * step;
    if (percent >= 100) return Progress("loading weights: done; connecting");
    Progress("loading weights: " + std::to_string(percent) + " % of " +
             control::FormatBytes(static_cast<int64_t>(progress.bytes_total)));
  }

  void Announce(LocalService& service, MonotonicTime now) {
    screen_.Block("");
    screen_.Line("serving " + options_.plan.effective.model_name + " at " + service.endpoint() +
                 "/v1");
    screen_.Line("logs: " + options_.log_dir);
    heading_ = options_.name + "  " + service.endpoint() + "/v1  Ctrl-C stops it";
    looked_ = now;
  }

  void ShowFigures(LocalService& service, MonotonicTime now) {
    const Seconds interval = screen_.is_terminal() ? kTableInterval : kLineInterval;
    if (now - looked_ < interval) return;
    const Result<Statistics> statistics = service.GetStatistics();
    if (!statistics.ok()) return;  // a member that is gone is told by its exit
    const Seconds between = now - looked_;
    const ServiceView view = Summarize(before_, *statistics, between);
    if (screen_.is_terminal()) {
      screen_.Block(RenderTable(heading_, view, before_, *statistics, between),
                    ReadTerminalSize(STDOUT_FILENO));
    } else if (view.tokens != shown_tokens_) {
      screen_.Line(RenderLine(view));  // a service that does nothing says nothing
      shown_tokens_ = view.tokens;
    }
    before_ = *statistics;
    looked_ = now;
  }

  Screen& screen_;
  const control::LocalServiceOptions& options_;
  LocalService::Phase phase_ = LocalService::Phase::kStarting;
  std::string last_;
  std::string heading_;
  Statistics before_;
  MonotonicTime looked_;
  uint64_t shown_tokens_ = 0;
};

// Until a signal (OK) or the end of the service (why).
Status Loop(LocalService& service, Display& display, const Clock& clock, StopSignals& stop) {
  while (!stop.Came()) {
    JANUS_RETURN_IF_ERROR(service.Step(clock.Now()));
    display.Show(service, clock.Now());
    pollfd fds[] = {{stop.fd(), POLLIN, 0}, {service.event_fd(), POLLIN, 0}};
    poll(fds, 2, static_cast<int>(kTick.count()));
  }
  return OkStatus();
}

}  // namespace

Status Serve(const ServeOptions& options, StopSignals& stop) {
  const SystemClock clock;
  Screen screen(STDOUT_FILENO, isatty(STDOUT_FILENO) == 1);
  JANUS_ASSIGN_OR_RETURN(const Object object, ReadObject(options));
  JANUS_ASSIGN_OR_RETURN(control::LocalServiceOptions local, Check(options, object.service));
  JANUS_ASSIGN_OR_RETURN(local.log_dir,
                         control::MakeStateFolder(control::ReadEnvironment(), local.name));
  JANUS_ASSIGN_OR_RETURN(const control::FolderLock lock,
                         control::FolderLock::Take(local.log_dir, "service " + local.name));
  if (!options.model_dir.empty()) {
    const std::string path = local.log_dir + "/service.yaml";
    JANUS_RETURN_IF_ERROR(WriteObject(path, object.text));
    screen.Line("# " + path + "\n" + object.text);
  }
  const control::ServicePlan& plan = local.plan;
  screen.Line("service " + local.name + ": " + local.model.architecture + " in " +
              std::string(ToString(plan.dtype)) + ", " + std::to_string(plan.m) +
              " attention and " + std::to_string(plan.n) + " expert instances, " +
              std::to_string(plan.slots_per_instance) + " slots each, needs " +
              control::FormatBytes(plan.need.total()));
  if (!plan.held.empty()) screen.Line("note: " + plan.held);

  JANUS_ASSIGN_OR_RETURN(const std::unique_ptr<LocalService> service,
                         LocalService::Start(local, clock.Now()));
  Display display(screen, local);
  Status ended = Loop(*service, display, clock, stop);
  screen.Block("");
  if (ended.ok()) screen.Line("stopping");
  service->Stop(kStopGrace);
  return ended;
}

}  // namespace janus::cli
