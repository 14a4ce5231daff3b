#pragma once

#include <memory>

#include "dataplane/comm/exchange/exchange.h"

// One fault for each rule that keeps a request's bits independent. They exist only in this suite's
// binary: the linker puts doubles around four reference kernels and around the start of a batch
// (--wrap), and the exchange is wrapped as an interface. No released program contains them.
namespace janus::dataplane {

enum class Fault {
  kNone,
  kLoopByRows,          // a projection's K loop is cut in two when there are several rows
  kSplitsByBatch,       // as many key splits as the call has sequences
  kArrivalOrderSum,     // contributions are added in the order of their addresses
  kChunkAlignedBlocks,  // key blocks begin where the chunk begins
  kTieByArrival,        // a gate's tie goes up or down with the row's place in the call
  kSeedByStream,        // one stream of random numbers for all requests
  kPromptFormOnReplay,  // generated positions that are computed again run as prompt positions
};

// The fault is active until the object is destroyed. Only one at a time, and only the cluster under
// test may run meanwhile.
class Planted {
 public:
  explicit Planted(Fault fault);
  ~Planted();
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

// `exchange`, wrapped with the planted fault if that is one of the exchange.
std::unique_ptr<AttentionExchange> WithPlantedFault(std::unique_ptr<AttentionExchange> exchange);

}  // namespace janus::dataplane
