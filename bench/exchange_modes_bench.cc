// How long does a round take in each exchange mode, and would the operator choose the fastest one?
// Instances and their cards: bench/cards.h.
//
//   build/dev/bin/exchange_modes_bench [rounds]       one JSON line per cell, then a summary; needs
//                                                     root
//   build/dev/bin/exchange_modes_bench --again FILE   what this version's model predicts for the
//                                                     cells that an earlier run printed. Of their
//                                                     links, the first one's figures count for all
//
// The grid below is fixed. Beside its bytes, each message between nodes costs its sender and its
// receiver a fixed time, in which they do nothing else (CostlyLinks). A round has the same number
// of rows from every attention instance.
//
// Before its rounds, every block measures its links as workers do. The links of mode Direct, which
// were measured before any round of the cell, give the prediction and the choice
// (controllers/exchange). Figures are medians over the rounds. "cpu_share" is the busy time of all
// cores over their whole time: where it is large, the cores and not the links decide. So there is a
// second summary of the cells in which it is small in every mode.

#include <array>
#include <ctime>
#include <fstream>
#include <map>

#include "bench/cards.h"
#include "bench/earlier_cell.h"
#include "bench/flags.h"
#include "bench/measure.h"
#include "controllers/exchange/mode_times.h"

namespace janus::dataplane {
namespace {

using controllers::kExchangeModes;

constexpr int kHidden = 512;  // rows of 1 KB
constexpr int kTopK = 2;

// --- the grid -----------------------------------------------------------------------------------

constexpr Nodes kNodes[] = {{1, 4, 2, 2}, {1, 4, 1, 1}, {2, 2, 1, 1}, {1, 2, 3, 1}, {1, 2, 5, 1},
                            {1, 4, 5, 1}, {2, 2, 2, 2}, {2, 4, 1, 4}, {2, 4, 4, 2}};
constexpr int kRows[] = {1, 8, 64, 256, 1024};  // of each attention instance: 1 KB to 1 MB
constexpr const char* kRate = "40mbit";
constexpr const char* kBurst = "4kb";
constexpr std::chrono::microseconds kMessageCost{1000};
constexpr double kMostCpuShare = 0.2;  // of a cell in which links decide

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
  std::array<double, 3> errors{};  // of the predictions, relative to what was measured, by mode
  double cpu_share = 0;            // the largest of the modes
  double RegretOf(ExchangeMode mode) const { return measured.of(mode) / measured.of(best) - 1; }
};

// From what was measured, with the choice and the errors, which are filled in.
controllers::ModeTimes Predict(Cell& cell, const ExchangeShape& shape, int rows,
                               const controllers::NodeLinks& links) {
  const controllers::ModeTimes predicted = controllers::TimesOfModes(RoundOf(shape, rows), links);
  std::vector<controllers::ExchangeWay> all;
  for (const ExchangeMode mode : kExchangeModes) all.push_back({mode, shape.gate});
  cell.chosen = controllers::FastestWay({{predicted, predicted}}, all, nullptr, 0).mode;
  for (const ExchangeMode mode : kExchangeModes) {
    if (cell.measured.of(mode) < cell.measured.of(cell.best)) cell.best = mode;
    cell.errors[static_cast<size_t>(mode)] =
        std::abs(predicted.of(mode) / cell.measured.of(mode) - 1);
  }
  return predicted;
}

Cell Measure(const Nodes& nodes, const ExchangeShape& shape, const Switch& network, int rows,
             int rounds) {
  Cell cell;
  std::map<ExchangeMode, Block> blocks;
  BlockPlan plan;
  plan.rounds = rounds;
  plan.rows = rows;
  plan.measures_links = true;
  plan.over = [&](std::unique_ptr<Transport> lower) {
    return std::make_unique<CostlyLinks>(std::move(lower), shape);
  };
  for (const ExchangeMode mode : kExchangeModes) {
    plan.mode = mode;
    blocks[mode] = RunBlock(network, shape, plan);
    cell.measured.seconds[static_cast<size_t>(mode)] = At(blocks[mode].micros, .5) / 1e6;
  }
  controllers::NodeLinks links;
  for (const auto& of_node : blocks[ExchangeMode::kDirect].links) {
    std::vector<controllers::NodeLink>& row = links.emplace_back();
    for (const MeasuredLink& link : of_node) row.push_back({link, false});
  }
  for (const ExchangeMode mode : kExchangeModes) {
    cell.cpu_share = std::max(cell.cpu_share, blocks[mode].cpu_share);
  }
  const controllers::ModeTimes predicted = Predict(cell, shape, rows, links);
  const MeasuredLink& link = links.front().front().link;
  bench::JsonLine line("exchange_modes");
  line.Text("nodes", nodes.ToString());
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

void Summarise(const char* name, const std::vector<Cell>& cells) {
  if (cells.empty()) return;
  std::vector<double> errors;
  for (const Cell& cell : cells) {
    errors.insert(errors.end(), cell.errors.begin(), cell.errors.end());
  }
  std::ranges::sort(errors);
  bench::JsonLine line(name);
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

void SummariseAll(std::vector<Cell> cells) {
  Summarise("exchange_modes_summary", cells);
  std::erase_if(cells, [](const Cell& cell) { return cell.cpu_share > kMostCpuShare; });
  Summarise("exchange_modes_summary_of_links", cells);
}

// The cell of an earlier run, with this version's prediction. InvalidArgument: it has more rows
// than the grid.
Result<Cell> Again(const bench::EarlierCell& earlier) {
  const auto& [attention_nodes, attention_each, expert_nodes, experts_each] = earlier.nodes;
  const Nodes nodes{attention_nodes, attention_each, expert_nodes, experts_each};
  const ExchangeShape shape = ShapeOf(nodes, kHidden, kTopK, kRows[std::size(kRows) - 1]);
  const double rows = earlier.row_bytes / static_cast<double>(shape.row_bytes());
  if (rows > shape.max_rows) {
    return InvalidArgument("\"row_bytes_of_an_instance\" stands for " + std::to_string(rows) +
                           " rows; want at most " + std::to_string(shape.max_rows));
  }
  Cell cell;
  for (size_t i = 0; i < kExchangeModes.size(); ++i) {
    cell.measured.seconds[i] = earlier.milliseconds[i] / 1e3;
    cell.cpu_share = std::max(cell.cpu_share, earlier.cpu_share[i]);
  }
  const MeasuredLink link = {earlier.latency_microseconds / 1e6, earlier.megabits / 8e-6,
                             earlier.message_microseconds / 1e6};
  const controllers::NodeLinks links(
      static_cast<size_t>(nodes.attention_nodes),
      std::vector<controllers::NodeLink>(static_cast<size_t>(nodes.expert_nodes), {link, false}));
  const controllers::ModeTimes predicted = Predict(cell, shape, static_cast<int>(rows), links);
  bench::JsonLine out("exchange_modes_again");
  out.Text("nodes", nodes.ToString());
  out.Int("row_bytes_of_an_instance", static_cast<int64_t>(earlier.row_bytes));
  for (const ExchangeMode mode : kExchangeModes) {
    out.Number(std::string(ToString(mode)) + "_ms", cell.measured.of(mode) * 1e3);
    out.Number(std::string(ToString(mode)) + "_predicted_ms", predicted.of(mode) * 1e3);
  }
  out.Text("best", ToString(cell.best)).Text("chosen", ToString(cell.chosen));
  out.Number("regret", cell.RegretOf(cell.chosen));
  return cell;
}

int AllAgain(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "exchange_modes_bench: %s: cannot be read\n", path.c_str());
    return 2;
  }
  std::array<std::string, 3> modes;
  for (const ExchangeMode mode : kExchangeModes) modes[static_cast<size_t>(mode)] = ToString(mode);
  std::vector<Cell> cells;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    const auto earlier = bench::ReadEarlierCell(text, modes);
    if (earlier.ok() && !*earlier) continue;
    const Result<Cell> cell = earlier.ok() ? Again(**earlier) : Result<Cell>(earlier.status());
    if (!cell.ok()) {
      std::fprintf(stderr, "exchange_modes_bench: %s:%d: %s\n", path.c_str(), number,
                   cell.status().message().c_str());
      return 2;
    }
    cells.push_back(*cell);
  }
  if (cells.empty()) {
    std::fprintf(stderr, "exchange_modes_bench: %s: no lines of cells\n", path.c_str());
    return 2;
  }
  SummariseAll(std::move(cells));
  return 0;
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  using namespace janus::dataplane;  // NOLINT: the program's own
  if (argc == 3 && std::string_view(argv[1]) == "--again") return AllAgain(argv[2]);
  int rounds = 5;
  if (!janus::bench::TakeRounds("exchange_modes_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  if (const std::string why = janus::bench::EnterFreshNamespace(); !why.empty()) {
    std::fprintf(stderr, "exchange_modes_bench: not run: %s\n", why.c_str());
    return 0;
  }
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_NET_DEVICES", "janus0", 1);
  std::vector<Cell> cells;
  for (const Nodes& nodes : kNodes) {
    const ExchangeShape most = ShapeOf(nodes, kHidden, kTopK, kRows[std::size(kRows) - 1]);
    const Switch network(most.m + most.n, kRate, kBurst);
    for (const int rows : kRows) {
      cells.push_back(Measure(nodes, ShapeOf(nodes, kHidden, kTopK, std::max(rows, 64)), network,
                              rows, rounds));
      std::fflush(stdout);
    }
  }
  SummariseAll(std::move(cells));
  return 0;
}
