#pragma once

// Shared by benchmarks of the exchange between many instances. Every instance is a process in a
// network namespace of its own, with one limited link (its card) to a common switch. Instances of a
// node share memory. Needs root.

#include <sys/mman.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/exchange_rounds.h"
#include "bench/namespaces.h"
#include "dataplane/comm/exchange/measure_links.h"
#include "dataplane/comm/transport/ucx/transport.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {

constexpr const char* kCard = "janus0";  // its name in every namespace

struct Nodes {
  int attention_nodes, attention_each, expert_nodes, experts_each;
  std::string ToString() const {
    return std::to_string(attention_nodes) + "x" + std::to_string(attention_each) + "," +
           std::to_string(expert_nodes) + "x" + std::to_string(experts_each);
  }
};

inline ExchangeShape ShapeOf(const Nodes& nodes, int hidden, int top_k, int max_rows) {
  ExchangeShape shape;
  shape.hidden = hidden;
  shape.top_k = top_k;
  shape.wire = DType::kBFloat16;
  shape.max_rows = max_rows;
  shape.m = nodes.attention_nodes * nodes.attention_each;
  shape.n = nodes.expert_nodes * nodes.experts_each;
  for (int a = 0; a < shape.m; ++a) shape.node_of.push_back(a / nodes.attention_each);
  for (int e = 0; e < shape.n; ++e) shape.node_of.push_back(e / nodes.experts_each);
  return shape;
}

// The namespaces of all members, joined by a bridge in this one. The token bucket of a card (tc
// tbf) works in both directions, each for itself.
class Switch {
 public:
  Switch(int members, const std::string& rate, const std::string& burst) {
    static int made = 0;
    ++made;
    bench::Must("ip link add name janus-switch type bridge && ip link set janus-switch up");
    for (int i = 0; i < members; ++i) {
      const bench::OtherNamespace& of =
          *of_.emplace_back(std::make_unique<bench::OtherNamespace>());
      // A namespace may outlive its last process, and with it the ports of an earlier switch.
      const std::string port = "port" + std::to_string(made) + "x" + std::to_string(i);
      const std::string card = kCard;
      bench::Must("ip link add " + port + " type veth peer name " + card + " netns " + of.pid());
      bench::Must("ip link set " + port + " master janus-switch && ip link set " + port + " up");
      bench::Must(of.inside() + "ip link set lo up");
      bench::Must(of.inside() + "ip address add " + AddressOf(i) + "/16 dev " + card);
      bench::Must(of.inside() + "ip link set " + card + " up");
      const std::string limit = " root tbf rate " + rate + " burst " + burst + " latency 400ms";
      bench::Must("tc qdisc replace dev " + port + limit);
      bench::Must(of.inside() + "tc qdisc replace dev " + card + limit);
    }
    for (const auto& of : of_) bench::AwaitLink(of->inside(), kCard);
  }
  ~Switch() {
    of_.clear();
    (void)std::system("ip link del janus-switch");
  }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;
  const bench::OtherNamespace& of(int member) const { return *of_[static_cast<size_t>(member)]; }
  static std::string AddressOf(int member) { return "10.98.0." + std::to_string(member + 1); }

 private:
  std::vector<std::unique_ptr<bench::OtherNamespace>> of_;
};

inline bool SameNode(const ExchangeShape& shape, PeerId a, PeerId b) {
  const auto node = [&](PeerId of) {
    const int member = of.role == Role::kAttention ? of.rank.value : shape.m + of.rank.value;
    return shape.node_of[static_cast<size_t>(member)];
  };
  return a.role == b.role && node(a) == node(b);
}

inline std::unique_ptr<Transport> Connect(ExchangeMode mode, const ExchangeShape& shape,
                                          PeerId self, const std::string& folder) {
  NetworkOptions options;
  for (int member = 0; member < shape.m + shape.n; ++member) {
    options.connect.addresses.push_back("unix:" + folder + "/" + std::to_string(member));
  }
  options.connect.policy = WaitPolicy::ForThreads(shape.m + shape.n);
  options.connect.deadline = Soon();
  options.shares_memory = [&](PeerId peer) { return SameNode(shape, self, peer); };
  options.devices = kCard;
  const TransportLayout layout = LayoutFor(mode, shape, self);
  auto listener = *ExchangeListener::Create(
      options.connect.addresses[static_cast<size_t>(MemberIndex(layout, self))]);
  auto transport = ConnectNetwork(layout, options, *listener, {});
  JANUS_CHECK(transport.ok(), transport.status().ToString());
  return std::move(*transport);
}

// Seconds in which this machine's cores have worked, together.
inline double BusySeconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0;
  stat >> cpu >> user >> nice >> system >> idle >> io >> irq >> soft;
  return (user + nice + system + irq + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Bytes that the card of the calling process has sent and received, with all heads of packets.
struct CardBytes {
  double sent = 0, received = 0;
};
inline CardBytes BytesOfCard() {
  CardBytes bytes;
  const std::string folder = std::string("/sys/class/net/") + kCard + "/statistics/";
  std::ifstream(folder + "tx_bytes") >> bytes.sent;
  std::ifstream(folder + "rx_bytes") >> bytes.received;
  return bytes;
}

// How a block runs its rounds.
struct BlockPlan {
  ExchangeMode mode = ExchangeMode::kDirect;
  int warm = 1;
  int rounds = 5;
  int rows = 1;             // of every attention instance
  bool has_answers = true;  // contributions to a row, spread over the experts in turn; else none
  bool measures_links = false;  // as workers do, before the rounds
  // Puts a layer over the transport of a member.
  std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> over;
};

// What a block brings.
struct Block {
  std::vector<double> micros;                    // of rounds of attention instance 0, sorted
  std::vector<std::vector<MeasuredLink>> links;  // [attention node][expert node], where measured
  double cpu_share = 0;  // busy time of all cores over their whole time, during the rounds
  // Mean bytes of a round on the busiest card of a role; `out` to experts, `back` from them.
  double bytes_out = 0, bytes_back = 0;
};

namespace block {

constexpr int kMostNodes = 8;      // of a role, where links are measured
constexpr int kMostMembers = 256;  // addresses of a Switch

// Between processes.
struct Shared {
  std::atomic<int> running;
  double busy_seconds;
  double wall_seconds;
  MeasuredLink links[kMostNodes][kMostNodes];
  CardBytes bytes[kMostMembers];  // during all rounds
  double micros[1];
};

// Members pass on messages while they wait for the others to end.
inline void AwaitOthers(Transport& transport, std::atomic<int>& running) {
  --running;
  while (running.load() > 0) {
    (void)transport.Wait(MonotonicClock::now() + std::chrono::milliseconds(5),
                         [&] { return running.load() == 0; });
  }
}

// The contributions to a row are spread over the expert instances in turn.
inline void Experts(Transport& transport, const ExchangeShape& shape, const BlockPlan& plan) {
  auto exchange = *MakeExpertExchange(shape, transport);
  const int self = transport.layout().self.rank.value;
  const Participants all(static_cast<size_t>(shape.m), true);
  for (int i = 0; i < plan.warm + plan.rounds; ++i) {
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

inline void Attention(Transport& transport, const ExchangeShape& shape, const BlockPlan& plan,
                      Shared* shared) {
  auto exchange = *MakeAttentionExchange(shape, transport);
  const Participants all(static_cast<size_t>(shape.m), true);
  double busy = 0;
  MonotonicTime begun;
  for (int i = 0; i < plan.warm + plan.rounds; ++i) {
    const RoundKey key = KeyOfRound(i, shape);
    const MonotonicTime start = MonotonicClock::now();
    if (i == plan.warm) {
      begun = start;
      busy = BusySeconds();
    }
    exchange->BeginStep(key, all);
    if (!exchange->Post(key, plan.rows, start).ok()) _exit(1);
    if (!transport.Wait(Soon(), [&] { return *exchange->Poll(key); }).ok()) _exit(1);
    const MonotonicTime end = MonotonicClock::now();
    if (shared != nullptr) shared->micros[i] = Seconds(end - start).count() * 1e6;
  }
  if (shared == nullptr) return;
  shared->busy_seconds = BusySeconds() - busy;
  shared->wall_seconds = Seconds(MonotonicClock::now() - begun).count();
}

inline void MeasureInto(Transport& transport, const ExchangeShape& shape, int member,
                        Shared& shared) {
  MeasureOptions options;
  options.known = [](PeerId) { return std::nullopt; };
  options.crosses = [](PeerId) { return true; };
  options.longest = Seconds(20);
  options.of_pair = Seconds(2);
  for (const MeasuredPeer& one :
       MeasureLinks(transport, shape.node_of, options, SystemClock(), {})) {
    JANUS_CHECK(one.link.has_value(), one.why_not);
    const int a = shape.node_of[static_cast<size_t>(member)];
    const int e = shape.node_of[static_cast<size_t>(shape.m + one.peer.rank.value)];
    shared.links[a][e] = *one.link;
  }
}

// The process of a member.
[[noreturn]] inline void Member(int member, const bench::OtherNamespace& home,
                                const ExchangeShape& shape, const BlockPlan& plan,
                                const std::string& folder, Shared& shared) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  home.Enter();
  const bool is_attention = member < shape.m;
  const PeerId self = is_attention ? PeerId{Role::kAttention, Rank{member}}
                                   : PeerId{Role::kExperts, Rank{member - shape.m}};
  auto transport = Connect(plan.mode, shape, self, folder);
  if (plan.over) transport = plan.over(std::move(transport));
  if (plan.measures_links) MeasureInto(*transport, shape, member, shared);
  transport = RelayOver(plan.mode, shape, std::move(transport));
  const CardBytes before = BytesOfCard();
  if (is_attention) {
    Attention(*transport, shape, plan, member == 0 ? &shared : nullptr);
  } else {
    Experts(*transport, shape, plan);
  }
  AwaitOthers(*transport, shared.running);
  const CardBytes after = BytesOfCard();
  shared.bytes[member] = {after.sent - before.sent, after.received - before.received};
  _exit(0);
}

}  // namespace block

// Runs the rounds with all members as processes.
inline Block RunBlock(const Switch& network, const ExchangeShape& shape, const BlockPlan& plan) {
  const int rounds = plan.warm + plan.rounds;
  const int a_nodes = shape.node_of[static_cast<size_t>(shape.m - 1)] + 1;
  const int e_nodes = shape.node_of.back() + 1;
  JANUS_CHECK(shape.m + shape.n <= block::kMostMembers);
  JANUS_CHECK(!plan.measures_links || std::max(a_nodes, e_nodes) <= block::kMostNodes);
  const size_t bytes = sizeof(block::Shared) + static_cast<size_t>(rounds) * sizeof(double);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  JANUS_CHECK(memory != MAP_FAILED);
  auto* shared = new (memory) block::Shared;
  shared->running = shape.m + shape.n;
  const TempFolder folder;
  std::vector<pid_t> children;
  for (int member = 0; member < shape.m + shape.n; ++member) {
    const pid_t pid = fork();
    JANUS_CHECK(pid >= 0);
    if (pid == 0) block::Member(member, network.of(member), shape, plan, folder.path(), *shared);
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    JANUS_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a member failed");
  }
  Block out;
  out.micros.assign(shared->micros + plan.warm, shared->micros + rounds);
  std::ranges::sort(out.micros);
  for (int a = 0; a < a_nodes && plan.measures_links; ++a) {
    out.links.emplace_back(shared->links[a], shared->links[a] + e_nodes);
  }
  for (int member = 0; member < shape.m + shape.n; ++member) {
    const CardBytes& card = shared->bytes[member];
    const bool is_attention = member < shape.m;
    out.bytes_out = std::max(out.bytes_out, (is_attention ? card.sent : card.received) / rounds);
    out.bytes_back = std::max(out.bytes_back, (is_attention ? card.received : card.sent) / rounds);
  }
  const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  out.cpu_share = shared->busy_seconds / (cores * shared->wall_seconds);
  munmap(memory, bytes);
  return out;
}

}  // namespace janus::dataplane
