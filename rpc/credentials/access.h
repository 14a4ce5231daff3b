#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <span>
#include <string_view>

#include "rpc/credentials/peers.h"

namespace janus {

// Who may call what: the table of proto/README.md. A call that is not in it is nobody's.
struct CallRule {
  std::string_view path;  // "/janus.v1.Control/Prepare"
  std::span<const PeerRole> callers;
};
std::span<const CallRule> CallRules();

bool MayCall(std::string_view path, PeerRole caller);

// Holds every call of a server to the table: others get PERMISSION_DENIED, counted, before any
// service hears of them.
std::shared_ptr<grpc::AuthMetadataProcessor> HoldToCallRules(RefusalCounts& refusals);

}  // namespace janus
