#pragma once

#include <optional>
#include <vector>

#include "operator/api/tree.h"
#include "operator/reconcile/scaling/scaling_memory.h"

namespace janus::control {

// Decisions in the status of a MoEService: status.decision is the last one, status.history the
// changes before it. Pure.

Node DecisionTree(const DecisionRecord& decision);

// As it was written; nothing: there is none, or it cannot be read.
std::optional<DecisionRecord> LastDecisionOf(const Node& service);
std::vector<DecisionRecord> HistoryOf(const Node& service);

}  // namespace janus::control
