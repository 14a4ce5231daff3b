#pragma once

#include <memory>

#include "dataplane/comm/exchange/exchange.h"

// One fault for each rule that keeps the bits of a request its own. They exist in the binary of
// this suite alone: the linker puts its doubles around four reference kernels and around
// taking up a batch (--wrap), and the exchange is wrapped as an interface. Nothing of it is in what
// ships.
namespace janus::dataplane {

enum class Fault {
  kNone,
  kLoopByRows,          // a projection's K loop is cut in two when there are several rows
  kSplitsByBatch,       // as many key splits as there are sequences in the call
  kArrivalOrderSum,     // contributions are added in the order in which they lie in memory
  kChunkAlignedBlocks,  // key blocks begin where the chunk begins
  kTieByArrival,        // a gate's tie goes up or down with the row's place in the call
  kSeedByStream,        // one stream of random numbers for all who draw
  kPromptFormOnReplay,  // generated positions that are computed again run as prompt positions
};

// The fault in force until the object ends; one at a time, no cluster running meanwhile but the
// one under test.
class Planted {
 public:
  explicit Planted(Fault fault);
  ~Planted();
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

// `exchange`, with the planted fault if it is one of the exchange.
std::unique_ptr<AttentionExchange> WithPlantedFault(std::unique_ptr<AttentionExchange> exchange);

}  // namespace janus::dataplane
