#include "dataplane/worker/worker.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "common/model/config.h"
#include "common/wait_policy.h"
#include "dataplane/comm/segment.h"
#include "dataplane/engine/emission_thread.h"
#include "dataplane/model/digest.h"
#include "dataplane/worker/connect.h"
#include "kernels/cpu/isa.h"

namespace janus::dataplane {
namespace {

constexpr size_t kEpochKeyBytes = 16;

uint64_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The class of computation that bits depend on; alike on all members (HELLO).
std::string NumericsClass(const ModelDescription& model, kernels::Isa isa) {
  return "cpu " + std::string(kernels::ToString(isa)) + " kernels" +
         std::to_string(kernels::kBitsVersion) + " " + std::string(ToString(model.dtype)) +
         " tp1 uncompressed";
}

}  // namespace

// Everything of one epoch, in order of construction.
struct Worker::Session {
  Topology topology;
  Rank rank;
  ModelDescription model;
  WorkerSettings settings;
  WaitPolicy policy;
  std::variant<std::monostate, Loaded<AttentionWeights>, Loaded<ExpertWeights>> weights;
  std::unique_ptr<ExchangeListener> listener;
  std::unique_ptr<kernels::Team> team;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<AttentionExchange> attention_exchange;
  std::unique_ptr<ExpertExchange> expert_exchange;
  std::unique_ptr<EmissionThread> emission;
  std::unique_ptr<AttentionInstance> attention;
  std::unique_ptr<ExpertInstance> experts;
  std::jthread step_thread;  // first to go
};

Worker::Worker(WorkerFlags flags, const Clock& clock, Logger log,
               std::function<void(const Status&)> on_failure)
    : flags_(std::move(flags)), clock_(clock), log_(log), on_failure_(std::move(on_failure)) {}

Worker::~Worker() {
  std::unique_ptr<Session> session;
  {
    const MutexLock lock(mu_);
    prepare_stop_.request_stop();
    session = std::move(session_);
  }
  // Joins the step thread, outside the lock: it may be on its way into on_failure_.
  session.reset();
}

void Worker::Stop() {
  const MutexLock lock(mu_);
  prepare_stop_.request_stop();
  if (session_ != nullptr) session_->step_thread.request_stop();
}

bool Worker::draining() const {
  const MutexLock lock(mu_);
  return draining_;
}

Status Worker::CheckService(const std::string& service_uid) const {
  if (service_uid == flags_.service_uid) return OkStatus();
  return PermissionDenied("this worker serves '" + flags_.service_uid + "', the call is for '" +
                          service_uid + "'");
}

Status Worker::CheckStamp(const Stamp& stamp) {
  JANUS_RETURN_IF_ERROR(CheckService(stamp.service_uid));
  if (stamp.fence < fence_) {
    return Aborted("fence " + std::to_string(stamp.fence) + " is older than " +
                   std::to_string(fence_) + ": another operator leads");
  }
  if (stamp.epoch < committed_) {
    return Aborted("epoch " + std::to_string(stamp.epoch) + " is older than the committed " +
                   std::to_string(committed_));
  }
  if (stamp.epoch == 0) return InvalidArgument("the stamp has epoch 0; the first epoch is 1");
  fence_ = stamp.fence;
  return OkStatus();
}

Status Worker::Prepare(const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
                       const std::string& epoch_key,
                       const std::function<bool(const PrepareProgress&)>& progress) {
  std::stop_source stop;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    if (preparing_ != 0) {
      return Aborted("epoch " + std::to_string(preparing_) +
                     " is being prepared; wait for it or abort it");
    }
    if (session_ != nullptr) {
      if (session_->topology.epoch == stamp.epoch) {
        if (TopologyHash(session_->topology) == TopologyHash(topology)) return OkStatus();
        return AlreadyExists("epoch " + std::to_string(stamp.epoch) +
                             " is prepared with another topology; a new one takes a new epoch");
      }
      return Unimplemented(
          "a change of topology is not supported by this version; start the service anew");
    }
    preparing_ = stamp.epoch;
    prepare_stop_ = stop;
  }
  Result<std::unique_ptr<Session>> built =
      Build(stamp, topology, config, epoch_key, progress, stop);
  const MutexLock lock(mu_);
  preparing_ = 0;
  if (!built.ok()) return std::move(built).status();
  if (stop.stop_requested()) return Cancelled("the epoch was aborted");
  session_ = std::move(built).value();
  log_.Info("prepared", {{"epoch", stamp.epoch},
                         {"rank", session_->rank.value},
                         {"isa", kernels::ToString(session_->settings.isa)},
                         {"dtype", ToString(session_->model.dtype)},
                         {"spin_us", session_->policy.spin.count()},
                         {"resident_bytes", ResidentBytes()}});
  return OkStatus();
}

Result<std::unique_ptr<Worker::Session>> Worker::Build(
    const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
    const std::string& epoch_key, const std::function<bool(const PrepareProgress&)>& progress,
    std::stop_source stop) {
  auto session = std::make_unique<Session>();
  Session& s = *session;
  if (epoch_key.size() != kEpochKeyBytes) {
    return InvalidArgument("epoch_key: " + std::to_string(epoch_key.size()) + " bytes, want 16");
  }
  if (topology.epoch != stamp.epoch) {
    return InvalidArgument("topology of epoch " + std::to_string(topology.epoch) +
                           " under the stamp of epoch " + std::to_string(stamp.epoch));
  }
  JANUS_ASSIGN_OR_RETURN(const std::string config_text, ReadModelConfig(flags_.model));
  Result<ModelDescription> model = ParseModelConfig(config_text);
  if (!model.ok()) return std::move(model).status().Annotate(flags_.model + "/config.json");
  s.model = *std::move(model);
  JANUS_ASSIGN_OR_RETURN(s.settings,
                         ResolveSettings(config, s.model, kernels::DetectCpu(), MachineBytes()));
  s.settings.attention.log = s.settings.experts.log = log_;
  s.settings.attention.step_seconds = s.settings.experts.step_seconds = &step_seconds_;
  JANUS_RETURN_IF_ERROR(Validate(topology, s.model.moe_layers(), s.model.moe.experts));
  s.topology = topology;

  const std::vector<Instance>& own_role =
      flags_.role == Role::kAttention ? topology.attention : topology.experts;
  const auto self = std::find_if(own_role.begin(), own_role.end(),
                                 [&](const Instance& i) { return i.address == flags_.listen; });
  if (self == own_role.end()) {
    return InvalidArgument("the topology has no " + std::string(ToString(flags_.role)) +
                           " instance at '" + flags_.listen + "'");
  }
  s.rank = Rank{static_cast<int32_t>(self - own_role.begin())};

  // The listener first: peers that are done loading earlier can leave their hello.
  JANUS_ASSIGN_OR_RETURN(s.listener, ExchangeListener::Create(self->exchange_address));

  const auto report = [&](uint64_t done, uint64_t total) {
    if (!progress({"weights", done, total})) stop.request_stop();
  };
  if (flags_.role == Role::kAttention) {
    JANUS_ASSIGN_OR_RETURN(s.weights,
                           LoadAttention(flags_.model, s.model, report, stop.get_token()));
  } else {
    JANUS_ASSIGN_OR_RETURN(s.weights, LoadExperts(flags_.model, s.model, topology.placement, s.rank,
                                                  report, stop.get_token()));
  }

  const ExchangeShape shape =
      ShapeOf(topology, s.model.hidden, s.model.moe.top_k, WireType(s.model));
  JANUS_ASSIGN_OR_RETURN(const TransportLayout layout,
                         LayoutFor(topology.mode, shape, {flags_.role, s.rank}));
  // The instance's own buffers are smaller than its part of the exchange.
  JANUS_RETURN_IF_ERROR(CheckFits("exchange memory for the topology's rows per round",
                                  SegmentMap(layout, layout.self).bytes(), MachineBytes()));
  ConnectOptions options;
  options.identity.epoch = topology.epoch;
  std::memcpy(options.identity.epoch_key.data(), epoch_key.data(), kEpochKeyBytes);
  JANUS_ASSIGN_OR_RETURN(options.identity.model_digest,
                         DigestCheckpoint(flags_.model, config_text));
  options.identity.numerics = NumericsClass(s.model, s.settings.isa);
  options.identity.sum = topology.sum;
  options.identity.topology_hash = TopologyHash(topology);
  for (const Instance& peer : topology.attention) {
    options.attention_addresses.push_back(peer.exchange_address);
  }
  const int threads = s.settings.machine_threads > 0
                          ? s.settings.machine_threads
                          : (topology.m() + topology.n()) * s.settings.compute_threads;
  const int cores = UsableCores();
  s.policy =
      threads <= cores ? PolicyFor(threads, cores, MeasureWake()) : PolicyFor(threads, cores, {});
  options.policy = s.policy;
  // Peers may load for long; who asked for this Prepare decides when that is too long.
  options.deadline = MonotonicTime::max();
  options.keep_waiting = [&] { return progress({"connect", 0, 0}); };
  if (!progress({"connect", 0, 0})) return Cancelled("preparing was aborted");
  JANUS_ASSIGN_OR_RETURN(
      s.transport, ConnectExchange(topology, layout, options, *s.listener, stop.get_token(), log_));

  s.team = std::make_unique<kernels::Team>(s.settings.compute_threads, s.policy);
  const kernels::Stream stream{kernels::Device::kCpu, s.team.get(), s.settings.isa, nullptr};
  if (flags_.role == Role::kAttention) {
    JANUS_ASSIGN_OR_RETURN(s.attention_exchange,
                           MakeAttentionExchange(topology.mode, shape, *s.transport));
    s.emission = std::make_unique<EmissionThread>(router_);
    JANUS_ASSIGN_OR_RETURN(
        s.attention,
        AttentionInstance::Create(
            s.settings.attention, s.model, std::get<Loaded<AttentionWeights>>(s.weights).weights,
            s.topology, s.rank, *s.transport, *s.attention_exchange, *s.emission, clock_, stream));
  } else {
    JANUS_ASSIGN_OR_RETURN(s.expert_exchange,
                           MakeExpertExchange(topology.mode, shape, *s.transport));
    s.experts = std::make_unique<ExpertInstance>(
        s.settings.experts, s.model, std::get<Loaded<ExpertWeights>>(s.weights).weights, s.topology,
        s.rank, *s.transport, *s.expert_exchange, clock_, stream);
  }
  return session;
}

Status Worker::Commit(const Stamp& stamp) {
  std::vector<std::weak_ptr<CommitListener>> listeners;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    if (session_ == nullptr || session_->topology.epoch != stamp.epoch) {
      return FailedPrecondition("epoch " + std::to_string(stamp.epoch) + " is not prepared here");
    }
    if (committed_ == stamp.epoch) return OkStatus();
    committed_ = stamp.epoch;
    session_->step_thread = std::jthread([this, session = session_.get()](std::stop_token stop) {
      const Status status = session->attention != nullptr ? session->attention->Run(stop)
                                                          : session->experts->Run(stop);
      if (!status.ok()) on_failure_(status);
    });
    log_.Info(
        "serving",
        {{"epoch", stamp.epoch}, {"m", session_->topology.m()}, {"n", session_->topology.n()}});
    listeners = listeners_;
  }
  for (const std::weak_ptr<CommitListener>& one : listeners) {
    if (const std::shared_ptr<CommitListener> listener = one.lock()) listener->OnCommit();
  }
  return OkStatus();
}

Status Worker::Abort(const Stamp& stamp) {
  std::unique_ptr<Session> dropped;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    if (committed_ == stamp.epoch) {
      return FailedPrecondition("epoch " + std::to_string(stamp.epoch) + " is committed");
    }
    if (preparing_ == stamp.epoch) prepare_stop_.request_stop();
    if (session_ != nullptr && session_->topology.epoch == stamp.epoch)
      dropped = std::move(session_);
  }
  return OkStatus();
}

Status Worker::Drain(const Stamp& stamp, MonotonicTime deadline,
                     const std::function<bool()>& keep_waiting) {
  AttentionInstance* attention = nullptr;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    draining_ = true;
    if (session_ != nullptr && committed_ != 0) attention = session_->attention.get();
  }
  // Who asked may go, or the process end, long before the deadline.
  constexpr auto kLookUp = std::chrono::milliseconds(100);
  while (attention != nullptr) {
    const MonotonicTime now = MonotonicClock::now();
    if (attention->WaitIdle(std::min(deadline, now + kLookUp))) break;
    if (now >= deadline) return DeadlineExceeded("requests are still running");
    if (!keep_waiting()) return Cancelled("draining was given up; requests are still running");
  }
  return OkStatus();
}

std::optional<Topology> Worker::topology() const {
  const MutexLock lock(mu_);
  if (committed_ == 0 || session_ == nullptr) return std::nullopt;
  return session_->topology;
}

uint64_t Worker::fence() const {
  const MutexLock lock(mu_);
  return fence_;
}

void Worker::AddCommitListener(std::weak_ptr<CommitListener> listener) {
  const MutexLock lock(mu_);
  std::erase_if(listeners_, [](const auto& one) { return one.expired(); });
  listeners_.push_back(std::move(listener));
}

std::optional<ModelDescription> Worker::model() const {
  const MutexLock lock(mu_);
  if (session_ == nullptr) return std::nullopt;
  return session_->model;
}

Result<AttentionInstance*> Worker::attention() const {
  const MutexLock lock(mu_);
  if (flags_.role != Role::kAttention) return FailedPrecondition("this is an expert instance");
  if (committed_ == 0 || session_ == nullptr) return Unavailable("no epoch is committed here yet");
  if (draining_) return Unavailable("this instance drains");
  return session_->attention.get();
}

InstanceStatistics Worker::statistics() const {
  InstanceStatistics statistics;
  statistics.role = flags_.role;
  const MutexLock lock(mu_);
  if (session_ != nullptr) {
    statistics = session_->attention != nullptr ? session_->attention->statistics()
                                                : session_->experts->statistics();
    statistics.spin_seconds = Seconds(session_->policy.spin).count();
    statistics.links = LinksOf(*session_->transport);
  }
  statistics.resident_bytes = ResidentBytes();
  return statistics;
}

std::vector<MetricFamily> Worker::metrics() const {
  const std::optional<Topology> committed = topology();
  return WorkerMetrics(statistics(), committed ? committed->epoch : 0, step_seconds_.Sample());
}

}  // namespace janus::dataplane
