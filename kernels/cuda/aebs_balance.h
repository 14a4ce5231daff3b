#pragma once

// One warp makes the decisions of AEBS. The loads of the instances lie in its registers, instance g
// in lane g % 32, and one reduction finds the instance of least load. Each decision depends on the
// loads after the one before, so the time is the number of experts with a choice times the latency
// of that reduction. What does not depend on loads is read ahead, 32 experts at a time.
// Specification: ../../common/aebs.cc

#include "common/aebs.h"
#include "kernels/cuda/warp.h"

namespace janus::kernels::cuda {

// What the decisions read and write, in shared memory. Instances are cut into slices of 32, and a
// word has the bits of one slice.
struct BalanceState {
  int experts = 0;
  int instances = 0;
  int choices = 0;                   // activated experts with two replicas or more
  const uint16_t* choice = nullptr;  // [choices]: in the order of the decisions
  const uint32_t* hosts = nullptr;   // [experts,slices]: instances that hold a replica
  uint32_t* load = nullptr;          // [slices*32]
  uint16_t* instance_of = nullptr;   // [experts]: kNowhere until decided
  uint32_t* reach = nullptr;         // [instances,slices]
  uint16_t* previous = nullptr;      // [instances]
  uint16_t* queue = nullptr;         // [instances]
};

template <int kSlices, class Block, class Warp>
class Balance {
 public:
  JANUS_DEVICE Balance(const BalanceState& state, Warp& warp) : s_(state), warp_(warp) {
    warp_.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int k = 0; k < kSlices; ++k) load_[lane].of[k] = s_.load[k * kLanes + lane];
    });
  }

  // Every choice in order, to the instance of least load, the lowest rank among equals.
  JANUS_DEVICE void Choose() {
    for (int first = 0; first < s_.choices; first += kLanes) {
      const int count = s_.choices - first < kLanes ? s_.choices - first : kLanes;
      PerLane<Words> hosts;
      PerLane<uint32_t> chosen;
      warp_.Lanes([&](int lane) {
        if (lane >= count) return;
        const int e = s_.choice[first + lane];
        JANUS_UNROLL
        for (int k = 0; k < kSlices; ++k) hosts[lane].of[k] = s_.hosts[e * kSlices + k];
      });
      for (int i = 0; i < count; ++i) {
        Words of;
        JANUS_UNROLL
        for (int k = 0; k < kSlices; ++k) {
          of.of[k] = warp_.Shuffle(i, [&](int lane) { return hosts[lane].of[k]; });
        }
        // Loads are at most the experts, which have 16 bits, and so do ranks.
        const uint32_t least = warp_.Min([&](int lane) {
          uint32_t key = ~0u;
          JANUS_UNROLL
          for (int k = 0; k < kSlices; ++k) {
            const uint32_t mine =
                load_[lane].of[k] << 16 | static_cast<uint32_t>(k * kLanes + lane);
            if (HasBit(of.of[k], lane) && mine < key) key = mine;
          }
          return key;
        });
        const int g = static_cast<int>(least & 0xFFFFu);
        warp_.Lanes([&](int lane) {
          AddTo(lane, g, 1);
          if (lane == i) chosen[lane] = static_cast<uint32_t>(g);
        });
      }
      warp_.Lanes([&](int lane) {
        if (lane >= count) return;
        s_.instance_of[s_.choice[first + lane]] = static_cast<uint16_t>(chosen[lane]);
      });
    }
  }

  // The exact form's second half: cost-reducing paths until none is left.
  JANUS_DEVICE void ReduceByPaths() {
    while (ReduceOnce()) {
    }
  }

  JANUS_DEVICE void WriteLoads() {
    warp_.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int k = 0; k < kSlices; ++k) s_.load[k * kLanes + lane] = load_[lane].of[k];
    });
  }

 private:
  struct Words {
    uint32_t of[kSlices] = {};
  };

  // Without indexing registers by a variable, which would put them into memory.
  JANUS_DEVICE void AddTo(int lane, int g, uint32_t value) {
    JANUS_UNROLL
    for (int k = 0; k < kSlices; ++k) {
      if (g == k * kLanes + lane) load_[lane].of[k] += value;
    }
  }

  // Applies one path; false if no path remains.
  JANUS_DEVICE bool ReduceOnce() {
    const uint32_t most = warp_.Max([&](int lane) {
      uint32_t mine = 0;
      JANUS_UNROLL
      for (int k = 0; k < kSlices; ++k) {
        if (load_[lane].of[k] > mine) mine = load_[lane].of[k];
      }
      return mine;
    });
    const uint32_t least = warp_.Min([&](int lane) {
      uint32_t mine = ~0u;
      JANUS_UNROLL
      for (int k = 0; k < kSlices; ++k) {
        if (k * kLanes + lane < s_.instances && load_[lane].of[k] < mine) mine = load_[lane].of[k];
      }
      return mine;
    });
    if (most - least < 2) return false;
    FindReach();
    Words seen;
    for (;;) {
      // The search starts at the most loaded instance that no search has reached, the lowest rank
      // among equals. A load of 2 or more makes every key more than 0.
      const uint32_t key = warp_.Max([&](int lane) {
        uint32_t best = 0;
        JANUS_UNROLL
        for (int k = 0; k < kSlices; ++k) {
          const int g = k * kLanes + lane;
          if (g >= s_.instances || HasBit(seen.of[k], lane)) continue;
          if (load_[lane].of[k] < least + 2) continue;
          const uint32_t mine = load_[lane].of[k] << 16 | (0xFFFFu - static_cast<uint32_t>(g));
          if (mine > best) best = mine;
        }
        return best;
      });
      if (key == 0) return false;
      if (SearchFrom(static_cast<int>(0xFFFFu - (key & 0xFFFFu)), (key >> 16) - 2, seen))
        return true;
    }
  }

  // reach[g]: instances that could take over an expert of g.
  JANUS_DEVICE void FindReach() {
    warp_.Lanes([&](int lane) {
      for (int i = lane; i < s_.instances * kSlices; i += kLanes) s_.reach[i] = 0;
    });
    warp_.Lanes([&](int lane) {
      for (int e = lane; e < s_.experts; e += kLanes) {
        const int g = s_.instance_of[e];
        if (g == Replica::kNowhere) continue;
        JANUS_UNROLL
        for (int k = 0; k < kSlices; ++k) {
          Block::OrOnce(s_.reach[g * kSlices + k], s_.hosts[e * kSlices + k]);
        }
      }
    });
  }

  // Breadth first to an instance of at most `wanted`; applies the path.
  JANUS_DEVICE bool SearchFrom(int start, uint32_t wanted, Words& seen) {
    Mark(seen, start);
    warp_.Lanes([&](int lane) {
      if (lane == 0) s_.queue[0] = static_cast<uint16_t>(start);
    });
    int tail = 1;
    for (int head = 0; head < tail; ++head) {
      const int from = warp_.Uniform(s_.queue[head]);
      JANUS_UNROLL
      for (int k = 0; k < kSlices; ++k) {
        const uint32_t fresh = warp_.Uniform(s_.reach[from * kSlices + k]) & ~seen.of[k];
        seen.of[k] |= fresh;
        const uint32_t ends = warp_.Ballot(
            [&](int lane) { return HasBit(fresh, lane) && load_[lane].of[k] <= wanted; });
        warp_.Lanes([&](int lane) {
          if (!HasBit(fresh, lane)) return;
          const int to = k * kLanes + lane;
          s_.previous[to] = static_cast<uint16_t>(from);
          s_.queue[tail + CountBits(fresh & BitsBelow(lane))] = static_cast<uint16_t>(to);
        });
        if (ends != 0) {
          Apply(start, k * kLanes + LowestBit(ends));
          return true;
        }
        tail += CountBits(fresh);
      }
    }
    return false;
  }

  JANUS_DEVICE static void Mark(Words& words, int g) {
    JANUS_UNROLL
    for (int k = 0; k < kSlices; ++k) {
      if (g / kLanes == k) words.of[k] |= 1u << (g % kLanes);
    }
  }

  // From the end backwards: no two hops of a path leave the same instance.
  JANUS_DEVICE void Apply(int start, int end) {
    warp_.Lanes([&](int lane) {
      AddTo(lane, start, ~0u);
      AddTo(lane, end, 1);
    });
    for (int to = end; to != start;) {
      const int from = warp_.Uniform(s_.previous[to]);
      HandOn(from, to);
      to = from;
    }
  }

  // The lowest expert that `from` runs and `to` could.
  JANUS_DEVICE void HandOn(int from, int to) {
    for (int first = 0; first < s_.experts; first += kLanes) {
      const uint32_t could = warp_.Ballot([&](int lane) {
        const int e = first + lane;
        return e < s_.experts && s_.instance_of[e] == from &&
               HasBit(s_.hosts[e * kSlices + to / kLanes], to % kLanes);
      });
      if (could == 0) continue;
      warp_.Lanes([&](int lane) {
        if (lane == LowestBit(could)) s_.instance_of[first + lane] = static_cast<uint16_t>(to);
      });
      return;
    }
  }

  const BalanceState& s_;
  Warp& warp_;
  PerLane<Words> load_;
};

}  // namespace janus::kernels::cuda
