#pragma once

// AEBS in its fast form: the threads of one block collect and remap, and its first warp decides
// (aebs_balance.h). From kOneBlockIds ids on, collecting and remapping are separate launches over
// many blocks. The latency of the decisions is the limit. Specification: ../../common/aebs.cc

#include "kernels/cuda/aebs.h"
#include "kernels/cuda/aebs_balance.h"

#ifndef __CUDACC__
#include <cstring>
#endif

namespace janus::kernels::cuda {

inline constexpr int kFastThreads = 512;
inline constexpr int kMaxFastInstances = 4 * kLanes;

// Words of bits that hold an instance each: 1, 2 or 4.
constexpr int SlicesOf(int instances) {
  return instances <= kLanes ? 1 : instances <= 2 * kLanes ? 2 : 4;
}

// Shared memory of the one block, offsets in bytes.
struct FastScheduleLayout {
  int64_t hosts = 0;        // uint32[E,slices]
  int64_t is_active = 0;    // uint32[words]: a bit per expert
  int64_t has_choice = 0;   // uint32[words]: a bit per expert with two replicas or more
  int64_t is_choice = 0;    // uint32[words]: a bit per place in the order of the decisions
  int64_t load = 0;         // uint32[slices*32]
  int64_t reach = 0;        // uint32[n,slices]
  int64_t replica_of = 0;   // Replica[E]
  int64_t instance_of = 0;  // uint16[E]
  int64_t order = 0;        // uint16[E]
  int64_t choice = 0;       // uint16[E]
  int64_t previous = 0;     // uint16[n]
  int64_t queue = 0;        // uint16[n]
  int64_t bytes = 0;
  static constexpr FastScheduleLayout For(int experts, int instances) {
    const int64_t e = experts;
    const int64_t n = instances;
    const int64_t slices = SlicesOf(instances);
    const int64_t words = (e + kLanes - 1) / kLanes;
    FastScheduleLayout l;
    l.is_active = l.hosts + 4 * e * slices;
    l.has_choice = l.is_active + 4 * words;
    l.is_choice = l.has_choice + 4 * words;
    l.load = l.is_choice + 4 * words;
    l.reach = l.load + 4 * slices * kLanes;
    l.replica_of = l.reach + 4 * n * slices;
    l.instance_of = l.replica_of + 4 * e;
    l.order = l.instance_of + 2 * e;
    l.choice = l.order + 2 * e;
    l.previous = l.choice + 2 * e;
    l.queue = l.previous + 2 * n;
    l.bytes = l.queue + 2 * n;
    return l;
  }
};

// Sixteen bytes of ids in one load.
struct EightIds {
  uint32_t pair[4];
  JANUS_DEVICE int operator[](int i) const {
    return static_cast<int>(pair[i / 2] >> (i % 2 * 16) & 0xFFFFu);
  }
};
JANUS_DEVICE inline EightIds LoadEightIds(const uint16_t* aligned) {
  EightIds ids;
  const void* const from = aligned;
  memcpy(&ids, __builtin_assume_aligned(from, 16), sizeof ids);
  return ids;
}

JANUS_DEVICE inline int64_t BytesPast(const void* pointer, int alignment) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer) %
                              static_cast<uintptr_t>(alignment));
}

// Sets the bits of this worker's share of the ids. Ids may lie at any even address: those before
// the first and behind the last whole 16 bytes are taken one by one.
template <class Block>
JANUS_DEVICE void CollectShare(const uint16_t* ids, int64_t count, int experts, int64_t worker,
                               int64_t workers, uint32_t* is_active) {
  const auto mark = [&](int e) {
    if (e < experts) Block::OrOnce(is_active[e / kLanes], 1u << (e % kLanes));
  };
  int64_t head = (16 - BytesPast(ids, 16)) % 16 / 2;
  if (head > count) head = count;
  const int64_t eights = (count - head) / 8;
  for (int64_t i = worker; i < eights; i += workers) {
    const EightIds eight = LoadEightIds(ids + head + 8 * i);
    JANUS_UNROLL
    for (int j = 0; j < 8; ++j) mark(eight[j]);
  }
  for (int64_t i = worker; i < head; i += workers) mark(ids[i]);
  for (int64_t i = head + 8 * eights + worker; i < count; i += workers) mark(ids[i]);
}

// Gives this worker's share of the ids their replicas, two at a time where both arrays allow it:
// neighbours in a warp then read and write neighbours.
JANUS_DEVICE inline void RemapShare(const uint16_t* ids, int64_t count, int experts,
                                    const Replica* replica_of, int64_t worker, int64_t workers,
                                    Replica* replicas) {
  const auto at = [&](int e) { return e < experts ? replica_of[e] : Replica{}; };
  int64_t single = 0;
  if (BytesPast(ids, 4) == 0 && BytesPast(replicas, 8) == 0) {
    const int64_t pairs = count / 2;
    for (int64_t i = worker; i < pairs; i += workers) {
      uint32_t two;
      const void* const from = ids + 2 * i;
      memcpy(&two, __builtin_assume_aligned(from, 4), 4);
      const Replica both[2] = {at(static_cast<int>(two & 0xFFFFu)),
                               at(static_cast<int>(two >> 16))};
      void* const to = replicas + 2 * i;  // void here: nvcc 13.0 fails on a struct's pointer below
      memcpy(__builtin_assume_aligned(to, 8), both, 8);
    }
    single = 2 * pairs;
  }
  for (int64_t i = single + worker; i < count; i += workers) replicas[i] = at(ids[i]);
}

// Grid [kCollectBlocks]: the activated experts of a block's share of the ids. Each block writes
// separate words of bits, so that nothing has to be cleared first.
struct CollectExpertsKernel {
  static constexpr int kThreads = kFastThreads;
  ScheduleExpertsArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto* const is_active = reinterpret_cast<uint32_t*>(block.shared());
    const int words = (a.placement.experts + kLanes - 1) / kLanes;
    block.Phase([&](int thread) {
      for (int w = thread; w < words; w += kThreads) is_active[w] = 0;
    });
    block.Phase([&](int thread) {
      CollectShare<Block>(a.ids, a.live_rows.Ids(a.count), a.placement.experts,
                          block.index() * kThreads + thread, block.blocks() * kThreads, is_active);
    });
    block.Phase([&](int thread) {
      for (int w = thread; w < words; w += kThreads) {
        a.partial[block.index() * words + w] = is_active[w];
      }
    });
  }
};

// Grid [1]. With `split` the ids were collected by CollectExpertsKernel and RemapExpertsKernel
// follows; else this is the whole of AEBS.
struct FastScheduleKernel {
  static constexpr int kThreads = kFastThreads;
  // The grid has no other; else nvcc 13.0 holds itself to 40 registers, and spills.
  static constexpr int kBlocksAtOnce = 1;
  ScheduleExpertsArgs a;
  bool split = false;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const PlacementView& p = a.placement;
    const auto at = FastScheduleLayout::For(p.experts, p.instances);
    const int slices = SlicesOf(p.instances);
    unsigned char* const shared = block.shared();
    auto* const hosts = reinterpret_cast<uint32_t*>(shared + at.hosts);
    auto* const is_active = reinterpret_cast<uint32_t*>(shared + at.is_active);
    auto* const has_choice = reinterpret_cast<uint32_t*>(shared + at.has_choice);
    auto* const is_choice = reinterpret_cast<uint32_t*>(shared + at.is_choice);
    auto* const load = reinterpret_cast<uint32_t*>(shared + at.load);
    auto* const replica_of = reinterpret_cast<Replica*>(shared + at.replica_of);
    auto* const instance_of = reinterpret_cast<uint16_t*>(shared + at.instance_of);
    auto* const order = reinterpret_cast<uint16_t*>(shared + at.order);
    auto* const choice = reinterpret_cast<uint16_t*>(shared + at.choice);
    const int words = (p.experts + kLanes - 1) / kLanes;
    constexpr int kWarps = kThreads / kLanes;

    block.Phase([&](int thread) {
      for (int w = thread; w < words; w += kThreads) is_active[w] = 0;
      for (int g = thread; g < slices * kLanes; g += kThreads) load[g] = 0;
    });
    // What of the placement is needed comes into shared memory while the ids come.
    block.Warps([&](auto& warp) {
      for (int w = warp.index(); w < words; w += kWarps) {
        PerLane<int> replicas;
        warp.Lanes([&](int lane) {
          const int e = w * kLanes + lane;
          replicas[lane] = 0;
          if (e >= p.experts) return;
          const int32_t first = p.first[e];
          replicas[lane] = p.first[e + 1] - first;
          for (int k = 0; k < slices; ++k) {
            hosts[e * slices + k] =
                static_cast<uint32_t>(p.hosts[e * p.mask_words + k / 2] >> (k % 2 * kLanes));
          }
          order[e] =
              a.policy == SchedulingPolicy::kAebs ? p.by_replicas[e] : static_cast<uint16_t>(e);
          replica_of[e] = replicas[lane] == 1 ? p.replicas[first] : Replica{};
        });
        const uint32_t several = warp.Ballot([&](int lane) { return replicas[lane] > 1; });
        warp.Lanes([&](int lane) {
          if (lane == 0) has_choice[w] = several;
        });
      }
      warp.Lanes([&](int lane) {
        const int thread = warp.index() * kLanes + lane;
        if (split) {
          for (int i = thread; i < kCollectBlocks * words; i += kThreads) {
            Block::OrOnce(is_active[i % words], a.partial[i]);
          }
        } else {
          CollectShare<Block>(a.ids, a.live_rows.Ids(a.count), p.experts, thread, kThreads,
                              is_active);
        }
      });
    });
    // Experts with one replica have no choice; those with none stay nowhere.
    block.Warps([&](auto& warp) {
      for (int w = warp.index(); w < words; w += kWarps) {
        warp.Lanes([&](int lane) {
          const int e = w * kLanes + lane;
          if (e >= p.experts) return;
          instance_of[e] = Replica::kNowhere;
          if (!HasBit(is_active[w], lane)) {
            replica_of[e] = Replica{};
            return;
          }
          a.activated[Before(is_active, w, lane)] = static_cast<uint16_t>(e);
          if (replica_of[e].instance == Replica::kNowhere) return;
          instance_of[e] = replica_of[e].instance;
          Block::Add(load[replica_of[e].instance], 1u);
        });
        const uint32_t chosen = warp.Ballot([&](int lane) {
          const int i = w * kLanes + lane;
          if (i >= p.experts) return false;
          const int e = order[i];
          return HasBit(is_active[e / kLanes] & has_choice[e / kLanes], e % kLanes);
        });
        warp.Lanes([&](int lane) {
          if (lane == 0) is_choice[w] = chosen;
        });
      }
    });
    block.Phase([&](int thread) {
      for (int i = thread; i < p.experts; i += kThreads) {
        if (!HasBit(is_choice[i / kLanes], i % kLanes)) continue;
        choice[Before(is_choice, i / kLanes, i % kLanes)] = order[i];
      }
    });
    block.Warps([&](auto& warp) {
      if (warp.index() != 0) return;
      const BalanceState state{p.experts,
                               p.instances,
                               Before(is_choice, words, 0),
                               choice,
                               hosts,
                               load,
                               instance_of,
                               reinterpret_cast<uint32_t*>(shared + at.reach),
                               reinterpret_cast<uint16_t*>(shared + at.previous),
                               reinterpret_cast<uint16_t*>(shared + at.queue)};
      if (slices == 1) Decide<1, Block>(state, warp);
      if (slices == 2) Decide<2, Block>(state, warp);
      if (slices == 4) Decide<4, Block>(state, warp);
    });
    block.Phase([&](int thread) {
      if (thread == 0) *a.num_activated = Before(is_active, words, 0);
      for (int g = thread; g < p.instances; g += kThreads)
        a.load[g] = static_cast<int32_t>(load[g]);
      for (int e = thread; e < p.experts; e += kThreads) {
        const int g = instance_of[e];
        Replica replica = replica_of[e];
        if (g != replica.instance) {
          int32_t r = p.first[e];
          while (p.replicas[r].instance != g) ++r;
          replica_of[e] = replica = p.replicas[r];
        }
        a.replica_of[e] = replica;
      }
    });
    if (split) return;
    block.Phase([&](int thread) {
      RemapShare(a.ids, a.live_rows.Ids(a.count), p.experts, replica_of, thread, kThreads,
                 a.replicas);
    });
  }

 private:
  // How many bits are set before bit `bit` of word `word`.
  JANUS_DEVICE static int Before(const uint32_t* bits, int word, int bit) {
    int count = bit == 0 ? 0 : CountBits(bits[word] & BitsBelow(bit));
    for (int w = 0; w < word; ++w) count += CountBits(bits[w]);
    return count;
  }

  template <int kSlices, class Block, class Warp>
  JANUS_DEVICE void Decide(const BalanceState& state, Warp& warp) const {
    Balance<kSlices, Block, Warp> balance(state, warp);
    balance.Choose();
    if (a.policy == SchedulingPolicy::kAebs) balance.ReduceByPaths();
    balance.WriteLoads();
  }
};

// Grid [blocks of kFastThreads * 8 ids].
struct RemapExpertsKernel {
  static constexpr int kThreads = kFastThreads;
  ScheduleExpertsArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto* const replica_of = reinterpret_cast<Replica*>(block.shared());
    block.Phase([&](int thread) {
      for (int e = thread; e < a.placement.experts; e += kThreads) replica_of[e] = a.replica_of[e];
    });
    block.Phase([&](int thread) {
      RemapShare(a.ids, a.live_rows.Ids(a.count), a.placement.experts, replica_of,
                 block.index() * kThreads + thread, block.blocks() * kThreads, a.replicas);
    });
  }
};

inline bool FitsFastSchedule(const PlacementView& p) {
  return p.instances <= kMaxFastInstances &&
         FastScheduleLayout::For(p.experts, p.instances).bytes <= kMaxSharedBytes;
}

inline Plan PlanFastSchedule(const ScheduleExpertsArgs& a, bool split) {
  const int64_t words = CeilDiv(a.placement.experts, kLanes);
  return {1, kFastThreads,
          FastScheduleLayout::For(a.placement.experts, a.placement.instances).bytes,
          PlacementBytes(a.placement) + (split ? 4 * kCollectBlocks * words : 6 * a.count), 0};
}
inline Plan PlanCollectExperts(const ScheduleExpertsArgs& a) {
  const int64_t words = CeilDiv(a.placement.experts, kLanes);
  return {kCollectBlocks, kFastThreads, 4 * words, 2 * a.count + 4 * kCollectBlocks * words, 0};
}
inline Plan PlanRemapExperts(const ScheduleExpertsArgs& a) {
  return {CeilDiv(a.count, kFastThreads * 8), kFastThreads, 4 * int64_t{a.placement.experts},
          6 * a.count + 4 * int64_t{a.placement.experts}, 0};
}

}  // namespace janus::kernels::cuda
