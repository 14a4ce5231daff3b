// How long does a round take in each exchange mode, and would the operator choose the fastest one?
// Every instance is a process in a network namespace of its own, with one limited link (its card)
// to a common switch. Instances of a node share memory.
//
//   build/dev/bin/exchange_modes_bench [rounds]   one JSON line per cell, then a summary; needs
//   root
//
// The grid below is fixed. The token bucket of a link (tc tbf) works in both directions, each for
// itself. Beside its bytes, each message between nodes costs its sender and its receiver a fixed
// time, in which they do nothing else (CostlyLinks). A round has the same number of rows from every
// attention instance. The contributions to a row are spread over the expert instances in turn.
//
// Before its rounds, every block measures its links as workers do. The links of mode Direct, which
// were measured before any round of the cell, give the prediction and the choice
// (controllers/exchange). Figures are medians over the rounds. "cpu_share" is the busy time of all
// cores over their whole time: where it is large, the cores and not the links decide.

#include <sys/mman.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <map>

#include "bench/exchange_rounds.h"
#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/namespaces.h"
#include "controllers/exchange/mode_times.h"
#include "dataplane/comm/exchange/measure_links.h"
#include "dataplane/comm/transport/ucx/transport.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

using bench::AwaitLink;
using bench::Must;
using bench::OtherNamespace;
using controllers::kExchangeModes;

constexpr int kHidden = 512;  // rows of 1 KB
constexpr int kTopK = 2;
constexpr const char* kDevice = "janus0";

struct Nodes {
  int attention_nodes, attention_each, expert_nodes, experts_each;
};

// --- the grid -----------------------------------------------------------------------------------

constexpr Nodes kNodes[] = {{1, 4, 2, 2}, {1, 4, 1, 1}, {2, 2, 1, 1}, {1, 2, 3, 1}, {1, 2, 5, 1},
                            {1, 4, 5, 1}, {2, 2, 2, 2}, {2, 4, 1, 4}, {2, 4, 4, 2}};
constexpr int kRows[] = {1, 8, 64, 256, 1024};  // of each attention instance: 1 KB to 1 MB
constexpr const char* kRate = "40mbit";
constexpr const char* kBurst = "4kb";
constexpr std::chrono::microseconds kMessageCost{1000};

// --- members ------------------------------------------------------------------------------------

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
    static int made = 0;
    ++made;
    Must("ip link add name janus-switch type bridge && ip link set janus-switch up");
    for (int i = 0; i < members; ++i) {
      const OtherNamespace& of = *of_.emplace_back(std::make_unique<OtherNamespace>());
      // A namespace may outlive its last process, and with it the ports of an earlier switch.
      const std::string port = "port" + std::to_string(made) + "x" + std::to_string(i);
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

// A card that takes a fixed time for every message that it sends to another node, or receives from
// one. The instance waits for it, as it does for a card that is driven by its core.
class CostlyLinks final : public Transport {
 public:
  CostlyLinks(std::unique_ptr<Transport> lower, const ExchangeShape& shape)
      : lower_(std::move(lower)) {
    const TransportLayout& layout = lower_->layout();
    for (int member = 0; member < layout.m + layout.n; ++member) {
      is_near_.push_back(SameNode(shape, layout.self, MemberAt(layout, member)));
    }
    for (const SlotSpec& slot : layout.slots) {
      if (slot.owner != layout.self) continue;
      readers_.push_back(static_cast<int>(std::ranges::count_if(
          slot.readers, [&](const PeerId& reader) { return !IsNear(reader); })));
    }
  }

  const TransportLayout& layout() const override { return lower_->layout(); }
  std::span<std::byte> Payload(int slot) override { return lower_->Payload(slot); }
  Status Post(int slot, const Header& header) override {
    Spend(readers_[static_cast<size_t>(slot)]);
    return lower_->Post(slot, header);
  }
  bool Take(PeerId from, int slot, SlotMessage& message) override {
    if (!lower_->Take(from, slot, message)) return false;
    if (!IsNear(from)) Spend(1);
    return true;
  }
  bool Settle() override { return lower_->Settle(); }
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override {
    if (!IsNear(to)) Spend(1);
    return lower_->Send(to, header, payload);
  }
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override {
    if (!lower_->Receive(from, header, payload)) return false;
    if (!IsNear(from)) Spend(1);
    return true;
  }
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override {
    return lower_->Wait(deadline, ready);
  }
  void Wake() override { lower_->Wake(); }
  uint64_t dropped() const override { return lower_->dropped(); }
  std::string_view Describe(PeerId peer) const override { return lower_->Describe(peer); }

 private:
  bool IsNear(PeerId peer) const {
    return is_near_[static_cast<size_t>(MemberIndex(lower_->layout(), peer))];
  }
  static void Spend(int messages) {
    if (messages == 0) return;
    const auto cost = std::chrono::nanoseconds(kMessageCost) * messages;
    timespec left{cost.count() / 1'000'000'000, cost.count() % 1'000'000'000};
    while (nanosleep(&left, &left) != 0) {
    }
  }

  std::unique_ptr<Transport> lower_;
  std::vector<bool> is_near_;  // by member
  std::vector<int> readers_;   // in other nodes, by own slot
};

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
  return std::make_unique<CostlyLinks>(std::move(*transport), shape);
}

// Seconds in which this machine's cores have worked, together.
double BusySeconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0;
  stat >> cpu >> user >> nice >> system >> idle >> io >> irq >> soft;
  return (user + nice + system + irq + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Between processes.
struct Shared {
  std::atomic<int> running;
  double busy_seconds;
  double wall_seconds;
  MeasuredLink links[8][8];  // [attention node][expert node]; no bandwidth: not measured
  double micros[1];
};

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

void Attention(Transport& transport, const ExchangeShape& shape, int warm, int rounds, int rows,
               Shared* shared) {
  auto exchange = *MakeAttentionExchange(shape, transport);
  const Participants all(static_cast<size_t>(shape.m), true);
  double busy = 0;
  MonotonicTime begun;
  for (int i = 0; i < warm + rounds; ++i) {
    const RoundKey key = KeyOfRound(i, shape);
    const MonotonicTime start = MonotonicClock::now();
    if (i == warm) {
      begun = start;
      busy = BusySeconds();
    }
    exchange->BeginStep(key, all);
    if (!exchange->Post(key, rows, start).ok()) _exit(1);
    if (!transport.Wait(Soon(), [&] { return *exchange->Poll(key); }).ok()) _exit(1);
    const MonotonicTime end = MonotonicClock::now();
    if (shared != nullptr) shared->micros[i] = Seconds(end - start).count() * 1e6;
  }
  if (shared == nullptr) return;
  shared->busy_seconds = BusySeconds() - busy;
  shared->wall_seconds = Seconds(MonotonicClock::now() - begun).count();
}

// What a block brings.
struct Block {
  std::vector<double> micros;  // of the rounds of attention instance 0
  controllers::NodeLinks links;
  double cpu_share = 0;
};

// Runs the rounds with all members as processes.
Block RunBlock(const Switch& network, ExchangeMode mode, const ExchangeShape& shape, int warm,
               int rounds, int rows) {
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
      prctl(PR_SET_TIMERSLACK, 1);
      network.of(member).Enter();
      const bool is_attention = member < shape.m;
      const PeerId self = is_attention ? PeerId{Role::kAttention, Rank{member}}
                                       : PeerId{Role::kExperts, Rank{member - shape.m}};
      auto transport = Connect(mode, shape, self, folder.path());
      MeasureOptions options;
      options.known = [](PeerId) { return std::nullopt; };
      options.crosses = [](PeerId) { return true; };
      options.longest = Seconds(20);
      options.of_pair = Seconds(2);
      for (const MeasuredPeer& one :
           MeasureLinks(*transport, shape.node_of, options, SystemClock(), {})) {
        JANUS_CHECK(one.link.has_value(), one.why_not);
        const int a = shape.node_of[static_cast<size_t>(member)];
        const int e = shape.node_of[static_cast<size_t>(shape.m + one.peer.rank.value)];
        shared->links[a][e] = *one.link;
      }
      transport = RelayOver(mode, shape, std::move(transport));
      if (is_attention) {
        Attention(*transport, shape, warm, rounds, rows, member == 0 ? shared : nullptr);
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
  Block out;
  out.micros.assign(shared->micros + warm, shared->micros + warm + rounds);
  std::ranges::sort(out.micros);
  for (int a = 0; a <= shape.node_of[static_cast<size_t>(shape.m - 1)]; ++a) {
    std::vector<controllers::NodeLink>& links = out.links.emplace_back();
    for (int e = 0; e <= shape.node_of.back(); ++e) links.push_back({shared->links[a][e], false});
  }
  const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  out.cpu_share = shared->busy_seconds / (cores * shared->wall_seconds);
  munmap(memory, bytes);
  return out;
}

controllers::ExchangeRound RoundOf(const ExchangeShape& shape, int rows) {
  controllers::ExchangeRound round;
  round.attention_nodes.assign(shape.node_of.begin(), shape.node_of.begin() + shape.m);
  round.expert_nodes.assign(shape.node_of.begin() + shape.m, shape.node_of.end());
  for (int card = 0; card < shape.m + shape.n; ++card) round.cards.push_back(card);
  round.rows = rows;
  round.row_bytes = static_cast<double>(shape.row_bytes());
  round.top_k = shape.top_k;
  return round;
}

struct Cell {
  controllers::ModeTimes measured;  // seconds
  ExchangeMode best = ExchangeMode::kDirect;
  ExchangeMode chosen = ExchangeMode::kDirect;
  double RegretOf(ExchangeMode mode) const { return measured.of(mode) / measured.of(best) - 1; }
};

// `errors`: of the predictions, relative to what was measured, one for each mode.
Cell Measure(const Nodes& nodes, const ExchangeShape& shape, const Switch& network, int rows,
             int rounds, std::vector<double>& errors) {
  Cell cell;
  std::map<ExchangeMode, Block> blocks;
  for (const ExchangeMode mode : kExchangeModes) {
    blocks[mode] = RunBlock(network, mode, shape, 1, rounds, rows);
    cell.measured.seconds[static_cast<size_t>(mode)] = At(blocks[mode].micros, .5) / 1e6;
  }
  const controllers::NodeLinks& links = blocks[ExchangeMode::kDirect].links;
  const controllers::ModeTimes predicted = controllers::TimesOfModes(RoundOf(shape, rows), links);
  const std::vector<ExchangeMode> all(kExchangeModes.begin(), kExchangeModes.end());
  cell.chosen = controllers::FastestMode(predicted, all, nullptr, 0);
  for (const ExchangeMode mode : kExchangeModes) {
    if (cell.measured.of(mode) < cell.measured.of(cell.best)) cell.best = mode;
    errors.push_back(std::abs(predicted.of(mode) / cell.measured.of(mode) - 1));
  }
  const MeasuredLink& link = links.front().front().link;
  bench::JsonLine line("exchange_modes");
  line.Text("nodes", std::to_string(nodes.attention_nodes) + "x" +
                         std::to_string(nodes.attention_each) + "," +
                         std::to_string(nodes.expert_nodes) + "x" +
                         std::to_string(nodes.experts_each));
  line.Text("link", kRate).Int("message_cost_us", kMessageCost.count());
  line.Int("row_bytes_of_an_instance", static_cast<int64_t>(rows * shape.row_bytes()));
  for (const ExchangeMode mode : kExchangeModes) {
    const std::string name(ToString(mode));
    line.Number(name + "_ms", cell.measured.of(mode) * 1e3);
    line.Number(name + "_predicted_ms", predicted.of(mode) * 1e3);
    line.Number(name + "_cpu_share", blocks[mode].cpu_share);
  }
  line.Number("measured_mbit", link.bytes_per_second * 8e-6);
  line.Number("measured_latency_us", link.latency_seconds * 1e6);
  line.Number("measured_message_us", link.message_seconds * 1e6);
  line.Text("best", ToString(cell.best)).Text("chosen", ToString(cell.chosen));
  line.Number("regret", cell.RegretOf(cell.chosen)).Int("rounds", rounds);
  return cell;
}

// Share of cells in which `regret` is at most 15 %, and the mean and the largest regret.
template <class Regret>
void PutRegret(bench::JsonLine& line, const std::string& of, const std::vector<Cell>& cells,
               Regret&& regret) {
  double sum = 0, most = 0, good = 0;
  for (const Cell& cell : cells) {
    sum += regret(cell);
    most = std::max(most, regret(cell));
    good += regret(cell) <= 0.15;
  }
  const auto count = static_cast<double>(cells.size());
  line.Number(of + "_within_15_percent", good / count);
  line.Number(of + "_mean_regret", sum / count).Number(of + "_largest_regret", most);
}

void Summarise(const std::vector<Cell>& cells, std::vector<double> errors) {
  std::ranges::sort(errors);
  bench::JsonLine line("exchange_modes_summary");
  line.Int("cells", static_cast<int64_t>(cells.size()));
  for (const ExchangeMode mode : kExchangeModes) {
    line.Int("best_" + std::string(ToString(mode)), std::ranges::count(cells, mode, &Cell::best));
  }
  PutRegret(line, "chosen", cells, [](const Cell& cell) { return cell.RegretOf(cell.chosen); });
  for (const ExchangeMode mode : kExchangeModes) {
    PutRegret(line, std::string(ToString(mode)), cells,
              [&](const Cell& cell) { return cell.RegretOf(mode); });
  }
  line.Number("prediction_error_median", At(errors, .5));
  line.Number("prediction_error_p90", At(errors, .9));
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  int rounds = 5;
  if (!janus::bench::TakeRounds("exchange_modes_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  if (const std::string why = janus::bench::EnterFreshNamespace(); !why.empty()) {
    std::fprintf(stderr, "exchange_modes_bench: not run: %s\n", why.c_str());
    return 0;
  }
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_NET_DEVICES", "janus0", 1);
  using namespace janus::dataplane;  // NOLINT: the program's own
  std::vector<Cell> cells;
  std::vector<double> errors;
  for (const Nodes& nodes : kNodes) {
    const ExchangeShape most = ShapeOf(nodes, kRows[std::size(kRows) - 1]);
    const Switch network(most.m + most.n, kRate, kBurst);
    for (const int rows : kRows) {
      cells.push_back(
          Measure(nodes, ShapeOf(nodes, std::max(rows, 64)), network, rows, rounds, errors));
      std::fflush(stdout);
    }
  }
  Summarise(cells, std::move(errors));
  return 0;
}
