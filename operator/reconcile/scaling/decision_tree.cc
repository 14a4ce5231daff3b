#include "operator/reconcile/scaling/decision_tree.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "operator/api/quantity.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

constexpr std::pair<DecisionRecord::Action, std::string_view> kActions[] = {
    {DecisionRecord::Action::kHold, "Hold"},
    {DecisionRecord::Action::kScaleUp, "ScaleUp"},
    {DecisionRecord::Action::kScaleDown, "ScaleDown"},
    {DecisionRecord::Action::kSplit, "Split"},
};
// Of the field.
constexpr size_t kLongestDecisionMessage = 1024;

Node CountsTree(const InstanceCounts& counts) {
  Node out = Object(
      {{"attention", Node::Integer(counts.attention)}, {"experts", Node::Integer(counts.experts)}});
  if (counts.pools > 1) out.Add("pools", Node::Integer(counts.pools));
  return out;
}

InstanceCounts CountsAt(const Node& tree, std::string_view field) {
  return {static_cast<int>(IntegerAt(tree, {field, "attention"}).value_or(0)),
          static_cast<int>(IntegerAt(tree, {field, "experts"}).value_or(0)),
          static_cast<int>(IntegerAt(tree, {field, "pools"}).value_or(1))};
}

std::optional<DecisionRecord> DecisionOf(const Node& tree) {
  const janus::Result<WallTime> time = ParseTime(TextAt(tree, {"time"}));
  if (!time.ok()) return std::nullopt;
  DecisionRecord out;
  out.time = *time;
  for (const auto& [action, name] : kActions) {
    if (TextAt(tree, {"action"}) == name) out.action = action;
  }
  out.from = CountsAt(tree, "from");
  out.to = CountsAt(tree, "to");
  out.reason = TextAt(tree, {"reason"});
  out.message = TextAt(tree, {"message"});
  out.limited_by = TextAt(tree, {"limitedBy"});
  out.predicted_tpot_microseconds = IntegerAt(tree, {"predictedTPOTMicroseconds"});
  out.observed_tpot_microseconds = IntegerAt(tree, {"observedTPOTMicroseconds"});
  const janus::Result<Quantity> cost = ParseQuantity(TextAt(tree, {"cost"}));
  if (cost.ok()) out.cost = static_cast<double>(cost->milli) * 1e-3;
  return out;
}

}  // namespace

Node DecisionTree(const DecisionRecord& decision) {
  const auto action = std::find_if(std::begin(kActions), std::end(kActions),
                                   [&](const auto& one) { return one.first == decision.action; });
  Node out = Object({{"time", Text(FormatTime(decision.time))},
                     {"action", Text(action->second)},
                     {"from", CountsTree(decision.from)},
                     {"to", CountsTree(decision.to)},
                     {"reason", Text(decision.reason)},
                     {"message", Text(decision.message.substr(0, kLongestDecisionMessage))}});
  if (!decision.limited_by.empty()) out.Add("limitedBy", Text(decision.limited_by));
  if (decision.predicted_tpot_microseconds) {
    out.Add("predictedTPOTMicroseconds", Node::Integer(*decision.predicted_tpot_microseconds));
  }
  if (decision.observed_tpot_microseconds) {
    out.Add("observedTPOTMicroseconds", Node::Integer(*decision.observed_tpot_microseconds));
  }
  if (decision.cost > 0) {
    const auto milli = static_cast<int64_t>(std::llround(decision.cost * 1e3));
    const bool is_whole = milli % 1000 == 0;
    out.Add("cost", Text(is_whole ? std::to_string(milli / 1000) : std::to_string(milli) + "m"));
  }
  return out;
}

std::optional<DecisionRecord> LastDecisionOf(const Node& service) {
  const Node* const tree = FindAt(service, {"status", "decision"});
  return tree == nullptr ? std::nullopt : DecisionOf(*tree);
}

std::vector<DecisionRecord> HistoryOf(const Node& service) {
  std::vector<DecisionRecord> out;
  const Node* const list = FindAt(service, {"status", "history"});
  if (list == nullptr) return out;
  for (const Node& one : list->items) {
    if (std::optional<DecisionRecord> decision = DecisionOf(one)) {
      out.push_back(*std::move(decision));
    }
  }
  return out;
}

}  // namespace janus::control
