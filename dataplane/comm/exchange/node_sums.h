#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// With the sum rule FixedPoint, adds the sums of an expert node's instances before they cross the
// network, so that a row comes back once from each node.
//
// Thread-compatible. Allocates only in its constructor.
class NodeSums {
 public:
  // `most`: instances of the node.
  NodeSums(const ExchangeShape& shape, size_t most);

  // Writes one message with the contributions of all `messages`, each of an instance of the node,
  // to the same attention instance. `header` is set to that of the last ready message, with the new
  // count and size. False: a message, which is outside data, makes no sense, or `into` has no room.
  // Messages that repeat a contribution pass: their reader refuses them (exchange.h).
  bool Add(std::span<const SlotMessage* const> messages, std::span<std::byte> into, Header& header);

 private:
  // The rest of a message.
  struct Rest {
    const ContributionRef* refs = nullptr;
    size_t at = 0;
    size_t count = 0;
    ContributionRef next;  // refs[at]
    const std::byte* sum = nullptr;
    size_t sums = 0;
  };
  // Loads the reference at `at`, if there is one. False: its row is before `row`.
  static bool Load(Rest& rest, int row);

  const int bits_;
  const int hidden_;
  const size_t sum_bytes_;
  const size_t most_refs_;
  std::vector<Rest> rests_;
};

}  // namespace janus::dataplane
