#include "operator/reconcile/objects/names.h"

#include <charconv>

#include "common/pools.h"

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

int PoolIn(std::string_view label) {
  int pool = 0;
  const char* const end = label.data() + label.size();
  const auto [stopped, error] = std::from_chars(label.data(), end, pool);
  const bool is_pool = error == std::errc() && stopped == end && pool >= 1 && pool <= kMostPools;
  return is_pool ? pool : 1;
}

int PoolOf(const Node& object) {
  return PoolIn(TextAt(object, {"metadata", "labels", kPoolLabel}));
}

}  // namespace janus::control
