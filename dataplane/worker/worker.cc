#include "dataplane/worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <utility>

#include "dataplane/worker/numerics_class.h"

namespace janus::dataplane {
namespace {

// Workers of this process.
std::atomic<uint64_t>& Workers() {
  static std::atomic<uint64_t> count{0};
  return count;
}

// This worker's part of the process's memory, so that the parts of all make the whole.
uint64_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / std::max<uint64_t>(Workers(), 1);
}

uint64_t DrawProcess() {
  std::random_device device;
  const uint64_t high = device();
  return high << 32 | device() | 1;  // never 0
}

bool IsOf(const std::unique_ptr<EpochSession>& session, uint64_t epoch) {
  return session != nullptr && session->topology().epoch == epoch;
}

void TellAll(const std::vector<std::weak_ptr<CommitListener>>& listeners) {
  for (const std::weak_ptr<CommitListener>& one : listeners) {
    if (const std::shared_ptr<CommitListener> listener = one.lock()) listener->OnCommit();
  }
}

}  // namespace

Worker::Worker(WorkerFlags flags, kernels::Context& context, const Clock& clock, Logger log,
               std::function<void(const Status&)> on_loss, MetricRegistry& registry)
    : flags_(std::move(flags)),
      context_(context),
      clock_(clock),
      log_(log),
      on_loss_(std::move(on_loss)),
      process_(DrawProcess()),
      gateways_(clock),
      refusals_(registry) {
  ++Workers();
}

Worker::~Worker() {
  --Workers();
  Stop();
  // Joins the step thread without mu_, which on_loss_ may need.
  const MutexLock changing(change_);
  std::unique_ptr<EpochSession> prepared, serving;
  {
    const MutexLock lock(mu_);
    prepared = std::move(prepared_);
    serving = std::move(serving_);
  }
  serving.reset();
  prepared.reset();
}

void Worker::Stop() {
  const MutexLock lock(mu_);
  stopping_ = true;
  prepare_stop_.request_stop();
  if (serving_ != nullptr) serving_->RequestStop();
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

Status Worker::CheckPool(uint32_t pool) const {
  if (pool == 0 || static_cast<int>(pool) == flags_.pool) return OkStatus();
  return FailedPrecondition("this worker is in pool " + std::to_string(flags_.pool) +
                            ", the call is for pool " + std::to_string(pool));
}

Status Worker::Accept(const Stamp& stamp) {
  const MutexLock lock(mu_);
  return CheckStamp(stamp);
}

Status Worker::CheckStamp(const Stamp& stamp) {
  JANUS_RETURN_IF_ERROR(CheckService(stamp.service_uid));
  JANUS_RETURN_IF_ERROR(CheckPool(stamp.pool));
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

// Empty if the topology does not list this worker.
SequenceRoom Worker::RoomIn(const Topology& topology) const {
  if (flags_.role != Role::kAttention) return {};
  const Result<Rank> self = FindSelf(flags_, topology);
  return self.ok() ? topology.attention[static_cast<size_t>(self->value)].sequences
                   : SequenceRoom();
}

Status Worker::CheckNew(const Stamp& stamp, const EpochRequest& request) {
  if (preparing_ != 0) {
    return Aborted("epoch " + std::to_string(preparing_) +
                   " is being prepared; wait for it or abort it");
  }
  for (const EpochSession* const session : {serving_.get(), prepared_.get()}) {
    if (session == nullptr || session->topology().epoch != stamp.epoch) continue;
    if (TopologyHash(session->topology()) == TopologyHash(request.topology)) {
      return AlreadyExists("");
    }
    return AlreadyExists("epoch " + std::to_string(stamp.epoch) +
                         " is prepared with another topology; a new one takes a new epoch");
  }
  if (prepared_ != nullptr && prepared_->topology().epoch > stamp.epoch) {
    return Aborted("epoch " + std::to_string(stamp.epoch) + " is older than the prepared " +
                   std::to_string(prepared_->topology().epoch));
  }
  return committed_ == 0 ? OkStatus() : state_->Fits(request.config, RoomIn(request.topology));
}

Status Worker::Prepare(const Stamp& stamp, const Topology& topology, const v1::WorkerConfig& config,
                       const std::string& epoch_key,
                       const std::function<bool(const PrepareProgress&)>& progress) {
  const EpochRequest request{topology, config, epoch_key};
  std::stop_source stop;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    // An aborted Prepare ends in a moment; a request for a newer epoch aborts the older Prepare.
    while (preparing_ != 0 && (preparing_ < stamp.epoch || prepare_stop_.stop_requested())) {
      prepare_stop_.request_stop();
      prepare_ended_.Wait(mu_);
      JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    }
    JANUS_RETURN_IF_ERROR(CheckEpoch(flags_, stamp, request));
    const Status is_new = CheckNew(stamp, request);
    if (is_new.code() == StatusCode::kAlreadyExists && is_new.message().empty()) return OkStatus();
    JANUS_RETURN_IF_ERROR(is_new);
    if (stopping_) return Cancelled("this worker stops");
    preparing_ = stamp.epoch;
    prepare_stop_ = stop;
  }
  Result<std::unique_ptr<EpochSession>> built = Build(request, progress, stop);
  if (!built.ok()) {
    // Only a further wait shows for certain whether the device has failed, as in
    // EpochSession::Start.
    (void)context_.Wait();
    if (context_.has_failed()) on_loss_(built.status());
  }
  const MutexLock changing(change_);
  std::unique_ptr<EpochSession> replaced;
  const MutexLock lock(mu_);
  preparing_ = 0;
  prepare_ended_.NotifyAll();
  if (!built.ok()) return std::move(built).status();
  if (stop.stop_requested()) return Cancelled("the epoch was aborted");
  replaced = std::exchange(prepared_, *std::move(built));
  const InstanceSettings& settings = state_->settings;
  log_.Info("prepared", {{"epoch", stamp.epoch},
                         {"rank", prepared_->rank().value},
                         {"device", DeviceClass(context_, settings.isa)},
                         {"dtype", ToString(state_->model.dtype)},
                         {"numerics", NumericsClass(state_->model, settings.attention.fp8_cache,
                                                    settings.compression, settings.sums, context_,
                                                    settings.isa)},
                         {"spin_us", prepared_->policy().spin.count()},
                         {"resident_bytes", ResidentBytes()}});
  return OkStatus();
}

Result<std::unique_ptr<EpochSession>> Worker::Build(
    const EpochRequest& request, const std::function<bool(const PrepareProgress&)>& progress,
    const std::stop_source& stop) {
  JANUS_ASSIGN_OR_RETURN(const InstanceState* const state,
                         InstanceStateFor(request, progress, stop));
  std::shared_ptr<const ExpertsHere> known;
  {
    const MutexLock lock(mu_);
    if (serving_ != nullptr) known = serving_->expert_weights();
  }
  const auto busy = [this] {
    const MutexLock lock(mu_);
    if (serving_ == nullptr) return LoadPacer::Busy();
    const InstanceStatistics now = serving_->statistics();
    return LoadPacer::Busy{now.compute_seconds, now.rounds};
  };
  return EpochSession::Build(flags_, *state, request, listener_, links_, {known.get(), busy},
                             clock_, log_, progress, stop);
}

Result<const InstanceState*> Worker::InstanceStateFor(
    const EpochRequest& request, const std::function<bool(const PrepareProgress&)>& progress,
    std::stop_source stop) {
  const SequenceRoom room = RoomIn(request.topology);
  // Leftovers of an epoch that was never committed. Destroy the session first.
  std::unique_ptr<InstanceState> state;
  std::unique_ptr<EpochSession> prepared;
  {
    const MutexLock changing(change_);
    const MutexLock lock(mu_);
    if (state_ != nullptr) {
      const Status fits = state_->Fits(request.config, room);
      if (fits.ok()) return state_.get();
      // The previous epoch was committed after this one had passed CheckNew.
      if (committed_ != 0) return fits;
    }
    prepared = std::move(prepared_);
    state = std::move(state_);
  }
  prepared.reset();
  state.reset();
  const auto report = [&](uint64_t done, uint64_t total) {
    if (!progress({"weights", done, total})) stop.request_stop();
  };
  JANUS_ASSIGN_OR_RETURN(
      state, InstanceState::Make(flags_, context_, request.config, room, router_, records_, clock_,
                                 log_, departing_.get_token(), report, stop.get_token()));
  const MutexLock lock(mu_);
  state_ = std::move(state);
  return state_.get();
}

Status Worker::Commit(const Stamp& stamp) {
  const MutexLock changing(change_);
  std::unique_ptr<EpochSession> old;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    if (IsOf(serving_, stamp.epoch)) return OkStatus();
    if (!IsOf(prepared_, stamp.epoch)) {
      return FailedPrecondition("epoch " + std::to_string(stamp.epoch) + " is not prepared here");
    }
  }
  // Only this thread changes them, and the ending step thread may need mu_.
  const InstanceStatistics before = EndServing();
  std::vector<std::weak_ptr<CommitListener>> listeners;
  {
    const MutexLock lock(mu_);
    committed_ = stamp.epoch;
    draining_ = departing_.stop_requested();
    old = std::exchange(serving_, std::move(prepared_));
    serving_->Start(before, on_loss_);
    if (stopping_) serving_->RequestStop();
    const Topology& topology = serving_->topology();
    log_.Info("serving", {{"epoch", stamp.epoch}, {"m", topology.m()}, {"n", topology.n()}});
    listeners = listeners_;
  }
  TellAll(listeners);
  return OkStatus();
}

Status Worker::Supersede(const Stamp& stamp, Successor successor) {
  std::vector<std::weak_ptr<CommitListener>> listeners;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    const uint64_t epoch = successor.topology.epoch;
    if (epoch <= committed_) {
      return InvalidArgument("successor: epoch " + std::to_string(epoch) +
                             " is not newer than the committed " + std::to_string(committed_));
    }
    if (successor_ && successor_->topology.epoch > epoch) {
      return Aborted("successor: epoch " + std::to_string(epoch) + " is older than " +
                     std::to_string(successor_->topology.epoch) + ", which is known");
    }
    log_.Info("superseded", {{"epoch", committed_}, {"successor", epoch}});
    successor_ = std::move(successor);
    listeners = listeners_;
  }
  TellAll(listeners);
  return OkStatus();
}

InstanceStatistics Worker::EndServing() {
  EpochSession* serving = nullptr;
  {
    const MutexLock lock(mu_);
    serving = serving_.get();
  }
  if (serving == nullptr) return {};
  serving->Stop();
  return serving->statistics();
}

Status Worker::Abort(const Stamp& stamp) {
  const MutexLock changing(change_);
  std::unique_ptr<EpochSession> dropped;
  const MutexLock lock(mu_);
  JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
  if (IsOf(serving_, stamp.epoch)) {
    return FailedPrecondition("epoch " + std::to_string(stamp.epoch) + " is committed");
  }
  if (preparing_ == stamp.epoch) prepare_stop_.request_stop();
  if (IsOf(prepared_, stamp.epoch)) dropped = std::move(prepared_);
  return OkStatus();
}

Status Worker::Drain(const Stamp& stamp, MonotonicTime deadline,
                     const std::function<bool()>& keep_waiting) {
  AttentionInstance* attention = nullptr;
  {
    const MutexLock lock(mu_);
    JANUS_RETURN_IF_ERROR(CheckStamp(stamp));
    draining_ = true;
    if (serving_ != nullptr) attention = state_->attention.get();
  }
  if (stamp.epoch > committed()) {
    Leave(stamp.epoch);
    return OkStatus();
  }
  // The caller may go, or the process may end, long before the deadline.
  constexpr auto kLookUp = std::chrono::milliseconds(100);
  while (attention != nullptr) {
    const MonotonicTime now = MonotonicClock::now();
    if (attention->WaitIdle(std::min(deadline, now + kLookUp))) break;
    if (now >= deadline) return DeadlineExceeded("requests are still running");
    if (!keep_waiting()) return Cancelled("draining was given up; requests are still running");
  }
  return OkStatus();
}

void Worker::Depart() {
  const MutexLock lock(mu_);
  draining_ = true;
  departing_.request_stop();
}

bool Worker::HasDeparted() const {
  const MutexLock lock(mu_);
  if (serving_ == nullptr || serving_->ended()) return true;
  if (flags_.role != Role::kAttention) return false;
  return router_.streams() == 0 && state_->attention->WaitIdle(MonotonicClock::now());
}

void Worker::Leave(uint64_t epoch) {
  const MutexLock changing(change_);
  std::unique_ptr<EpochSession> prepared, served;
  EndServing();
  AttentionInstance* attention = nullptr;
  {
    const MutexLock lock(mu_);
    served = std::move(serving_);
    if (prepared_ != nullptr && prepared_->topology().epoch <= epoch) {
      prepared = std::move(prepared_);
    }
    if (served != nullptr) attention = state_->attention.get();
  }
  // The step thread has ended, so this thread may act in its place.
  if (attention != nullptr) attention->Leave();
  if (served != nullptr) log_.Info("left", {{"epoch", served->topology().epoch}});
}

uint64_t Worker::committed() const {
  const MutexLock lock(mu_);
  return committed_;
}

std::optional<Topology> Worker::topology() const {
  const MutexLock lock(mu_);
  if (serving_ == nullptr) return std::nullopt;
  return serving_->topology();
}

std::optional<Topology> Worker::TopologyFor(const std::string& text_digest) const {
  const auto fits = [&](const std::string& other) {
    return text_digest.empty() || other.empty() || other == text_digest;
  };
  const MutexLock lock(mu_);
  if (successor_ && fits(successor_->text_digest)) return successor_->topology;
  if (serving_ == nullptr || !fits(state_->text_digest)) return std::nullopt;
  return serving_->topology();
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

std::optional<Worker::ServedModel> Worker::model() const {
  const MutexLock lock(mu_);
  if (state_ == nullptr) return std::nullopt;
  return ServedModel{state_->model, state_->answers_digest, state_->text_digest};
}

Result<AttentionInstance*> Worker::attention() const {
  const MutexLock lock(mu_);
  if (flags_.role != Role::kAttention) return FailedPrecondition("this is an expert instance");
  if (serving_ == nullptr) {
    return Unavailable(committed_ == 0 ? "no epoch is committed here yet"
                                       : "this instance has left the service");
  }
  if (draining_) return Unavailable("this instance drains");
  return state_->attention.get();
}

Grammars* Worker::grammars() const {
  const MutexLock lock(mu_);
  return state_ == nullptr ? nullptr : state_->grammars.get();
}

bool Worker::serves() const {
  const MutexLock lock(mu_);
  return serving_ != nullptr && !serving_->holds();
}

InstanceStatistics Worker::statistics() const {
  InstanceStatistics statistics;
  statistics.role = flags_.role;
  const MutexLock lock(mu_);
  const EpochSession* const session = serving_ != nullptr ? serving_.get() : prepared_.get();
  if (session != nullptr) statistics = session->statistics();
  if (serving_ != nullptr) statistics.epoch = serving_->topology().epoch;
  statistics.resident_bytes = ResidentBytes();
  if (!statistics.load) statistics.load.emplace();
  statistics.load->process = process_;
  return statistics;
}

std::vector<MetricFamily> Worker::metrics() const {
  const std::optional<Topology> committed = topology();
  return WorkerMetrics(statistics(), committed ? committed->epoch : 0, records_.metrics);
}

}  // namespace janus::dataplane
