#pragma once

namespace janus {

// Pools of a service. A pool is one exchange: attention and expert instances with topologies and
// epochs of their own. They are numbered from 1. A gateway looks for all of them.
inline constexpr int kMostPools = 8;

}  // namespace janus
