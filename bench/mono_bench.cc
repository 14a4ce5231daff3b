// What does it cost to separate attention and experts if there is no gain from it? The same engine
// decodes with a random model of more than 500 MB of active weights
//   mono   experts in the same process and on the same thread, no exchange: the baseline
//   1A1E   one attention and one expert process over shared memory, a thread and a core each
// and alternates the two within one run. There is one micro-batch, so the two processes take turns.
// The difference is the cost of the exchange, the ticket and the wake-ups. It also prints the time
// to read the activated weights once at the read bandwidth of one thread, measured in the same run.
//
//   mono_bench [--steps N] [--blocks N] [--batch B]      one JSON line per case
//   mono_bench --config                                  prints the model's config.json only

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <thread>

#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/mono/local_experts.h"
#include "bench/mono/lone_transport.h"
#include "bench/read_bandwidth.h"
#include "bench/step_clock.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/comm/transport/shared_memory.h"
#include "dataplane/experts/expert_instance.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/temp_folder.h"

namespace janus::bench {
namespace {

using namespace janus::dataplane;  // NOLINT: this program is about it

// With one token, the first step reads what every other step reads.
constexpr int kPromptTokens = 1;

ModelDescription Shape() {
  ModelDescription model;
  model.family = "mixtral";
  model.architecture = "MixtralForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 32000;
  model.hidden = 2048;
  model.layers = 8;
  model.max_positions = 4096;
  model.attention.heads = 16;
  model.attention.kv_heads = 4;
  model.attention.head_dim = 128;
  model.attention.scale = 1.0f / std::sqrt(128.0f);
  model.attention.rope.rotary_dim = 128;
  model.moe.experts = 8;
  model.moe.top_k = 2;
  model.moe.intermediate = 3584;
  model.moe.renormalize = true;
  return model;
}

// Prints the same model for the reference implementation (bench/transformers_decode.py).
void PrintConfig(const ModelDescription& model) {
  std::printf(
      "{\"vocab_size\":%d,\"hidden_size\":%d,\"num_hidden_layers\":%d,"
      "\"max_position_embeddings\":%lld,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
      "\"head_dim\":%d,\"num_local_experts\":%d,\"num_experts_per_tok\":%d,"
      "\"intermediate_size\":%d}\n",
      model.vocab, model.hidden, model.layers, static_cast<long long>(model.max_positions),
      model.attention.heads, model.attention.kv_heads, model.attention.head_dim, model.moe.experts,
      model.moe.top_k, model.moe.intermediate);
}

// Bytes of weights that one step reads: all of attention and the output projection, and `activated`
// experts over all layers.
double ActiveBytes(const ModelDescription& model, double activated) {
  const auto h = static_cast<double>(model.hidden);
  const double q = h * model.attention.heads * model.attention.head_dim;
  const double kv = h * model.attention.kv_heads * model.attention.head_dim;
  const double attention = model.layers * (2 * q + 2 * kv + h * model.moe.experts);
  return 2.0 * (attention + h * model.vocab + activated * 3 * h * model.moe.intermediate);
}

void PinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  JANUS_CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

struct Parts {
  double attention = 0.0;  // seconds per step
  double experts = 0.0;
  double activated = 0.0;  // experts per step, over all layers
};
struct Measured {
  std::vector<double> steps;
  Parts parts;  // means over all steps
};

struct Setup {
  const HeldModel& held;
  const ExpertWeights& experts;
  const Topology& topology;
  kernels::Isa isa;
  int batch;
  int steps;
  ExchangeShape shape() const {
    return ShapeOf(topology, held.model.hidden, held.model.moe.top_k, WireType(held.model));
  }
};

// Decodes one batch on an attention instance. Its step thread is pinned to core 0.
std::vector<double> Decode(const Setup& s, Transport& transport, AttentionExchange& exchange,
                           InstanceStatistics& statistics) {
  kernels::Team team(1);
  const kernels::Stream stream{kernels::Device::kCpu, &team, s.isa, nullptr};
  StepClock sink(s.batch);
  const SystemClock clock;
  AttentionOptions options;
  options.max_batch = s.batch;
  options.kv_bytes = int64_t{256} << 20;
  options.swap_bytes = 0;
  AttentionPace pace;
  pace.prompt_step = Seconds(60.0);  // all prompts in one step
  const auto instance =
      *AttentionInstance::Create(options, s.held.model, s.held.attention, sink, clock);
  const auto epoch = *instance->Enter(s.topology, Rank{0}, transport, exchange, stream, pace);
  for (int i = 0; i < s.batch; ++i) {
    Request request;
    request.key = {1, static_cast<uint64_t>(i), 1};
    for (int p = 0; p < kPromptTokens; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729) % s.held.model.vocab);
    }
    request.max_tokens = s.steps;
    JANUS_CHECK(instance->Submit(std::move(request)).ok());
  }
  Status ended;
  std::jthread step([&](std::stop_token stop) {
    PinTo(0);
    ended = instance->Run(*epoch, stop);
  });
  std::vector<double> seconds = sink.Await();
  step.request_stop();
  step.join();
  statistics = instance->statistics();
  JANUS_CHECK(ended.ok(), ended.ToString());
  return seconds;
}

// The ticket in flight when the last answer ended causes one more step, without rows.
double StepsWithRows(const Setup& s, const InstanceStatistics& statistics) {
  return static_cast<double>(statistics.rows) / s.batch;
}

Measured Mono(const Setup& s) {
  kernels::Team team(1);
  const auto layers =
      MakeExpertLayers(s.held.model, s.experts, s.topology, Rank{0}, {},
                       kernels::Stream{kernels::Device::kCpu, &team, s.isa, nullptr});
  LocalExperts exchange(s.shape(), *layers, kernels::HostContext());
  LoneTransport transport(WaitPolicy::ForThreads(1));
  InstanceStatistics statistics;
  Measured m;
  m.steps = Decode(s, transport, exchange, statistics);
  const double steps = StepsWithRows(s, statistics);
  m.parts.experts = exchange.expert_seconds() / steps;
  m.parts.attention = statistics.compute_seconds / steps - m.parts.experts;
  m.parts.activated = static_cast<double>(exchange.activated()) / steps;
  return m;
}

std::unique_ptr<Transport> Connect(const Setup& s, PeerId self, const std::string& folder) {
  ConnectOptions options;
  options.addresses = {"unix:" + folder + "/attention-0.x"};
  options.policy = WaitPolicy::ForThreads(2);
  options.deadline = MonotonicClock::now() + std::chrono::seconds(60);
  auto listener = *ExchangeListener::Create(
      "unix:" + folder + (self.role == Role::kAttention ? "/attention-0.x" : "/experts-0.x"));
  return *ConnectSharedMemory(LayoutFor(s.topology.mode, s.shape(), self), options, *listener, {});
}

// The expert process. It runs until the pipe closes.
void ServeExperts(const Setup& s, const std::string& folder, int pipe, InstanceStatistics& out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  PinTo(1);
  auto transport = Connect(s, {Role::kExperts, Rank{0}}, folder);
  auto exchange = *MakeExpertExchange(s.shape(), *transport);
  kernels::Team team(1);
  const SystemClock clock;
  ExpertInstance instance({}, s.held.model, s.experts, s.topology, Rank{0}, *transport, *exchange,
                          clock, kernels::Stream{kernels::Device::kCpu, &team, s.isa, nullptr});
  std::jthread step([&](std::stop_token stop) { (void)instance.Run(stop); });
  char none = 0;
  (void)!read(pipe, &none, 1);
  step.request_stop();
  step.join();
  out = instance.statistics();
  _exit(0);
}

Measured Separate(const Setup& s, const std::string& folder) {
  void* memory = mmap(nullptr, sizeof(InstanceStatistics), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  JANUS_CHECK(memory != MAP_FAILED);
  auto* experts = new (memory) InstanceStatistics;
  int ends[2];
  JANUS_CHECK(pipe(ends) == 0);
  const pid_t pid = fork();
  JANUS_CHECK(pid >= 0);
  if (pid == 0) {
    close(ends[1]);
    ServeExperts(s, folder, ends[0], *experts);
  }
  close(ends[0]);
  Measured m;
  InstanceStatistics attention;
  {
    auto transport = Connect(s, {Role::kAttention, Rank{0}}, folder);
    auto exchange = *MakeAttentionExchange(s.shape(), *transport);
    m.steps = Decode(s, *transport, *exchange, attention);
    close(ends[1]);
    int status = 0;
    waitpid(pid, &status, 0);
    JANUS_CHECK(status == 0, status);
  }
  const double steps = StepsWithRows(s, attention);
  m.parts.attention = attention.compute_seconds / steps;
  m.parts.experts = experts->compute_seconds / steps;
  m.parts.activated = static_cast<double>(experts->activated_experts) / steps;
  munmap(memory, sizeof(InstanceStatistics));
  return m;
}

struct Total {
  std::vector<double> steps;
  std::vector<Parts> parts;

  void Add(Measured&& m) {
    steps.insert(steps.end(), m.steps.begin(), m.steps.end());
    parts.push_back(m.parts);
  }
  double Median(double Parts::*part) const {
    std::vector<double> values;
    for (const Parts& p : parts) values.push_back(p.*part);
    return SpreadOf(values).median;
  }
  double Report(const Setup& s, std::string_view form, double gbps) const {
    const Spread spread = SpreadOf(steps);
    const double active = ActiveBytes(s.held.model, Median(&Parts::activated));
    const double read = active / gbps / 1e9;
    JsonLine("mono")
        .Text("form", form)
        .Int("batch", s.batch)
        .Text("isa", kernels::ToString(s.isa))
        .Int("steps", static_cast<int64_t>(steps.size()))
        .Number("step_ms_median", spread.median * 1e3)
        .Number("step_ms_p10", spread.p10 * 1e3)
        .Number("step_ms_p90", spread.p90 * 1e3)
        .Number("attention_ms", Median(&Parts::attention) * 1e3)
        .Number("experts_ms", Median(&Parts::experts) * 1e3)
        .Number("active_mb", active / 1e6)
        .Number("share_of_read", read / spread.median);
    return spread.median;
  }
};

void RunCase(const Setup& s, int blocks, const std::string& folder, double gbps) {
  Total mono, separate;
  for (int block = 0; block < blocks; ++block) {
    mono.Add(Mono(s));
    separate.Add(Separate(s, folder));
  }
  const double base = mono.Report(s, "mono", gbps);
  const double step = separate.Report(s, "1A1E", gbps);
  JsonLine("mono_ratio").Int("batch", s.batch).Number("step_1A1E_over_mono", step / base);
  std::fflush(stdout);
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus;         // NOLINT
  using namespace janus::bench;  // NOLINT
  if (argc == 2 && std::string_view(argv[1]) == "--config") {
    PrintConfig(Shape());
    return 0;
  }
  int steps = 40;
  int blocks = 3;
  std::vector<int> batches = {1, 16};
  int single = 0;
  if (!TakeFlags("mono_bench", {argv + 1, argv + argc},
                 {NumberFlag("--steps", 4, &steps), NumberFlag("--blocks", 1, &blocks),
                  NumberFlag("--batch", 1, &single)})) {
    return 2;
  }
  if (single > 0) batches = {single};
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().ToString().c_str());
    return 1;
  }
  double gbps = 0.0;
  {
    kernels::Team team(1);
    const Arena arena;
    gbps = ReadBandwidth(team, arena);
    JsonLine("read_bandwidth").Int("threads", 1).Number("gbps", gbps);
  }
  const dataplane::HeldModel held = dataplane::RandomModel(Shape(), 1);
  const Topology topology = dataplane::MakeTopology(1, {held.model.moe.experts}, held.model.layers,
                                                    held.model.moe.experts, 1, 512);
  const std::vector<dataplane::ExpertWeights> shares = held.Shares(topology.placement);
  const TempFolder folder;
  for (const int batch : batches) {
    RunCase({held, shares[0], topology, *isa, batch, steps}, blocks, folder.path(), gbps);
  }
  return 0;
}
