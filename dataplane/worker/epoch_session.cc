#include "dataplane/worker/epoch_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/wait_policy.h"
#include "dataplane/comm/transport/pinned_payloads.h"
#include "dataplane/comm/transport/segment.h"
#include "dataplane/worker/connect.h"
#include "dataplane/worker/numerics_class.h"

namespace janus::dataplane {
namespace {

constexpr size_t kEpochKeyBytes = 16;

// The thread count belongs to an epoch, like machine_threads: with more instances each gets fewer
// cores.
constexpr uint32_t kMostThreads = 256;
int ComputeThreads(const v1::WorkerConfig& config) {
  return static_cast<int>(std::clamp(config.compute_threads(), 1u, kMostThreads));
}

// The waits of a timed device are as long as those of the device that it plays. Yielding the core
// before them would only take it from the other workers.
WaitPolicy PolicyOf(const Topology& topology, const v1::WorkerConfig& config, bool is_timed) {
  if (is_timed) return {.yields = 0};
  const int threads = config.machine_threads() > 0
                          ? static_cast<int>(std::min<uint32_t>(config.machine_threads(), 1u << 20))
                          : (topology.m() + topology.n()) * ComputeThreads(config);
  const int cores = UsableCores();
  return threads <= cores ? PolicyFor(threads, cores, MeasureWake())
                          : PolicyFor(threads, cores, {});
}

}  // namespace

Result<Rank> FindSelf(const WorkerFlags& flags, const Topology& topology) {
  const std::vector<Instance>& own_role =
      flags.role == Role::kAttention ? topology.attention : topology.experts;
  const auto self = std::find_if(own_role.begin(), own_role.end(),
                                 [&](const Instance& i) { return i.address == flags.listen; });
  if (self == own_role.end()) {
    return InvalidArgument("the topology has no " + std::string(ToString(flags.role)) +
                           " instance at '" + flags.listen + "'");
  }
  return Rank{static_cast<int32_t>(self - own_role.begin())};
}

Status CheckEpoch(const WorkerFlags& flags, const Stamp& stamp, const EpochRequest& request) {
  if (request.epoch_key.size() != kEpochKeyBytes) {
    return InvalidArgument("epoch_key: " + std::to_string(request.epoch_key.size()) +
                           " bytes, want 16");
  }
  if (request.topology.epoch != stamp.epoch) {
    return InvalidArgument("topology of epoch " + std::to_string(request.topology.epoch) +
                           " under the stamp of epoch " + std::to_string(stamp.epoch));
  }
  if (request.config.compute_threads() > kMostThreads) {
    return InvalidArgument("config.compute_threads " +
                           std::to_string(request.config.compute_threads()) + ": at most " +
                           std::to_string(kMostThreads));
  }
  return FindSelf(flags, request.topology).status();
}

Result<std::unique_ptr<EpochSession>> EpochSession::Build(
    const WorkerFlags& flags, const InstanceState& state, const EpochRequest& request,
    ExchangeListener& listener, LinkBook& links, const Serving& serving, const Clock& clock,
    const Logger& log, const std::function<bool(const PrepareProgress&)>& progress,
    std::stop_source stop) {
  std::unique_ptr<EpochSession> session(new EpochSession(listener, *state.context));
  EpochSession& s = *session;
  if (state.timed != nullptr) s.timed_ = ToString(state.timed->device());
  const ModelDescription& model = state.model;
  const Topology& topology = s.topology_ = request.topology;
  JANUS_RETURN_IF_ERROR(Validate(topology, model.moe_layers(), model.moe.experts));
  JANUS_ASSIGN_OR_RETURN(s.rank_, FindSelf(flags, topology));
  const auto at = static_cast<size_t>(s.rank_.value);
  const bool is_attention = flags.role == Role::kAttention;
  const Instance& self = is_attention ? topology.attention[at] : topology.experts[at];

  JANUS_ASSIGN_OR_RETURN(const EpochSettings settings, ResolveEpoch(request.config));

  if (topology.gate == GateSide::kAttention && !state.context->is_host()) {
    return Unimplemented(
        "exchange.gate Attention: GPUs compute the gate only with the experts; use Experts");
  }
  if ((topology.sum == SumRule::kFixedPoint) != state.settings.sums.on()) {
    return InvalidArgument("topology.sum differs from config.fixed_sums");
  }
  const ExchangeShape shape = ShapeOf(topology, model.hidden, model.moe.top_k, WireType(model),
                                      state.settings.compression, state.settings.sums);
  const TransportLayout layout = LayoutFor(topology.mode, shape, {flags.role, s.rank_});
  // Check only the exchange: the instance's own buffers are smaller than its part of it.
  JANUS_RETURN_IF_ERROR(CheckFits("exchange memory for the topology's rows per round",
                                  SegmentMap(layout, layout.self).bytes(), MachineBytes()));
  ConnectOptions options;
  options.identity.epoch = topology.epoch;
  std::memcpy(options.identity.epoch_key.data(), request.epoch_key.data(), kEpochKeyBytes);
  options.identity.model_digest = state.model_digest;
  options.identity.numerics =
      NumericsClass(model, state.settings.attention.fp8_cache, state.settings.compression,
                    state.settings.sums, *state.context, state.settings.isa);
  options.identity.sum = topology.sum;
  options.identity.sums_hash = HashOf(state.settings.sums);
  options.identity.compression = state.settings.compression;
  options.identity.topology_hash = TopologyHash(topology);
  // Expect the epoch before loading, so that faster peers can leave their HELLO.
  JANUS_ASSIGN_OR_RETURN(s.expected_, listener.Expect(options.identity, layout));
  JANUS_RETURN_IF_ERROR(listener.Listen(self.exchange_address));

  if (!is_attention) {
    const ExpertsHere* const known = serving.experts;
    LoadPacer pacer(serving.busy());
    MonotonicTime begun = clock.Now();
    const auto report = [&](uint64_t done, uint64_t total) {
      if (!progress({"weights", done, total})) stop.request_stop();
      Pause(pacer.PauseAfter(clock.Now() - begun, serving.busy()), stop.get_token());
      begun = clock.Now();
    };
    ExpertsHere here;
    JANUS_ASSIGN_OR_RETURN(
        here.loaded, LoadExperts(flags.model, model, topology.placement, s.rank_, report,
                                 stop.get_token(), known != nullptr ? &known->loaded : nullptr));
    JANUS_ASSIGN_OR_RETURN(
        here.placed, PlaceExperts(*state.uploader, model, here.loaded.weights,
                                  known != nullptr ? &known->placed : nullptr, stop.get_token()));
    s.expert_weights_ = std::make_shared<const ExpertsHere>(std::move(here));
  }

  for (const auto* role : {&topology.attention, &topology.experts}) {
    for (const Instance& peer : *role) options.addresses.push_back(peer.exchange_address);
  }
  s.policy_ = PolicyOf(topology, request.config, state.timed != nullptr);
  options.policy = s.policy_;
  // Peers may take long to load. The caller of this Prepare decides when that is too long.
  options.deadline = MonotonicTime::max();
  s.device_slots_ = MakeDeviceSlots(topology, layout, shape, *state.context, flags.gpu_direct, log);
  options.device = s.device_slots_.get();
  const auto begins = [&](std::string_view phase) {
    return progress({std::string(phase), 0, 0}) ? OkStatus() : Cancelled("preparing was aborted");
  };
  options.keep_waiting = [&] { return begins("connect").ok(); };
  JANUS_RETURN_IF_ERROR(begins("connect"));
  JANUS_ASSIGN_OR_RETURN(ConnectedExchange connected,
                         ConnectExchange(topology, layout, options, state.context->pci_address(),
                                         flags.gpu_direct, listener, stop.get_token(), log));
  const std::vector<MeasuredPeer> measured =
      MeasureNodeLinks(topology, shape, *connected.transport, links, clock, stop.get_token(), log);
  s.transport_ =
      RelayOver(topology.mode, shape, std::move(connected.transport), s.device_slots_.get());
  s.exchange_device_ = std::move(connected.device);
  JANUS_RETURN_IF_ERROR(begins("memory"));
  if (auto pinned = PinPayloads(*s.transport_, *state.context); pinned.ok()) {
    s.pinned_ = *std::move(pinned);
  } else {
    log.Warning("copies to and from the exchange's memory block the host",
                {{"reason", std::string(pinned.status().message())}});
  }
  s.links_ = LinksOf(*s.transport_, s.device_slots_.get());
  NoteMeasured(measured, s.links_);

  JANUS_RETURN_IF_ERROR(begins("instance"));
  s.team_ = std::make_unique<kernels::Team>(ComputeThreads(request.config), s.policy_);
  kernels::Context& context = *state.context;
  const kernels::Place place =
      context.is_host()
          ? kernels::Stream{kernels::Device::kCpu, s.team_.get(), state.settings.isa, nullptr}
          : context.place();
  if (is_attention) {
    s.attention_ = state.attention.get();
    JANUS_ASSIGN_OR_RETURN(s.attention_exchange_,
                           MakeAttentionExchange(shape, *s.transport_, s.device_slots_.get()));
    JANUS_ASSIGN_OR_RETURN(s.attention_epoch_,
                           s.attention_->Enter(topology, s.rank_, *s.transport_,
                                               *s.attention_exchange_, place, settings.attention));
  } else {
    JANUS_ASSIGN_OR_RETURN(s.expert_exchange_,
                           MakeExpertExchange(shape, *s.transport_, s.device_slots_.get()));
    ExpertOptions experts = state.experts;
    experts.scheduling = settings.scheduling;
    experts.crossover_rows = settings.crossover_rows;
    experts.deadlines = settings.attention.deadlines;
    if (state.timed != nullptr) {
      s.expert_pacer_ =
          MakeExpertPacer(*state.timed, topology, s.rank_, model.moe.experts, settings.scheduling);
      experts.pacer = s.expert_pacer_.get();
    }
    s.experts_ = std::make_unique<ExpertInstance>(experts, model, s.expert_weights_->placed.weights,
                                                  topology, s.rank_, *s.transport_,
                                                  *s.expert_exchange_, clock, place);
    JANUS_RETURN_IF_ERROR(context.TakeFailure());
  }
  return session;
}

void EpochSession::Start(const InstanceStatistics& before,
                         std::function<void(const Status&)> on_loss) {
  listener_.Serve(expected_);
  if (experts_ != nullptr) experts_->CountOnFrom(before);
  if (attention_ != nullptr) attention_->Rejoin(*attention_epoch_);
  step_thread_ = std::jthread([this, on_loss = std::move(on_loss)](std::stop_token stop) {
    const Status ended = Run(stop);
    // If a launch fails because of an earlier kernel, only its caller gets the error. This wait
    // finds it too, so has_failed is true before the end is reported.
    if (!ended.ok()) (void)context_.Wait();
    {
      const MutexLock lock(mu_);
      ended_ = true;
      if (!ended.ok()) holding_ = ended.message();
    }
    if (ended.ok()) return;
    on_loss(ended);
    // Close now, so that the peers notice at once.
    if (device_slots_ != nullptr) device_slots_->Close();
    pinned_.clear();
    transport_.reset();
    if (attention_ != nullptr) attention_->Hold(stop);
  });
}

Status EpochSession::Run(const std::stop_token& stop) {
  if (attention_ != nullptr) return attention_->Run(*attention_epoch_, stop);
  // Weights were loaded while the previous epoch ran its steps. The last copies may still be in
  // flight.
  JANUS_RETURN_IF_ERROR(expert_weights_->placed.StreamWait(context_));
  return experts_->Run(stop);
}

void EpochSession::Stop() {
  if (!step_thread_.joinable()) return;
  step_thread_.request_stop();
  step_thread_.join();
}

bool EpochSession::ended() const {
  const MutexLock lock(mu_);
  return ended_;
}

bool EpochSession::holds() const {
  const MutexLock lock(mu_);
  return !holding_.empty();
}

InstanceStatistics EpochSession::statistics() const {
  InstanceStatistics statistics =
      attention_ != nullptr ? attention_->statistics() : experts_->statistics();
  statistics.spin_seconds = Seconds(policy_.spin).count();
  statistics.links = links_;
  statistics.device = exchange_device_;
  statistics.timed = timed_;
  const MutexLock lock(mu_);
  statistics.holding = holding_;
  return statistics;
}

}  // namespace janus::dataplane
