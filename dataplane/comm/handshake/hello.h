#pragma once

#include <cstdint>
#include <string>

#include "common/row_format.h"
#include "common/status.h"
#include "common/topology.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/comm/wire/layout.h"
#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// What must be equal on both sides of every pair of an epoch. Only the numerics class may differ
// between roles; it must be equal among all members of a role.
struct ExchangeIdentity {
  uint64_t epoch = 0;
  EpochKey epoch_key{};
  uint64_t model_digest = 0;  // of the checkpoint
  std::string numerics;       // class of our role: "cpu avx512 bf16 tp1"; at most 63 characters
  SumRule sum = SumRule::kContributions;
  uint64_t sums_hash = 0;  // with FixedPoint, of what it adds by (common/fixed_point.h)
  Compression compression = Compression::kNone;
  uint64_t topology_hash = 0;  // of the topology with its placement and configuration
};

// Our HELLO to a peer with which the pair's messages travel by `transport`.
Hello MakeHello(const ExchangeIdentity& identity, const TransportLayout& layout,
                PairTransport transport, size_t address_bytes);

// Whether a HELLO is refused, the reason to count it by, and the text for the peer.
struct HelloVerdict {
  Status status;  // as Judge returns it
  ExchangeRefusal refusal = ExchangeRefusal::kMember;
};

// The part of Judge that shows that the sender is a member of our epoch, even if other fields
// differ: protocol version, epoch, epoch key and place, in that order.
HelloVerdict Admit(const Hello& theirs, const Hello& ours, const TransportLayout& layout);

// Whether `theirs`, received over one of our connections, is from a member that we must talk with.
// FailedPrecondition names the first field that differs and its value on both sides (for the epoch
// key only that it differs). The peer's texts are bounded and free of control characters. Roles may
// compute differently, but the members of one role may not. `of_its_role` is the HELLO of another
// member of the peer's role or, for our own role, ours; null: not known yet.
Status Judge(const Hello& theirs, const Hello& ours, const TransportLayout& layout,
             const Hello* of_its_role);

// The sender. Meaningful if the rank is in the layout, which Judge checks.
PeerId SenderOf(const Hello& hello);

// The refusal that a member with the HELLO `ours` sends: at most 255 bytes of the reason, our role,
// rank and epoch. It has no field that would help its receiver to forge a HELLO of the epoch.
Hello MakeRefusal(const Hello& ours, const Status& why);
// The reason in a refusal; empty: `hello` is not a refusal.
std::string RefusalText(const Hello& hello);

}  // namespace janus::dataplane
