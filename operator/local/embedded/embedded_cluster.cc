#include "operator/local/embedded/embedded_cluster.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "operator/local/exhausted.h"
#include "operator/program/decision_pages.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pods/worker_pod.h"
#include "operator/reconcile/pools/statistics.h"
#include "operator/records/service_page.h"

namespace janus::control {
namespace {

const CallLimits kLimits;
constexpr size_t kMostEvents = 256;
// A link in the run's folder; any process that needs a worker follows it.
constexpr std::string_view kMembersLink = "members";
constexpr std::string_view kWorker = "worker";
constexpr std::string_view kGateway = "gateway";

// All workers share one memory domain: they map the same memory.
WorkerSeen WorkerAtSocket(const PodSeen& pod, int /*index: a pod has one*/) {
  WorkerSeen out;
  out.role = pod.role;
  out.pod_uid = pod.uid;
  out.incarnation = pod.restarts;
  out.node = pod.name;
  out.domain = "local";
  out.address = pod.ip + ":" + std::to_string(kGrpcPort);
  out.exchange_address = pod.ip + ":" + std::to_string(kGrpcPort + 1);
  return out;
}

// "attention-1", with the number at the end of its name; "gateway".
std::string ProcessName(const Node& pod) {
  const std::string_view role = TextAt(pod, {"metadata", "labels", kRoleLabel});
  if (role.empty()) return std::string(kGateway);
  return std::string(role) + "-" + std::to_string(PodIdOf(KeyOf(pod).name).value_or(0));
}

std::vector<std::string> GatewayArguments(const EmbeddedClusterOptions& options,
                                          const std::string& folder) {
  std::vector<std::string> out = {
      "--listen=" + GatewayAddress(options),
      "--memory-bytes=" + std::to_string(options.gateway_memory_bytes),
      "--member=unix:" + folder + "/" + std::string(kMembersLink) + "-{pool}",
      // For Ctrl-C: running answers get no extra time, only their end messages.
      "--lame-duck-seconds=0",
      "--drain-seconds=0",
  };
  if (!options.chat_template.empty()) out.push_back("--chat-template=" + options.chat_template);
  if (!options.api_keys_file.empty()) out.push_back("--api-keys-file=" + options.api_keys_file);
  const auto add = [&](const char* flag, const std::optional<int64_t>& value) {
    if (value) out.push_back(flag + std::to_string(*value));
  };
  add("--stream-buffer-bytes=", options.gateway.stream_buffer_bytes);
  add("--read-seconds=", options.gateway.read_seconds);
  add("--first-token-seconds=", options.gateway.first_token_seconds);
  add("--stall-seconds=", options.gateway.stall_seconds);
  add("--idle-seconds=", options.gateway.idle_seconds);
  add("--comment-seconds=", options.gateway.comment_seconds);
  for (const std::string& name : options.gateway.model_aliases) {
    out.push_back("--model-alias=" + name);
  }
  for (const std::string& origin : options.gateway.cors_origins) {
    out.push_back("--cors-origin=" + origin);
  }
  const auto add_text = [&](const char* flag, const std::string& value) {
    if (!value.empty()) out.push_back(flag + value);
  };
  add_text("--unknown-parameters=", options.gateway.unknown_parameters);
  add_text("--tool-parser=", options.gateway.tool_parser);
  add_text("--reasoning-parser=", options.gateway.reasoning_parser);
  if (options.debug_logits_hash) out.emplace_back("--debug-logits-hash");
  return out;
}

LocalNodeOptions NodeOptionsOf(const EmbeddedClusterOptions& options, const std::string& folder) {
  LocalNodeOptions out;
  out.folder = folder;
  out.log_dir = options.log_dir;
  out.ground.programs = {{std::string(kWorker), options.worker_program},
                         {std::string(kGateway), options.gateway_program}};
  // A pod is deleted once an epoch without it serves. If a user sends SIGTERM, it restarts.
  out.ground.arguments[std::string(kWorker)] = {"--drain-seconds=5"};
  out.ground.arguments[std::string(kGateway)] = GatewayArguments(options, folder);
  // The range is meant for the addresses of pods. All processes of this machine would share it, and
  // UCX waits without end for a free port: also while the closed connections of others linger.
  out.ground.left_out = {"UCX_TCP_PORT_RANGE"};
  out.process_name = ProcessName;
  out.first_metrics_port = options.worker_metrics_port;
  out.members_link = kMembersLink;
  out.gpus = options.gpus;
  return out;
}

ManagerOptions ManagerOptionsOf(RecordBook& records) {
  ManagerOptions out;
  out.reconciler.records = &records;
  out.reconciler.worker_image = "janus-worker";
  out.reconciler.worker_cuda_image = "janus-worker";
  out.reconciler.defaults.gateway_image = "janus-gateway";
  out.reconciler.defaults.gateway_replicas = 1;
  out.reconciler.host_paths = {"/"};
  out.reconciler.timed_devices = true;
  out.reconciler.ground = Ground::kMachine;
  out.reconciler.locate = WorkerAtSocket;
  out.workers = 1;
  out.instance = "janusctl";
  return out;
}

LocalStoreOptions StoreOptionsOf(const EmbeddedClusterOptions& options) {
  LocalStoreOptions out;
  out.namespaces = {options.ns};
  out.seed = uint64_t{std::random_device()()} << 32 | std::random_device()();
  return out;
}

GrpcMemberCallsOptions CallsOptionsOf(const EmbeddedClusterOptions& options) {
  GrpcMemberCallsOptions out;
  out.one_machine = true;
  out.debug_logits_hash = options.debug_logits_hash;
  return out;
}

// The log of the operator; the log of the previous run is kept beside it.
Result<Fd> OpenLog(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) std::filesystem::rename(path, path + ".1", error);
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!file) return FailedPrecondition(path + ": " + std::strerror(errno));
  return file;
}

// Nothing: the MoETopology has no committed epoch.
std::optional<MemberOrder> MembersIn(ObjectApi& api, const ObjectKey& service, const Node& object,
                                     const std::string& name) {
  const ApiResult<Node> topology =
      api.Get(kTopologies, {service.namespace_, std::string(name)}, Subresource::kNone, kLimits);
  if (!topology.ok()) return std::nullopt;
  Parsed<MoETopology> parsed = ParseMoETopology(*topology);
  if (!parsed.errors.empty() || !parsed.object.spec.committed) return std::nullopt;
  MemberOrder order{service, std::string(UidOf(object)), parsed.object.spec.fence,
                    parsed.object.spec.committed->epoch,
                    std::move(parsed.object.spec.committed->instances)};
  return order;
}

// The members of the committed epoch of each pool, by MoETopology.
std::map<std::string, MemberOrder> MembersOf(ObjectApi& api, const ObjectKey& service) {
  std::map<std::string, MemberOrder> out;
  const ApiResult<Node> object = api.Get(kMoEServices, service, Subresource::kNone, kLimits);
  if (!object.ok()) return out;
  std::set<std::string> names = {std::string(TextAt(*object, {"status", "topology", "name"}))};
  if (const Node* const pools = FindAt(*object, {"status", "pools"})) {
    for (const Node& pool : pools->items) names.emplace(TextAt(pool, {"topology"}));
  }
  names.erase("");
  for (const std::string& name : names) {
    if (auto order = MembersIn(api, service, *object, name)) out.emplace(name, *std::move(order));
  }
  return out;
}

}  // namespace

std::string GatewayAddress(const EmbeddedClusterOptions& options) {
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
}

Result<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(EmbeddedClusterOptions options) {
  JANUS_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Create(ReadEnvironment()));
  JANUS_ASSIGN_OR_RETURN(Fd log_file, OpenLog(options.log_dir + "/operator.log"));
  const Logger log(log_file.get());
  std::unique_ptr<EmbeddedCluster> cluster(
      new EmbeddedCluster(std::move(options), std::move(folder), log, std::move(log_file)));
  if (!cluster->event_fd_) return Exhausted("eventfd", errno);
  EmbeddedCluster& self = *cluster;
  const auto records = [&self](const std::string& path) {
    RecordsAnswer answer = AnswerRecords(self.records_, path, self.timeline_.WallNow());
    return ObjectReply{answer.status, std::move(answer.body)};
  };
  JANUS_ASSIGN_OR_RETURN(self.server_,
                         ObjectServer::Create(self.store_, self.api_socket(), records));
  // The service does not depend on its page.
  Result<std::unique_ptr<PageServer>> page =
      PageServer::Create("127.0.0.1:0", {}, DecisionPages(self.records_, self.timeline_));
  if (page.ok()) {
    self.page_ = *std::move(page);
  } else {
    log.Warning("no page of decisions", {{"why", page.status().message()}});
  }
  self.node_thread_ = std::jthread([&self](const std::stop_token& stop) {
    Status ended = self.node_.Run(stop);
    const MutexLock lock(self.mu_);
    self.health_ = std::move(ended);
  });
  self.operator_thread_ =
      std::jthread([&self](const std::stop_token& stop) { self.manager_.Run(stop); });
  return cluster;
}

EmbeddedCluster::EmbeddedCluster(EmbeddedClusterOptions options, RunFolder folder, Logger log,
                                 Fd log_file)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      log_file_(std::move(log_file)),
      log_(std::move(log)),
      event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      store_(StoreOptionsOf(options_), timeline_),
      planner_(options_.room, options_.gateway_memory_bytes, &questions_),
      member_calls_(CallsOptionsOf(options_)),
      calls_(member_calls_),
      manager_(operator_client_, planner_, calls_, timeline_, registry_, log_,
               ManagerOptionsOf(records_)),
      node_(node_client_, timeline_, log_, NodeOptionsOf(options_, folder_.path()),
            [this](const ContainerEvent& event) { Observe(event); }) {}

std::string EmbeddedCluster::page_url() const {
  return page_ == nullptr ? "" : "http://" + page_->address() + "/";
}

EmbeddedCluster::~EmbeddedCluster() {
  Stop();
}

void EmbeddedCluster::Stop() {
  server_.reset();
  page_.reset();
  operator_thread_.request_stop();
  if (operator_thread_.joinable()) operator_thread_.join();
  node_thread_.request_stop();
  if (node_thread_.joinable()) node_thread_.join();
}

std::string EmbeddedCluster::api_socket() const {
  return folder_.path() + "/api";
}

void EmbeddedCluster::Observe(const ContainerEvent& event) {
  const MutexLock lock(mu_);
  if (events_.size() == kMostEvents) events_.erase(events_.begin());
  events_.push_back(event);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd_.get(), &one, sizeof one);
}

std::vector<ContainerEvent> EmbeddedCluster::TakeEvents() {
  const MutexLock lock(mu_);
  uint64_t ignored;
  [[maybe_unused]] const ssize_t drained = read(event_fd_.get(), &ignored, sizeof ignored);
  return std::exchange(events_, {});
}

Status EmbeddedCluster::health() const {
  const MutexLock lock(mu_);
  return health_;
}

std::optional<Statistics> EmbeddedCluster::LatestStatistics(const ObjectKey& service) {
  std::map<std::string, MemberOrder> members = MembersOf(user_, service);
  // While there is none for a moment, the last figures stay.
  if (!members.empty()) {
    std::erase_if(asked_, [&](const auto& one) { return !members.contains(one.first); });
  }
  std::vector<std::shared_ptr<const Statistics>> latest;
  for (auto& [topology, order] : members) {
    Asked& asked = asked_[topology];
    if (asked.question != nullptr && asked.question->done()) {
      if (asked.question->result().ok()) {
        asked.latest = std::make_shared<const Statistics>(asked.question->statistics());
      }
      asked.question.reset();
    }
    if (asked.question == nullptr) asked.question = member_calls_.Ask(order, [] {});
  }
  for (const auto& [topology, asked] : asked_) {
    if (asked.latest != nullptr) latest.push_back(asked.latest);
  }
  if (latest.empty()) return std::nullopt;
  return latest.size() == 1 ? *latest.front() : JoinPools(latest);
}

}  // namespace janus::control
