// AEBS in its plain form, and the choice of a form. One block: the assignment is a chain of
// decisions, and each depends on the loads after the one before. So only collecting, the experts
// with one replica and the remap are spread over threads. The latency of that chain is the limit.
// Specification: ../../common/aebs.cc

#include "kernels/cuda/aebs.h"

#include "kernels/cuda/aebs_fast.h"
#include "kernels/cuda/start.h"
#include "kernels/validate.h"

namespace janus::kernels::cuda {
namespace {

JANUS_DEVICE inline int LowestBit64(uint64_t word) {
#ifdef __CUDACC__
  return __ffsll(static_cast<long long>(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

// What one thread does: the choices among replicas, and the paths of the exact form.
class Assignment {
 public:
  JANUS_DEVICE Assignment(const PlacementView& placement, unsigned char* shared)
      : p_(placement),
        at_(ScheduleExpertsLayout::For(placement.experts, placement.instances)),
        load_(reinterpret_cast<uint32_t*>(shared + at_.load)),
        replica_of_(reinterpret_cast<Replica*>(shared + at_.replica_of)),
        is_active_(reinterpret_cast<uint32_t*>(shared + at_.is_active)),
        activated_(reinterpret_cast<uint16_t*>(shared + at_.activated)),
        reach_(reinterpret_cast<uint64_t*>(shared + at_.reach)),
        seen_(reinterpret_cast<uint64_t*>(shared + at_.seen)),
        previous_(reinterpret_cast<uint16_t*>(shared + at_.previous)),
        queue_(reinterpret_cast<uint16_t*>(shared + at_.queue)) {}

  JANUS_DEVICE bool IsActive(int e) const { return (is_active_[e / 32] >> (e % 32) & 1u) != 0; }
  JANUS_DEVICE int Replicas(int e) const { return p_.first[e + 1] - p_.first[e]; }

  // To the instance of least load, the lowest rank among equals: replicas ascend by instance.
  JANUS_DEVICE void Choose(int e) {
    const int32_t end = p_.first[e + 1];
    Replica best = p_.replicas[p_.first[e]];
    for (int32_t r = p_.first[e] + 1; r < end; ++r) {
      const Replica next = p_.replicas[r];
      if (load_[next.instance] < load_[best.instance]) best = next;
    }
    replica_of_[e] = best;
    ++load_[best.instance];
  }

  JANUS_DEVICE void ChooseAscending(int count) {
    for (int i = 0; i < count; ++i) {
      if (Replicas(activated_[i]) > 1) Choose(activated_[i]);
    }
  }
  JANUS_DEVICE void ChooseFewestReplicasFirst() {
    for (int i = p_.multi_first; i < p_.experts; ++i) {
      if (IsActive(p_.by_replicas[i])) Choose(p_.by_replicas[i]);
    }
  }
  JANUS_DEVICE void ReduceByPaths(int count) {
    while (ReduceOnce(count)) {
    }
  }

 private:
  // Applies one path; false if no path remains.
  JANUS_DEVICE bool ReduceOnce(int count) {
    uint32_t least = load_[0];
    uint32_t most = load_[0];
    for (int g = 1; g < p_.instances; ++g) {
      least = load_[g] < least ? load_[g] : least;
      most = load_[g] > most ? load_[g] : most;
    }
    if (most - least < 2) return false;
    for (int i = 0; i < p_.instances * p_.mask_words; ++i) reach_[i] = 0;
    for (int i = 0; i < count; ++i) {
      const int e = activated_[i];
      if (replica_of_[e].instance == Replica::kNowhere) continue;
      uint64_t* const reach = reach_ + replica_of_[e].instance * p_.mask_words;
      for (int w = 0; w < p_.mask_words; ++w) reach[w] |= p_.hosts[e * p_.mask_words + w];
    }
    for (int w = 0; w < p_.mask_words; ++w) seen_[w] = 0;
    for (uint32_t level = most; level >= least + 2; --level) {
      for (int g = 0; g < p_.instances; ++g) {
        const bool seen = (seen_[g / 64] >> (g % 64) & 1) != 0;
        if (load_[g] == level && !seen && SearchFrom(g, count)) return true;
      }
    }
    return false;
  }

  JANUS_DEVICE bool SearchFrom(int start, int count) {
    const uint32_t wanted = load_[start] - 2;
    int head = 0;
    int tail = 0;
    queue_[tail++] = static_cast<uint16_t>(start);
    seen_[start / 64] |= uint64_t{1} << (start % 64);
    while (head < tail) {
      const int from = queue_[head++];
      for (int w = 0; w < p_.mask_words; ++w) {
        uint64_t fresh = reach_[from * p_.mask_words + w] & ~seen_[w];
        seen_[w] |= fresh;
        for (; fresh != 0; fresh &= fresh - 1) {
          const int to = w * 64 + LowestBit64(fresh);
          previous_[to] = static_cast<uint16_t>(from);
          if (load_[to] <= wanted) {
            Apply(start, to, count);
            return true;
          }
          queue_[tail++] = static_cast<uint16_t>(to);
        }
      }
    }
    return false;
  }

  // From the end backwards: no two hops of a path leave the same instance.
  JANUS_DEVICE void Apply(int start, int end, int count) {
    --load_[start];
    ++load_[end];
    for (int to = end; to != start; to = previous_[to]) HandOn(previous_[to], to, count);
  }

  // The lowest expert that `from` runs and `to` could.
  JANUS_DEVICE void HandOn(int from, int to, int count) {
    for (int i = 0; i < count; ++i) {
      const int e = activated_[i];
      if (replica_of_[e].instance != from) continue;
      if ((p_.hosts[e * p_.mask_words + to / 64] >> (to % 64) & 1) == 0) continue;
      int32_t r = p_.first[e];
      while (p_.replicas[r].instance != to) ++r;
      replica_of_[e] = p_.replicas[r];
      return;
    }
  }

  const PlacementView& p_;
  ScheduleExpertsLayout at_;
  uint32_t* load_;
  Replica* replica_of_;
  uint32_t* is_active_;
  uint16_t* activated_;
  uint64_t* reach_;
  uint64_t* seen_;
  uint16_t* previous_;
  uint16_t* queue_;
};

struct ScheduleExpertsKernel {
  static constexpr int kThreads = kScheduleExpertsThreads;
  ScheduleExpertsArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const PlacementView& p = a.placement;
    const auto at = ScheduleExpertsLayout::For(p.experts, p.instances);
    unsigned char* const shared = block.shared();
    auto* const is_active = reinterpret_cast<uint32_t*>(shared + at.is_active);
    auto* const before = reinterpret_cast<uint32_t*>(shared + at.before);
    auto* const load = reinterpret_cast<uint32_t*>(shared + at.load);
    auto* const replica_of = reinterpret_cast<Replica*>(shared + at.replica_of);
    auto* const activated = reinterpret_cast<uint16_t*>(shared + at.activated);
    const int words = (p.experts + 31) / 32;

    block.Phase([&](int thread) {
      for (int w = thread; w < words; w += kThreads) is_active[w] = 0;
      for (int g = thread; g < p.instances; g += kThreads) load[g] = 0;
      for (int e = thread; e < p.experts; e += kThreads) replica_of[e] = Replica{};
    });
    block.Phase([&](int thread) {
      for (int64_t i = thread; i < a.live_rows.Ids(a.count); i += kThreads) {
        const int e = a.ids[i];
        if (e < p.experts) Block::Or(is_active[e / 32], 1u << (e % 32));
      }
    });
    block.Phase([&](int thread) {
      if (thread != 0) return;
      uint32_t sum = 0;
      for (int w = 0; w < words; ++w) {
        before[w] = sum;
        for (uint32_t bits = is_active[w]; bits != 0; bits &= bits - 1) ++sum;
      }
      before[words] = sum;
    });
    // Ascending, by the number of activated experts before; those with one replica have no choice.
    block.Phase([&](int thread) {
      for (int w = thread; w < words; w += kThreads) {
        uint32_t n = before[w];
        for (uint32_t bits = is_active[w]; bits != 0; bits &= bits - 1) {
          const int e = w * 32 + LowestBit(bits);
          activated[n++] = static_cast<uint16_t>(e);
          if (p.first[e + 1] - p.first[e] != 1) continue;
          const Replica only = p.replicas[p.first[e]];
          replica_of[e] = only;
          Block::Add(load[only.instance], 1u);
        }
      }
    });
    block.Phase([&](int thread) {
      if (thread != 0) return;
      const int count = static_cast<int>(before[words]);
      Assignment assignment(p, shared);
      if (a.policy == SchedulingPolicy::kAebs) {
        assignment.ChooseFewestReplicasFirst();
        assignment.ReduceByPaths(count);
      } else {
        assignment.ChooseAscending(count);
      }
    });
    block.Phase([&](int thread) {
      const int count = static_cast<int>(before[words]);
      if (thread == 0) *a.num_activated = count;
      for (int i = thread; i < count; i += kThreads) a.activated[i] = activated[i];
      for (int g = thread; g < p.instances; g += kThreads) {
        a.load[g] = static_cast<int32_t>(load[g]);
      }
      for (int e = thread; e < p.experts; e += kThreads) a.replica_of[e] = replica_of[e];
      for (int64_t i = thread; i < a.live_rows.Ids(a.count); i += kThreads) {
        const int e = a.ids[i];
        a.replicas[i] = e < p.experts ? replica_of[e] : Replica{};
      }
    });
  }
};

}  // namespace

Status ValidateScheduleExperts(const ScheduleExpertsArgs& a) {
  const PlacementView& p = a.placement;
  return std::move(Validator("ScheduleExperts")
                       .InRange(p.experts, 1, kMaxExperts, "placement.experts")
                       .InRange(p.instances, 1, Replica::kNowhere - 1, "placement.instances")
                       .InRange(p.mask_words, (p.instances + 63) / 64, (p.instances + 63) / 64,
                                "placement.mask_words")
                       .InRange(p.multi_first, 0, p.experts, "placement.multi_first")
                       .InRange(a.count, 0, kMaxExtent, "count")
                       .True(a.policy == SchedulingPolicy::kAebs ||
                                 a.policy == SchedulingPolicy::kAebsGreedy,
                             "policy is neither the exact nor the greedy form of AEBS")
                       .NotNull(p.first, "placement.first")
                       .NotNull(p.replicas, "placement.replicas")
                       .NotNull(p.hosts, "placement.hosts")
                       .NotNull(p.by_replicas, "placement.by_replicas")
                       .True(a.count == 0 || (a.ids != nullptr && a.replicas != nullptr),
                             "ids or replicas is null")
                       .NotNull(a.replica_of, "replica_of")
                       .NotNull(a.load, "load")
                       .NotNull(a.activated, "activated")
                       .NotNull(a.num_activated, "num_activated"))
      .Done();
}

Plan PlanScheduleExperts(const ScheduleExpertsArgs& a) {
  return {1, kScheduleExpertsThreads,
          ScheduleExpertsLayout::For(a.placement.experts, a.placement.instances).bytes,
          PlacementBytes(a.placement) + 6 * a.count, 0};
}

Status ScheduleExperts(const Stream& stream, const ScheduleExpertsArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateScheduleExperts(args));
  if (args.form == ScheduleForm::kPlain || !FitsFastSchedule(args.placement)) {
    return Start("ScheduleExperts", stream, ScheduleExpertsKernel{args}, PlanScheduleExperts(args));
  }
  const bool split = args.count > kOneBlockIds && args.partial != nullptr;
  if (split) {
    JANUS_RETURN_IF_ERROR(
        Start("ScheduleExperts", stream, CollectExpertsKernel{args}, PlanCollectExperts(args)));
  }
  JANUS_RETURN_IF_ERROR(Start("ScheduleExperts", stream, FastScheduleKernel{args, split},
                              PlanFastSchedule(args, split)));
  if (!split) return OkStatus();
  return Start("ScheduleExperts", stream, RemapExpertsKernel{args}, PlanRemapExperts(args));
}

}  // namespace janus::kernels::cuda
