#include "operator/reconcile/epochs/member_name.h"

#include <optional>

#include "operator/reconcile/objects/names.h"

namespace janus::control {

std::string MemberName(const TopologyInstance& member) {
  const std::string role(ToString(member.role));
  // <service>-<role>-<revision>-<id>: the exchange uses the pod's name as the node.
  const std::optional<int64_t> id = PodIdOf(member.node);
  if (!id || member.node.find("-" + role + "-") == std::string::npos) {
    return role + " at " + member.address;
  }
  std::string name = role + "-" + std::to_string(*id);
  if (member.index > 0) name += "/" + std::to_string(member.index);
  if (member.address.starts_with("unix:")) return name;
  return name + " (pod " + member.node + ", " + member.address + ")";
}

}  // namespace janus::control
