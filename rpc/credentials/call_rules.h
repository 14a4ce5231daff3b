#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <span>
#include <string_view>

#include "rpc/credentials/mutual_tls.h"

namespace janus {

// The permitted callers of each call: the table of proto/README.md. A call without a row is refused
// to every role.
struct CallRule {
  std::string_view path;  // "/janus.v1.Control/Prepare"
  std::span<const PeerRole> callers;
};
std::span<const CallRule> CallRules();

bool MayCall(std::string_view path, PeerRole caller);

// Checks every call of a server against the table. Other calls get PERMISSION_DENIED, are counted,
// and do not reach any service.
std::shared_ptr<grpc::AuthMetadataProcessor> HoldToCallRules(RefusalCounts& refusals);

}  // namespace janus
