#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "common/topology.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/comm/wire/layout.h"
#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// What must be alike on both sides of every pair of an epoch; of the numerics class, what must be
// alike among all members of a role.
struct ExchangeIdentity {
  uint64_t epoch = 0;
  EpochKey epoch_key{};
  uint64_t model_digest = 0;  // of the checkpoint
  std::string numerics;       // class of our role: "cpu avx512 bf16 tp1"; at most 63 characters
  SumRule sum = SumRule::kContributions;
  uint64_t topology_hash = 0;  // of the topology with its placement and configuration
};

// Our HELLO to a peer with which the pair's messages travel by `transport`.
Hello MakeHello(const ExchangeIdentity& identity, const TransportLayout& layout,
                PairTransport transport, size_t address_bytes);

// What is refused, by which name it is counted, and what the peer is told.
struct HelloVerdict {
  Status status;  // as of Judge
  ExchangeRefusal refusal = ExchangeRefusal::kMember;
};

// What of Judge shows that a member of our epoch speaks, whatever it brings: protocol version,
// epoch, epoch key and place, in that order.
HelloVerdict Admit(const Hello& theirs, const Hello& ours, const TransportLayout& layout);

// Whether `theirs`, which came over a connection of ours, is of a member that we are to talk with.
// FailedPrecondition names the first field that differs and its value on both sides (of the epoch
// key: that it differs). The peer's texts are bounded and free of control characters. Roles may
// compute differently, the members of one may not: `of_its_role` is what another member of the
// peer's role has said or, of our role, what we say; null while none has.
Status Judge(const Hello& theirs, const Hello& ours, const TransportLayout& layout,
             const Hello* of_its_role);

// Who says so. Meaningful if the rank is in the layout, which Judge checks.
PeerId SenderOf(const Hello& hello);

// The answer of who says `ours` that says why not: at most 255 bytes of the reason, who we are and
// of which epoch, and nothing that could be said as a HELLO of it.
Hello MakeRefusal(const Hello& ours, const Status& why);
// The reason in a refusal; empty if it is none.
std::string RefusalText(const Hello& hello);

}  // namespace janus::dataplane
