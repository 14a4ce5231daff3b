#include "operator/local/node/local_node.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/informer.h"
#include "operator/local/exhausted.h"
#include "operator/local/node/deployment.h"
#include "operator/local/node/gpu_shares.h"
#include "operator/local/node/pod_status.h"
#include "operator/local/node/prober.h"
#include "operator/local/processes.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kWorker = "worker";  // the container of a worker pod
// Grace period after a failed liveness probe; short, because the process hangs.
constexpr Seconds kHungGrace{2};
constexpr int64_t kDefaultGrace = 30;  // seconds; Kubernetes' default
constexpr Seconds kCallTimeout{10};

MonotonicTime After(MonotonicTime time, Seconds wait) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(wait);
}

bool IsLeaving(const Node& pod) {
  return FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr;
}

Seconds GraceOf(const Node& pod, FieldPath path) {
  return Seconds(static_cast<double>(IntegerAt(pod, path).value_or(kDefaultGrace)));
}

bool HasEnded(const Node& pod) {
  const std::string_view phase = TextAt(pod, {"status", "phase"});
  return phase == "Failed" || phase == "Succeeded";
}

// Removes sockets of an earlier run of the pod's container: a program cannot listen on a path that
// exists.
void RemoveSockets(const std::string& ip) {
  const fs::path prefix(ip.substr(kUnix.size()));
  const std::string name = prefix.filename().string() + ":";
  std::error_code error;
  std::vector<fs::path> old;
  for (fs::directory_iterator at(prefix.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().starts_with(name)) old.push_back(at->path());
  }
  for (const fs::path& path : old) fs::remove(path, error);
}

}  // namespace

// State of one Run. Confined to its thread, except Wake.
class LocalNode::Running {
 public:
  explicit Running(LocalNode& node)
      : node_(node),
        options_(node.options_),
        api_(node.api_),
        gpus_(options_.gpus, options_.folder, ProgramOf(std::string(kWorker))),
        pods_(Follow(kPods)),
        deployments_(Follow(kDeployments)) {}

  Status Run(const std::stop_token& stop);

 private:
  // A pod that runs here.
  struct Runner {
    ObjectKey key;
    std::string uid;
    std::string process;
    int pool = 1;
    PodPlace place = {};
    std::optional<size_t> gpu = {};
    int port = 0;  // for its metrics; 0: no port
    ContainerRun run = {};
    ContainerLife life;
    std::unique_ptr<Prober> prober = {};
    bool is_leaving = false;
    Seconds grace{0};  // its time to end
    std::optional<MonotonicTime> kill_at = {};
    std::string ended_because = {};  // by which failed probe
    WallTime since = {};
  };

  std::unique_ptr<Informer> Follow(const Resource& resource) {
    ReflectorOptions options;
    options.on_listed = [this] { Wake(); };  // an empty list delivers no delta
    return std::make_unique<Informer>(
        api_, resource, std::move(options), ObjectStoreOptions(), [this](const Delta&) { Wake(); },
        node_.timeline_);
  }
  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  }
  void TakeWakes() {
    uint64_t ignored;
    [[maybe_unused]] const ssize_t drained = read(wake_.get(), &ignored, sizeof ignored);
  }
  MonotonicTime Now() const { return node_.timeline_.Now(); }
  WallTime Wall() const { return node_.timeline_.WallNow(); }
  CallLimits Limits() const { return {kCallTimeout, {}}; }

  // Empty: there is none.
  std::string ProgramOf(const std::string& container) const {
    const auto found = options_.ground.programs.find(container);
    return found == options_.ground.programs.end() ? "" : found->second;
  }
  Status MakeNode();
  void TakeEvents();
  void TakeEventOfGpu(const ProcessEvent& event, size_t gpu);
  void Ended(const ProcessEvent& event);
  void Look();
  void LookAtDeployment(const Node& deployment, const std::vector<Node>& pods);
  void LookAtPod(const Node& pod);
  void Bind(Node pod);
  Runner* Admit(const Node& pod);
  int FreePort() const;
  bool IsNameTaken(const Runner& runner) const;
  void GoOn(Runner& runner);
  void Start(Runner& runner);
  void CannotStart(Runner& runner, const std::string& why);
  bool AwaitsGpu(Runner& runner);
  void Drop(std::map<std::string, Runner>::iterator runner);
  void BeginProbing(Runner& runner, const std::string& address);
  void Leave(Runner& runner, Seconds grace);
  void End(Runner& runner, Seconds grace);
  void Finish(const Node& pod);
  void WriteStatus(const Resource& resource, const Node& before, const Node& after);
  void DropTheVanished(const std::set<std::string>& there);
  void LinkMembers();
  void Link(int pool, const std::string& socket);
  void Wait();

  LocalNode& node_;
  const LocalNodeOptions& options_;
  ObjectApi& api_;
  Fd wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<Processes> processes_;
  std::map<std::string, Runner> runners_;  // by uid
  GpuShares gpus_;
  int64_t places_ = 0;                 // given out so far
  std::map<int, std::string> linked_;  // target socket of each pool's link
  std::optional<MonotonicTime> next_look_;
  std::unique_ptr<Informer> pods_;  // last members: their threads end first
  std::unique_ptr<Informer> deployments_;
};

Status LocalNode::Running::MakeNode() {
  Node node = Object({{"apiVersion", Text("v1")},
                      {"kind", Text("Node")},
                      {"metadata", Object({{"name", Text(options_.name)}})}});
  ApiResult<Node> made = api_.Create(kNodes, node, {}, Limits());
  if (!made.ok() && made.error().code != StatusCode::kAlreadyExists) {
    return Unavailable("node " + options_.name + ": " + made.error().message);
  }
  ApiResult<Node> there = api_.Get(kNodes, {"", options_.name}, Subresource::kNone, Limits());
  if (!there.ok()) return Unavailable("node " + options_.name + ": " + there.error().message);
  SetAt(*there, {"status", "conditions"},
        ListOf({Object({{"type", Text("Ready")},
                        {"status", Text("True")},
                        {"reason", Text("LocalNodeReady")},
                        {"lastTransitionTime", Text(FormatTime(Wall()))}})}));
  const ApiResult<Node> said = api_.Update(kNodes, *there, Subresource::kStatus, {}, Limits());
  if (!said.ok()) return Unavailable("node " + options_.name + ": " + said.error().message);
  return OkStatus();
}

Status LocalNode::Running::Run(const std::stop_token& stop) {
  if (!wake_) return Exhausted("eventfd", errno);
  JANUS_ASSIGN_OR_RETURN(processes_, Processes::Create({options_.log_dir}));
  JANUS_RETURN_IF_ERROR(MakeNode());
  const std::stop_callback woken(stop, [this] { Wake(); });
  pods_->Start();
  deployments_->Start();
  while (!stop.stop_requested()) {
    TakeWakes();
    TakeEvents();
    Look();
    Wait();
  }
  // No more probes and no more events, since all processes are ending.
  for (auto& [uid, runner] : runners_) {
    runner.is_leaving = true;
    runner.prober.reset();
  }
  processes_->Stop(options_.stop_grace);
  TakeEvents();
  return OkStatus();
}

void LocalNode::Running::Wait() {
  pollfd fds[] = {{wake_.get(), POLLIN, 0}, {processes_->event_fd(), POLLIN, 0}};
  int timeout = -1;
  if (next_look_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next_look_ - Now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
  }
  poll(fds, 2, timeout);
}

void LocalNode::Running::TakeEvents() {
  while (const std::optional<ProcessEvent> event = processes_->NextEvent()) {
    if (const std::optional<size_t> gpu = gpus_.Find(event->name)) {
      TakeEventOfGpu(*event, *gpu);
      continue;
    }
    if (event->kind == ProcessEvent::Kind::kExited) {
      Ended(*event);
      continue;
    }
    for (auto& [uid, runner] : runners_) {
      if (runner.process != event->name || !runner.life.is_running()) continue;
      if (runner.run.probe_address.empty() && !runner.is_leaving) {
        constexpr std::string_view kScheme = "http://";
        BeginProbing(runner, event->text.starts_with(kScheme) ? event->text.substr(kScheme.size())
                                                              : event->text);
      }
      node_.observe_({ContainerEvent::Kind::kReady, runner.key, runner.process, runner.run.name,
                      event->text, false});
    }
  }
}

// Its workers end with it, and are started again like others. If it was not ready yet, those that
// wait for it cannot start.
void LocalNode::Running::TakeEventOfGpu(const ProcessEvent& event, size_t gpu) {
  const bool has_failed = gpus_.Note(event, gpu);
  if (event.kind == ProcessEvent::Kind::kReady) return;
  node_.log_.Info("the process of a GPU ended", {{"why", event.text}});
  if (event.expected || !has_failed) return;
  for (auto& [uid, runner] : runners_) {
    if (runner.gpu == gpu && !runner.life.is_running() && !runner.is_leaving) {
      CannotStart(runner, event.text);
    }
  }
}

void LocalNode::Running::Ended(const ProcessEvent& event) {
  for (auto& [uid, runner] : runners_) {
    if (runner.process != event.name || !runner.life.is_running()) continue;
    ContainerEnd end;
    end.exit_code = event.exit_code;
    end.signal = event.signal;
    end.message =
        runner.ended_because.empty() ? event.text : runner.ended_because + "; " + event.text;
    end.started = runner.life.started();
    end.finished = Wall();
    node_.log_.Info("container ended", {{"pod", runner.key.ToString()}, {"why", end.message}});
    node_.observe_({ContainerEvent::Kind::kEnded, runner.key, runner.process, runner.run.name,
                    end.message, event.expected || runner.is_leaving});
    runner.life.Ended(std::move(end), Now());
    runner.prober.reset();
    runner.kill_at.reset();
    runner.ended_because.clear();
    return;
  }
}

void LocalNode::Running::Look() {
  next_look_.reset();
  if (!pods_->HasSynced() || !deployments_->HasSynced()) return;  // on_listed wakes us then
  const std::vector<Node> pods = pods_->store().List();
  for (const Node& deployment : deployments_->store().List()) LookAtDeployment(deployment, pods);
  std::set<std::string> there;
  for (const Node& pod : pods) {
    there.emplace(UidOf(pod));
    LookAtPod(pod);
  }
  DropTheVanished(there);
  LinkMembers();
  const auto earlier = [this](std::optional<MonotonicTime> time) {
    if (time) next_look_ = std::min(next_look_.value_or(*time), *time);
  };
  for (const auto& [uid, runner] : runners_) {
    earlier(runner.kill_at);
    // If another pod's process still has the name, or that of its GPU is not ready, an event of
    // that process wakes us.
    if (!runner.is_leaving && !IsNameTaken(runner) && !gpus_.IsStarting(runner.gpu)) {
      earlier(runner.life.start_at());
    }
  }
}

void LocalNode::Running::LookAtDeployment(const Node& deployment, const std::vector<Node>& pods) {
  if (IsLeaving(deployment)) return;
  std::vector<Node> own;
  std::copy_if(pods.begin(), pods.end(), std::back_inserter(own),
               [&](const Node& pod) { return IsPodOf(deployment, pod); });
  const DeploymentPlan plan = PlanDeployment(deployment, own);
  for (const Node& pod : plan.create) {
    const ApiResult<Node> made = api_.Create(kPods, pod, {}, Limits());
    // It exists already, and this cache does not show it yet.
    if (!made.ok() && made.error().code != StatusCode::kAlreadyExists) {
      node_.log_.Warning("a pod was refused",
                         {{"pod", KeyOf(pod).ToString()}, {"error", made.error().message}});
    }
  }
  for (const std::string& name : plan.remove) {
    // Not found is fine: the pod is gone.
    (void)api_.Delete(kPods, {KeyOf(deployment).namespace_, name}, {}, Limits());
  }
  WriteStatus(kDeployments, deployment, plan.deployment);
}

void LocalNode::Running::LookAtPod(const Node& pod) {
  const std::string_view node = TextAt(pod, {"spec", "nodeName"});
  if (node.empty() && !IsLeaving(pod)) return Bind(pod);
  if (!node.empty() && node != options_.name) return;
  const auto found = runners_.find(std::string(UidOf(pod)));
  Runner* runner = found == runners_.end() ? nullptr : &found->second;
  if (IsLeaving(pod)) {
    if (runner == nullptr || !runner->life.is_running()) return Finish(pod);
    return Leave(*runner, GraceOf(pod, {"metadata", "deletionGracePeriodSeconds"}));
  }
  if (HasEnded(pod)) {
    if (runner == nullptr) return;
    // Another writer set the phase, as for an evicted pod.
    if (runner->life.is_running()) {
      return Leave(*runner, GraceOf(pod, {"spec", "terminationGracePeriodSeconds"}));
    }
    Drop(found);
    return;
  }
  if (runner == nullptr) runner = Admit(pod);
  if (runner == nullptr) return;
  GoOn(*runner);
  PodOnNode seen{runner->run, runner->life, runner->place.ip};
  seen.since = runner->since;
  if (runner->prober != nullptr) {
    const Probed probed = runner->prober->seen();
    seen.is_started = probed.is_started;
    seen.is_ready = probed.is_ready;
  }
  WriteStatus(kPods, pod, WithStatus(pod, seen, Now(), Wall()));
}

void LocalNode::Running::Bind(Node pod) {
  SetAt(pod, {"spec", "nodeName"}, Text(options_.name));
  // Refused if the pod has changed; that change wakes us again.
  (void)api_.Update(kPods, pod, Subresource::kNone, {}, Limits());
}

int LocalNode::Running::FreePort() const {
  std::set<int> taken;
  for (const auto& [uid, runner] : runners_) taken.insert(runner.port);
  int port = options_.first_metrics_port;
  while (taken.contains(port)) ++port;
  return port;
}

// Null: it can never run here, and its status says so.
LocalNode::Running::Runner* LocalNode::Running::Admit(const Node& pod) {
  Runner runner{.key = KeyOf(pod),
                .uid = std::string(UidOf(pod)),
                .process = options_.process_name(pod),
                .pool = PoolOf(pod),
                .life = ContainerLife(options_.pauses)};
  runner.since = Wall();
  runner.place.ip = std::string(kUnix) + options_.folder + "/p" + std::to_string(++places_);
  if (options_.first_metrics_port != 0 &&
      !TextAt(pod, {"metadata", "labels", kRoleLabel}).empty()) {
    runner.port = FreePort();
    runner.place.metrics_address = "127.0.0.1:" + std::to_string(runner.port);
  }
  Result<ContainerRun> run = RunOf(pod, options_.ground, runner.place);
  if (!run.ok()) {
    WriteStatus(kPods, pod, WithFailure(pod, "NotForThisMachine", run.status().message(), Wall()));
    return nullptr;
  }
  runner.run = *std::move(run);
  if (HasGpuLimit(pod)) {
    runner.gpu = gpus_.Take();
    if (!runner.gpu) {
      WriteStatus(kPods, pod,
                  WithFailure(pod, "NotForThisMachine",
                              "its container has a GPU limit, and the workers of this machine can "
                              "use no GPU (janus-worker gpus says why)",
                              Wall()));
      return nullptr;
    }
    runner.run.arguments.push_back("--gpu-process=" + gpus_.SocketOf(*runner.gpu));
  }
  std::string uid = runner.uid;
  return &runners_.emplace(std::move(uid), std::move(runner)).first->second;
}

// True if a process of another pod, which is still ending, has the name. Signals, logs and end
// events use names.
bool LocalNode::Running::IsNameTaken(const Runner& runner) const {
  return std::any_of(runners_.begin(), runners_.end(), [&](const auto& one) {
    const Runner& other = one.second;
    return &other != &runner && other.process == runner.process && other.life.is_running();
  });
}

void LocalNode::Running::GoOn(Runner& runner) {
  const MonotonicTime now = Now();
  if (runner.life.is_running()) {
    if (runner.prober != nullptr && runner.ended_because.empty()) {
      runner.ended_because = runner.prober->seen().is_dead;
      if (!runner.ended_because.empty()) End(runner, kHungGrace);
    }
    if (runner.kill_at && *runner.kill_at <= now) End(runner, Seconds(0));
  } else if (*runner.life.start_at() <= now && !IsNameTaken(runner)) {
    Start(runner);
  }
}

// Whether its GPU's process is not ready yet; that event wakes us.
bool LocalNode::Running::AwaitsGpu(Runner& runner) {
  if (!runner.gpu) return false;
  const Result<bool> is_ready = gpus_.Prepare(*runner.gpu, *processes_);
  if (!is_ready.ok()) CannotStart(runner, is_ready.status().message());
  return !is_ready.ok() || !*is_ready;
}

void LocalNode::Running::Start(Runner& runner) {
  if (AwaitsGpu(runner)) return;
  RemoveSockets(runner.place.ip);
  ProcessSpec spec{runner.process, runner.run.program, runner.run.arguments};
  spec.environment = runner.run.environment;
  const Status started = processes_->Start(spec);
  if (started.ok()) {
    runner.life.Started(Now(), Wall());
    if (!runner.run.probe_address.empty()) BeginProbing(runner, runner.run.probe_address);
    return;
  }
  CannotStart(runner, started.message());
}

void LocalNode::Running::CannotStart(Runner& runner, const std::string& why) {
  ContainerEnd end;
  end.exit_code = 128;  // as container runtimes report a program that cannot run
  end.message = why;
  end.started = end.finished = Wall();
  node_.observe_({ContainerEvent::Kind::kEnded, runner.key, runner.process, runner.run.name,
                  end.message, false});
  runner.life.Ended(std::move(end), Now());
}

void LocalNode::Running::BeginProbing(Runner& runner, const std::string& address) {
  runner.prober = std::make_unique<Prober>(
      Prober::Options{address, runner.run.startup, runner.run.liveness, runner.run.readiness,
                      options_.starting_probe_period},
      [this] { Wake(); });
}

void LocalNode::Running::Leave(Runner& runner, Seconds grace) {
  if (!runner.is_leaving || grace < runner.grace) {
    runner.is_leaving = true;
    runner.grace = grace;
    runner.prober.reset();
    End(runner, grace);
  } else if (runner.kill_at && *runner.kill_at <= Now()) {
    End(runner, Seconds(0));
  }
}

void LocalNode::Running::End(Runner& runner, Seconds grace) {
  processes_->Signal(runner.process, grace > Seconds(0) ? SIGTERM : SIGKILL);
  runner.kill_at.reset();
  if (grace > Seconds(0)) runner.kill_at = After(Now(), grace);
}

// No process of the pod runs any more: the pod can be deleted.
void LocalNode::Running::Finish(const Node& pod) {
  if (const auto found = runners_.find(std::string(UidOf(pod))); found != runners_.end()) {
    Drop(found);
  }
  DeleteOptions options;
  options.uid = std::string(UidOf(pod));
  options.grace_period_seconds = 0;
  (void)api_.Delete(kPods, KeyOf(pod), options, Limits());
}

void LocalNode::Running::Drop(std::map<std::string, Runner>::iterator runner) {
  if (runner->second.gpu) gpus_.GiveBack(*runner->second.gpu);
  runners_.erase(runner);
}

void LocalNode::Running::WriteStatus(const Resource& resource, const Node& before,
                                     const Node& after) {
  if (before == after) return;
  const ApiResult<Node> written = api_.Update(resource, after, Subresource::kStatus, {}, Limits());
  // Changed or gone: that event wakes us again.
  if (written.ok() || written.error().code == StatusCode::kAborted ||
      written.error().code == StatusCode::kNotFound) {
    return;
  }
  node_.log_.Warning("a status was refused",
                     {{"object", KeyOf(after).ToString()}, {"error", written.error().message}});
}

// Ends processes of pods that were deleted with force.
void LocalNode::Running::DropTheVanished(const std::set<std::string>& there) {
  for (auto it = runners_.begin(); it != runners_.end();) {
    Runner& runner = it->second;
    if (there.contains(it->first)) {
      ++it;
    } else if (runner.life.is_running()) {
      Leave(runner, Seconds(0));
      ++it;
    } else {
      Drop(it++);
    }
  }
}

void LocalNode::Running::LinkMembers() {
  if (options_.members_link.empty()) return;
  // Prefer a ready worker; among those, the linked one, to avoid a needless change.
  std::map<int, std::tuple<bool, bool, std::string>> best;  // by pool
  for (const auto& [uid, runner] : runners_) {
    if (runner.run.name != kWorker || runner.is_leaving || !runner.life.is_running()) continue;
    std::string socket = runner.place.ip.substr(kUnix.size()) + ":" + std::to_string(kGrpcPort);
    const bool is_ready = runner.prober != nullptr && runner.prober->seen().is_ready;
    const bool is_linked = socket == linked_[runner.pool];
    std::tuple<bool, bool, std::string>& its = best[runner.pool];
    its = std::max(its, std::tuple(is_ready, is_linked, std::move(socket)));
  }
  for (const auto& [pool, its] : best) {
    const auto& [is_ready, is_linked, socket] = its;
    if (!is_linked) Link(pool, socket);
  }
}

void LocalNode::Running::Link(int pool, const std::string& socket) {
  // Atomic rename: a concurrent dial finds the old or the new socket.
  const std::string link =
      options_.folder + "/" + options_.members_link + "-" + std::to_string(pool);
  const std::string fresh = link + ".new";
  std::error_code error;
  fs::remove(fresh, error);
  fs::create_symlink(socket, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) {
    node_.log_.Warning("members cannot be linked", {{"link", link}, {"error", error.message()}});
  } else {
    linked_[pool] = socket;
  }
}

LocalNode::LocalNode(ObjectApi& api, const Timeline& timeline, Logger log, LocalNodeOptions options,
                     Observe observe)
    : api_(api),
      timeline_(timeline),
      log_(std::move(log)),
      options_(std::move(options)),
      observe_(std::move(observe)) {}

LocalNode::~LocalNode() = default;

Status LocalNode::Run(const std::stop_token& stop) {
  return Running(*this).Run(stop);
}

}  // namespace janus::control
