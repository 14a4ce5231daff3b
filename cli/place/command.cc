#include "cli/place/command.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/place/routing_file.h"
#include "cli/plan/inputs.h"
#include "controllers/replicas/place.h"

namespace janus::cli {
namespace {

using controllers::LayerActivations;
using controllers::LayoutValue;
using controllers::PlacementMethod;
using controllers::RoutingLayer;

constexpr std::array<std::pair<const char*, PlacementMethod>, 4> kMethods = {{
    {"round-robin", PlacementMethod::kRoundRobin},
    {"rows", PlacementMethod::kRows},
    {"coactivation", PlacementMethod::kCoactivation},
    {"search", PlacementMethod::kSearch},
}};

// nullopt: choose the method that is judged best.
Result<std::optional<PlacementMethod>> MethodOf(const std::string& name) {
  if (name == "best") return std::optional<PlacementMethod>();
  for (const auto& [known, method] : kMethods) {
    if (name == known) return std::optional(method);
  }
  return InvalidArgument("--method " + name +
                         ": want best, round-robin, rows, coactivation or search");
}

Result<std::vector<RoutingLayer>> ReadLayers(const PlaceOptions& options) {
  if (options.model.empty()) return ReadRouting(options.routing, options.experts);
  JANUS_ASSIGN_OR_RETURN(const controllers::ModelShape model, ReadModel(options.model));
  JANUS_ASSIGN_OR_RETURN(
      std::vector<RoutingLayer> layers,
      ReadRouting(options.routing, options.experts > 0 ? options.experts : model.experts));
  JANUS_RETURN_IF_ERROR(CheckRouting(options.routing, layers, model));
  return layers;
}

// Samples steps from the first or the second half of every layer's tokens.
std::vector<LayerActivations> SampleHalf(const std::vector<RoutingLayer>& layers, bool second,
                                         const PlaceOptions& options) {
  std::vector<LayerActivations> sampled;
  for (size_t l = 0; l < layers.size(); ++l) {
    RoutingLayer half = {layers[l].experts, layers[l].top_k, {}};
    const auto middle = layers[l].ids.begin() + layers[l].tokens() / 2 * layers[l].top_k;
    half.ids.assign(second ? middle : layers[l].ids.begin(), second ? layers[l].ids.end() : middle);
    sampled.push_back(controllers::SampleActivations(half, options.batch, options.steps,
                                                     options.seed + l + (second ? 1'000'000 : 0)));
  }
  return sampled;
}

struct Judged {
  std::string method;
  Placement placement;
  double largest = 0;  // means over layers
  double gap = 0;
};

Judged JudgeOn(const std::vector<LayerActivations>& layers, SchedulingPolicy scheduling,
               std::string method, Placement placement) {
  Judged judged = {std::move(method), std::move(placement)};
  for (size_t l = 0; l < layers.size(); ++l) {
    const controllers::ReplicaRoom room = {
        layers[l].experts, judged.placement.slots_of_instance, {}};
    controllers::LayoutJudge judge(room, layers[l].steps, scheduling);
    const LayoutValue value =
        judge.Judge(controllers::LayoutOf(judged.placement, static_cast<int>(l)));
    judged.largest += value.largest / static_cast<double>(layers.size());
    judged.gap += value.gap / static_cast<double>(layers.size());
  }
  return judged;
}

std::string RenderText(const PlaceOptions& options, const std::vector<RoutingLayer>& layers,
                       const std::vector<Judged>& all, const Judged& chosen, double activated) {
  std::string text;
  char line[256];
  std::snprintf(line, sizeof(line),
                "%zu layers of %d experts, top %d, %d tokens each; %d instances of %d slots, %d of "
                "them stay empty; %.2f replicas per expert\n",
                layers.size(), layers[0].experts, layers[0].top_k, layers[0].tokens(),
                options.instances, chosen.placement.slots_of_instance[0], options.spare_slots,
                static_cast<double>(options.instances) *
                    (chosen.placement.slots_of_instance[0] - options.spare_slots) /
                    layers[0].experts);
  text += line;
  std::snprintf(line, sizeof(line),
                "a step of %d tokens activates %.1f experts per layer: at least %.2f on the "
                "busiest instance\n\n",
                options.batch, activated, activated / options.instances);
  text += line;
  std::snprintf(line, sizeof(line), "%-14s %28s %22s\n", "PLACEMENT", "ACTIVATED, BUSIEST INSTANCE",
                "BUSIEST - LEAST BUSY");
  text += line;
  for (const Judged& judged : all) {
    std::snprintf(line, sizeof(line), "%-14s %28.2f %22.2f%s\n", judged.method.c_str(),
                  judged.largest, judged.gap, &judged == &chosen ? "   <- chosen" : "");
    text += line;
  }
  text += std::string(
              "each placement uses the first half of the measurement, and is judged on the second "
              "half with ") +
          (options.greedy ? "AEBSGreedy" : "AEBS (its exact form)") + "\n\n";
  const controllers::Layout layout = controllers::LayoutOf(chosen.placement, 0);
  text += "the first layer, by instance:\n";
  for (size_t g = 0; g < layout.size(); ++g) {
    text += "  " + std::to_string(g) + ":";
    for (const uint16_t e : layout[g]) text += " " + std::to_string(e);
    text += "\n";
  }
  return text;
}

std::string RenderJson(const PlaceOptions& options, const std::vector<Judged>& all,
                       const Judged& chosen, double activated) {
  nlohmann::ordered_json root;
  root["batch"] = options.batch;
  root["activatedExperts"] = activated;
  root["method"] = chosen.method;
  root["scheduling"] = options.greedy ? "AEBSGreedy" : "AEBS";
  for (const Judged& judged : all) {
    root["judged"].push_back({{"method", judged.method},
                              {"busiestActivatedExperts", judged.largest},
                              {"busiestMinusIdlest", judged.gap}});
  }
  root["slotsOfInstance"] = chosen.placement.slots_of_instance;
  for (int l = 0; l < chosen.placement.layers; ++l) {
    root["expertsOfInstance"].push_back(controllers::LayoutOf(chosen.placement, l));
  }
  return root.dump(1) + "\n";
}

}  // namespace

Result<std::string> Place(const PlaceOptions& options) {
  JANUS_ASSIGN_OR_RETURN(const std::optional<PlacementMethod> method, MethodOf(options.method));
  JANUS_ASSIGN_OR_RETURN(const std::vector<RoutingLayer> layers, ReadLayers(options));
  if (layers[0].tokens() < 2) {
    return InvalidArgument(
        options.routing +
        ": has one token; want at least two: one to place experts, and one to judge the placement");
  }
  const int fewest = (layers[0].experts + options.instances - 1) / options.instances;
  const std::vector<int> slots(
      static_cast<size_t>(options.instances),
      options.slots_per_instance > 0 ? options.slots_per_instance : fewest + options.spare_slots);
  std::vector<int> pods;
  for (int g = 0; g < options.instances; ++g) pods.push_back(g / options.instances_per_pod);

  const std::vector<LayerActivations> seen = SampleHalf(layers, false, options);
  const std::vector<LayerActivations> unseen = SampleHalf(layers, true, options);
  controllers::PlacementOptions how;
  how.evaluations = options.evaluations;
  how.survivable = options.survivable;
  how.seed = options.seed;
  how.scheduling = options.greedy ? SchedulingPolicy::kAebsGreedy : SchedulingPolicy::kAebs;
  std::vector<Judged> all;
  size_t chosen = 0;
  for (const auto& [name, candidate] : kMethods) {
    how.method = candidate;
    JANUS_ASSIGN_OR_RETURN(
        Placement placement,
        controllers::PlaceByActivation(slots, options.spare_slots, pods, seen, nullptr, how));
    all.push_back(JudgeOn(unseen, how.scheduling, name, std::move(placement)));
    const bool is_better = !method && all.back().largest < all[chosen].largest - 1e-9;
    if (candidate == method || is_better) chosen = all.size() - 1;
  }
  double activated = 0;
  for (const LayerActivations& layer : unseen) {
    activated += controllers::ExpectedActivated(layer) / static_cast<double>(unseen.size());
  }
  return options.json ? RenderJson(options, all, all[chosen], activated)
                      : RenderText(options, layers, all, all[chosen], activated);
}

}  // namespace janus::cli
