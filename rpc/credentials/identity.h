#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace janus {

// The role of a process towards its peers.
enum class PeerRole { kOperator, kGateway, kAttention, kExperts };
std::string_view ToString(PeerRole role);
std::optional<PeerRole> PeerRoleNamed(std::string_view name);

// The identity of a process, from the one URI in its certificate (a SPIFFE ID): the URI of the
// issuing authority, followed by the role.
//   spiffe://<trust domain>/ns/<namespace>/moeservice/<name>/<gateway, attention or experts>
//   spiffe://<trust domain>/ns/<namespace>/janus-operator/operator
struct Identity {
  std::string authority;  // the URI without its last part
  PeerRole role = PeerRole::kGateway;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// The URIs of a service's authority, and of the operator's authority in that namespace.
std::string ServiceAuthority(std::string_view trust_domain, std::string_view ns,
                             std::string_view service);
std::string OperatorAuthority(std::string_view trust_domain, std::string_view ns);

std::string ToUri(const Identity& identity);
// Nothing: the URI has neither form. Every part is non-empty and uses only letters of Kubernetes'
// names.
std::optional<Identity> ParseIdentity(std::string_view uri);

}  // namespace janus
