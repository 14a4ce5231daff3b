#include "controllers/replicas/default_slots.h"

#include <algorithm>

namespace janus::controllers {

int FewestSlots(int experts, int instances) {
  return (experts + instances - 1) / instances;
}

int SlotsByDefault(int experts, int instances, int most) {
  const int with_replicas = (3 * experts + 2 * instances - 1) / (2 * instances);
  return std::max(FewestSlots(experts, instances), std::min({with_replicas, most, experts}));
}

}  // namespace janus::controllers
