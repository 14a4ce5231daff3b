#include "common/step_trace.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace janus {
namespace {

constexpr std::array<std::string_view, kStepWorks + 1> kNames = {
    "",        "host",    "kernels", "attention", "send",   "shared experts",
    "receive", "combine", "gate",    "AEBS",      "experts"};

// Of one round at one instance: it had nothing handed over before `sends`, and had everything that
// it waited for at `received`.
struct Edges {
  int64_t sends = std::numeric_limits<int64_t>::max();
  int64_t received = std::numeric_limits<int64_t>::min();
};
using Rounds = std::map<std::pair<int, int>, Edges>;  // by layer and micro-batch

Rounds RoundsOf(const StepTrace& trace) {
  Rounds out;
  int64_t at = trace.began_ns;
  for (const StepSpan& span : trace.spans) {
    const int64_t end = at + span.took_ns;
    if (span.layer >= 0 && span.work == StepWork::kSend) {
      Edges& edges = out[{span.layer, span.micro_batch}];
      edges.sends = std::min(edges.sends, at);
    } else if (span.layer >= 0 && span.work == StepWork::kReceive) {
      Edges& edges = out[{span.layer, span.micro_batch}];
      edges.received = std::max(edges.received, end);
    }
    at = end;
  }
  return out;
}

// Bounds on the correction of an instance's clock.
struct Bounds {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  bool any() const {
    return least != std::numeric_limits<int64_t>::min() ||
           most != std::numeric_limits<int64_t>::max();
  }
};

// `known` is of the other role. Each of the two sends to the other in every round.
void Narrow(const Rounds& known, const Rounds& moved, Bounds& bounds) {
  for (const auto& [round, there] : moved) {
    const auto found = known.find(round);
    if (found == known.end()) continue;
    const Edges& here = found->second;
    if (here.sends != Edges().sends && there.received != Edges().received) {
      bounds.least = std::max(bounds.least, here.sends - there.received);
    }
    if (there.sends != Edges().sends && here.received != Edges().received) {
      bounds.most = std::min(bounds.most, here.received - there.sends);
    }
  }
}

int64_t EndOf(const StepTrace& trace) {
  int64_t end = trace.began_ns;
  for (const StepSpan& span : trace.spans) end += span.took_ns;
  return end;
}

bool Overlap(const StepTrace& a, const StepTrace& b) {
  return a.began_ns <= EndOf(b) && b.began_ns <= EndOf(a);
}

}  // namespace

std::string_view ToString(StepWork work) {
  return kNames[static_cast<size_t>(work)];
}

void KeepMiddle(StepTrace& trace, int layers) {
  if (layers >= trace.layers) return;
  const int first = (trace.layers - layers) / 2;
  const auto is_kept = [&](const StepSpan& span) {
    return span.layer >= first && span.layer < first + layers;
  };
  auto& spans = trace.spans;
  const auto begin = std::ranges::find_if(spans, is_kept);
  for (auto at = spans.begin(); at != begin; ++at) trace.began_ns += at->took_ns;
  auto end = spans.end();
  while (end != begin && !is_kept(*std::prev(end))) --end;
  spans.erase(end, spans.end());
  spans.erase(spans.begin(), begin);
}

void KeepOneStep(std::vector<StepTrace>& traces) {
  std::map<std::pair<uint64_t, uint64_t>, size_t> instances;
  for (const StepTrace& one : traces) ++instances[{one.epoch, one.step}];
  const auto best = std::ranges::max_element(
      instances, {}, [](const auto& one) { return std::tuple(one.second, one.first); });
  if (best == instances.end()) return;
  std::erase_if(
      traces, [&](const StepTrace& one) { return std::pair(one.epoch, one.step) != best->first; });
}

int64_t AlignClocks(std::vector<StepTrace>& traces) {
  std::ranges::sort(traces, {}, [](const StepTrace& one) { return std::pair(one.role, one.rank); });
  std::vector<Rounds> aligned[2];  // by role
  int64_t error = 0;
  const StepTrace* first = nullptr;
  const auto align = [&](StepTrace& trace) {
    Rounds own = RoundsOf(trace);
    Bounds bounds;
    for (const Rounds& known : aligned[trace.role == Role::kAttention]) {
      Narrow(known, own, bounds);
    }
    if (first != nullptr && !bounds.any() && !Overlap(trace, *first)) {
      trace.spans.clear();
      return;
    }
    if (bounds.any() && (bounds.least > 0 || bounds.most < 0)) {
      const bool both = bounds.least != Bounds().least && bounds.most != Bounds().most;
      const int64_t move = !both ? (bounds.least > 0 ? bounds.least : bounds.most)
                                 : bounds.least + (bounds.most - bounds.least) / 2;
      if (both) error = std::max(error, std::abs(bounds.most - bounds.least) / 2);
      trace.began_ns += move;
      own = RoundsOf(trace);
    }
    aligned[trace.role == Role::kExperts].push_back(std::move(own));
  };
  const auto leads = std::ranges::find(traces, Role::kAttention, &StepTrace::role);
  if (leads == traces.end()) return 0;
  align(*leads);
  first = &*leads;
  for (StepTrace& one : traces) {
    if (one.role == Role::kExperts) align(one);
  }
  for (StepTrace& one : traces) {
    if (one.role == Role::kAttention && &one != first) align(one);
  }
  std::erase_if(traces, [](const StepTrace& one) { return one.spans.empty(); });
  return error;
}

}  // namespace janus
