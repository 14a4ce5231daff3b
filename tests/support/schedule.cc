#include "tests/support/schedule.h"

#include <algorithm>
#include <ostream>
#include <sstream>

#include "dataplane/attention/self_attention.h"
#include "kernels/kernels.h"
#include "tests/support/modular_grammar.h"

namespace janus::dataplane {
namespace {

// Collects traces from the step threads of a cluster.
class Recorder {
 public:
  void Tap(const RequestKey& key, int position, std::span<const float> logits) {
    const uint64_t hash = kernels::HashLogits(logits);
    const MutexLock lock(mu_);
    const auto [at, fresh] = logits_[key].emplace(position, hash);
    if (!fresh && at->second != hash) at->second = ~hash;  // computed twice, differently
  }
  std::map<int, uint64_t> Of(const RequestKey& key) const {
    const MutexLock lock(mu_);
    const auto at = logits_.find(key);
    return at == logits_.end() ? std::map<int, uint64_t>() : at->second;
  }

 private:
  mutable Mutex mu_;
  std::map<RequestKey, std::map<int, uint64_t>> logits_ JANUS_GUARDED_BY(mu_);
};

constexpr int kLongestPrompt = 36;

// Penalties and other changes of the logits, a grammar, and experts to report, each for some
// requests.
void DrawExtras(Random random, int vocab, Request& request) {
  if (random.Chance(0.3)) {
    SamplingChanges& changes = request.changes;
    if (random.Chance(0.5)) changes.repetition_penalty = 1.3f;
    if (random.Chance(0.5)) changes.frequency_penalty = 0.7f;
    if (random.Chance(0.5)) changes.presence_penalty = -0.4f;
    if (random.Chance(0.5)) changes.min_p = 0.05f;
    if (random.Chance(0.5)) changes.min_tokens = random.Between(1, request.max_tokens);
    if (random.Chance(0.5)) changes.bias = {{random.Between(0, vocab - 1), 2.0f}};
  }
  if (random.Chance(0.2)) {
    const int length = random.Between(1, 24);
    request.grammar = std::make_shared<ModularGrammar>(static_cast<size_t>(vocab), length,
                                                       random.Between(1, length));
  }
  if (random.Chance(0.3)) {
    request.routed_from = random.Between(0, static_cast<int>(request.prompt.size()));
  }
}

std::map<int, std::vector<uint16_t>> ExpertsOf(const LoopbackCluster::Outcome& outcome,
                                               size_t width) {
  std::map<int, std::vector<uint16_t>> experts;
  for (const TokenEvent& event : outcome.events) {
    for (size_t i = 0; i * width < event.routed.size(); ++i) {
      const auto from = event.routed.begin() + static_cast<ptrdiff_t>(i * width);
      const bool is_new =
          experts
              .emplace(event.routed_from + static_cast<int>(i),
                       std::vector<uint16_t>(from, from + static_cast<ptrdiff_t>(width)))
              .second;
      JANUS_CHECK(is_new, "the experts of a position were reported twice", event.routed_from, i);
    }
  }
  return experts;
}

size_t RoutedWidth(const ModelDescription& model) {
  return static_cast<size_t>(model.layers) * static_cast<size_t>(model.moe.top_k);
}

// Its prompt begins with `prefix`, which is shorter than kLongestPrompt.
Request RandomRequest(Random& random, int vocab, std::vector<int32_t> prefix) {
  Request request;
  const auto known = static_cast<int>(prefix.size());
  const int alone = random.Chance(0.1) ? random.Between(30, kLongestPrompt) : random.Between(1, 24);
  const int prompt =
      known == 0 ? alone : std::min(known + random.Between(1, 4), int{kLongestPrompt});
  request.prompt = std::move(prefix);
  for (int i = known; i < prompt; ++i) request.prompt.push_back(random.Between(0, vocab - 1));
  // The last drawn token is never computed: positions = prompt + generated - 1.
  const int room = std::min(kMaxPositions + 1 - prompt, 24);
  request.max_tokens = random.Chance(0.5) ? room : random.Between(1, room);
  request.seed = random.Next();
  request.want_logits_hash = true;
  if (random.Chance(0.5)) {
    request.temperature = random.Chance(0.5) ? 1.0f : 0.6f;
    request.top_k = random.Chance(0.5) ? 0 : random.Between(1, 12);
    request.top_p = random.Chance(0.5) ? 1.0f : 0.9f;
  }
  if (random.Chance(0.3)) request.stop_tokens = {random.Between(0, vocab - 1)};
  DrawExtras(Random(request.seed), vocab, request);
  return request;
}

// What a later request shares with one in the pool: its prompt, a part of it, or prompt and answer.
std::vector<int32_t> RandomPrefix(Random& random, const RequestPool& pool, size_t of) {
  std::vector<int32_t> prefix = pool.requests[of].prompt;
  if (random.Chance(0.5)) {
    prefix.insert(prefix.end(), pool.alone[of].tokens.begin(), pool.alone[of].tokens.end());
  } else if (random.Chance(0.3)) {
    prefix.resize(static_cast<size_t>(random.Between(1, static_cast<int>(prefix.size()))));
  }
  prefix.resize(std::min<size_t>(prefix.size(), kLongestPrompt - 1));
  return prefix;
}

int64_t KvBytes(const ModelDescription& model, KernelChoice kernels, int pages) {
  const DType type = kernels.fp8_cache ? DType::kFloat8E4M3 : WireType(model);
  return CachePageBytes(model, type) * model.layers * pages;
}

// The pool's requests as `next` draws them, each computed alone, of at most so many positions.
RequestPool ComputeAlone(const HeldModel& held, const KernelChoice& kernels, int size,
                         int64_t longest, FunctionRef<Request(RequestPool&)> next) {
  RequestPool pool;
  Recorder recorder;
  LoopbackCluster::Options options = OptionsAlone(held, kernels);
  options.pace.prefixes = PrefixSharing::kDisabled;
  options.attention.max_batch = 1;
  options.attention.kv_bytes = KvBytes(held.model, kernels, KvPagePool::PagesFor(longest));
  options.steering.logits_tap = [&](const RequestKey& key, int position,
                                    std::span<const float> logits) {
    recorder.Tap(key, position, logits);
  };
  const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
  for (int i = 0; i < size; ++i) {
    Request request = next(pool);
    pool.requests.push_back(request);
    request.key = {1, static_cast<uint64_t>(i), 1};
    JANUS_CHECK(cluster.attention(0).Submit(request).ok(), i);
    const LoopbackCluster::Outcome outcome = cluster.Await(request.key);
    pool.alone.push_back({recorder.Of(request.key), outcome.tokens, outcome.finish,
                          ExpertsOf(outcome, RoutedWidth(held.model))});
  }
  return pool;
}

// A request of the pool: often one that shares a prefix with an earlier one of the schedule.
int DrawRequest(Random& random, const Schedule& schedule, const RequestPool& pool) {
  const int any = random.Between(0, static_cast<int>(pool.requests.size()) - 1);
  if (schedule.sequences.empty() || pool.parent.empty() || !random.Chance(0.5)) return any;
  const auto earlier =
      static_cast<size_t>(random.Between(0, static_cast<int>(schedule.sequences.size()) - 1));
  const int known = schedule.sequences[earlier].request;
  std::vector<int> relatives = {known};
  const int parent = pool.parent[static_cast<size_t>(known)];
  for (int i = 0; i < static_cast<int>(pool.parent.size()); ++i) {
    const int of = pool.parent[static_cast<size_t>(i)];
    if (i == parent || of == known || (parent >= 0 && of == parent)) relatives.push_back(i);
  }
  return relatives[static_cast<size_t>(random.Between(0, static_cast<int>(relatives.size()) - 1))];
}

}  // namespace

KernelChoice BestCpu() {
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  if (!isa.ok()) return {};
  return {kernels::Device::kCpu, *isa};
}

FixedPointSums TestSums(const ModelDescription& model, int bits) {
  if (bits == 0) return {};
  return {bits, std::vector<int8_t>(static_cast<size_t>(model.moe_layers()), -16)};
}

LoopbackCluster::Options OptionsAlone(const HeldModel& held, const KernelChoice& kernels) {
  LoopbackCluster::Options options;
  options.topology =
      MakeTopology(1, {held.model.moe.experts}, held.model.moe_layers(), held.model.moe.experts);
  options.device = kernels.device;
  options.isa = kernels.isa;
  options.make_context = kernels.make_context;
  options.attention.fp8_cache = kernels.fp8_cache;
  options.compression = kernels.compression;
  options.sums = TestSums(held.model, kernels.sum_bits);
  return options;
}

RequestPool MakeRequestPool(const HeldModel& held, KernelChoice kernels, int size, uint64_t seed) {
  Random random(seed);
  const auto next = [&](RequestPool& pool) {
    const auto before = static_cast<int>(pool.requests.size());
    const int parent = before > 0 && random.Chance(0.5) ? random.Between(0, before - 1) : -1;
    pool.parent.push_back(parent);
    return RandomRequest(random, held.model.vocab,
                         parent < 0 ? std::vector<int32_t>()
                                    : RandomPrefix(random, pool, static_cast<size_t>(parent)));
  };
  return ComputeAlone(held, kernels, size, kMaxPositions + 2, next);
}

RequestPool MakeRequestPool(const HeldModel& held, KernelChoice kernels,
                            std::vector<Request> requests) {
  int64_t longest = 0;
  for (const Request& request : requests) {
    longest =
        std::max(longest, static_cast<int64_t>(request.prompt.size()) + request.max_tokens + 1);
  }
  const auto next = [&](RequestPool& pool) { return requests[pool.requests.size()]; };
  return ComputeAlone(held, kernels, static_cast<int>(requests.size()), longest, next);
}

Placement RandomPlacement(Random& random, const std::vector<int>& slots_of_instance, int layers,
                          int experts) {
  Placement placement;
  placement.layers = layers;
  placement.slots_of_instance = slots_of_instance;
  const size_t instances = slots_of_instance.size();
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<std::vector<uint16_t>> held(instances);
    const auto can_take = [&](size_t g, int expert) {
      return static_cast<int>(held[g].size()) < slots_of_instance[g] &&
             std::find(held[g].begin(), held[g].end(), expert) == held[g].end();
    };
    std::vector<int> order(static_cast<size_t>(experts));
    for (int e = 0; e < experts; ++e) order[static_cast<size_t>(e)] = e;
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1],
                order[static_cast<size_t>(random.Between(0, static_cast<int>(i) - 1))]);
    }
    for (const int expert : order) {
      auto g = static_cast<size_t>(random.Between(0, static_cast<int>(instances) - 1));
      while (!can_take(g, expert)) g = (g + 1) % instances;
      held[g].push_back(static_cast<uint16_t>(expert));
    }
    const int replicas = random.Chance(0.3) ? 0 : random.Between(0, placement.total_slots());
    for (int i = 0; i < replicas; ++i) {
      const auto g = static_cast<size_t>(random.Between(0, static_cast<int>(instances) - 1));
      const int expert = random.Between(0, experts - 1);
      if (can_take(g, expert)) held[g].push_back(static_cast<uint16_t>(expert));
    }
    for (size_t g = 0; g < instances; ++g) {
      held[g].resize(static_cast<size_t>(slots_of_instance[g]), Placement::kEmpty);
      for (size_t i = held[g].size(); i > 1; --i) {
        std::swap(held[g][i - 1],
                  held[g][static_cast<size_t>(random.Between(0, static_cast<int>(i) - 1))]);
      }
      placement.expert_of.insert(placement.expert_of.end(), held[g].begin(), held[g].end());
    }
  }
  return placement;
}

Schedule RandomSchedule(Random& random, int m, int n, const ModelDescription& model,
                        const RequestPool& pool) {
  const int experts = model.moe.experts;
  std::vector<int> slots(static_cast<size_t>(n));
  int total = 0;
  while (total < experts) {
    total = 0;
    for (int& count : slots) total += count = random.Between(n == 1 ? experts : 1, experts);
  }
  Schedule schedule;
  const int max_rows = random.Chance(0.5) ? 64 : random.Between(4, 16);
  schedule.topology =
      MakeTopology(m, slots, model.moe_layers(), experts, random.Between(1, 4), max_rows);
  schedule.topology.placement = RandomPlacement(random, slots, model.moe_layers(), experts);
  schedule.scheduling = random.Chance(0.6) ? SchedulingPolicy::kAebs
                                           : static_cast<SchedulingPolicy>(random.Between(1, 3));
  schedule.crossover_rows = random.Chance(0.3) ? 0 : random.Between(1, 6);
  constexpr int kLeastPages = (kMaxPositions + 1 + kernels::kPageTokens - 1) / kernels::kPageTokens;
  schedule.kv_pages = random.Chance(0.7) ? random.Between(kLeastPages, kLeastPages + 2) : 24;
  schedule.swap_pages = random.Chance(0.5) ? 64 : random.Between(0, kLeastPages);
  schedule.preempt_chance = random.Chance(0.3) ? 0.1 : 0.0;
  if (random.Chance(0.2)) schedule.prefixes = PrefixSharing::kDisabled;
  schedule.max_batch = random.Chance(0.2) ? random.Between(1, 3) : std::min(max_rows, 8);
  schedule.compute_threads = random.Chance(0.1) ? 2 : 1;
  schedule.chunk_seed = random.Next();
  schedule.most_chunk = random.Chance(0.4) ? random.Between(1, 6) : 64;

  const int busiest = random.Chance(0.5) ? random.Between(0, m - 1) : -1;  // gets nearly all
                                                                           // requests

  std::vector<int> open;  // sequences that Await may use
  const int count = random.Between(1, 6);
  const auto submit = [&](int request, uint32_t attempt) {
    const int sequence = static_cast<int>(schedule.sequences.size());
    Schedule::SequenceOf of;
    of.request = request;
    of.attention = busiest >= 0 && random.Chance(0.8) ? busiest : random.Between(0, m - 1);
    of.key = {static_cast<uint64_t>(random.Between(1, 2)), static_cast<uint64_t>(sequence),
              attempt};
    if (random.Chance(attempt > 1 ? 0.7 : 0.1)) {
      const auto& answer = pool.alone[static_cast<size_t>(request)].tokens;
      of.given = random.Between(0, static_cast<int>(answer.size()) - 1);
    }
    schedule.sequences.push_back(of);
    schedule.actions.push_back({Schedule::Action::kSubmit, sequence, 0});
    open.push_back(sequence);
  };
  while (static_cast<int>(schedule.sequences.size()) < count) {
    submit(DrawRequest(random, schedule, pool), 1);
    if (random.Chance(0.3)) {
      const int sequence =
          open[static_cast<size_t>(random.Between(0, static_cast<int>(open.size()) - 1))];
      schedule.actions.push_back({Schedule::Action::kAwait, sequence, random.Between(1, 8)});
    }
    if (!random.Chance(0.25)) continue;
    const auto leaving = static_cast<size_t>(random.Between(0, static_cast<int>(open.size()) - 1));
    const Schedule::SequenceOf left = schedule.sequences[static_cast<size_t>(open[leaving])];
    const bool whole_stream = random.Chance(0.3);
    schedule.actions.push_back(
        {whole_stream ? Schedule::Action::kCancelStream : Schedule::Action::kCancel, open[leaving],
         0});
    std::erase_if(open, [&](int s) {
      Schedule::SequenceOf& of = schedule.sequences[static_cast<size_t>(s)];
      const bool gone = of.key == left.key || (whole_stream && of.attention == left.attention &&
                                               of.key.stream == left.key.stream);
      of.cancelled = of.cancelled || gone;
      return gone;
    });
    // Like a gateway that has lost an instance: submits the same request again elsewhere.
    if (random.Chance(0.5) || open.empty()) submit(left.request, 2);
  }
  DrawExchange(random, schedule.topology);
  if (random.Chance(0.6)) {
    schedule.prefix_host_pages = random.Chance(0.5) ? 64 : random.Between(1, 4);
    schedule.prefix_copies = random.Between(0, 2);
  }
  return schedule;
}

std::ostream& operator<<(std::ostream& out, const Schedule& s) {
  out << s.topology.m() << "A" << s.topology.n() << "E " << ToString(s.topology.mode)
      << (s.topology.gate == GateSide::kAttention ? ", gate on attention," : "") << " nodes";
  for (const Instance& instance : s.topology.attention) out << ' ' << instance.node;
  for (const Instance& instance : s.topology.experts) out << ' ' << instance.node;
  out << ", slots";
  for (const int slots : s.topology.placement.slots_of_instance) out << ' ' << slots;
  out << ", placement";
  for (const uint16_t e : s.topology.placement.expert_of) {
    out << ' ' << (e == Placement::kEmpty ? "-" : std::to_string(e));
  }
  out << ", " << ToString(s.scheduling) << ", by rows beyond " << s.crossover_rows
      << ", b=" << s.topology.micro_batches << ", R_max " << s.topology.max_rows_per_round << ", "
      << s.kv_pages << " pages, " << s.swap_pages << " in host memory, preempting "
      << s.preempt_chance << (s.prefixes == PrefixSharing::kDisabled ? ", no prefix cache" : "")
      << ", " << s.prefix_host_pages << " pages of prefixes in host memory, copying "
      << s.prefix_copies << ", batch " << s.max_batch << ", threads " << s.compute_threads
      << ", chunks 1.." << s.most_chunk << ";";
  for (const Schedule::Action& action : s.actions) {
    const Schedule::SequenceOf& of = s.sequences[static_cast<size_t>(action.sequence)];
    switch (action.kind) {
      case Schedule::Action::kSubmit:
        out << " submit " << action.sequence << " (request " << of.request << " at " << of.attention
            << ", " << of.given << " tokens given)";
        break;
      case Schedule::Action::kAwait:
        out << " await " << action.tokens << " of " << action.sequence;
        break;
      case Schedule::Action::kCancel:
        out << " cancel " << action.sequence;
        break;
      case Schedule::Action::kCancelStream:
        out << " cancel stream of " << action.sequence;
        break;
    }
  }
  return out;
}

ScheduleRun RunSchedule(const Schedule& schedule, const HeldModel& held, const RequestPool& pool,
                        KernelChoice kernels, const LoopbackCluster::WrapExchange& wrap,
                        const LoopbackCluster::WrapTransport& wrap_transport,
                        const Connect& connect) {
  Recorder recorder;
  LoopbackCluster::Options options;
  options.topology = schedule.topology;
  // Devices compute the gate only with the experts.
  if (kernels.make_context) options.topology.gate = GateSide::kExperts;
  options.device = kernels.device;
  options.isa = kernels.isa;
  options.make_context = kernels.make_context;
  options.attention.fp8_cache = kernels.fp8_cache;
  options.compression = kernels.compression;
  options.sums = TestSums(held.model, kernels.sum_bits);
  options.device_join = kernels.device_join;
  options.compute_threads = schedule.compute_threads;
  options.wrap_exchange = wrap;
  options.wrap_transport = wrap_transport;
  options.connect = connect;
  options.pace.deadlines = schedule.deadlines;
  options.pace.prefixes = schedule.prefixes;
  options.experts.scheduling = schedule.scheduling;
  options.experts.crossover_rows = schedule.crossover_rows;
  options.attention.max_batch = schedule.max_batch;
  options.attention.kv_bytes = KvBytes(held.model, kernels, schedule.kv_pages);
  options.attention.swap_bytes = KvBytes(held.model, kernels, schedule.swap_pages);
  options.attention.prefix_host_bytes = KvBytes(held.model, kernels, schedule.prefix_host_pages);
  options.attention.prefix_copies = schedule.prefix_copies;
  options.steering.logits_tap = [&](const RequestKey& key, int position,
                                    std::span<const float> logits) {
    recorder.Tap(key, position, logits);
  };
  options.steering.prefill_override = [&schedule](uint64_t step) {
    return Random(schedule.chunk_seed ^ step).Between(1, schedule.most_chunk);
  };
  options.steering.preempt_override = [&schedule](uint64_t step) {
    return Random(MixSeed(schedule.chunk_seed, step)).Chance(schedule.preempt_chance);
  };
  const std::vector<ExpertWeights> shares = held.Shares(schedule.topology.placement);
  ScheduleRun run;
  run.traces.resize(schedule.sequences.size());
  {
    LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
    for (const Schedule::Action& action : schedule.actions) {
      const Schedule::SequenceOf& of = schedule.sequences[static_cast<size_t>(action.sequence)];
      AttentionInstance& instance = cluster.attention(of.attention);
      switch (action.kind) {
        case Schedule::Action::kSubmit: {
          Request request = pool.requests[static_cast<size_t>(of.request)];
          request.key = of.key;
          const auto& answer = pool.alone[static_cast<size_t>(of.request)].tokens;
          request.generated.assign(answer.begin(), answer.begin() + of.given);
          JANUS_CHECK(instance.Submit(std::move(request)).ok());
          break;
        }
        case Schedule::Action::kAwait:
          cluster.Await(of.key, action.tokens);
          break;
        case Schedule::Action::kCancel:
          instance.Cancel(of.key);
          break;
        case Schedule::Action::kCancelStream:
          instance.CancelStream(of.key.stream);
          break;
      }
    }
    for (size_t s = 0; s < schedule.sequences.size(); ++s) {
      const Schedule::SequenceOf& of = schedule.sequences[s];
      if (of.cancelled) continue;
      const LoopbackCluster::Outcome outcome = cluster.Await(of.key);
      run.traces[s].tokens = outcome.tokens;
      run.traces[s].finish = outcome.finish;
      run.traces[s].experts = ExpertsOf(outcome, RoutedWidth(held.model));
    }
    for (int a = 0; a < schedule.topology.m(); ++a) {
      const InstanceStatistics statistics = cluster.attention(a).statistics();
      run.preempted += statistics.preempted;
      run.recomputed += statistics.recomputed;
      run.cached += statistics.cached;
      run.cached_in_host += statistics.cached_in_host;
      run.saved_to_host += statistics.saved_to_host;
      run.aborted = std::max(run.aborted, statistics.steps_aborted);
    }
  }
  for (size_t s = 0; s < schedule.sequences.size(); ++s) {
    run.traces[s].logits = recorder.Of(schedule.sequences[s].key);
  }
  return run;
}

std::string Differences(const Schedule& schedule, const ScheduleRun& run, const RequestPool& pool) {
  std::ostringstream out;
  size_t missing = 0;
  for (size_t s = 0; s < run.traces.size(); ++s) {
    const Schedule::SequenceOf& of = schedule.sequences[s];
    const Trace& alone = pool.alone[static_cast<size_t>(of.request)];
    const Trace& seen = run.traces[s];
    const std::string who =
        "sequence " + std::to_string(s) + " (request " + std::to_string(of.request) + ")";
    for (const auto& [position, hash] : seen.logits) {
      const auto want = alone.logits.find(position);
      if (want == alone.logits.end()) {
        out << who << ": position " << position << " is not computed when alone\n";
        break;
      }
      if (want->second != hash) {
        out << who << ": other logits from position " << position << " on\n";
        break;
      }
    }
    if (of.cancelled) continue;
    missing += alone.logits.size() - seen.logits.size();
    // Its logits draw a token, so no cache can stand for it.
    if (!alone.logits.empty() && !seen.logits.contains(alone.logits.rbegin()->first)) {
      out << who << ": its last position is not computed\n";
    }
    const std::vector<int32_t> rest(alone.tokens.begin() + of.given, alone.tokens.end());
    if (seen.tokens != rest || seen.finish != alone.finish) {
      out << who << ": other tokens or another end\n";
    }
    if (seen.experts != alone.experts) {
      out << who << ": other experts, or experts of other positions\n";
    }
  }
  if (missing > run.cached) {
    out << missing << " positions are missing, and " << run.cached << " came from the cache\n";
  }
  return out.str();
}

}  // namespace janus::dataplane
