#include "tests/support/loopback_cluster.h"

#include <map>

#include "dataplane/comm/transport/pinned_payloads.h"
#include "tests/support/place_attention.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

// Small, so that weights pass through it many times.
constexpr kernels::PinnedRing kRing{.piece_bytes = 1000, .pieces = 3};

}  // namespace

class LoopbackCluster::Sink final : public TokenSink {
 public:
  void Push(StepOutput&& output) override {
    const MutexLock lock(mu_);
    for (TokenEvent& event : output.events) {
      Outcome& outcome = outcomes_[event.key];
      if (event.token >= 0) outcome.tokens.push_back(event.token);
      if (event.finish != FinishReason::kNone) {
        outcome.finish = event.finish;
        outcome.error = event.error;
      }
      outcome.events.push_back(std::move(event));
    }
    changed_.NotifyAll();
  }

  Outcome Await(const RequestKey& key, int tokens, const LoopbackCluster& cluster) {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(50));
    const MutexLock lock(mu_);
    for (;;) {
      const Outcome& outcome = outcomes_[key];
      if (outcome.finish != FinishReason::kNone ||
          static_cast<int>(outcome.tokens.size()) >= tokens) {
        return outcome;
      }
      const Status failure = cluster.failure();
      if (!failure.ok() || !changed_.WaitUntil(mu_, deadline)) {
        Outcome stuck = outcome;
        stuck.finish = FinishReason::kError;
        stuck.error =
            DeadlineExceeded("the request did not end; step loops: " + failure.ToString());
        return stuck;
      }
    }
  }

  void Wake() {
    const MutexLock lock(mu_);
    changed_.NotifyAll();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<RequestKey, Outcome> outcomes_ JANUS_GUARDED_BY(mu_);
};

LoopbackCluster::LoopbackCluster(Options options, const ModelDescription& model,
                                 const AttentionWeights& attention_weights,
                                 std::vector<const ExpertWeights*> expert_weights)
    : sink_(std::make_unique<Sink>()), emission_(std::make_unique<EmissionThread>(*sink_)) {
  const Topology& topology = options.topology;
  const Clock& clock = options.clock == nullptr ? clock_ : *options.clock;
  // Tests of missed rounds have hundreds of them.
  options.experts.deadlines = options.pace.deadlines;
  options.attention.log = options.experts.log = Logger(2, LogLevel::kError);
  const ExchangeShape shape = ShapeOf(topology, model.hidden, model.moe.top_k, WireType(model),
                                      options.compression, options.sums);
  const WaitPolicy policy =
      WaitPolicy::ForThreads((topology.m() + topology.n()) * options.compute_threads);
  const auto members = static_cast<size_t>(topology.m() + topology.n());
  std::vector<std::unique_ptr<kernels::Context>> contexts(members);
  std::vector<kernels::Context*> devices;
  const auto computing =
      static_cast<size_t>(options.without_experts ? topology.m() : topology.m() + topology.n());
  const TransportLayout layout = LayoutFor(topology.mode, shape, PeerId{});
  const auto is_here = [&](PeerId member) { return !options.only || *options.only == member; };
  for (size_t i = 0; i < members; ++i) {
    if (options.make_context && i < computing && is_here(MemberAt(layout, static_cast<int>(i)))) {
      contexts[i] = options.make_context();
    }
    devices.push_back(contexts[i].get());
  }
  DeviceNetwork connected;
  if (options.only) {
    const auto self = static_cast<size_t>(MemberIndex(layout, *options.only));
    connected = ConnectMember(layout, policy, *options.only, options.listeners,
                              options.device_join ? devices[self] : nullptr);
  } else if (options.device_join && WhyThroughHosts(shape).empty()) {
    connected = ConnectDevices(layout, policy, devices, options.device_join);
  } else {
    connected = {options.connect(layout, policy), {}};
    connected.slots.resize(members);
  }
  Network& network = connected.network;
  network_ = network.keep;
  const auto connect = [&](PeerId self) {
    const auto at = static_cast<size_t>(MemberIndex(network.layout, self));
    std::unique_ptr<Transport> transport = std::move(network.members[at]);
    if (options.wrap_transport) transport = options.wrap_transport(self, std::move(transport));
    return RelayOver(topology.mode, shape, std::move(transport), connected.slots[at].get());
  };
  const auto take_device = [&](PeerId self, auto& w) {
    const auto at = static_cast<size_t>(MemberIndex(network.layout, self));
    w->context = std::move(contexts[at]);
    w->device_slots = std::move(connected.slots[at]);
    if (w->context != nullptr) w->pinned = *PinPayloads(*w->transport, *w->context);
  };
  const auto place = [&](const auto& w) -> kernels::Place {
    if (w->context != nullptr) return w->context->place();
    return kernels::Stream{options.device, w->team.get(), options.isa, nullptr};
  };
  attention_.resize(static_cast<size_t>(topology.m()));
  for (int a = 0; a < topology.m(); ++a) {
    if (!is_here({Role::kAttention, Rank{a}})) continue;
    auto w = std::make_unique<AttentionWorker>();
    w->team = std::make_unique<kernels::Team>(options.compute_threads);
    w->transport = connect({Role::kAttention, Rank{a}});
    take_device({Role::kAttention, Rank{a}}, w);
    w->exchange = *MakeAttentionExchange(shape, *w->transport, w->device_slots.get());
    if (options.wrap_exchange) w->exchange = options.wrap_exchange(std::move(w->exchange));
    AttentionOptions own = options.attention;
    const AttentionWeights* weights = &attention_weights;
    own.context = w->context.get();
    if (options.make_attention_pacer) w->pacer = options.make_attention_pacer();
    own.pacer = w->pacer.get();
    if (w->context != nullptr && !options.weights_are_placed) {
      w->uploader = *kernels::Uploader::Make(*w->context, kRing);
      w->weights = *PlaceAttention(*w->uploader, model, attention_weights);
      const Status followed = w->weights.StreamWait(*w->context);
      JANUS_CHECK(followed.ok(), followed.ToString());
      weights = &w->weights.weights;
    }
    w->instance =
        options.steering.any()
            ? *SteeredAttention::Create(own, options.steering, model, *weights, *emission_, clock)
            : *AttentionInstance::Create(own, model, *weights, *emission_, clock);
    w->epoch =
        *w->instance->Enter(topology, Rank{a}, *w->transport, *w->exchange, place(w), options.pace);
    w->instance->Rejoin(*w->epoch);
    attention_[static_cast<size_t>(a)] = std::move(w);
  }
  const int experts = options.without_experts ? 0 : topology.n();
  experts_.resize(static_cast<size_t>(experts));
  for (int e = 0; e < experts; ++e) {
    if (!is_here({Role::kExperts, Rank{e}})) continue;
    auto w = std::make_unique<ExpertWorker>();
    w->team = std::make_unique<kernels::Team>(options.compute_threads);
    w->transport = connect({Role::kExperts, Rank{e}});
    take_device({Role::kExperts, Rank{e}}, w);
    w->exchange = *MakeExpertExchange(shape, *w->transport, w->device_slots.get());
    const ExpertWeights* weights = expert_weights[static_cast<size_t>(e)];
    if (w->context != nullptr && !options.weights_are_placed) {
      w->uploader = *kernels::Uploader::Make(*w->context, kRing);
      w->weights = *PlaceExperts(*w->uploader, model, *weights);
      const Status followed = w->weights.StreamWait(*w->context);
      JANUS_CHECK(followed.ok(), followed.ToString());
      weights = &w->weights.weights;
    }
    if (options.make_expert_pacer) w->pacer = options.make_expert_pacer();
    ExpertOptions own = options.experts;
    own.pacer = w->pacer.get();
    w->instance = std::make_unique<ExpertInstance>(own, model, *weights, topology, Rank{e},
                                                   *w->transport, *w->exchange, clock, place(w));
    if (w->context != nullptr) {
      const Status taken = w->context->TakeFailure();
      JANUS_CHECK(taken.ok(), taken.ToString());
    }
    experts_[static_cast<size_t>(e)] = std::move(w);
  }
  for (size_t a = 0; a < attention_.size(); ++a) {
    auto& w = attention_[a];
    if (w == nullptr || options.idle.contains(static_cast<int>(a))) continue;
    w->thread = std::jthread([this, one = w.get()](std::stop_token stop) {
      Failed(one->instance->Run(*one->epoch, stop));
    });
  }
  for (auto& w : experts_) {
    if (w == nullptr) continue;
    w->thread =
        std::jthread([this, i = w->instance.get()](std::stop_token stop) { Failed(i->Run(stop)); });
  }
}

LoopbackCluster::~LoopbackCluster() {
  if (stopped_) return;
  const Status failed = Stop();
  JANUS_CHECK(failed.ok(), failed.ToString());
}

Status LoopbackCluster::Stop() {
  stopped_ = true;
  const auto for_each = [&](const auto& of_thread) {
    for (auto& w : attention_) {
      if (w != nullptr) of_thread(w->thread);
    }
    for (auto& w : experts_) {
      if (w != nullptr) of_thread(w->thread);
    }
  };
  for_each([](std::jthread& thread) { thread.request_stop(); });
  for_each([](std::jthread& thread) {
    if (thread.joinable()) thread.join();
  });
  return failure();
}

void LoopbackCluster::Failed(const Status& status) {
  if (status.ok()) return;
  {
    const MutexLock lock(mu_);
    if (failure_.ok()) failure_ = status;
  }
  sink_->Wake();
}

std::string LoopbackCluster::InPlaceRefusal() const {
  std::string why;
  const auto ask = [&](const auto& workers) {
    for (const auto& w : workers) {
      if (w == nullptr || w->context == nullptr || !why.empty()) continue;
      if (w->device_slots == nullptr) {
        why = "a device does not show its memory";
      } else {
        why = w->device_slots->refusal();
      }
    }
  };
  ask(attention_);
  ask(experts_);
  return why;
}

Status LoopbackCluster::failure() const {
  const MutexLock lock(mu_);
  return failure_;
}

LoopbackCluster::Outcome LoopbackCluster::Await(const RequestKey& key, int tokens) {
  return sink_->Await(key, tokens, *this);
}

Topology MakeTopology(int m, const std::vector<int>& slots, int layers, int experts,
                      int micro_batches, int max_rows) {
  Topology topology;
  topology.epoch = 1;
  topology.micro_batches = micro_batches;
  topology.max_rows_per_round = max_rows;
  topology.attention.resize(static_cast<size_t>(m));
  for (const int count : slots) {
    Instance instance;
    instance.role = Role::kExperts;
    instance.slots = count;
    topology.experts.push_back(instance);
  }
  Placement& placement = topology.placement;
  placement.layers = layers;
  placement.slots_of_instance = slots;
  const int total = placement.total_slots();
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<uint16_t> list(static_cast<size_t>(total), Placement::kEmpty);
    std::vector<int> first, filled(slots.size(), 0);
    for (int at = 0; const int count : slots) {
      first.push_back(at);
      at += count;
    }
    const auto holds = [&](size_t g, int expert) {
      for (int i = 0; i < filled[g]; ++i) {
        if (list[static_cast<size_t>(first[g] + i)] == expert) return true;
      }
      return false;
    };
    // Copy c = 0, 1, ...: a full set of experts each, dealt over the instances in turn. Layers are
    // rotated against each other so that they differ.
    size_t turn = 0;
    for (int s = 0; s < total; ++s) {
      const int expert = (s + layer) % experts;
      size_t tried = 0;
      while (tried < slots.size() && (filled[turn] == slots[turn] || holds(turn, expert))) {
        turn = (turn + 1) % slots.size();
        ++tried;
      }
      if (tried == slots.size()) continue;  // stays a spare slot
      list[static_cast<size_t>(first[turn] + filled[turn]++)] = static_cast<uint16_t>(expert);
      turn = (turn + 1) % slots.size();
    }
    placement.expert_of.insert(placement.expert_of.end(), list.begin(), list.end());
  }
  JANUS_CHECK(Validate(topology, layers, experts).ok(),
              Validate(topology, layers, experts).ToString());
  return topology;
}

void DrawExchange(Random& random, Topology& topology) {
  topology.mode = static_cast<ExchangeMode>(random.Between(0, 2));
  if (random.Chance(0.4)) topology.gate = GateSide::kAttention;
  for (std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    const int nodes = random.Between(1, static_cast<int>(role->size()));
    for (Instance& instance : *role) {
      instance.node = "node-" + std::to_string(random.Between(1, nodes));
      instance.domain = "domain-" + std::to_string(random.Between(1, 2));
    }
  }
}

void GroupIntoNodes(Topology& topology, int attention_each, int experts_each) {
  for (size_t a = 0; a < topology.attention.size(); ++a) {
    topology.attention[a].node = std::to_string(a / static_cast<size_t>(attention_each));
  }
  for (size_t e = 0; e < topology.experts.size(); ++e) {
    topology.experts[e].node = std::to_string(e / static_cast<size_t>(experts_each));
  }
}

}  // namespace janus::dataplane
