#include "rpc/credentials/identity.h"

#include <algorithm>
#include <vector>

namespace janus {
namespace {

constexpr std::string_view kScheme = "spiffe://";

// Whether it is a DNS name, as trust domains, namespaces and services need.
bool IsName(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

std::vector<std::string_view> PartsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

std::string_view ToString(PeerRole role) {
  switch (role) {
    case PeerRole::kOperator:
      return "operator";
    case PeerRole::kGateway:
      return "gateway";
    case PeerRole::kAttention:
      return "attention";
    case PeerRole::kExperts:
      return "experts";
  }
  return "";
}

std::optional<PeerRole> PeerRoleNamed(std::string_view name) {
  for (const PeerRole role :
       {PeerRole::kOperator, PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts}) {
    if (name == ToString(role)) return role;
  }
  return std::nullopt;
}

std::string ServiceAuthority(std::string_view trust_domain, std::string_view ns,
                             std::string_view service) {
  return std::string(kScheme) + std::string(trust_domain) + "/ns/" + std::string(ns) +
         "/moeservice/" + std::string(service);
}

std::string OperatorAuthority(std::string_view trust_domain, std::string_view ns) {
  return std::string(kScheme) + std::string(trust_domain) + "/ns/" + std::string(ns) +
         "/janus-operator";
}

std::string ToUri(const Identity& identity) {
  return identity.authority + "/" + std::string(ToString(identity.role));
}

std::optional<Identity> ParseIdentity(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  const std::vector<std::string_view> parts = PartsOf(uri.substr(kScheme.size()));
  if (!std::all_of(parts.begin(), parts.end(), IsName)) return std::nullopt;
  const bool is_of_service = parts.size() == 6 && parts[1] == "ns" && parts[3] == "moeservice";
  const bool is_operator = parts.size() == 5 && parts[1] == "ns" && parts[3] == "janus-operator";
  if (!is_of_service && !is_operator) return std::nullopt;
  const std::optional<PeerRole> role = PeerRoleNamed(parts.back());
  if (!role || (*role == PeerRole::kOperator) != is_operator) return std::nullopt;
  return Identity{std::string(uri.substr(0, uri.size() - parts.back().size() - 1)), *role};
}

}  // namespace janus
