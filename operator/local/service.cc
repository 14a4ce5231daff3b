#include "operator/local/service.h"

#include <sys/random.h>

#include <algorithm>

#include "operator/local/health_probe.h"
#include "operator/local/stalled.h"
#include "operator/reconcile/compose.h"

namespace janus::control {
namespace {

constexpr std::chrono::seconds kExitIsTold{2};
constexpr std::chrono::seconds kLookEvery{1};

constexpr uint64_t kFirstEpoch = 1;

// 128 random bits.
std::array<uint8_t, 16> RandomKey() {
  std::array<uint8_t, 16> key{};
  JANUS_CHECK(getrandom(key.data(), key.size(), 0) == static_cast<ssize_t>(key.size()));
  return key;
}

std::string RandomUid() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string uid;
  for (const uint8_t byte : RandomKey()) {
    uid += kDigits[byte >> 4];
    uid += kDigits[byte & 15];
  }
  return uid;
}

std::string WithBrackets(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

Result<std::unique_ptr<LocalService>> LocalService::Start(LocalServiceOptions options,
                                                          MonotonicTime now) {
  JANUS_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Create(ReadEnvironment()));
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<Processes> processes,
                         Processes::Create({options.log_dir}));
  std::unique_ptr<LocalService> service(
      new LocalService(std::move(options), std::move(folder), std::move(processes), now));
  JANUS_RETURN_IF_ERROR(service->StartWorkers());
  // Beside the workers: what is wrong with its files is told before the weights are loaded. It
  // finds the attention instances by itself once a topology is committed.
  JANUS_RETURN_IF_ERROR(service->StartGateway());
  return service;
}

LocalService::LocalService(LocalServiceOptions options, RunFolder folder,
                           std::unique_ptr<Processes> processes, MonotonicTime now)
    : options_(std::move(options)),
      service_uid_(RandomUid()),
      folder_(std::move(folder)),
      processes_(std::move(processes)),
      phase_began_(now) {}

LocalService::~LocalService() {
  // First the calls, which end when their workers do, then the processes.
  if (processes_ != nullptr) processes_->Stop(Seconds(0));
}

Status LocalService::StartWorkers() {
  const auto add = [&](Role role, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = std::string(ToString(role)) + "-" + std::to_string(i);
      workers_.push_back({name, role, "unix:" + folder_.path() + "/" + name + ".sock"});
    }
  };
  add(Role::kAttention, options_.plan.m);
  add(Role::kExperts, options_.plan.n);
  int metrics_port = options_.worker_metrics_port;
  for (const Worker& worker : workers_) {
    const std::string metrics = options_.worker_metrics_port == 0
                                    ? "unix:" + folder_.path() + "/" + worker.name + ".metrics"
                                    : "127.0.0.1:" + std::to_string(metrics_port++);
    ProcessSpec spec;
    spec.name = worker.name;
    spec.program = options_.worker_program;
    spec.arguments = {"--role", std::string(ToString(worker.role)), "--model", options_.model_dir,
                      "--device", "cpu", "--listen", worker.address, "--service-uid", service_uid_,
                      "--metrics", metrics,
                      // Nobody makes an epoch without it.
                      "--drain-seconds", "0"};
    JANUS_RETURN_IF_ERROR(processes_->Start(spec));
  }
  return OkStatus();
}

Status LocalService::StartGateway() {
  ProcessSpec spec;
  spec.name = "gateway";
  spec.program = options_.gateway_program;
  spec.arguments = {
      "--model", options_.model_dir, "--model-name", options_.plan.effective.model_name, "--listen",
      WithBrackets(options_.host) + ":" + std::to_string(options_.port), "--service-uid",
      service_uid_, "--queued-requests", std::to_string(options_.plan.queued_requests),
      "--open-streams", std::to_string(options_.open_streams), "--request-bytes",
      std::to_string(options_.request_bytes), "--memory-bytes",
      std::to_string(options_.plan.gateway_memory_bytes),
      // Ctrl-C is meant: answers under way get no time, only their ends.
      "--drain-seconds", "0"};
  for (const Worker& worker : workers_) {
    spec.arguments.push_back("--member");
    spec.arguments.push_back(worker.address);
  }
  if (!options_.chat_template.empty()) {
    spec.arguments.push_back("--chat-template");
    spec.arguments.push_back(options_.chat_template);
  }
  if (!options_.api_keys_file.empty()) {
    spec.arguments.push_back("--api-keys-file");
    spec.arguments.push_back(options_.api_keys_file);
  }
  const auto add = [&](const char* flag, const std::optional<int64_t>& value) {
    if (!value) return;
    spec.arguments.emplace_back(flag);
    spec.arguments.push_back(std::to_string(*value));
  };
  add("--stream-buffer-bytes", options_.gateway.stream_buffer_bytes);
  add("--read-seconds", options_.gateway.read_seconds);
  add("--first-token-seconds", options_.gateway.first_token_seconds);
  add("--stall-seconds", options_.gateway.stall_seconds);
  if (options_.debug_logits_hash) spec.arguments.push_back("--debug-logits-hash");
  return processes_->Start(spec);
}

PrepareProgress LocalService::progress() const {
  return prepare_ == nullptr ? PrepareProgress() : prepare_->progress();
}

Status LocalService::Step(MonotonicTime now) {
  JANUS_RETURN_IF_ERROR(HandleEvents());
  return Advance(now);
}

Status LocalService::HandleEvents() {
  while (const std::optional<ProcessEvent> event = processes_->NextEvent()) {
    if (event->kind == ProcessEvent::Kind::kExited) {
      if (event->expected) continue;
      // What Prepare said of it, if it did, is the better reason; a lost connection is none.
      if (prepare_ != nullptr && prepare_->done() && !prepare_->result().ok() &&
          prepare_->result().code() != StatusCode::kUnavailable) {
        return LoadingFailed(prepare_->result());
      }
      return Unavailable(event->text);
    }
    for (Worker& worker : workers_) {
      if (worker.name != event->name || worker.ready) continue;
      worker.ready = true;
      ++ready_;
    }
    if (event->name == "gateway") {
      // A host:port, or the whole URL.
      endpoint_ = event->text.starts_with("http") ? event->text : "http://" + event->text;
    }
  }
  return OkStatus();
}

Status LocalService::LoadingFailed(const Status& status) const {
  return {status.code(), "loading: " + status.message() + "; logs: " + options_.log_dir};
}

std::string LocalService::LogsOf(const std::string& process) const {
  return "log: " + processes_->LogPath(process);
}

Status LocalService::BeginLoading(MonotonicTime now) {
  std::vector<WorkerSeen> seen;
  std::vector<Members::Member> members;
  for (const Worker& worker : workers_) {
    WorkerSeen one;
    one.role = worker.role;
    one.pod_uid = service_uid_ + "/" + worker.name;
    one.node = worker.name;
    one.domain = "local";
    one.address = worker.address;
    one.exchange_address = "unix:" + folder_.path() + "/" + worker.name + ".x";
    seen.push_back(std::move(one));
    members.push_back({worker.name, worker.address, worker.role});
  }
  JANUS_ASSIGN_OR_RETURN(const Topology topology,
                         ComposeTopology(kFirstEpoch, seen, options_.plan, options_.model));
  members_ = std::make_unique<Members>(std::move(members), Leader{service_uid_, 1});
  prepare_ = members_->Prepare(topology, options_.plan, {RandomKey(), options_.debug_logits_hash});
  phase_ = Phase::kLoading;
  phase_began_ = now;
  return OkStatus();
}

Status LocalService::Advance(MonotonicTime now) {
  switch (phase_) {
    case Phase::kStarting:
      if (ready_ == static_cast<int>(workers_.size())) return BeginLoading(now);
      if (now - phase_began_ > options_.ready_timeout) {
        const auto late = std::find_if(workers_.begin(), workers_.end(),
                                       [](const Worker& worker) { return !worker.ready; });
        return DeadlineExceeded(late->name + " is not ready after " +
                                FormatSeconds(options_.ready_timeout) + "; " + LogsOf(late->name));
      }
      return OkStatus();

    case Phase::kLoading:
      if (!prepare_->done()) {
        if (now - prepare_->last_heard() > options_.progress_timeout) {
          return DeadlineExceeded(DescribeStalledLoading(
              prepare_->pending(), now, options_.progress_timeout,
              [this](const std::string& name) { return processes_->LogPath(name); }));
        }
        return OkStatus();
      }
      if (const Status status = prepare_->result(); !status.ok()) {
        if (status.code() != StatusCode::kUnavailable) return LoadingFailed(status);
        // A process that ends closes its connection first: how it ended is told in a moment.
        if (!lost_since_) lost_since_ = now;
        if (now - *lost_since_ < kExitIsTold) return OkStatus();
        return LoadingFailed(status);
      }
      if (Status status = members_->Commit(kFirstEpoch, Seconds(10)); !status.ok()) {
        return std::move(status).Annotate("commit");
      }
      phase_ = Phase::kOpening;
      phase_began_ = now;
      return OkStatus();

    case Phase::kOpening:
      // Listening is not serving: it answers once it is attached to the attention instances.
      if (!endpoint_.empty() && IsHealthy(LoopbackUrl(endpoint_))) {
        phase_ = Phase::kServing;
        return OkStatus();
      }
      if (now - phase_began_ > options_.ready_timeout) {
        return DeadlineExceeded("the gateway is not ready after " +
                                FormatSeconds(options_.ready_timeout) + "; " + LogsOf("gateway"));
      }
      return OkStatus();

    case Phase::kServing:
      return CheckServing(now);
  }
  return OkStatus();
}

// A worker that has lost a peer holds its requests for an epoch without it, which nobody makes
// here.
Status LocalService::CheckServing(MonotonicTime now) {
  if (now - looked_ < kLookEvery) return OkStatus();
  looked_ = now;
  const Result<Statistics> statistics = GetStatistics();
  if (!statistics.ok()) return OkStatus();
  for (const InstanceStatistics& one : statistics->instances) {
    if (one.holding.empty()) continue;
    if (!holding_since_) holding_since_ = now;
    // Where a process has ended, that is told in a moment.
    if (now - *holding_since_ < kExitIsTold) return OkStatus();
    return Unavailable(std::string(ToString(one.role)) + (" " + std::to_string(one.rank.value)) +
                       " cannot go on: " + one.holding + "; logs: " + options_.log_dir);
  }
  return OkStatus();
}

void LocalService::Stop(Seconds grace) {
  processes_->Stop(grace);
}

}  // namespace janus::control
