#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "dataplane/gateway/gateway_metrics.h"
#include "dataplane/gateway/topology_messages.h"

namespace janus::gateway {

// In an address: stands for the number of a pool.
inline constexpr std::string_view kPoolMark = "{pool}";

// The addresses of one pool: the mark becomes its number. Pure.
std::vector<std::string> MembersOfPool(const std::vector<std::string>& members, int pool);

// The attention instances of all pools of a service. Each pool has its own topologies and epochs,
// and one watch that reports them. Requests go to the instances of all pools together. Thread-safe.
class PoolMembers {
 public:
  using OnChange = std::function<void(const std::vector<std::string>& addresses)>;

  // `on_change` gets the instances of all pools, by pool and rank, one call at a time. Both
  // outlive this.
  PoolMembers(OnChange on_change, GatewayMetrics& metrics)
      : on_change_(std::move(on_change)), metrics_(metrics) {}

  // The newest topology of a pool. Without instances: nothing speaks for the pool any more.
  void Set(int pool, const AttentionMembers& members) JANUS_EXCLUDES(mu_);

 private:
  const OnChange on_change_;
  GatewayMetrics& metrics_;
  Mutex mu_;  // held during on_change_, so that calls keep the order of the changes
  std::map<int, AttentionMembers> pools_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::gateway
