#pragma once

#include <memory>

#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

// Modes TwoPhaseSingle and TwoPhaseParallel (JANUS, section 3.2; docs/exchange.md). An exchange
// posts and takes messages as in mode Direct. This transport brings them to their readers in three
// moves, over another transport:
//
//   1. Gather: the instances of a node post in their own slots. The end of a lane (lanes.h) copies
//      these messages into one bundle.
//   2. Between nodes: the end posts the bundle, one message for each pair of nodes and lane.
//   3. Spread: the other end copies the bundle into slots that its own node reads.
//
// Contributions take the same lanes back. With sums (ExchangeShape::sums) the expert end first adds
// those of its node (node_sums.h). An end makes its part of the moves inside Wait, Post and
// Take, so its step thread has no other work to wait for.
//
// A bundle is a sequence of sections: SectionHead, then the payload, padded to 64 bytes.
//
// No slot is written while a member may still read it, because of three rules, beside those of mode
// Direct (transport.h):
//   - The attention end starts to fill its bundle of a round only after the bundles of the round
//     before have come back over all its lanes. By then all expert instances have read their rows.
//     Rounds of a micro-batch are passed on in ascending order.
//   - The expert end sends a round's contributions back in one bundle, once all have been posted.
//   - Contributions to different attention instances are spread in different slots, because an
//     instance that takes no part in the next step may still read its own.
// When a step is given up, a member passes on nothing from Settle to its next step. All members
// have done so before the next step begins.
//
// Rows and contributions in GPU memory (device_slots.h) stay there, and bundles carry the rest.
// Over a network the expert end of a lane then reads the rows from the GPUs of their senders, once
// for its node. It signals its mates' flags, and only then spreads the bundle. So no mate's stream
// waits for a signal that is not queued, and streams cannot wait for each other in a circle.
// Contributions are read from GPU to GPU as in mode Direct.
struct SectionHead {
  Header header;      // as its sender posted it
  uint32_t slot = 0;  // of the sender's slots in mode Direct
  uint8_t zero[60] = {};
};
static_assert(sizeof(SectionHead) == exchange_size::kSectionHead);

// The slots of the lower transport. `mode` is one of the two-phase modes.
TransportLayout TwoPhaseLayout(ExchangeMode mode, const ExchangeShape& shape, PeerId self);

// A transport with the layout of mode Direct over `lower`, which was made with TwoPhaseLayout and
// is connected, with `device` if there is one; it is not called once that is closed. Allocates
// nothing after construction. A bundle that cannot be understood is dropped and counted; its round
// is then missed. A read over a network that fails is an error of Wait, because its connection has
// failed.
std::unique_ptr<Transport> MakeTwoPhaseTransport(ExchangeMode mode, const ExchangeShape& shape,
                                                 std::unique_ptr<Transport> lower,
                                                 DeviceSlots* device);

}  // namespace janus::dataplane
