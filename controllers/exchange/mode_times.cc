#include "controllers/exchange/mode_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/check.h"
#include "common/exchange_lanes.h"
#include "common/exchange_size.h"

namespace janus::controllers {
namespace {

// A message handed on inside a node is copied at this rate, and wakes its reader: one core's copy
// of memory that is not in its cache, and a wake-up through a futex (bench/exchange_bench).
constexpr double kCopyBytesPerSecond = 4e9;
constexpr double kHandOverSeconds = 20e-6;

double Aligned(double bytes) {
  return static_cast<double>(exchange_size::Aligned(static_cast<size_t>(bytes)));
}

// Payload of the rows of one attention instance, for an expert instance or a node. `needed`: of
// the round, by that instance or node.
double RowsBytes(const ExchangeRound& round, const std::vector<double>& needed, int by) {
  const double all = round.rows * round.row_bytes;
  if (needed.empty()) return all;
  const auto cells = static_cast<size_t>(round.rows * round.top_k);
  return Aligned(all * needed[static_cast<size_t>(by)]) + static_cast<double>(ChoiceBytes(cells));
}
// Payload of what `instances` expert instances, which add their sums if there are any, send to one
// attention instance.
double RepliesBytes(const ExchangeRound& round, double instances) {
  const double share = instances / round.n();
  const double count = round.rows * round.top_k * share;
  const double refs = Aligned(count * exchange_size::kContributionRef);
  if (round.sum_bytes == 0) return refs + count * round.row_bytes;
  return refs + round.rows * (1 - std::pow(1 - share, round.top_k)) * round.sum_bytes;
}

// A message between two instances; attention first, whichever sends it.
struct Message {
  int attention = 0;
  int expert = 0;
  double bytes = 0;
};

// The messages of one direction.
std::vector<Message> MessagesOf(ExchangeMode mode, const ExchangeRound& round, bool is_out) {
  std::vector<Message> out;
  if (mode == ExchangeMode::kDirect) {
    for (int a = 0; a < round.m(); ++a) {
      for (int e = 0; e < round.n(); ++e) {
        const double one =
            is_out ? RowsBytes(round, round.needed_by_expert, e) : RepliesBytes(round, 1);
        out.push_back({a, e, exchange_size::kMessageHeader + one});
      }
    }
    return out;
  }
  for (const ExchangeLane& lane : LanesBetween(mode, round.attention_nodes, round.expert_nodes)) {
    const int node = round.expert_nodes[static_cast<size_t>(lane.expert_end)];
    const auto experts = static_cast<double>(lane.experts.size());
    // With sums one section has those of the node, and the other instances' are empty.
    const double sections = is_out ? 1 : experts;
    const double payloads = is_out ? Aligned(RowsBytes(round, round.needed_by_node, node))
                            : round.sum_bytes > 0 ? Aligned(RepliesBytes(round, experts))
                                                  : experts * Aligned(RepliesBytes(round, 1));
    const double of_one = sections * exchange_size::kSectionHead + payloads;
    out.push_back(
        {lane.attention_end, lane.expert_end,
         exchange_size::kMessageHeader + static_cast<double>(lane.attention.size()) * of_one});
  }
  return out;
}

// A pair that both ends of a message hand on within their nodes, so that its bytes are copied once
// at either end. The busiest end counts.
double CopySeconds(const std::vector<Message>& messages) {
  std::map<int, double> attention;
  std::map<int, double> experts;
  double at_attention = 0;
  double at_experts = 0;
  for (const Message& one : messages) {
    at_attention = std::max(at_attention, attention[one.attention] += one.bytes);
    at_experts = std::max(at_experts, experts[one.expert] += one.bytes);
  }
  return (at_attention + at_experts) / kCopyBytesPerSecond + 2 * kHandOverSeconds;
}

double DirectionSeconds(ExchangeMode mode, const ExchangeRound& round, const NodeLinks& links,
                        bool is_out) {
  const std::vector<Message> messages = MessagesOf(mode, round, is_out);
  // By card: seconds in which bytes leave, and arrive.
  std::map<int, std::pair<double, double>> cards;
  // By instance: what its messages cost beside their bytes, and the dearest one.
  std::map<int, std::pair<double, double>> sending;
  std::map<int, std::pair<double, double>> receiving;
  const auto add = [](std::pair<double, double>& to, double seconds) {
    to.first += seconds;
    to.second = std::max(to.second, seconds);
  };
  double latency = 0;
  for (const Message& one : messages) {
    const auto a = static_cast<size_t>(one.attention);
    const auto e = static_cast<size_t>(one.expert);
    const NodeLink& between = links[static_cast<size_t>(round.attention_nodes[a])]
                                   [static_cast<size_t>(round.expert_nodes[e])];
    if (between.is_inside) {
      latency = std::max(latency, kHandOverSeconds + one.bytes / kCopyBytesPerSecond);
      continue;
    }
    latency = std::max(latency, between.link.latency_seconds);
    const double seconds = one.bytes / between.link.bytes_per_second;
    const size_t expert = static_cast<size_t>(round.m()) + e;
    cards[round.cards[is_out ? a : expert]].first += seconds;
    cards[round.cards[is_out ? expert : a]].second += seconds;
    add(sending[is_out ? one.attention : one.expert], between.link.message_seconds);
    add(receiving[is_out ? one.expert : one.attention], between.link.message_seconds);
  }
  double busiest_card = 0;
  for (const auto& [card, seconds] : cards) {
    busiest_card = std::max({busiest_card, seconds.first, seconds.second});
  }
  // Receivers take the first messages while senders still send. The latency has the cost of one
  // message at either end already.
  const auto further = [](const std::map<int, std::pair<double, double>>& instances) {
    double most = 0;
    for (const auto& [rank, cost] : instances) most = std::max(most, cost.first - cost.second);
    return most;
  };
  const double copies = mode == ExchangeMode::kDirect ? 0 : CopySeconds(messages);
  return latency + std::max(further(sending), further(receiving)) + busiest_card + copies;
}

}  // namespace

double NeededShare(double experts, int top_k, double held) {
  double none = 1;
  for (int k = 0; k < top_k; ++k) none *= std::max(experts - held - k, 0.0) / (experts - k);
  return 1 - none;
}

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

int MessagesOneWay(ExchangeMode mode, const ExchangeRound& round) {
  return static_cast<int>(MessagesOf(mode, round, true).size());
}

ExchangeMode FastestMode(const ModeTimes& times, const std::vector<ExchangeMode>& allowed,
                         const ExchangeMode* current, double gain) {
  JANUS_CHECK(!allowed.empty(), "no mode is allowed");
  constexpr double kEqual = 1.01;
  const auto faster = [&](ExchangeMode a, ExchangeMode b) { return times.of(a) < times.of(b); };
  const double least = times.of(*std::ranges::min_element(allowed, faster));
  ExchangeMode best = allowed.front();
  for (const ExchangeMode mode :
       {ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel, ExchangeMode::kDirect}) {
    const bool is_allowed = std::ranges::find(allowed, mode) != allowed.end();
    if (is_allowed && times.of(mode) <= least * kEqual) best = mode;
  }
  if (current == nullptr || std::ranges::find(allowed, *current) == allowed.end()) return best;
  return times.of(best) <= (1 - gain) * times.of(*current) ? best : *current;
}

}  // namespace janus::controllers
