#pragma once

// Runs after AEBS: lists the work of one instance in a round as the grouped expert FFN takes it,
// its activated slots, each with the list of its rows. Contributions to one sender lie one after
// the other in the order of the ids, so that they are one piece.
// One block; latency is the limit.

#include "kernels/cuda/live_rows.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/warp.h"
#include "kernels/kernels.h"
#include "kernels/placement_view.h"

namespace janus::kernels::cuda {

struct ListWorkArgs {
  const Replica* replicas = nullptr;    // [count]: where ids[i] runs
  const float* weights = nullptr;       // [count]: the gate's
  const void* const* x_rows = nullptr;  // [count / top_k]
  int64_t count = 0;                    // T*k
  LiveRows live_rows = {};
  int top_k = 0;                          // k
  int rank = 0;                           // of the instance
  int slots = 0;                          // C: that it has
  const ActiveExpert* tensors = nullptr;  // [C]: their weights; no `gate`: nothing lies there
  const int32_t* first_rows = nullptr;    // [senders]: each one's first, ascending
  int senders = 0;
  std::byte* const* y = nullptr;  // [senders]: the j-th to it goes to y[sender] + j * y_row_bytes
  int64_t y_row_bytes = 0;
  Contribution* contributions = nullptr;  // [count]: by slot
  ActiveExpert* active = nullptr;         // [min(C, count)]: activated slots ascending, then empty
};

// Shared memory, offsets in bytes.
struct ListWorkLayout {
  static constexpr int kWarps = 16;
  int64_t next = 0;       // uint16[kWarps,C]: of a warp's share, by slot: how many, then where
  int64_t mine = 0;       // uint32[kWarps]: contributions of a warp's share, then those before it
  int64_t total = 0;      // uint32[C]
  int64_t sum = 0;        // uint32[words]: of 32 slots
  int64_t is_active = 0;  // uint32[words]: a bit per slot
  int64_t begin = 0;      // uint32[senders]: the warp of its first id, and of that warp's share the
                          // contributions before, 16 bits each
  int64_t bytes = 0;
  static constexpr ListWorkLayout For(int slots, int senders) {
    const int64_t words = (int64_t{slots} + kLanes - 1) / kLanes;
    ListWorkLayout l;
    l.mine = l.next + (int64_t{2} * kWarps * slots + 3) / 4 * 4;
    l.total = l.mine + 4 * kWarps;
    l.sum = l.total + 4 * int64_t{slots};
    l.is_active = l.sum + 4 * words;
    l.begin = l.is_active + 4 * words;
    l.bytes = l.begin + 4 * int64_t{senders};
    return l;
  }
};

struct ListWorkKernel {
  static constexpr int kWarps = ListWorkLayout::kWarps;
  static constexpr int kThreads = kWarps * kLanes;
  ListWorkArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const auto at = ListWorkLayout::For(a.slots, a.senders);
    unsigned char* const shared = block.shared();
    auto* const next = reinterpret_cast<uint16_t*>(shared + at.next);
    auto* const mine = reinterpret_cast<uint32_t*>(shared + at.mine);
    auto* const total = reinterpret_cast<uint32_t*>(shared + at.total);
    auto* const sum = reinterpret_cast<uint32_t*>(shared + at.sum);
    auto* const is_active = reinterpret_cast<uint32_t*>(shared + at.is_active);
    auto* const begin = reinterpret_cast<uint32_t*>(shared + at.begin);
    const int words = (a.slots + kLanes - 1) / kLanes;
    const int64_t count = a.live_rows.Ids(a.count);
    // A warp's share of the ids, whole groups of 32.
    const int64_t share = (count + kThreads - 1) / kThreads * kLanes;

    block.Phase([&](int thread) {
      for (int i = thread; i < kWarps * a.slots; i += kThreads) next[i] = 0;
    });
    block.Warps([&](auto& warp) {
      uint32_t all = 0;
      ForGroups(warp, share, count, [&](int64_t first) {
        const uint32_t taken = TakeGroup(warp, first, count, next + warp.index() * a.slots,
                                         [](int, uint32_t, uint32_t) {});
        warp.Lanes([&](int lane) {
          const int64_t row = (first + lane) / a.top_k;
          if (first + lane >= count || row * a.top_k != first + lane) return;
          const int sender = SenderOf(row);
          if (a.first_rows[sender] != row) return;
          begin[sender] = static_cast<uint32_t>(warp.index()) << 16 |
                          (all + static_cast<uint32_t>(CountBits(taken & BitsBelow(lane))));
        });
        all += static_cast<uint32_t>(CountBits(taken));
      });
      warp.Lanes([&](int lane) {
        if (lane == 0) mine[warp.index()] = all;
      });
    });
    block.Phase([&](int thread) {
      for (int s = thread; s < a.slots; s += kThreads) {
        uint32_t before = 0;
        for (int w = 0; w < kWarps; ++w) {
          const uint32_t of = next[w * a.slots + s];
          next[w * a.slots + s] = static_cast<uint16_t>(before);
          before += of;
        }
        total[s] = before;
      }
    });
    block.Warps([&](auto& warp) {
      for (int w = warp.index(); w < words; w += kWarps) {
        const uint32_t some = warp.Ballot([&](int lane) {
          const int s = w * kLanes + lane;
          return s < a.slots && total[s] != 0;
        });
        warp.Lanes([&](int lane) {
          if (lane != 0) return;
          is_active[w] = some;
          uint32_t all = 0;
          for (int s = w * kLanes; s < (w + 1) * kLanes && s < a.slots; ++s) all += total[s];
          sum[w] = all;
        });
      }
    });
    // Where each slot's list begins, and each warp's part of it; the slots that are computed.
    block.Phase([&](int thread) {
      for (int s = thread; s < a.slots; s += kThreads) {
        uint32_t first = 0;
        int active = CountBits(is_active[s / kLanes] & BitsBelow(s % kLanes));
        for (int w = 0; w < s / kLanes; ++w) {
          first += sum[w];
          active += CountBits(is_active[w]);
        }
        for (int i = s / kLanes * kLanes; i < s; ++i) first += total[i];
        for (int w = 0; w < kWarps; ++w) {
          next[w * a.slots + s] = static_cast<uint16_t>(next[w * a.slots + s] + first);
        }
        if (total[s] == 0) continue;
        ActiveExpert expert = a.tensors[s];
        expert.first = static_cast<int32_t>(first);
        // The host computes the same schedule and reports the error.
        expert.count = expert.gate != nullptr ? static_cast<int32_t>(total[s]) : 0;
        a.active[active] = expert;
      }
      if (thread == 0) {
        uint32_t before = 0;
        for (int w = 0; w < kWarps; ++w) {
          const uint32_t of = mine[w];
          mine[w] = before;
          before += of;
        }
      }
    });
    block.Phase([&](int thread) {
      int active = 0;
      for (int w = 0; w < words; ++w) active += CountBits(is_active[w]);
      for (int64_t i = active + thread; i < a.slots && i < a.count; i += kThreads) {
        a.active[i] = ActiveExpert{};
      }
    });
    block.Warps([&](auto& warp) {
      uint32_t before = warp.Uniform(mine[warp.index()]);
      ForGroups(warp, share, count, [&](int64_t first) {
        const uint32_t taken = TakeGroup(
            warp, first, count, next + warp.index() * a.slots,
            [&](int lane, uint32_t own, uint32_t place) {
              const int64_t i = first + lane;
              Contribution c;
              const auto k = static_cast<uint32_t>(a.top_k);
              const auto row = static_cast<uint32_t>(i) / k;
              c.x = a.x_rows[row];
              const int sender = SenderOf(row);
              const uint32_t of_sender = mine[begin[sender] >> 16] + (begin[sender] & 0xFFFFu);
              c.y = a.y[sender] +
                    (before + CountBits(own & BitsBelow(lane)) - of_sender) * a.y_row_bytes;
              c.weight = a.weights[i];
              a.contributions[place] = c;
            });
        before += static_cast<uint32_t>(CountBits(taken));
      });
    });
  }

 private:
  // The last one that begins no later: those before it at the same row have none.
  JANUS_DEVICE int SenderOf(int64_t row) const {
    int at = 0, behind = a.senders;
    while (behind - at > 1) {
      const int middle = (at + behind) / 2;
      if (a.first_rows[middle] <= row) {
        at = middle;
      } else {
        behind = middle;
      }
    }
    return at;
  }

  template <class Warp, class Fn>
  JANUS_DEVICE static void ForGroups(Warp& warp, int64_t share, int64_t count, Fn fn) {
    const int64_t begin = warp.index() * share;
    const int64_t end = begin + share < count ? begin + share : count;
    JANUS_KEEP_LOOP
    for (int64_t first = begin; first < end; first += kLanes) fn(first);
  }

  // Calls fn(lane, own, place) for those of the 32 ids from `first` on that belong to this
  // instance. `own`: the lanes that have one; `place`: next[slot] before the call, plus those of
  // lower lanes. next[slot] grows by them. Returns `own`.
  template <class Warp, class Fn>
  JANUS_DEVICE uint32_t TakeGroup(Warp& warp, int64_t first, int64_t count, uint16_t* next,
                                  Fn fn) const {
    constexpr uint32_t kNone = 0xFFFFu;
    PerLane<uint32_t> slot;
    PerLane<uint32_t> peers;
    warp.Lanes([&](int lane) {
      slot[lane] = kNone;
      if (first + lane >= count) return;
      const Replica replica = a.replicas[first + lane];
      if (replica.instance == a.rank && replica.slot < a.slots) slot[lane] = replica.slot;
    });
    const uint32_t own = warp.Ballot([&](int lane) { return slot[lane] != kNone; });
    if (own == 0) return 0;
    warp.Match([&](int lane) { return slot[lane]; },
               [&](int lane, uint32_t same) { peers[lane] = same; });
    warp.Lanes([&](int lane) {
      if (slot[lane] == kNone) return;
      fn(lane, own,
         next[slot[lane]] + static_cast<uint32_t>(CountBits(peers[lane] & BitsBelow(lane))));
    });
    warp.Lanes([&](int lane) {
      if (slot[lane] == kNone || LowestBit(peers[lane]) != lane) return;
      next[slot[lane]] = static_cast<uint16_t>(next[slot[lane]] + CountBits(peers[lane]));
    });
    return own;
  }
};

// Places in the lists have 16 bits.
inline constexpr int64_t kMostListed = 65535;

// As if all of the round were this instance's.
inline Plan PlanListWork(const ListWorkArgs& a) {
  const int64_t active = a.slots < a.count ? a.slots : a.count;
  return {1, ListWorkKernel::kThreads, ListWorkLayout::For(a.slots, a.senders).bytes,
          a.count * (4 + 4 + 24) + CeilDiv(a.count, a.top_k) * 8 + int64_t{a.senders} * (8 + 4) +
              2 * active * static_cast<int64_t>(sizeof(ActiveExpert)),
          0};
}

}  // namespace janus::kernels::cuda
