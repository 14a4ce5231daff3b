// How long does a round take in each exchange mode? Every instance is a process in a network
// namespace of its own, with one limited link (its card) to a common switch. Instances of a node
// share memory.
//
//   build/dev/bin/exchange_modes_bench [rounds]   one JSON line per case; needs root
//
// The token bucket of a link (tc tbf) works in both directions, each for itself. A round has the
// same number of rows from every attention instance. The contributions to a row are spread over
// the expert instances in turn. The modes of a case run one after the other in blocks, so that a
// noisy neighbour hits all of them; the figures are medians over all blocks.

#include <sys/mman.h>

#include <atomic>
#include <map>

#include "bench/exchange_rounds.h"
#include "bench/flags.h"
#include "bench/namespaces.h"
#include "dataplane/comm/transport/ucx/transport.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

using bench::AwaitLink;
using bench::Must;
using bench::OtherNamespace;

constexpr int kHidden = 512;  // rows of 1 KB
constexpr int kTopK = 4;
constexpr const char* kDevice = "janus0";

struct Nodes {
  int attention_nodes, attention_each, expert_nodes, experts_each;
};

ExchangeShape ShapeOf(const Nodes& nodes, int rows) {
  ExchangeShape shape;
  shape.hidden = kHidden;
  shape.top_k = kTopK;
  shape.wire = DType::kBFloat16;
  shape.max_rows = rows;
  shape.m = nodes.attention_nodes * nodes.attention_each;
  shape.n = nodes.expert_nodes * nodes.experts_each;
  for (int a = 0; a < shape.m; ++a) shape.node_of.push_back(a / nodes.attention_each);
  for (int e = 0; e < shape.n; ++e) shape.node_of.push_back(e / nodes.experts_each);
  return shape;
}

// The namespaces of all members, joined by a bridge in this one.
class Switch {
 public:
  Switch(int members, const std::string& rate, const std::string& burst) {
    Must("ip link add name janus-switch type bridge && ip link set janus-switch up");
    for (int i = 0; i < members; ++i) {
      const OtherNamespace& of = *of_.emplace_back(std::make_unique<OtherNamespace>());
      const std::string port = "port" + std::to_string(i);
      Must("ip link add " + port + " type veth peer name " + kDevice + " netns " + of.pid());
      Must("ip link set " + port + " master janus-switch && ip link set " + port + " up");
      Must(of.inside() + "ip link set lo up");
      Must(of.inside() + "ip address add 10.98.0." + std::to_string(i + 1) + "/16 dev " + kDevice);
      Must(of.inside() + "ip link set " + kDevice + " up");
      const std::string limit = " root tbf rate " + rate + " burst " + burst + " latency 400ms";
      Must("tc qdisc replace dev " + port + limit);
      Must(of.inside() + "tc qdisc replace dev " + kDevice + limit);
    }
    for (const auto& of : of_) AwaitLink(of->inside(), kDevice);
  }
  ~Switch() {
    of_.clear();
    (void)std::system("ip link del janus-switch");
  }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;
  const OtherNamespace& of(int member) const { return *of_[static_cast<size_t>(member)]; }

 private:
  std::vector<std::unique_ptr<OtherNamespace>> of_;
};

bool SameNode(const ExchangeShape& shape, PeerId a, PeerId b) {
  const auto node = [&](PeerId of) {
    const int member = of.role == Role::kAttention ? of.rank.value : shape.m + of.rank.value;
    return shape.node_of[static_cast<size_t>(member)];
  };
  return a.role == b.role && node(a) == node(b);
}

std::unique_ptr<Transport> Connect(ExchangeMode mode, const ExchangeShape& shape, PeerId self,
                                   const std::string& folder) {
  NetworkOptions options;
  for (int member = 0; member < shape.m + shape.n; ++member) {
    options.connect.addresses.push_back("unix:" + folder + "/" + std::to_string(member));
  }
  options.connect.policy = WaitPolicy::ForThreads(shape.m + shape.n);
  options.connect.deadline = Soon();
  options.shares_memory = [&](PeerId peer) { return SameNode(shape, self, peer); };
  options.devices = kDevice;
  const TransportLayout layout = LayoutFor(mode, shape, self);
  auto listener = *ExchangeListener::Create(
      options.connect.addresses[static_cast<size_t>(MemberIndex(layout, self))]);
  auto transport = ConnectNetwork(layout, options, *listener, {});
  JANUS_CHECK(transport.ok(), transport.status().ToString());
  return RelayOver(mode, shape, std::move(*transport));
}

// Members pass on messages while they wait for the others to end.
void AwaitOthers(Transport& transport, std::atomic<int>& running) {
  --running;
  while (running.load() > 0) {
    (void)transport.Wait(MonotonicClock::now() + std::chrono::milliseconds(5),
                         [&] { return running.load() == 0; });
  }
}

void Experts(Transport& transport, const ExchangeShape& shape, int rounds) {
  auto exchange = *MakeExpertExchange(shape, transport);
  const int self = transport.layout().self.rank.value;
  const Participants all(static_cast<size_t>(shape.m), true);
  for (int i = 0; i < rounds; ++i) {
    const RoundKey key = KeyOfRound(i, shape);
    exchange->BeginStep(key, all);
    std::vector<int> counts;
    for (int a = 0; a < shape.m; ++a) {
      ArrivedRows rows;
      const Status waited =
          transport.Wait(Soon(), [&] { return *exchange->Poll(key, Rank{a}, rows); });
      if (!waited.ok()) _exit(1);
      counts.push_back(rows.count);
    }
    for (int a = 0; a < shape.m; ++a) {
      std::vector<ContributionRef> refs;
      for (int cell = 0; cell < counts[static_cast<size_t>(a)] * shape.top_k; ++cell) {
        if (cell % shape.n != self) continue;
        refs.push_back({static_cast<uint16_t>(cell / shape.top_k),
                        static_cast<uint8_t>(cell % shape.top_k), 0});
      }
      const auto out = exchange->Begin(key.micro_batch, Rank{a}, static_cast<int>(refs.size()));
      std::copy(refs.begin(), refs.end(), out.refs.begin());
      if (!exchange->Post(key, Rank{a}, MonotonicClock::now()).ok()) _exit(1);
    }
  }
}

void Attention(Transport& transport, const ExchangeShape& shape, int rounds, int rows,
               double* micros) {
  auto exchange = *MakeAttentionExchange(shape, transport);
  const Participants all(static_cast<size_t>(shape.m), true);
  for (int i = 0; i < rounds; ++i) {
    const RoundKey key = KeyOfRound(i, shape);
    const MonotonicTime start = MonotonicClock::now();
    exchange->BeginStep(key, all);
    if (!exchange->Post(key, rows, start).ok()) _exit(1);
    if (!transport.Wait(Soon(), [&] { return *exchange->Poll(key); }).ok()) _exit(1);
    if (micros != nullptr) micros[i] = Seconds(MonotonicClock::now() - start).count() * 1e6;
  }
}

// Runs the rounds with all members as processes; appends the times of attention instance 0.
void RunBlock(const Switch& network, ExchangeMode mode, const ExchangeShape& shape, int warm,
              int rounds, int rows, std::vector<double>& micros) {
  struct Shared {
    std::atomic<int> running;
    double micros[1];
  };
  const size_t bytes = sizeof(Shared) + static_cast<size_t>(warm + rounds) * sizeof(double);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  JANUS_CHECK(memory != MAP_FAILED);
  auto* shared = new (memory) Shared;
  shared->running = shape.m + shape.n;
  const TempFolder folder;
  std::vector<pid_t> children;
  for (int member = 0; member < shape.m + shape.n; ++member) {
    const pid_t pid = fork();
    JANUS_CHECK(pid >= 0);
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      network.of(member).Enter();
      const bool is_attention = member < shape.m;
      const PeerId self = is_attention ? PeerId{Role::kAttention, Rank{member}}
                                       : PeerId{Role::kExperts, Rank{member - shape.m}};
      auto transport = Connect(mode, shape, self, folder.path());
      if (is_attention) {
        Attention(*transport, shape, warm + rounds, rows, member == 0 ? shared->micros : nullptr);
      } else {
        Experts(*transport, shape, warm + rounds);
      }
      AwaitOthers(*transport, shared->running);
      _exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    JANUS_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a member failed");
  }
  micros.insert(micros.end(), shared->micros + warm, shared->micros + warm + rounds);
  munmap(memory, bytes);
}

void Case(const Nodes& nodes, const char* rate, const char* burst, int rows, int rounds) {
  const ExchangeShape shape = ShapeOf(nodes, rows);
  const Switch network(shape.m + shape.n, rate, burst);
  constexpr ExchangeMode kModes[] = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                                     ExchangeMode::kTwoPhaseParallel};
  std::map<ExchangeMode, std::vector<double>> micros;
  constexpr int kBlocks = 3;
  for (int block = 0; block < kBlocks; ++block) {
    for (const ExchangeMode mode : kModes) {
      RunBlock(network, mode, shape, std::max(2, rounds / 5), rounds, rows, micros[mode]);
    }
  }
  std::printf(
      "{\"bench\":\"exchange_modes\",\"nodes\":\"%dx%d,%dx%d\",\"link\":\"%s\","
      "\"row_bytes_of_an_instance\":%zu,\"rounds\":%d",
      nodes.attention_nodes, nodes.attention_each, nodes.expert_nodes, nodes.experts_each, rate,
      static_cast<size_t>(rows) * shape.row_bytes(), kBlocks * rounds);
  for (auto& [mode, all] : micros) {
    std::sort(all.begin(), all.end());
    std::printf(",\"%s_us\":{\"p50\":%.0f,\"p90\":%.0f}", std::string(ToString(mode)).c_str(),
                At(all, .5), At(all, .9));
  }
  std::printf("}\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  int rounds = 40;
  if (!janus::bench::TakeRounds("exchange_modes_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  if (const std::string why = janus::bench::EnterFreshNamespace(); !why.empty()) {
    std::fprintf(stderr, "exchange_modes_bench: not run: %s\n", why.c_str());
    return 0;
  }
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_NET_DEVICES", "janus0", 1);
  using janus::dataplane::Case;
  // Slow links, so that they and not the two cores limit a round.
  for (const janus::dataplane::Nodes& nodes :
       {janus::dataplane::Nodes{2, 4, 4, 2}, {2, 4, 1, 4}, {1, 4, 2, 2}, {2, 2, 2, 2}}) {
    for (const int rows : {1, 8, 64}) {
      Case(nodes, "200mbit", "4kb", rows, std::max(5, rows == 64 ? rounds / 4 : rounds));
    }
  }
  return 0;
}
