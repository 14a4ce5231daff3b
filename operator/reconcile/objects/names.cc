#include "operator/reconcile/objects/names.h"

#include <charconv>

namespace janus::control {

std::optional<Role> RoleNamed(std::string_view name) {
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (name == ToString(role)) return role;
  }
  return std::nullopt;
}

std::string PodName(std::string_view service, Role role, std::string_view revision, int64_t id) {
  return RoleObjectName(service, role) + "-" + std::string(revision) + "-" + std::to_string(id);
}

std::optional<int64_t> PodIdOf(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == name.size()) return std::nullopt;
  const char* end = name.data() + name.size();
  int64_t id = 0;
  const auto [stopped, error] = std::from_chars(name.data() + dash + 1, end, id);
  if (error != std::errc() || stopped != end || id < 0) return std::nullopt;
  return id;
}

}  // namespace janus::control
