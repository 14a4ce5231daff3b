#include "controllers/exchange/mode_times.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/check.h"

namespace janus::controllers {
namespace {

// A message handed on inside a node is copied at this rate, and wakes its reader: one core's copy
// of memory that is not in its cache, and a wake-up through a futex (bench/exchange_bench).
constexpr double kCopyBytesPerSecond = 4e9;
constexpr double kHandOverSeconds = 20e-6;
// A GPU reads memory of another one in its node at this rate (assumed: NVLink has 450 GB/s).
constexpr double kInPlaceBytesPerSecond = 200e9;

// A pair that both ends of a message hand on within their nodes, so that its bytes are copied once
// at either end. The busiest end counts.
double CopySeconds(const std::vector<ExchangeMessage>& messages) {
  std::map<int, double> attention;
  std::map<int, double> experts;
  double at_attention = 0;
  double at_experts = 0;
  for (const ExchangeMessage& one : messages) {
    at_attention = std::max(at_attention, attention[one.attention] += one.bytes);
    at_experts = std::max(at_experts, experts[one.expert] += one.bytes);
  }
  return (at_attention + at_experts) / kCopyBytesPerSecond + 2 * kHandOverSeconds;
}

double DirectionSeconds(ExchangeMode mode, const ExchangeRound& round, const NodeLinks& links,
                        bool is_out) {
  const std::vector<ExchangeMessage> messages = MessagesOf(mode, round, is_out);
  // By card: seconds in which bytes leave, and arrive.
  std::map<int, std::pair<double, double>> cards;
  // By instance: what its messages cost beside their bytes, and the dearest one.
  std::map<int, std::pair<double, double>> sending;
  std::map<int, std::pair<double, double>> receiving;
  const auto add = [](std::pair<double, double>& to, double seconds) {
    to.first += seconds;
    to.second = std::max(to.second, seconds);
  };
  // Seconds in which an attention instance copies the rows for each receiver.
  std::map<int, double> selecting;
  const bool selects = is_out && mode == ExchangeMode::kDirect && !round.needed_by_expert.empty();
  double latency = 0;
  for (const ExchangeMessage& one : messages) {
    const auto a = static_cast<size_t>(one.attention);
    const auto e = static_cast<size_t>(one.expert);
    const NodeLink& between = links[static_cast<size_t>(round.attention_nodes[a])]
                                   [static_cast<size_t>(round.expert_nodes[e])];
    if (between.is_inside) {
      latency = std::max(latency, kHandOverSeconds + one.bytes / kCopyBytesPerSecond);
      continue;
    }
    latency = std::max(latency, between.link.latency_seconds);
    if (selects) selecting[one.attention] += one.bytes / kCopyBytesPerSecond;
    const double seconds = one.bytes / between.link.bytes_per_second;
    const size_t expert = static_cast<size_t>(round.m()) + e;
    cards[round.cards[is_out ? a : expert]].first += seconds;
    cards[round.cards[is_out ? expert : a]].second += seconds;
    add(sending[is_out ? one.attention : one.expert], between.link.message_seconds);
    add(receiving[is_out ? one.expert : one.attention], between.link.message_seconds);
  }
  double of_reads = 0;             // latency
  std::map<int, double> in_place;  // bytes that an expert node's GPUs read of each other
  for (const ExchangeMessage& one : ReadsOf(mode, round, is_out)) {
    const auto a = static_cast<size_t>(one.attention);
    const auto e = static_cast<size_t>(one.expert);
    const int node = round.expert_nodes[e];
    const NodeLink& between =
        links[static_cast<size_t>(round.attention_nodes[a])][static_cast<size_t>(node)];
    if (between.is_inside) {
      of_reads = std::max(of_reads, one.bytes / kInPlaceBytesPerSecond);
      continue;
    }
    // A request, and what comes back.
    of_reads = std::max(of_reads, 2 * between.link.latency_seconds);
    if (is_out && mode != ExchangeMode::kDirect) in_place[node] += one.bytes;
    const double seconds = one.bytes / between.link.bytes_per_second;
    const size_t expert = static_cast<size_t>(round.m()) + e;
    cards[round.cards[is_out ? a : expert]].first += seconds;
    cards[round.cards[is_out ? expert : a]].second += seconds;
    add(receiving[is_out ? one.expert : one.attention], between.link.message_seconds);
  }
  double busiest_node = 0;
  for (const auto& [node, bytes] : in_place) busiest_node = std::max(busiest_node, bytes);
  latency += of_reads + busiest_node / kInPlaceBytesPerSecond;
  double busiest_card = 0;
  for (const auto& [card, seconds] : cards) {
    busiest_card = std::max({busiest_card, seconds.first, seconds.second});
  }
  // Receivers take the first messages while senders still send, and cards carry one message while
  // an instance prepares or takes another. The latency has the cost of one message at either end
  // already.
  const auto further = [](const std::map<int, std::pair<double, double>>& instances) {
    double most = 0;
    for (const auto& [rank, cost] : instances) most = std::max(most, cost.first - cost.second);
    return most;
  };
  double copies = mode == ExchangeMode::kDirect ? 0 : CopySeconds(messages);
  for (const auto& [rank, seconds] : selecting) copies = std::max(copies, seconds);
  return latency + std::max({further(sending), further(receiving), busiest_card}) + copies;
}

}  // namespace

double RoundSeconds(ExchangeMode mode, const ExchangeRound& round, const NodeLinks& links) {
  JANUS_CHECK(round.cards.size() == round.attention_nodes.size() + round.expert_nodes.size(),
              round.cards.size());
  return DirectionSeconds(mode, round, links, true) + DirectionSeconds(mode, round, links, false);
}

ModeTimes TimesOfModes(const ExchangeRound& round, const NodeLinks& links) {
  ModeTimes out;
  for (const ExchangeMode mode : kExchangeModes) {
    out.seconds[static_cast<size_t>(mode)] = RoundSeconds(mode, round, links);
  }
  return out;
}

WayTimes TimesOfWays(const ExchangeRound& round, const NodeLinks& links) {
  ExchangeRound all = round;
  all.needed_by_expert.clear();
  all.needed_by_node.clear();
  WayTimes out;
  out.of_gate[static_cast<size_t>(GateSide::kExperts)] = TimesOfModes(all, links);
  out.of_gate[static_cast<size_t>(GateSide::kAttention)] =
      round.needed_by_expert.empty() ? out.of_gate[static_cast<size_t>(GateSide::kExperts)]
                                     : TimesOfModes(round, links);
  return out;
}

int MessagesOneWay(ExchangeMode mode, const ExchangeRound& round) {
  return static_cast<int>(MessagesOf(mode, round, true).size());
}

ExchangeWay FastestWay(const WayTimes& times, const std::vector<ExchangeWay>& allowed,
                       const ExchangeWay* current, double gain) {
  JANUS_CHECK(!allowed.empty(), "no way is allowed");
  constexpr double kEqual = 1.01;
  const auto is_allowed = [&](const ExchangeWay& way) {
    return std::ranges::find(allowed, way) != allowed.end();
  };
  const auto faster = [&](const ExchangeWay& a, const ExchangeWay& b) {
    return times.of(a) < times.of(b);
  };
  const double least = times.of(*std::ranges::min_element(allowed, faster));
  ExchangeWay best = allowed.front();
  for (const GateSide gate : {GateSide::kAttention, GateSide::kExperts}) {
    for (const ExchangeMode mode :
         {ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel, ExchangeMode::kDirect}) {
      const ExchangeWay way{mode, gate};
      if (is_allowed(way) && times.of(way) <= least * kEqual) best = way;
    }
  }
  if (current == nullptr || !is_allowed(*current)) return best;
  return times.of(best) <= (1 - gain) * times.of(*current) ? best : *current;
}

}  // namespace janus::controllers
