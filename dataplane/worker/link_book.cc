#include "dataplane/worker/link_book.h"

#include <algorithm>
#include <utility>

namespace janus::dataplane {

std::optional<MeasuredLink> LinkBook::Find(const std::string& expert_node) const {
  const MutexLock lock(mu_);
  const auto found = links_.find(expert_node);
  return found == links_.end() ? std::nullopt : std::optional(found->second);
}

void LinkBook::Put(const std::string& expert_node, const MeasuredLink& link) {
  const MutexLock lock(mu_);
  links_[expert_node] = link;
}

void LinkBook::KeepOnly(const Topology& topology) {
  const MutexLock lock(mu_);
  if (std::exchange(transport_, topology.transport) != topology.transport) links_.clear();
  std::erase_if(links_, [&](const auto& one) {
    return std::ranges::find(topology.experts, one.first, &Instance::node) ==
           topology.experts.end();
  });
}

}  // namespace janus::dataplane
