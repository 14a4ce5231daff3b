#include "operator/reconcile/status/conditions.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

constexpr std::array<std::pair<ConditionStatus, std::string_view>, 3> kStatuses{
    {{ConditionStatus::kTrue, "True"},
     {ConditionStatus::kFalse, "False"},
     {ConditionStatus::kUnknown, "Unknown"}}};

std::string_view TextOf(ConditionStatus status) {
  for (const auto& [value, text] : kStatuses) {
    if (value == status) return text;
  }
  return "Unknown";
}

std::optional<Condition> ReadOne(const Node& node) {
  Condition out;
  out.type = TextAt(node, {"type"});
  const std::string_view status = TextAt(node, {"status"});
  const auto known = std::find_if(kStatuses.begin(), kStatuses.end(),
                                  [&](const auto& one) { return one.second == status; });
  const auto time = ParseTime(TextAt(node, {"lastTransitionTime"}));
  if (out.type.empty() || known == kStatuses.end() || !time.ok()) return std::nullopt;
  out.status = known->first;
  out.reason = TextAt(node, {"reason"});
  out.message = TextAt(node, {"message"});
  out.observed_generation = IntegerAt(node, {"observedGeneration"}).value_or(0);
  out.last_transition = *time;
  return out;
}

}  // namespace

std::vector<Condition> ReadConditions(const Node& object) {
  std::vector<Condition> out;
  const Node* list = FindAt(object, {"status", "conditions"});
  if (list == nullptr) return out;
  for (const Node& item : list->items) {
    if (std::optional<Condition> one = ReadOne(item)) out.push_back(*std::move(one));
  }
  return out;
}

Node WriteConditions(const std::vector<Condition>& conditions) {
  Node out = Node::List();
  for (const Condition& one : conditions) {
    out.items.push_back(Object({{"type", Text(one.type)},
                                {"status", Text(TextOf(one.status))},
                                {"observedGeneration", Node::Integer(one.observed_generation)},
                                {"lastTransitionTime", Text(FormatTime(one.last_transition))},
                                {"reason", Text(one.reason)},
                                {"message", Text(one.message)}}));
  }
  return out;
}

std::vector<Condition> Transitioned(const std::vector<Condition>& before,
                                    std::vector<Condition> now_said, WallTime now) {
  for (Condition& one : now_said) {
    const auto old = std::find_if(before.begin(), before.end(),
                                  [&](const Condition& was) { return was.type == one.type; });
    const bool is_same = old != before.end() && old->status == one.status;
    one.last_transition = is_same ? old->last_transition : now;
  }
  return now_said;
}

}  // namespace janus::control
