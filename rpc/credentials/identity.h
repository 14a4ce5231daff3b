#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace janus {

// What a process is to those it calls.
enum class PeerRole { kOperator, kGateway, kAttention, kExperts };
std::string_view ToString(PeerRole role);
std::optional<PeerRole> PeerRoleNamed(std::string_view name);

// Who a process is, by the one URI in its certificate (a SPIFFE ID): below the URI of the authority
// that issues it, its role.
//   spiffe://<trust domain>/ns/<namespace>/moeservice/<name>/<gateway, attention or experts>
//   spiffe://<trust domain>/ns/<namespace>/janus-operator/operator
struct Identity {
  std::string authority;  // the URI without its last part
  PeerRole role = PeerRole::kGateway;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// The URI of the authority of a service, and of the one of the operator in that namespace.
std::string ServiceAuthority(std::string_view trust_domain, std::string_view ns,
                             std::string_view service);
std::string OperatorAuthority(std::string_view trust_domain, std::string_view ns);

std::string ToUri(const Identity& identity);
// Nothing: it is neither form. No part is empty or holds anything but the letters of Kubernetes'
// names.
std::optional<Identity> ParseIdentity(std::string_view uri);

}  // namespace janus
