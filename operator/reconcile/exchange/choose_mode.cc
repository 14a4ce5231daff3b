#include "operator/reconcile/exchange/choose_mode.h"

#include <algorithm>
#include <set>
#include <vector>

#include "common/format.h"
#include "common/row_format.h"
#include "controllers/exchange/mode_times.h"

namespace janus::control {
namespace {

using controllers::ExchangeRound;
using controllers::kExchangeModes;
using controllers::ModeTimes;
using controllers::NodeLinks;

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

// With the gate on attention: what of the rows each expert instance and node needs, if routing is
// uniform. Layers differ little, so the first stands for all.
void SetNeeded(const Topology& topology, const ModelDescription& model, ExchangeRound& round) {
  std::vector<std::set<uint16_t>> by_node(
      static_cast<size_t>(*std::ranges::max_element(round.expert_nodes)) + 1);
  const auto share = [&](const std::set<uint16_t>& held) {
    return controllers::NeededShare(model.moe.experts, model.moe.top_k,
                                    static_cast<double>(held.size()));
  };
  for (int e = 0; e < topology.n(); ++e) {
    const int first = topology.placement.first_slot(Rank{e});
    std::set<uint16_t> held;
    for (int slot = 0; slot < topology.experts[static_cast<size_t>(e)].slots; ++slot) {
      const uint16_t expert = topology.placement.at(0, first + slot);
      if (expert != Placement::kEmpty) held.insert(expert);
    }
    round.needed_by_expert.push_back(share(held));
    by_node[static_cast<size_t>(round.expert_nodes[static_cast<size_t>(e)])].merge(held);
  }
  for (const std::set<uint16_t>& held : by_node) {
    round.needed_by_node.push_back(share(held));
  }
}

std::string Milliseconds(double seconds) {
  return Format("%.2g ms", seconds * 1e3);
}

std::string BitRate(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits < 1e9 ? Format("%.3g Mbit/s", bits / 1e6) : Format("%.3g Gbit/s", bits / 1e9);
}

}  // namespace

LinksReported LinksReportedBy(const TopologyRecord& committed, const Statistics* statistics) {
  LinksReported out;
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
      if (link.measured && link.measured->bytes_per_second > 0) {
        out.links[{self->node, peer->node}] = *link.measured;
      } else if (!link.not_measured.empty()) {
        out.not_measured = self->node + " to " + peer->node + ": " + link.not_measured;
      }
    }
  }
  if (steps >= kFewestSteps)
    out.rows_per_step = static_cast<double>(rows) / static_cast<double>(steps);
  return out;
}

ChosenMode ChooseMode(const Topology& topology, const PlannedService& planned,
                      const LinksReported& reported, std::optional<janus::ExchangeMode> current,
                      bool only_for_mode) {
  const ServicePlan& plan = planned.plan;
  const janus::ExchangeMode fallback = plan.effective.mode;
  ExchangeRound round;
  Numbers attention, experts;
  for (const Instance& one : topology.attention) {
    round.attention_nodes.push_back(attention.Of(one.node));
  }
  for (const Instance& one : topology.experts) round.expert_nodes.push_back(experts.Of(one.node));
  if (attention.size() == topology.attention.size() && experts.size() == topology.experts.size() &&
      plan.mode_fits[static_cast<size_t>(janus::ExchangeMode::kDirect)]) {
    return {janus::ExchangeMode::kDirect, "Direct: every node has one instance"};
  }
  if (reported.links.empty()) {
    const janus::ExchangeMode kept = only_for_mode ? current.value_or(fallback) : fallback;
    const std::string why = !current ? "links are measured while the first epoch is prepared"
                            : !reported.has_answer ? "the members have not reported their links yet"
                            : reported.not_measured.empty()
                                ? "no pair of nodes needs a network"
                                : "no link was measured; " + reported.not_measured;
    return {kept, Cut(Name(kept) + ", without measured links: " + why)};
  }
  const MeasuredLink typical = Typical(reported);
  const std::vector<std::string> attention_names = attention.names();
  const std::vector<std::string> expert_names = experts.names();
  NodeLinks links;
  size_t measured = 0;
  for (const std::string& a : attention_names) {
    std::vector<controllers::NodeLink>& row = links.emplace_back();
    for (const std::string& e : expert_names) {
      const auto found = reported.links.find({a, e});
      measured += found != reported.links.end();
      row.push_back({found != reported.links.end() ? found->second : typical, a == e});
    }
  }
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
  if (topology.gate == janus::GateSide::kAttention) SetNeeded(topology, planned.model, round);
  const ModeTimes times = controllers::TimesOfModes(round, links);

  std::vector<janus::ExchangeMode> allowed;
  for (const janus::ExchangeMode mode : kExchangeModes) {
    if (plan.mode_fits[static_cast<size_t>(mode)]) allowed.push_back(mode);
  }
  const janus::ExchangeMode* const now = current ? &*current : nullptr;
  janus::ExchangeMode mode =
      controllers::FastestMode(times, allowed, now, only_for_mode ? kGainOfEpoch : kGainOfMode);
  if (current && only_for_mode && times.of(*current) - times.of(mode) < kGainOfEpochSeconds) {
    mode = *current;
  }

  std::string why = Name(mode) + ": " + Milliseconds(times.of(mode)) + " a round";
  for (const janus::ExchangeMode other : kExchangeModes) {
    if (other == mode) continue;
    why += ", " + Name(other) + " " + Milliseconds(times.of(other));
    if (std::ranges::find(allowed, other) == allowed.end()) why += " (needs too much memory)";
  }
  why +=
      Format("; measured %s, %s and %.2g us a message", BitRate(typical.bytes_per_second).c_str(),
             Milliseconds(typical.latency_seconds).c_str(), typical.message_seconds * 1e6);
  const size_t pairs = attention_names.size() * expert_names.size();
  if (measured < pairs) {
    why += " (" + std::to_string(measured) + " of " + std::to_string(pairs) + " pairs of nodes";
    why += reported.not_measured.empty() ? ")" : "; " + reported.not_measured + ")";
  }
  why += Format("; %.0f rows of an instance", round.rows);
  return {mode, Cut(std::move(why))};
}

}  // namespace janus::control
