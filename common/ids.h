#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace janus {

// An integer type that the compiler does not confuse with other integers: logical expert 3 is not
// slot 3.
template <class Tag>
struct Id {
  int32_t value = -1;
  friend auto operator<=>(const Id&, const Id&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Id& id) { return out << id.value; }
};

using ExpertId = Id<struct ExpertTag>;  // logical expert of the model, 0..E-1
using SlotId = Id<struct SlotTag>;      // room for one replica on one instance, 0..C-1
using Rank = Id<struct RankTag>;        // position of an instance within its role, 0..m-1 or 0..n-1

}  // namespace janus

template <class Tag>
struct std::hash<janus::Id<Tag>> {
  size_t operator()(const janus::Id<Tag>& id) const noexcept {
    return std::hash<int32_t>{}(id.value);
  }
};
