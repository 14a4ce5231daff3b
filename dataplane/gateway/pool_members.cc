#include "dataplane/gateway/pool_members.h"

#include <algorithm>

namespace janus::gateway {

std::vector<std::string> MembersOfPool(const std::vector<std::string>& members, int pool) {
  std::vector<std::string> out = members;
  for (std::string& address : out) {
    for (size_t at = address.find(kPoolMark); at != std::string::npos;
         at = address.find(kPoolMark)) {
      address.replace(at, kPoolMark.size(), std::to_string(pool));
    }
  }
  return out;
}

void PoolMembers::Set(int pool, const AttentionMembers& members) {
  const MutexLock lock(mu_);
  if (members.attention.empty()) {
    pools_.erase(pool);
  } else {
    pools_[pool] = members;
  }
  std::vector<std::string> addresses;
  uint64_t newest = 0;
  for (const auto& [number, its] : pools_) {
    newest = std::max(newest, its.epoch);
    addresses.insert(addresses.end(), its.attention.begin(), its.attention.end());
  }
  metrics_.pools.Set(static_cast<double>(pools_.size()));
  if (newest > 0) metrics_.topology_epoch.Set(static_cast<double>(newest));
  on_change_(addresses);
}

}  // namespace janus::gateway
