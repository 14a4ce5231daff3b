// How near is a round to the least that its bytes cost on the same link? Beside each case stands
// the time that ucx_perftest (tag_lat, one way) needs for as many bytes as the busiest card of the
// case had to carry, over a card of the same limit: `out` to experts, plus `back` from them.
// Instances and their cards: bench/cards.h.
//
//   build/dev/bin/exchange_floor_bench [rounds]   one JSON line per case; needs root
//
// "fan": every attention instance sends its rows to every expert instance, each in a node of its
// own (mode Direct), and gets one contribution to each row: the dispatch of MegaScale-Infer's
// figures 5, 10 and 11, and the least that has to come back. "modes": rounds of nodes with several
// instances, with contributions, in the fastest mode. Figures are medians over the rounds. "stolen"
// is the share of core time that the host gave to other guests.

#include <map>

#include "bench/cards.h"
#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/stolen_time.h"

namespace janus::dataplane {
namespace {

constexpr int kHidden = 2048;  // rows of 4 KB
constexpr int kFanTopK = 1, kTopK = 2;
constexpr const char* kRate = "100mbit";
constexpr const char* kBurst = "8kb";
constexpr ExchangeMode kModes[] = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                                   ExchangeMode::kTwoPhaseParallel};

// Of a full packet: TCP's payload in the bytes that a card counts.
constexpr double kPayload = 1448.0 / 1514.0;

// One-way milliseconds of ucx_perftest between the first two members, for messages that cost a card
// as many bytes as the block did.
double FloorMillis(const Switch& network, const Block& block, int rounds) {
  static int port = 20000;
  double micros = 0;
  for (const double bytes : {block.bytes_out, block.bytes_back}) {
    ++port;
    const double one =
        PerftestMicros(network.of(0).inside(), Switch::AddressOf(0),
                       static_cast<size_t>(bytes * kPayload), rounds, port, network.of(1).inside());
    if (one == 0) return 0;  // not installed
    micros += one;
  }
  return micros / 1e3;
}

void Print(const char* what, const Nodes& nodes, size_t bytes, const Block& block,
           ExchangeMode mode, const Switch& network, int rounds, const bench::StolenTime& stolen) {
  const double floor = FloorMillis(network, block, rounds);
  const double median = At(block.micros, .5) / 1e3;
  bench::JsonLine line(std::string("exchange_floor_") + what);
  line.Text("nodes", nodes.ToString()).Text("link", kRate).Text("mode", ToString(mode));
  line.Int("row_bytes_of_an_instance", static_cast<int64_t>(bytes));
  line.Number("round_ms", median).Number("ucx_perftest_ms", floor);
  line.Number("ratio", floor > 0 ? median / floor : 0);
  line.Number("bytes_out", block.bytes_out).Number("bytes_back", block.bytes_back);
  line.Number("cpu_share", block.cpu_share).Number("stolen", stolen.share());
  line.Int("rounds", rounds);
}

void Fan(int m, int n, size_t bytes, int rounds) {
  const bench::StolenTime stolen;
  const Nodes nodes{m, 1, n, 1};
  const auto rows = static_cast<int>(bytes / (kHidden * 2));
  const ExchangeShape shape = ShapeOf(nodes, kHidden, kFanTopK, rows);
  const Switch network(m + n, kRate, kBurst);
  BlockPlan plan;
  plan.rounds = rounds;
  plan.rows = rows;
  Print("fan", nodes, bytes, RunBlock(network, shape, plan), plan.mode, network, rounds, stolen);
  std::fflush(stdout);
}

void Modes(const Nodes& nodes, int rounds) {
  const ExchangeShape whole = ShapeOf(nodes, kHidden, kTopK, 1);
  const Switch network(whole.m + whole.n, kRate, kBurst);
  for (const size_t bytes :
       {size_t{16} << 10, size_t{64} << 10, size_t{256} << 10, size_t{1} << 20}) {
    const bench::StolenTime stolen;
    const auto rows = static_cast<int>(bytes / (kHidden * 2));
    const ExchangeShape shape = ShapeOf(nodes, kHidden, kTopK, rows);
    BlockPlan plan;
    plan.rounds = rounds;
    plan.rows = rows;
    std::map<ExchangeMode, Block> blocks;
    ExchangeMode best = ExchangeMode::kDirect;
    for (const ExchangeMode mode : kModes) {
      plan.mode = mode;
      blocks[mode] = RunBlock(network, shape, plan);
      if (At(blocks[mode].micros, .5) < At(blocks[best].micros, .5)) best = mode;
    }
    Print("modes", nodes, bytes, blocks[best], best, network, rounds, stolen);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  int rounds = 15;
  if (!janus::bench::TakeRounds("exchange_floor_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  if (const std::string why = janus::bench::EnterFreshNamespace(); !why.empty()) {
    std::fprintf(stderr, "exchange_floor_bench: not run: %s\n", why.c_str());
    return 0;
  }
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_NET_DEVICES", "janus0", 1);
  using namespace janus::dataplane;  // NOLINT: the program's own
  for (const int n : {1, 8, 16, 32}) Fan(1, n, 128 << 10, rounds);
  for (const int both : {4, 8, 16}) Fan(both, both, 256 << 10, rounds);
  for (const Nodes& nodes : {Nodes{1, 4, 2, 2}, Nodes{2, 4, 1, 4}, Nodes{2, 4, 4, 2}})
    Modes(nodes, rounds);
  return 0;
}
