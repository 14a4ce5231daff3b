#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/measured_link.h"
#include "dataplane/comm/transport/transport.h"

// How fast are the links between nodes? The members of an epoch find out while it is prepared, over
// its connected transport, before any step (docs/exchange.md).
//
// One attention and one expert instance measure for their two nodes, by messages of kind kProbe.
// The attention instance asks, the expert instance answers:
//
//   round trips     of small messages, one after the other
//   bursts          of small messages, which show what one more message costs
//   large messages  in the direction of contributions, each four times the last, until one takes
//                   several milliseconds
//
// Pairs of nodes take turns, so that a node measures with one other node at a time.
namespace janus::dataplane {

// One pair of nodes, and the instances that measure for it. `slot`: of the expert instance, read
// by that attention instance alone.
struct MeasuringPair {
  int attention_node = 0;
  int expert_node = 0;
  Rank attention{0};
  Rank expert{0};
  int slot = 0;
  friend bool operator==(const MeasuringPair&, const MeasuringPair&) = default;
};
// In the order of their turns, equal on all members. `node_of`: ExchangeShape::node_of. A pair of
// nodes without such a slot is left out. Pure.
std::vector<MeasuringPair> MeasuringPairs(const TransportLayout& layout,
                                          std::span<const int> node_of);

// What one pair has timed.
struct LinkSamples {
  std::vector<double> round_trips;  // seconds
  double burst_seconds = 0;         // from asking until the last message of a burst; the shortest
  int burst_messages = 0;
  struct Bulk {
    double bytes = 0;
    double seconds = 0;  // from asking until it is here; the shortest
  };
  std::vector<Bulk> bulks;  // ascending by bytes
};
// The bandwidth is the slope between the two largest messages, so that what every message costs
// does not count in it. Nothing: a figure is missing. Pure.
std::optional<MeasuredLink> FiguresOf(const LinkSamples& samples);

struct MeasureOptions {
  // What is known of the link to this expert instance's node. Such a link is not measured again.
  std::function<std::optional<MeasuredLink>(PeerId)> known;
  // Whether a pair uses a network. Both ends must find the same.
  std::function<bool(PeerId)> crosses;
  Seconds longest{3};    // for all pairs, with waiting for peers that connect later
  Seconds of_pair{0.5};  // from a peer's first answer
};

struct MeasuredPeer {
  PeerId peer;
  std::optional<MeasuredLink> link;
  std::string why_not;  // if there is no link
};

// Measures the pairs in which this member takes part; every member of the epoch calls it. The
// result has the pairs that this member asks, so it is empty at expert instances. Sends at most 4
// MiB to a peer. Returns after `longest` and a quarter of it at the latest. Messages that come
// later are dropped by steps and exchange, which do not know them. Confined, like its transport.
std::vector<MeasuredPeer> MeasureLinks(Transport& transport, std::span<const int> node_of,
                                       const MeasureOptions& options, const Clock& clock,
                                       const std::stop_token& stop);

}  // namespace janus::dataplane
