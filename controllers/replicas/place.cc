#include "controllers/replicas/place.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>

#include "common/check.h"
#include "controllers/placement.h"

namespace janus::controllers {
namespace {

constexpr double kSquaresWeight = 1e-4;  // breaks ties towards even loads

bool Holds(const std::vector<uint16_t>& experts, uint16_t expert) {
  return std::ranges::find(experts, expert) != experts.end();
}

int Missing(const Layout& from, const Layout& to) {
  int missing = 0;
  for (size_t g = 0; g < to.size(); ++g) {
    for (const uint16_t e : to[g]) missing += g < from.size() && Holds(from[g], e) ? 0 : 1;
  }
  return missing;
}

// Hill climbing over one layer's layout. A move picks an instance that is often the busiest, one of
// its experts, and another instance with an expert there. Swap: the two experts change places.
// Replace: the other instance gets a further replica of the first expert, in place of the expert
// there, which must have another replica.
class Search {
 public:
  Search(const ReplicaRoom& room, const LayerActivations& activations, const Layout* current,
         const PlacementOptions& options, uint64_t seed)
      : room_(room),
        current_(current),
        options_(options),
        judge_(room, activations.steps, options.scheduling),
        random_(seed) {}

  double Cost(const Layout& layout,
              double give_up_above = std::numeric_limits<double>::infinity()) {
    const LayoutValue value = judge_.Judge(layout, give_up_above);
    const int moved = current_ == nullptr ? 0 : Missing(*current_, layout);
    return value.largest + kSquaresWeight * value.squares + options_.movement_weight * moved;
  }

  Layout Run(Layout layout) {
    double cost = Cost(layout);
    std::vector<int> busy(judge_.busiest_steps().begin(), judge_.busiest_steps().end());
    for (int i = 0; i < options_.evaluations; ++i) {
      const Change change = Move(layout, busy);
      if (!change.is_made) continue;
      const double trial_cost = Cost(layout, cost);
      if (trial_cost >= cost) {
        layout[change.g][change.g_slot] = change.g_had;
        layout[change.h][change.h_slot] = change.h_had;
        continue;
      }
      cost = trial_cost;
      busy.assign(judge_.busiest_steps().begin(), judge_.busiest_steps().end());
    }
    return layout;
  }

 private:
  size_t Draw(size_t below) { return static_cast<size_t>(random_() % below); }

  size_t DrawBusy(const std::vector<int>& busy) {
    int total = 0;
    for (const int b : busy) total += b;
    if (total == 0) return Draw(busy.size());
    int at = static_cast<int>(Draw(static_cast<size_t>(total)));
    for (size_t g = 0; g < busy.size(); ++g) {
      at -= busy[g];
      if (at < 0) return g;
    }
    return busy.size() - 1;
  }

  // Whether `expert` on g would be a further replica in g's pod, although another pod has none. A
  // replica on `leaving` does not count, because it goes away.
  bool CrowdsAPod(const Layout& layout, size_t g, size_t leaving, uint16_t expert) const {
    if (room_.pod_of_instance.empty()) return false;
    const int pod = room_.pod(static_cast<int>(g));
    std::set<int> pods;
    bool is_shared = false;
    for (size_t h = 0; h < layout.size(); ++h) {
      if (h == g || h == leaving || !Holds(layout[h], expert)) continue;
      pods.insert(room_.pod(static_cast<int>(h)));
      is_shared |= room_.pod(static_cast<int>(h)) == pod;
    }
    return is_shared && static_cast<int>(pods.size()) < room_.pods();
  }

  // A change of two slots, with their old contents.
  struct Change {
    bool is_made = false;
    size_t g = 0;
    size_t g_slot = 0;
    uint16_t g_had = 0;
    size_t h = 0;
    size_t h_slot = 0;
    uint16_t h_had = 0;
  };

  Change Move(Layout& layout, const std::vector<int>& busy) {
    const size_t g = DrawBusy(busy);
    if (layout[g].empty()) return {};
    const size_t from = Draw(layout[g].size());
    const uint16_t expert = layout[g][from];
    const size_t h = Draw(layout.size());
    if (h == g || layout[h].empty() || Holds(layout[h], expert)) return {};
    const size_t to = Draw(layout[h].size());
    const uint16_t other = layout[h][to];
    if (Draw(3) == 0) {
      // The third expert loses a replica on h; `expert` gains one.
      if (Replicas(layout, other) < 2 || CrowdsAPod(layout, h, h, expert)) return {};
      layout[h][to] = expert;
      return {true, g, from, expert, h, to, other};
    }
    if (Holds(layout[g], other)) return {};
    if (CrowdsAPod(layout, h, g, expert) || CrowdsAPod(layout, g, h, other)) return {};
    layout[g][from] = other;
    layout[h][to] = expert;
    return {true, g, from, expert, h, to, other};
  }

  static int Replicas(const Layout& layout, uint16_t expert) {
    int count = 0;
    for (const auto& held : layout) count += Holds(held, expert) ? 1 : 0;
    return count;
  }

  const ReplicaRoom& room_;
  const Layout* const current_;
  const PlacementOptions& options_;
  LayoutJudge judge_;
  std::mt19937_64 random_;
};

// `blind`: the layout from dealing experts in turn.
Layout LayOut(const ReplicaRoom& room, const LayerActivations& activations, const Layout& blind,
              const Layout* current, const PlacementOptions& options, uint64_t seed) {
  const std::vector<int> replicas = ReplicateByRows(room, activations.rows);
  if (options.method == PlacementMethod::kRows) return PlaceByRows(room, activations, replicas);
  Layout together = PlaceByCoactivation(room, activations, replicas);
  if (options.method == PlacementMethod::kCoactivation) return together;
  Search search(room, activations, current, options, seed);
  Layout best = std::move(together);
  double least = search.Cost(best);
  const auto consider = [&](Layout candidate) {
    if (const double cost = search.Cost(candidate); cost < least) {
      least = cost;
      best = std::move(candidate);
    }
  };
  consider(PlaceByRows(room, activations, replicas));
  // A step reads a popular expert once, however many rows it has.
  const LayerActivations by_steps = {room.experts, StepsOfExperts(activations), {}, {}};
  consider(PlaceByRows(room, by_steps, ReplicateByRows(room, by_steps.rows)));
  consider(blind);
  if (current != nullptr) consider(*current);
  return search.Run(std::move(best));
}

// Writes a layout into one layer's slots. Replicas that stay keep their slots; the others fill the
// free slots in order.
void WriteLayer(const Layout& layout, const Placement* current, int layer, int spare_slots,
                Placement& placement) {
  const size_t slots = static_cast<size_t>(placement.total_slots());
  uint16_t* const row = placement.expert_of.data() + static_cast<size_t>(layer) * slots;
  size_t first = 0;
  for (size_t g = 0; g < layout.size(); ++g) {
    const auto room =
        static_cast<size_t>(std::max(placement.slots_of_instance[g] - spare_slots, 0));
    std::vector<uint16_t> left = layout[g];
    if (current != nullptr) {
      for (size_t s = 0; s < room; ++s) {
        const uint16_t held = current->at(layer, static_cast<int>(first + s));
        if (held != Placement::kEmpty && std::erase(left, held) > 0) row[first + s] = held;
      }
    }
    size_t s = 0;
    for (const uint16_t e : left) {
      while (row[first + s] != Placement::kEmpty) ++s;
      row[first + s] = e;
    }
    first += static_cast<size_t>(placement.slots_of_instance[g]);
  }
}

// Steps for the search, and steps that judge it, by kind (SampleActivations alternates between
// two). Only a search is judged.
struct Split {
  LayerActivations searched;
  std::array<std::vector<std::vector<uint16_t>>, 2> judging;
};
Split SplitSteps(const LayerActivations& all, const PlacementOptions& options) {
  constexpr size_t kFewest = 6;
  Split split = {all, {}};
  const bool is_judged = options.is_judged && options.method == PlacementMethod::kSearch;
  if (!is_judged || all.steps.size() < kFewest) return split;
  const size_t searched = all.steps.size() - all.steps.size() / 3;
  for (size_t s = searched; s < all.steps.size(); ++s) {
    split.judging[s % 2].push_back(all.steps[s]);
  }
  split.searched.steps.resize(searched);
  return split;
}

// The search's result on the judging steps, and the value to compare with, by kind.
struct Verdict {
  std::array<double, 2> found = {0, 0};
  std::array<double, 2> otherwise = {0, 0};

  // Whether there is an overall gain, and no loss on either kind.
  bool IsGain() const {
    return found[0] <= otherwise[0] && found[1] <= otherwise[1] &&
           found[0] + found[1] <= (1 - kLeastGain) * (otherwise[0] + otherwise[1]);
  }
};

// Whether every expert's replicas are in as many pods as possible.
bool KeepsPodsApart(const ReplicaRoom& room, const Layout& layout) {
  std::vector<std::set<int>> pods(static_cast<size_t>(room.experts));
  std::vector<int> replicas(static_cast<size_t>(room.experts));
  for (size_t g = 0; g < layout.size(); ++g) {
    for (const uint16_t e : layout[g]) {
      pods[e].insert(room.pod(static_cast<int>(g)));
      ++replicas[e];
    }
  }
  for (size_t e = 0; e < pods.size(); ++e) {
    if (static_cast<int>(pods[e].size()) < std::min(replicas[e], room.pods())) return false;
  }
  return true;
}

Status CheckSurvivable(const ReplicaRoom& room) {
  std::map<int, int> slots_of_pod;
  for (size_t g = 0; g < room.room.size(); ++g) {
    slots_of_pod[room.pod(static_cast<int>(g))] += room.room[g];
  }
  int largest = 0;
  for (const auto& [pod, slots] : slots_of_pod) largest = std::max(largest, slots);
  const int left = room.total() - largest;
  if (left >= room.experts) return OkStatus();
  return FailedPrecondition("placement: not survivable: without the largest pod " +
                            std::to_string(left) + " slots are left for " +
                            std::to_string(room.experts) +
                            " experts; add expert instances, slots, or smaller pods");
}

}  // namespace

Layout LayoutOf(const Placement& placement, int layer) {
  Layout layout(placement.slots_of_instance.size());
  int slot = 0;
  for (size_t g = 0; g < layout.size(); ++g) {
    for (int s = 0; s < placement.slots_of_instance[g]; ++s, ++slot) {
      const uint16_t e = placement.at(layer, slot);
      if (e != Placement::kEmpty) layout[g].push_back(e);
    }
  }
  return layout;
}

int64_t ReplicasToLoad(const Placement& current, const Placement& next) {
  JANUS_CHECK(current.layers == next.layers, current.layers, next.layers);
  int64_t missing = 0;
  for (int layer = 0; layer < next.layers; ++layer) {
    missing += Missing(LayoutOf(current, layer), LayoutOf(next, layer));
  }
  return missing;
}

Result<Placement> PlaceByActivation(const std::vector<int>& slots_of_instance, int spare_slots,
                                    const std::vector<int>& pod_of_instance,
                                    std::span<const LayerActivations> layers,
                                    const Placement* current, const PlacementOptions& options) {
  if (layers.empty()) return InvalidArgument("placement: no layers of routing");
  const int experts = layers[0].experts;
  for (const LayerActivations& layer : layers) {
    if (layer.experts == experts) continue;
    return InvalidArgument("placement: layers of " + std::to_string(experts) + " and of " +
                           std::to_string(layer.experts) + " experts");
  }
  if (!pod_of_instance.empty() && pod_of_instance.size() != slots_of_instance.size()) {
    return InvalidArgument("placement: " + std::to_string(pod_of_instance.size()) + " pods for " +
                           std::to_string(slots_of_instance.size()) + " instances");
  }
  // Checks counts and bounds. This is also the result of the blind method.
  JANUS_ASSIGN_OR_RETURN(
      Placement placement,
      PlaceRoundRobin({static_cast<int>(layers.size()), experts, slots_of_instance, spare_slots}));
  ReplicaRoom room{experts, slots_of_instance, pod_of_instance};
  // An instance holds an expert once: it can use at most E slots.
  for (int& slots : room.room) slots = std::clamp(slots - spare_slots, 0, experts);
  if (options.survivable) JANUS_RETURN_IF_ERROR(CheckSurvivable(room));
  if (options.method == PlacementMethod::kRoundRobin) return placement;
  if (current != nullptr && (current->slots_of_instance != slots_of_instance ||
                             current->layers != static_cast<int>(layers.size()))) {
    current = nullptr;  // other instances: only equal experts need no load
  }
  const Layout blind = LayoutOf(placement, 0);
  std::vector<Layout> layouts;
  Verdict verdict;
  bool is_judged = false;
  for (int layer = 0; layer < placement.layers; ++layer) {
    const LayerActivations& all = layers[static_cast<size_t>(layer)];
    const Layout had = current == nullptr ? Layout() : LayoutOf(*current, layer);
    const Split split = SplitSteps(all, options);
    layouts.push_back(LayOut(room, split.searched, blind, current == nullptr ? nullptr : &had,
                             options, options.seed + static_cast<uint64_t>(layer)));
    for (size_t kind = 0; kind < split.judging.size(); ++kind) {
      if (split.judging[kind].empty()) continue;
      is_judged = true;
      LayoutJudge judge(room, split.judging[kind], options.scheduling);
      verdict.found[kind] += judge.Judge(layouts.back()).largest;
      verdict.otherwise[kind] += judge.Judge(current == nullptr ? blind : had).largest;
    }
  }
  if (is_judged && !verdict.IsGain()) {
    if (current != nullptr) return *current;
    if (KeepsPodsApart(room, blind)) return placement;
  }
  std::ranges::fill(placement.expert_of, Placement::kEmpty);
  for (int layer = 0; layer < placement.layers; ++layer) {
    WriteLayer(layouts[static_cast<size_t>(layer)], current, layer, spare_slots, placement);
  }
  return placement;
}

}  // namespace janus::controllers
