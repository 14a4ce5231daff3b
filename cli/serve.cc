#include "cli/serve.h"

#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "cli/calibrate.h"
#include "cli/hub/fetch.h"
#include "cli/objects/running_services.h"
#include "cli/screen.h"
#include "cli/serve_object.h"
#include "cli/table.h"
#include "common/free_memory.h"
#include "common/model/config.h"
#include "common/model/neighbours.h"
#include "common/vocabulary_files.h"
#include "hub/download.h"
#include "operator/api/yaml.h"
#include "operator/local/embedded/embedded_cluster.h"
#include "operator/local/embedded/service_follower.h"
#include "operator/local/environment.h"
#include "operator/local/gpus.h"
#include "operator/local/machine.h"
#include "operator/local/processes.h"
#include "operator/reconcile/capacity/service_plan.h"
#include "operator/reconcile/objects/names.h"

namespace janus::cli {
namespace {

using control::EmbeddedCluster;
using control::ServicePhase;

constexpr std::chrono::milliseconds kTick{100};
constexpr Seconds kTableInterval{1};
constexpr Seconds kLineInterval{10};
const control::CallLimits kLimits;

Status WriteObject(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  return out ? OkStatus()
             : FailedPrecondition(path +
                                  ": cannot write this file; check the permissions of its folder");
}

Status RequireFile(const std::string& path, const std::string& what) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return OkStatus();
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument(path + ": is a folder; want a file with " + what);
  }
  return NotFound(path + ": no such file; want a file with " + what);
}

// What is checked before a process starts.
struct Checked {
  control::ObjectKey key;
  std::string model_dir;
  ModelDescription model;
  control::ServicePlan plan;  // of each pool
  int pools = 1;
  int workers() const { return pools * (plan.m + plan.n); }
  control::EmbeddedClusterOptions cluster;  // log_dir is not set yet
};

// The GPUs of this machine for the service.
Result<std::vector<control::LocalGpu>> FindGpusFor(const ServeOptions& options, Screen& screen) {
  std::vector<control::LocalGpu> none;
  if (options.timed || options.device == "CPU") return none;
  JANUS_ASSIGN_OR_RETURN(const std::string worker, control::FindSibling("janus-worker"));
  Result<control::LocalGpus> asked = control::FindGpus(worker, {});
  control::LocalGpus found;
  if (asked.ok()) {
    found = *std::move(asked);
  } else {
    found.why = asked.status().message();
  }
  if (!found.gpus.empty()) return std::move(found.gpus);
  if (options.device == "CUDA") {
    return FailedPrecondition("--device CUDA: janus-worker can use no GPU here: " + found.why +
                              "; see docs/cuda.md, or leave the flag out");
  }
  std::error_code error;
  if (std::filesystem::exists("/dev/nvidiactl", error)) {
    screen.Line("this machine has an NVIDIA GPU that janus-worker cannot use: " + found.why +
                "; the service computes on CPUs (docs/cuda.md)");
  }
  return none;
}

// "2 x NVIDIA H200"; empty: the instances compute on CPUs.
std::string NameOfGpus(const Checked& checked) {
  if (checked.plan.effective.device != control::Device::kCuda) return "";
  const std::vector<control::LocalGpu>& gpus = checked.cluster.gpus;
  return std::to_string(gpus.size()) + " x " + gpus.front().name;
}

// What each instance of the service computes on, and what that needs.
std::string DescribeGpus(const Checked& checked) {
  const control::MemoryNeed& need = checked.plan.need;
  const int64_t on_gpus = checked.plan.m * need.attention_on_gpu.device.total() +
                          checked.plan.n * need.experts_on_gpu.device.total();
  const size_t gpus = checked.cluster.gpus.size();
  const auto instances = static_cast<size_t>(checked.workers());
  return "GPUs: " + NameOfGpus(checked) + ", each with " +
         control::FormatBytes(checked.cluster.room.gpus->memory_bytes) + " free; " +
         std::to_string(instances) + " instances " +
         (instances > gpus ? "share them" : "have one each") + " and need " +
         control::FormatBytes(checked.pools * on_gpus) + " of their memory";
}

Result<Checked> Check(const ServeOptions& options, const Asked& asked,
                      const control::MoEService& service) {
  Checked out;
  out.key = {service.metadata.namespace_.empty() ? "default" : service.metadata.namespace_,
             service.metadata.name};
  out.model_dir = service.spec.model.source.host_path->path;
  control::EmbeddedClusterOptions& cluster = out.cluster;
  cluster.ns = out.key.namespace_;
  cluster.host = options.host;
  cluster.chat_template = options.chat_template;
  cluster.api_keys_file = options.api_keys_file;
  cluster.worker_metrics_port = options.worker_metrics_port;
  cluster.debug_logits_hash = options.debug_logits_hash;
  cluster.gateway = options.gateway;
  JANUS_ASSIGN_OR_RETURN(cluster.worker_program, control::FindSibling("janus-worker"));
  JANUS_ASSIGN_OR_RETURN(cluster.gateway_program, control::FindSibling("janus-gateway"));
  JANUS_ASSIGN_OR_RETURN(cluster.port, control::FindPort(options.host, options.port));
  JANUS_ASSIGN_OR_RETURN(out.model, LoadModelConfig(out.model_dir));
  JANUS_RETURN_IF_ERROR(RequireFile(
      out.model_dir + "/" + std::string(VocabularyFileOf(out.model_dir)), "the model's tokenizer"));
  if (!options.chat_template.empty()) {
    JANUS_RETURN_IF_ERROR(RequireFile(options.chat_template, "a chat template"));
  }
  if (!options.api_keys_file.empty()) {
    JANUS_RETURN_IF_ERROR(RequireFile(options.api_keys_file, "API keys, one per line"));
  }
  JANUS_ASSIGN_OR_RETURN(cluster.room.memory_bytes, AvailableMemoryBytes());
  cluster.room.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cluster.gpus = asked.gpus;
  if (!asked.gpus.empty()) {
    const auto least =
        std::ranges::min_element(asked.gpus, {}, [](const auto& gpu) { return gpu.free_bytes; });
    cluster.room.gpus = {static_cast<int>(asked.gpus.size()), least->free_bytes};
  }
  if (options.nodes) {
    cluster.room.nodes = {options.nodes->attention_each, options.nodes->experts_each};
  }
  JANUS_ASSIGN_OR_RETURN(
      out.plan, control::PlanService(service, out.model, cluster.room, options.memory_bytes));
  cluster.gateway_memory_bytes = out.plan.gateway_memory_bytes;
  out.pools = control::LeastPools(service.spec);
  if (options.worker_metrics_port + out.workers() > 65'536) {
    return InvalidArgument("--worker-metrics-port " + std::to_string(options.worker_metrics_port) +
                           ": the " + std::to_string(out.workers()) +
                           " workers need one port each, and 65535 is the last; want a lower one");
  }
  return out;
}

// " (/models has: a, b)" for a name whose folder above exists: it may be misspelt.
std::string FoldersNear(const std::string& name) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(name, error);
  if (!std::filesystem::is_directory(path.parent_path(), error)) return "";
  const std::string near = NeighboursOf(path.string());
  return near.empty() ? "" : " (" + near + ")";
}

bool MustCalibrate(const ServeOptions& options) {
  return options.sum == "FixedPoint" && options.sum_exponents.empty();
}

// The options before a calibration has chosen exponents for the model in `dir`: with allowed ones.
Result<ServeOptions> BeforeCalibration(const ServeOptions& options, const std::string& dir) {
  ServeOptions judged = options;
  if (MustCalibrate(options)) {
    JANUS_ASSIGN_OR_RETURN(const ModelDescription model, LoadModelConfig(dir));
    judged.sum_exponents.assign(static_cast<size_t>(model.moe_layers()), 0);
  }
  return judged;
}

// Downloads the model. What would be refused is refused before its weights are fetched.
Result<std::string> FetchFolder(const ServeOptions& options, const Asked& asked, Screen& screen,
                                StopSignals& stop) {
  JANUS_ASSIGN_OR_RETURN(const hub::Settings settings, hub::ReadSettings());
  hub::DownloadOptions download;
  download.judge = [&](const std::string& folder) -> Status {
    JANUS_ASSIGN_OR_RETURN(const ServeOptions judged, BeforeCalibration(options, folder));
    JANUS_ASSIGN_OR_RETURN(const Object object, MakeObject(judged, asked, folder));
    return Check(options, asked, object.service).status();
  };
  Result<hub::LocalModel> local = FetchShown(settings, *asked.hub, download, screen, stop);
  if (local.ok()) return local->folder;
  const StatusCode code = local.status().code();
  const bool may_be_folder = code == StatusCode::kNotFound || code == StatusCode::kUnavailable;
  if (options.model_dir.empty() || !may_be_folder) return std::move(local).status();
  return std::move(local).status().Annotate(options.model_dir + " is no folder here" +
                                            FoldersNear(options.model_dir) + ", and on the hub");
}

// Shows how a service starts and how it runs.
class Display {
 public:
  Display(Screen& screen, const Checked& checked)
      : screen_(screen),
        checked_(checked),
        endpoint_("http://" + GatewayAddress(checked.cluster) + "/v1"),
        heading_(checked.key.name + "  " + endpoint_ + "  Ctrl-C stops this service" +
                 (NameOfGpus(checked).empty() ? "" : "\non " + NameOfGpus(checked))) {}

  void Show(EmbeddedCluster& cluster, const control::ServiceFollower& follower, MonotonicTime now) {
    if (follower.has_served()) {
      if (!announced_) Announce(cluster, now);
      return ShowFigures(cluster, now);
    }
    switch (follower.phase()) {
      case ServicePhase::kStarting:
        return ShowStarting(follower.pods_ready());
      case ServicePhase::kLoading:
        return ShowLoading(cluster.progress());
      case ServicePhase::kOpening:
      case ServicePhase::kServing:
        return Progress("opening the gateway");
    }
  }

  // Reports what happens to the processes of a service that runs: it repairs and scales itself.
  void Tell(const control::ContainerEvent& event) {
    if (!announced_ || event.expected) return;
    if (event.kind == control::ContainerEvent::Kind::kEnded) {
      ended_.insert(event.process);
      screen_.Line(event.text + "; restarting it");
    } else {
      screen_.Line(event.process + (ended_.erase(event.process) > 0 ? " runs again" : " runs"));
    }
  }

 private:
  // Redraws in place on a terminal; elsewhere prints a line whenever the text changes.
  void Progress(const std::string& text) {
    if (text == last_) return;
    last_ = text;
    if (screen_.is_terminal()) {
      screen_.Block(text, ReadTerminalSize(STDOUT_FILENO));
    } else {
      screen_.Line(text);
    }
  }

  void ShowStarting(int ready) {
    const std::string all = std::to_string(checked_.workers());
    if (!screen_.is_terminal()) return Progress("starting " + all + " workers");
    Progress("starting workers: " + std::to_string(ready) + " of " + all);
  }

  void ShowLoading(const PrepareProgress& progress) {
    if (progress.bytes_total == 0) return Progress("loading weights");
    // Steps of ten percent where every line stays.
    const uint64_t step = screen_.is_terminal() ? 1 : 10;
    const uint64_t percent = progress.bytes_done * 100 / progress.bytes_total / step * step;
    if (percent >= 100) return Progress("loading weights: done; connecting");
    Progress("loading weights: " + std::to_string(percent) + " % of " +
             control::FormatBytes(static_cast<int64_t>(progress.bytes_total)));
  }

  void Announce(EmbeddedCluster& cluster, MonotonicTime now) {
    announced_ = true;
    screen_.Block("");
    screen_.Line("serving " + checked_.plan.effective.model_name + " at " + endpoint_);
    if (const std::string page = cluster.page_url(); !page.empty()) {
      screen_.Line("page: " + page + " (load, decisions and their reasons)");
    }
    screen_.Line("logs: " + checked_.cluster.log_dir);
    looked_ = now;
  }

  void ShowFigures(EmbeddedCluster& cluster, MonotonicTime now) {
    const Seconds interval = screen_.is_terminal() ? kTableInterval : kLineInterval;
    if (now - looked_ < interval) return;
    const std::optional<Statistics> statistics = cluster.LatestStatistics(checked_.key);
    if (!statistics) return;
    const Seconds between = now - looked_;
    const ServiceView view = Summarize(before_, *statistics, between);
    if (screen_.is_terminal()) {
      screen_.Block(RenderTable(heading_, view, before_, *statistics, between),
                    ReadTerminalSize(STDOUT_FILENO));
    } else if (view.tokens != shown_tokens_) {
      screen_.Line(RenderLine(view));  // an idle service prints nothing
      shown_tokens_ = view.tokens;
    }
    before_ = *statistics;
    looked_ = now;
  }

  Screen& screen_;
  const Checked& checked_;
  const std::string endpoint_;
  const std::string heading_;
  bool announced_ = false;
  std::set<std::string> ended_;  // processes that failed and have not started again
  std::string last_;
  Statistics before_;
  MonotonicTime looked_;
  uint64_t shown_tokens_ = 0;
};

Result<std::vector<control::Node>> WorkersOf(EmbeddedCluster& cluster,
                                             const control::ObjectKey& key) {
  control::ListOptions options;
  options.selection.namespace_ = key.namespace_;
  options.selection.label_selector = std::string(control::kServiceLabel) + "=" + key.name;
  const auto pods = cluster.api().List(control::kPods, options, kLimits);
  if (!pods.ok()) return Unavailable(pods.error().message);
  return pods->items;
}

// Lets other janusctl commands find the service while it runs.
class Announcement {
 public:
  Announcement(std::string link, const std::string& socket) : link_(std::move(link)) {
    std::error_code error;
    std::filesystem::remove(link_, error);  // left by a run that was killed
    std::filesystem::create_symlink(socket, link_, error);
    if (error) failed_ = FailedPrecondition(link_ + ": " + error.message());
  }
  ~Announcement() {
    std::error_code error;
    std::filesystem::remove(link_, error);
  }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  const Status& status() const { return failed_; }

 private:
  const std::string link_;
  Status failed_;
};

// Runs until a signal or the deletion of the service (OK), or until its start fails (the reason).
Status Loop(EmbeddedCluster& cluster, const Checked& checked, Display& display, const Clock& clock,
            StopSignals& stop) {
  control::ServiceFollower follower({checked.cluster.log_dir}, clock.Now());
  while (!stop.Came()) {
    JANUS_RETURN_IF_ERROR(cluster.health());
    const std::vector<control::ContainerEvent> events = cluster.TakeEvents();
    for (const control::ContainerEvent& event : events) display.Tell(event);
    JANUS_ASSIGN_OR_RETURN(const std::vector<control::Node> pods, WorkersOf(cluster, checked.key));
    const auto service =
        cluster.api().Get(control::kMoEServices, checked.key, control::Subresource::kNone, kLimits);
    if (service.ok()) {
      JANUS_RETURN_IF_ERROR(follower.Follow(*service, pods, events, clock.Now()));
      display.Show(cluster, follower, clock.Now());
    } else if (pods.empty()) {
      return OkStatus();  // deleted; its workers have ended
    }
    pollfd fds[] = {{stop.fd(), POLLIN, 0}, {cluster.event_fd(), POLLIN, 0}};
    poll(fds, 2, static_cast<int>(kTick.count()));
  }
  return OkStatus();
}

}  // namespace

Result<PlayedNodes> ReadPlayedNodes(const std::string& text) {
  PlayedNodes nodes;
  int read = 0;
  const int fields =
      std::sscanf(text.c_str(), "%4dx%4d,%4dx%4d%n", &nodes.attention_nodes, &nodes.attention_each,
                  &nodes.expert_nodes, &nodes.experts_each, &read);
  const bool is_whole = fields == 4 && read == static_cast<int>(text.size()) &&
                        text.find_first_not_of("0123456789x,") == std::string::npos;
  if (!is_whole || nodes.attention_nodes < 1 || nodes.attention_each < 1 ||
      nodes.expert_nodes < 1 || nodes.experts_each < 1) {
    return InvalidArgument("is '" + text +
                           "'; want attention nodes x instances of each, then expert nodes x "
                           "instances of each, for example 2x4,4x2");
  }
  const int m = nodes.attention_nodes * nodes.attention_each;
  const int n = nodes.expert_nodes * nodes.experts_each;
  if (m > kMaxAttentionInstances || n > kMaxExpertInstances) {
    return InvalidArgument("'" + text + "' has " + std::to_string(m) + " attention instances and " +
                           std::to_string(n) + " expert instances; at most " +
                           std::to_string(kMaxAttentionInstances) + " and " +
                           std::to_string(kMaxExpertInstances) + " are allowed");
  }
  return nodes;
}

Status Serve(const ServeOptions& given, StopSignals& stop) {
  const SystemClock clock;
  ServeOptions options = given;
  Screen screen(STDOUT_FILENO, isatty(STDOUT_FILENO) == 1);
  JANUS_ASSIGN_OR_RETURN(Asked asked, ReadAsked(options));
  JANUS_ASSIGN_OR_RETURN(asked.gpus, FindGpusFor(options, screen));
  std::string folder;  // of a model of a hub
  if (asked.hub) {
    JANUS_ASSIGN_OR_RETURN(folder, FetchFolder(options, asked, screen, stop));
  }
  const std::string& model_dir = asked.hub ? folder : options.model_dir;
  JANUS_ASSIGN_OR_RETURN(const ServeOptions judged, BeforeCalibration(options, model_dir));
  // One heap for all threads, for the reason that operator/program/run_operator.cc gives.
  mallopt(M_ARENA_MAX, 1);
  JANUS_ASSIGN_OR_RETURN(Object object, MakeObject(judged, asked, folder));
  JANUS_ASSIGN_OR_RETURN(Checked checked, Check(judged, asked, object.service));
  const std::string& name = checked.key.name;
  JANUS_ASSIGN_OR_RETURN(checked.cluster.log_dir,
                         control::MakeStateFolder(control::ReadEnvironment(), name));
  const std::string& log_dir = checked.cluster.log_dir;
  JANUS_ASSIGN_OR_RETURN(const control::FolderLock lock,
                         control::FolderLock::Take(log_dir, "service " + name));
  if (MustCalibrate(options)) {
    // It takes long, so it begins once all else is checked.
    screen.Line("computing some prompts to choose the exponents of exact sums (--sum-exponents)");
    CalibrateOptions calibrate;
    calibrate.bits = options.sum_bits;
    JANUS_ASSIGN_OR_RETURN(const std::string yaml, RunCalibration(model_dir, calibrate, stop));
    JANUS_ASSIGN_OR_RETURN(options.sum_exponents, ReadExponents(yaml));
    JANUS_ASSIGN_OR_RETURN(object, MakeObject(options, asked, folder));
  }
  if (!options.model_dir.empty()) {
    const std::string path = log_dir + "/service.yaml";
    JANUS_RETURN_IF_ERROR(WriteObject(path, object.text));
    screen.Line("# " + path + "\n" + object.text);
  }
  const control::ServicePlan& plan = checked.plan;
  const std::string gpus = NameOfGpus(checked);
  screen.Line("service " + name + ": " + checked.model.architecture + " in " +
              std::string(ToString(plan.dtype)) + ", " +
              (checked.pools > 1 ? std::to_string(checked.pools) + " pools, in each " : "") +
              std::to_string(plan.m) + " attention and " + std::to_string(plan.n) +
              " expert instances, " + std::to_string(plan.slots_per_instance) + " slots each" +
              (gpus.empty() ? ", needs " + control::FormatBytes(plan.need.total()) : ""));
  if (!gpus.empty()) screen.Line(DescribeGpus(checked));
  if (plan.timed) screen.Line("emulated: " + ToString(*plan.timed));

  JANUS_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedCluster> cluster,
                         EmbeddedCluster::Start(checked.cluster));
  JANUS_ASSIGN_OR_RETURN(control::Node tree, control::ParseYaml(object.text, "the object"));
  control::SetAt(tree, {"metadata", "namespace"}, control::Node::String(checked.key.namespace_));
  const auto made = cluster->api().Create(control::kMoEServices, tree, {}, kLimits);
  if (!made.ok()) return InvalidArgument(made.error().message);
  const Announcement announcement(log_dir + "/" + kApiLink, cluster->api_socket());
  JANUS_RETURN_IF_ERROR(announcement.status());
  Display display(screen, checked);
  Status ended = Loop(*cluster, checked, display, clock, stop);
  screen.Block("");
  if (ended.ok()) screen.Line("stopping");
  cluster->Stop();
  return ended;
}

}  // namespace janus::cli
