#include "common/aebs.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "common/check.h"
#include "common/philox.h"

namespace janus {

LayerPlacement LayerPlacement::Of(const Placement& placement, int layer, int experts) {
  LayerPlacement result;
  result.experts = experts;
  result.instances = static_cast<int>(placement.slots_of_instance.size());
  result.mask_words = (result.instances + 63) / 64;
  std::vector<std::vector<Replica>> of(static_cast<size_t>(experts));
  int next = 0;
  for (int g = 0; g < result.instances; ++g) {
    for (int s = 0; s < placement.slots_of_instance[static_cast<size_t>(g)]; ++s, ++next) {
      const uint16_t expert = placement.at(layer, next);
      if (expert == Placement::kEmpty) continue;
      of[expert].push_back({static_cast<uint16_t>(g), static_cast<uint16_t>(s)});
    }
  }
  result.hosts.resize(static_cast<size_t>(experts) * static_cast<size_t>(result.mask_words));
  result.first.push_back(0);
  for (size_t e = 0; e < of.size(); ++e) {
    for (const Replica& r : of[e]) {
      result.replicas.push_back(r);
      result.hosts[e * static_cast<size_t>(result.mask_words) + r.instance / 64] |=
          uint64_t{1} << (r.instance % 64);
    }
    result.first.push_back(static_cast<int32_t>(result.replicas.size()));
  }
  result.by_replicas.resize(of.size());
  std::iota(result.by_replicas.begin(), result.by_replicas.end(), uint16_t{0});
  std::ranges::stable_sort(result.by_replicas, {}, [&](uint16_t e) { return of[e].size(); });
  return result;
}

AebsWorkspace::AebsWorkspace(int max_experts, int max_instances) {
  JANUS_CHECK(max_experts >= 0 && max_experts <= 0xFFFF, max_experts);
  JANUS_CHECK(max_instances >= 0 && max_instances < 0xFFFF, max_instances);
  const auto experts = static_cast<size_t>(max_experts);
  const auto instances = static_cast<size_t>(max_instances);
  const size_t words = (instances + 63) / 64;
  is_activated_.resize(experts + 1);
  activated_.resize(experts);
  replica_of_.resize(experts);
  load_.resize(instances);
  reach_.resize(instances * words);
  seen_.resize(words);
  previous_.resize(instances);
  queue_.resize(instances);
}

void AebsWorkspace::StartAssignment(int instances) {
  num_instances_ = static_cast<size_t>(instances);
  JANUS_CHECK(num_instances_ <= load_.size(), instances);
  std::ranges::fill(replica_of_, Replica{});
  std::ranges::fill(load_, 0);
}

void CollectActivated(std::span<const uint16_t> ids, int experts, AebsWorkspace& work) {
  const auto count = static_cast<size_t>(experts);
  JANUS_CHECK(count < work.is_activated_.size(), count);
  uint8_t* const is_activated = work.is_activated_.data();
  std::fill_n(is_activated, count + 1, uint8_t{0});
#pragma GCC unroll 8
  for (const uint16_t id : ids) is_activated[std::min<size_t>(id, count)] = 1;
  JANUS_CHECK(is_activated[count] == 0, experts);
  size_t n = 0;
  for (size_t e = 0; e < count; ++e) {
    work.activated_[n] = static_cast<uint16_t>(e);
    n += is_activated[e];
  }
  work.num_activated_ = n;
}

namespace {

// The replica on the instance of least load, the lowest rank among equals.
const Replica& LeastLoaded(const LayerPlacement& placement, size_t expert, const int32_t* load) {
  const auto begin = static_cast<size_t>(placement.first[expert]);
  const auto end = static_cast<size_t>(placement.first[expert + 1]);
  size_t best = begin;
  for (size_t r = begin + 1; r < end; ++r) {
    if (load[placement.replicas[r].instance] < load[placement.replicas[best].instance]) best = r;
  }
  return placement.replicas[best];
}

}  // namespace

void AssignGreedy(const LayerPlacement& placement, AebsWorkspace& work) {
  work.StartAssignment(placement.instances);
  for (const uint16_t e : work.activated()) {
    const int replicas = placement.first[e + size_t{1}] - placement.first[e];
    JANUS_CHECK(replicas > 0, e);
    if (replicas > 1) continue;
    work.Give(e, placement.replicas[static_cast<size_t>(placement.first[e])]);
  }
  for (const uint16_t e : work.activated()) {
    if (work.replica_of_[e].instance != Replica::kNowhere) continue;
    work.Give(e, LeastLoaded(placement, e, work.load_.data()));
  }
}

// Finds and applies cost-reducing paths, most loaded instance first.
class CostReducingPaths {
 public:
  CostReducingPaths(const LayerPlacement& placement, AebsWorkspace& work)
      : placement_(placement),
        work_(work),
        words_(static_cast<size_t>(placement.mask_words)),
        instances_(static_cast<size_t>(placement.instances)) {}

  void Run() {
    while (ReduceOnce()) {
    }
  }

 private:
  // Applies one path; false: there is no path.
  bool ReduceOnce() {
    const auto [least, most] = std::ranges::minmax(work_.load());
    if (most - least < 2) return false;
    ComputeReach();
    // A search without a result has seen a set closed under hops. All loads in it are at least its
    // start's load minus one. So a later search from an equal or smaller load cannot end in that
    // set, and `seen_` is kept from start to start.
    std::fill_n(work_.seen_.data(), words_, uint64_t{0});
    for (int32_t level = most; level >= least + 2; --level) {
      for (size_t g = 0; g < instances_; ++g) {
        if (work_.load_[g] == level && !Seen(g) && SearchFrom(g)) return true;
      }
    }
    return false;
  }

  void ComputeReach() {
    std::fill_n(work_.reach_.data(), instances_ * words_, uint64_t{0});
    for (const uint16_t e : work_.activated()) {
      const size_t g = work_.replica_of_[e].instance;
      for (size_t w = 0; w < words_; ++w) {
        work_.reach_[g * words_ + w] |= placement_.hosts[e * words_ + w];
      }
    }
  }

  bool Seen(size_t g) const { return (work_.seen_[g / 64] >> (g % 64) & 1) != 0; }

  bool SearchFrom(size_t start) {
    const int32_t wanted = work_.load_[start] - 2;
    size_t head = 0;
    size_t tail = 0;
    work_.queue_[tail++] = static_cast<uint16_t>(start);
    work_.seen_[start / 64] |= uint64_t{1} << (start % 64);
    while (head < tail) {
      const size_t from = work_.queue_[head++];
      for (size_t w = 0; w < words_; ++w) {
        uint64_t fresh = work_.reach_[from * words_ + w] & ~work_.seen_[w];
        work_.seen_[w] |= fresh;
        for (; fresh != 0; fresh &= fresh - 1) {
          const size_t to = w * 64 + static_cast<size_t>(std::countr_zero(fresh));
          work_.previous_[to] = static_cast<uint16_t>(from);
          if (work_.load_[to] <= wanted) {
            Apply(start, to);
            return true;
          }
          work_.queue_[tail++] = static_cast<uint16_t>(to);
        }
      }
    }
    return false;
  }

  // Goes backwards from the end. Each hop uses the assignment before the path, because no two hops
  // of a path leave the same instance.
  void Apply(size_t start, size_t end) {
    --work_.load_[start];
    ++work_.load_[end];
    for (size_t to = end; to != start; to = work_.previous_[to]) HandOn(work_.previous_[to], to);
  }

  void HandOn(size_t from, size_t to) {
    for (const uint16_t e : work_.activated()) {
      if (work_.replica_of_[e].instance != from) continue;
      if ((placement_.hosts[e * words_ + to / 64] >> (to % 64) & 1) == 0) continue;
      for (auto r = static_cast<size_t>(placement_.first[e]);; ++r) {
        if (placement_.replicas[r].instance != to) continue;
        work_.replica_of_[e] = placement_.replicas[r];
        return;
      }
    }
  }

  const LayerPlacement& placement_;
  AebsWorkspace& work_;
  const size_t words_;
  const size_t instances_;
};

void AssignExact(const LayerPlacement& placement, AebsWorkspace& work) {
  work.StartAssignment(placement.instances);
  for (const uint16_t e : placement.by_replicas) {
    if (work.is_activated_[e] == 0) continue;
    JANUS_CHECK(placement.first[e] < placement.first[e + size_t{1}], e);
    work.Give(e, LeastLoaded(placement, e, work.load_.data()));
  }
  if (work.num_instances_ > 0) CostReducingPaths(placement, work).Run();
}

namespace {

// One of the expert's replicas, counted from 0, in this draw.
int Drawn(uint64_t draw, uint16_t expert, int replicas) {
  const uint32_t word = Philox4x32(
      {expert, 0, 0, 0}, {static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32)})[0];
  return static_cast<int>(uint64_t{word} * static_cast<uint64_t>(replicas) >> 32);
}

}  // namespace

void Assign(SchedulingPolicy policy, const LayerPlacement& placement, uint64_t draw,
            AebsWorkspace& work) {
  if (policy == SchedulingPolicy::kAebs) return AssignExact(placement, work);
  if (policy == SchedulingPolicy::kAebsGreedy) return AssignGreedy(placement, work);
  work.StartAssignment(placement.instances);
  for (const uint16_t e : work.activated()) {
    const int replicas = placement.first[e + size_t{1}] - placement.first[e];
    JANUS_CHECK(replicas > 0, e);
    const int r = policy == SchedulingPolicy::kRandom ? Drawn(draw, e, replicas) : 0;
    work.Give(e, placement.replicas[static_cast<size_t>(placement.first[e] + r)]);
  }
}

void RemapToReplicas(std::span<const uint16_t> ids, const AebsWorkspace& work,
                     std::span<Replica> replicas) {
  JANUS_CHECK(ids.size() == replicas.size(), ids.size(), replicas.size());
  const Replica* const replica_of = work.replica_of().data();
#pragma GCC unroll 8
  for (size_t i = 0; i < ids.size(); ++i) replicas[i] = replica_of[ids[i]];
}

void ScheduleActivatedExperts(SchedulingPolicy policy, const LayerPlacement& placement,
                              std::span<const uint16_t> ids, AebsWorkspace& work,
                              std::span<Replica> replicas, uint64_t draw) {
  CollectActivated(ids, placement.experts, work);
  Assign(policy, placement, draw, work);
  RemapToReplicas(ids, work, replicas);
}

}  // namespace janus
