#include "operator/reconcile/exchange/choose_mode.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/gpu_links.h"
#include "common/row_format.h"

namespace janus::control {
namespace {

using controllers::ExchangeRound;
using controllers::ExchangeWay;
using controllers::kExchangeModes;
using controllers::NodeLinks;
using controllers::WayTimes;

// Fewer steps than this say nothing of the rows in a round.
constexpr uint64_t kFewestSteps = 50;

std::string Name(janus::ExchangeMode mode) {
  return std::string(janus::ToString(mode));
}

std::string Cut(std::string text) {
  if (text.size() > kMostWhy) text.resize(kMostWhy);
  return text;
}

// Numbers nodes from 0, in the order of their first instance.
class Numbers {
 public:
  int Of(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
  }
  size_t size() const { return numbers_.size(); }
  std::vector<std::string> names() const {
    std::vector<std::string> out(numbers_.size());
    for (const auto& [name, number] : numbers_) out[static_cast<size_t>(number)] = name;
    return out;
  }

 private:
  std::map<std::string, int> numbers_;
};

std::string HostOf(const std::string& address) {
  return address.starts_with("unix:") ? address : address.substr(0, address.rfind(':'));
}

// Instances behind one address share its card, unless RDMA devices tell them apart. Processes of
// one machine that play nodes have no card: each is its own.
std::vector<int> CardsOf(const Topology& topology, const LinksReported& reported) {
  std::vector<std::string> hosts;
  Numbers different;
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    for (const Instance& one : *role) {
      std::string host = one.node.starts_with("machine/") ? one.node : HostOf(one.address);
      const auto device = reported.devices.find({one.node, one.index});
      if (device != reported.devices.end()) host += "/" + device->second;
      different.Of(host);
      hosts.push_back(std::move(host));
    }
  }
  const bool is_one_machine = different.size() == 1;
  std::vector<int> out;
  for (size_t i = 0; i < hosts.size(); ++i) {
    out.push_back(is_one_machine ? static_cast<int>(i) : different.Of(hosts[i]));
  }
  return out;
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Of the measured links, figure by figure.
MeasuredLink Typical(const LinksReported& reported) {
  const auto median = [&](double MeasuredLink::*figure) {
    std::vector<double> values;
    for (const auto& [nodes, link] : reported.links) values.push_back(link.*figure);
    return Median(std::move(values));
  };
  return {median(&MeasuredLink::latency_seconds), median(&MeasuredLink::bytes_per_second),
          median(&MeasuredLink::message_seconds)};
}

// Counts the different experts in slots of a layer.
class HeldCount {
 public:
  explicit HeldCount(int experts) : is_held_(static_cast<size_t>(experts)) {}

  void Add(const Placement& placement, int layer, int first, int slots) {
    for (int slot = first; slot < first + slots; ++slot) {
      const uint16_t expert = placement.at(layer, slot);
      if (expert >= is_held_.size() || is_held_[expert]) continue;
      is_held_[expert] = true;
      ++count_;
    }
  }
  int count() const { return count_; }

 private:
  std::vector<bool> is_held_;
  int count_ = 0;
};

// With the gate on attention: what of the rows each expert instance and node needs in the mean over
// the layers, if routing is uniform.
void SetNeeded(const Topology& topology, const ModelDescription& model, ExchangeRound& round) {
  const Placement& placement = topology.placement;
  const auto nodes = static_cast<size_t>(*std::ranges::max_element(round.expert_nodes)) + 1;
  round.needed_by_expert.assign(static_cast<size_t>(topology.n()), 0);
  round.needed_by_node.assign(nodes, 0);
  const auto share = [&](const HeldCount& held) {
    return controllers::NeededShare(model.moe.experts, model.moe.top_k, held.count()) /
           placement.layers;
  };
  for (int layer = 0; layer < placement.layers; ++layer) {
    std::vector<HeldCount> of_node(nodes, HeldCount(model.moe.experts));
    int first = 0;
    for (size_t e = 0; e < round.needed_by_expert.size(); ++e) {
      const int slots = placement.slots_of_instance[e];
      HeldCount of_instance(model.moe.experts);
      of_instance.Add(placement, layer, first, slots);
      round.needed_by_expert[e] += share(of_instance);
      of_node[static_cast<size_t>(round.expert_nodes[e])].Add(placement, layer, first, slots);
      first += slots;
    }
    for (size_t node = 0; node < nodes; ++node) round.needed_by_node[node] += share(of_node[node]);
  }
}

std::string Milliseconds(double seconds) {
  return Format("%.2g ms", seconds * 1e3);
}

std::string BitRate(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits < 1e9 ? Format("%.3g Mbit/s", bits / 1e6) : Format("%.3g Gbit/s", bits / 1e9);
}

std::string SideOf(janus::GateSide gate) {
  return gate == janus::GateSide::kAttention ? "gate on attention" : "gate on experts";
}

// Instances behind their nodes, which are numbered from 0.
struct Nodes {
  explicit Nodes(const Topology& topology) {
    for (const Instance& one : topology.attention) of_attention.push_back(attention.Of(one.node));
    for (const Instance& one : topology.experts) of_experts.push_back(experts.Of(one.node));
  }
  bool AllHaveOne() const {
    return attention.size() == of_attention.size() && experts.size() == of_experts.size();
  }
  size_t pairs() const { return attention.size() * experts.size(); }

  Numbers attention, experts;
  std::vector<int> of_attention, of_experts;
};

// What the plan has room for. Where every node has one instance, a mode in two phases does what
// Direct does, and more.
std::vector<ExchangeWay> AllowedBy(const ServicePlan& plan, bool only_direct) {
  std::vector<ExchangeWay> out;
  for (const janus::ExchangeMode mode : kExchangeModes) {
    if (only_direct && mode != janus::ExchangeMode::kDirect) continue;
    const auto at = static_cast<size_t>(mode);
    if (plan.mode_fits[at]) out.push_back({mode, plan.effective.gate});
    if (plan.gate_fits[at]) out.push_back({mode, janus::GateSide::kAttention});
  }
  return out;
}

bool IsAllowed(const std::vector<ExchangeWay>& allowed, const ExchangeWay& way) {
  return std::ranges::find(allowed, way) != allowed.end();
}

// Whatever an epoch is made for, nothing is known that speaks against the current way. If its mode
// was no choice (`was_only_direct`), or has no room or no use any more, its gate may still stay.
ExchangeWay WithoutLinks(const std::vector<ExchangeWay>& allowed, const ExchangeWay& planned,
                         const std::optional<ExchangeWay>& current, bool was_only_direct) {
  if (!current) return planned;
  const bool was_chosen = !was_only_direct || current->mode != janus::ExchangeMode::kDirect;
  if (was_chosen && IsAllowed(allowed, *current)) return *current;
  const ExchangeWay same_gate{planned.mode, current->gate};
  return IsAllowed(allowed, same_gate) ? same_gate : planned;
}

// `measured`: pairs of nodes with a link of their own; the others are taken for typical.
NodeLinks LinksOf(const Nodes& nodes, const LinksReported& reported, size_t& measured) {
  const MeasuredLink typical = Typical(reported);
  NodeLinks links;
  for (const std::string& a : nodes.attention.names()) {
    std::vector<controllers::NodeLink>& row = links.emplace_back();
    for (const std::string& e : nodes.experts.names()) {
      const auto found = reported.links.find({a, e});
      measured += found != reported.links.end();
      row.push_back({found != reported.links.end() ? found->second : typical, a == e});
    }
  }
  return links;
}

ExchangeRound RoundOf(const Topology& topology, const Nodes& nodes, const PlannedService& planned,
                      const LinksReported& reported) {
  const ServicePlan& plan = planned.plan;
  ExchangeRound round;
  round.attention_nodes = nodes.of_attention;
  round.expert_nodes = nodes.of_experts;
  round.cards = CardsOf(topology, reported);
  const double rows_per_step =
      reported.rows_per_step > 0 ? reported.rows_per_step : plan.max_batch_size / 2.0;
  round.rows = std::clamp(rows_per_step / std::max(topology.micro_batches, 1), 1.0,
                          static_cast<double>(std::max(topology.max_rows_per_round, 1)));
  round.row_bytes = static_cast<double>(
      RowFormat{planned.model.hidden, WireType(planned.model), plan.effective.compression}.bytes());
  round.top_k = planned.model.moe.top_k;
  round.experts = planned.model.moe.experts;
  if (plan.effective.sums.on()) {
    round.sum_bytes = static_cast<double>(SumBytes(plan.effective.sums.bits, planned.model.hidden));
  }
  round.in_gpus = reported.in_gpus;
  return round;
}

// On GPUs rows may stay in their memory in Direct, but in two phases pass through hosts, if the
// instances of a node cannot share what lands.
bool RowsCouldStay(const ServicePlan& plan) {
  return plan.chooses_mode && plan.effective.device == Device::kCuda && !plan.effective.sums.on() &&
         plan.effective.compression == Compression::kNone;
}

// What was free to be chosen: "Direct", "Direct, gate on experts", "gate on experts".
std::string Called(const ExchangeWay& way, const ServicePlan& plan) {
  if (!plan.chooses_mode) return SideOf(way.gate);
  return Name(way.mode) + (plan.moves_gate() ? ", " + SideOf(way.gate) : "");
}

// "TwoPhaseSingle, gate on attention: 1.1 ms a round, gate on experts 1.4 ms, Direct 3 ms, gate on
// attention 2.1 ms". Without a choice of the gate's side no word of it. Of the user's mode only the
// sides: "gate on experts: 1.4 ms a round, gate on attention 1.1 ms".
std::string Compared(const ExchangeWay& chosen, const WayTimes& times, const ServicePlan& plan,
                     bool only_direct) {
  const auto figure = [&](const ExchangeWay& way) {
    const auto at = static_cast<size_t>(way.mode);
    const bool fits = way.gate == plan.effective.gate ? plan.mode_fits[at] : plan.gate_fits[at];
    return Milliseconds(times.of(way)) + (fits ? "" : " (needs too much memory)");
  };
  const bool moves = plan.moves_gate();
  const auto other_side = [](const ExchangeWay& way) {
    const bool is_attention = way.gate == janus::GateSide::kAttention;
    return ExchangeWay{way.mode,
                       is_attention ? janus::GateSide::kExperts : janus::GateSide::kAttention};
  };
  std::string out = Called(chosen, plan) + ": " + Milliseconds(times.of(chosen)) + " a round";
  if (moves) out += ", " + SideOf(other_side(chosen).gate) + " " + figure(other_side(chosen));
  // The user's mode is compared with no other.
  for (const janus::ExchangeMode mode : kExchangeModes) {
    if (mode == chosen.mode || only_direct || !plan.chooses_mode) continue;
    const ExchangeWay other{mode, plan.effective.gate};
    out += ", " + Name(mode) + " " + figure(other);
    if (moves) out += ", " + SideOf(janus::GateSide::kAttention) + " " + figure(other_side(other));
  }
  return out;
}

}  // namespace

LinksReported LinksReportedBy(const TopologyRecord& committed, const Statistics* statistics) {
  LinksReported out;
  std::set<std::pair<Role, std::string>> nodes;
  for (const TopologyInstance& one : committed.instances) nodes.emplace(one.role, one.node);
  out.has_single_instances = nodes.size() == committed.instances.size();
  if (statistics == nullptr) return out;
  std::vector<const TopologyInstance*> attention;
  std::vector<const TopologyInstance*> experts;
  for (const TopologyInstance& one : committed.instances) {
    (one.role == Role::kAttention ? attention : experts).push_back(&one);
  }
  const auto of = [&](Role role, Rank rank) -> const TopologyInstance* {
    const auto& all = role == Role::kAttention ? attention : experts;
    const auto at = static_cast<size_t>(rank.value);
    return rank.value >= 0 && at < all.size() ? all[at] : nullptr;
  };
  uint64_t rows = 0;
  uint64_t steps = 0;
  size_t pairs = 0, pairs_in_gpus = 0;
  for (const InstanceStatistics& one : statistics->instances) {
    const TopologyInstance* const self = of(one.role, one.rank);
    if (self == nullptr || one.epoch != static_cast<uint64_t>(committed.epoch)) continue;
    out.has_answer = true;
    if (!one.device.device.empty()) {
      out.devices[{self->node, self->index}] =
          one.device.device + "/" + std::to_string(one.device.port);
    }
    if (one.role != Role::kAttention) continue;
    rows += one.rows;
    steps += one.steps;
    for (const PeerLink& link : one.links) {
      const TopologyInstance* const peer = of(link.role, link.rank);
      if (peer == nullptr) continue;
      if (link.role == Role::kExperts) {
        ++pairs;
        pairs_in_gpus += link.transport.ends_with(kInGpus);
        out.some_in_gpus = out.some_in_gpus || link.transport.ends_with(kInGpus) ||
                           link.transport.ends_with(kInGpusOneWay);
      }
      if (link.measured && link.measured->bytes_per_second > 0) {
        out.links[{self->node, peer->node}] = *link.measured;
      } else if (!link.not_measured.empty()) {
        out.not_measured = self->node + " to " + peer->node + ": " + link.not_measured;
      }
    }
  }
  out.in_gpus = pairs > 0 && pairs_in_gpus == pairs;
  if (steps >= kFewestSteps)
    out.rows_per_step = static_cast<double>(rows) / static_cast<double>(steps);
  return out;
}

ChosenMode ChooseMode(const Topology& topology, const PlannedService& planned,
                      const LinksReported& reported, const std::optional<ExchangeWay>& current,
                      bool only_for_mode) {
  const ServicePlan& plan = planned.plan;
  const bool moves = plan.moves_gate();
  const ExchangeWay fallback{plan.effective.mode, plan.effective.gate};
  const std::string asked =
      plan.chooses_mode ? "" : Name(fallback.mode) + ": spec.exchange.mode asks for it";
  if (!plan.chooses_mode && !moves) return {fallback, asked};
  const Nodes nodes(topology);
  const bool only_direct = nodes.AllHaveOne() && plan.chooses_mode &&
                           plan.mode_fits[static_cast<size_t>(janus::ExchangeMode::kDirect)];
  if (only_direct && !moves) {
    return {{janus::ExchangeMode::kDirect, fallback.gate}, "Direct: every node has one instance"};
  }
  const std::string first = asked.empty() ? "" : asked + "; ";
  const std::vector<ExchangeWay> allowed = AllowedBy(plan, only_direct);
  if (reported.links.empty()) {
    const ExchangeWay planned_way{only_direct ? janus::ExchangeMode::kDirect : fallback.mode,
                                  fallback.gate};
    const ExchangeWay kept =
        WithoutLinks(allowed, planned_way, current, reported.has_single_instances);
    const std::string why = !current ? "links are measured while the first epoch is prepared"
                            : !reported.has_answer ? "the members have not reported their links yet"
                            : reported.not_measured.empty()
                                ? "no pair of nodes needs a network"
                                : "no link was measured; " + reported.not_measured;
    return {kept, Cut(first + Called(kept, plan) + ", without measured links: " + why)};
  }
  const bool in_two_phases = current && current->mode != janus::ExchangeMode::kDirect;
  if (RowsCouldStay(plan)) {
    const ExchangeWay direct{janus::ExchangeMode::kDirect, fallback.gate};
    if (reported.in_gpus && ForcesNetwork(topology.transport) && IsAllowed(allowed, direct)) {
      return {direct,
              "Direct: rows stay in GPUs; in two phases they would not, because "
              "spec.exchange.transport lets no instances share memory"};
    }
    // No figures of Direct compare with this. By those of hosts the next epoch would be Direct, the
    // one after it in two phases again, and so on.
    if (in_two_phases && reported.some_in_gpus && !reported.in_gpus &&
        IsAllowed(allowed, *current)) {
      return {*current, Name(current->mode) +
                            ": stays, though rows pass through host memory (the workers' logs say "
                            "why); spec.exchange.mode: Direct may leave them in GPUs"};
    }
  }
  size_t measured = 0;
  const NodeLinks links = LinksOf(nodes, reported, measured);
  ExchangeRound round = RoundOf(topology, nodes, planned, reported);
  if (moves || fallback.gate == janus::GateSide::kAttention) {
    SetNeeded(topology, planned.model, round);
  }
  const WayTimes times = controllers::TimesOfWays(round, links);
  const ExchangeWay* const now = current ? &*current : nullptr;
  ExchangeWay way =
      controllers::FastestWay(times, allowed, now, only_for_mode ? kGainOfEpoch : kGainOfMode);
  const bool may_stay = now != nullptr && IsAllowed(allowed, *now);
  if (may_stay && only_for_mode && times.of(*now) - times.of(way) < kGainOfEpochSeconds) {
    way = *now;
  }

  std::string why = first + Compared(way, times, plan, only_direct);
  if (may_stay && way == *now && controllers::FastestWay(times, allowed, nullptr, 0) != way) {
    why += only_for_mode ? Format("; stays until another gains %.0f %% and %.1f ms",
                                  kGainOfEpoch * 100, kGainOfEpochSeconds * 1e3)
                         : Format("; stays until another gains %.0f %%", kGainOfMode * 100);
  }
  const MeasuredLink typical = Typical(reported);
  why +=
      Format("; measured %s, %s and %.2g us a message", BitRate(typical.bytes_per_second).c_str(),
             Milliseconds(typical.latency_seconds).c_str(), typical.message_seconds * 1e6);
  if (measured < nodes.pairs()) {
    why += " (" + std::to_string(measured) + " of " + std::to_string(nodes.pairs()) +
           " pairs of nodes";
    why += reported.not_measured.empty() ? ")" : "; " + reported.not_measured + ")";
  }
  why += Format("; %.0f rows of an instance", round.rows);
  if (plan.effective.device == Device::kCuda) {
    why += round.in_gpus ? ", which stay in GPUs" : ", through host memory";
  }
  return {way, Cut(std::move(why))};
}

}  // namespace janus::control
