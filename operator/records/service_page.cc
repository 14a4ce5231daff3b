#include "operator/records/service_page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "controllers/fit/online.h"
#include "operator/api/json.h"
#include "operator/api/tree.h"
#include "operator/records/record_lines.h"
#include "operator/records/step_page.h"

namespace janus::control {
namespace {

Node Number(double value) {
  Node out;
  if (!std::isfinite(value)) return out;  // null
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  out.kind = Node::Kind::kFloat;
  out.text = text;
  return out;
}
Node Number(const std::optional<double>& value) {
  return value ? Number(*value) : Node();
}
// Null: not known.
Node Positive(double value) {
  return value > 0 ? Number(value) : Node();
}
Node FromMicroseconds(const std::optional<int64_t>& value) {
  return value ? Number(static_cast<double>(*value) * 1e-6) : Node();
}
Node TimeOf(WallTime time) {
  Node out;
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", Seconds(time.time_since_epoch()).count());
  out.kind = Node::Kind::kFloat;
  out.text = text;
  return out;
}

Node RoleTree(const controllers::RoleState& role, int wanted) {
  Node out = Node::Map();
  out.Add("wanted", Node::Integer(wanted));
  out.Add("ready", Node::Integer(role.ready));
  out.Add("starting", Node::Integer(role.starting));
  out.Add("draining", Node::Integer(role.draining));
  return out;
}

Node TargetsTree(const controllers::ScalingPolicy& policy) {
  Node out = Node::Map();
  out.Add("tpotSeconds", Number(policy.tpot.seconds));
  out.Add("tpotPercentile", Number(policy.tpot.percentile));
  out.Add("ttftSeconds", policy.ttft ? Number(policy.ttft->seconds) : Node());
  out.Add("ttftPercentile", policy.ttft ? Number(policy.ttft->percentile) : Node());
  return out;
}

Node PointTree(const TickRecord& tick) {
  const controllers::World& world = tick.world;
  Node out = Node::Map();
  out.Add("t", TimeOf(tick.time));
  const bool has_arrivals = !world.arrivals.empty();
  out.Add("requestsPerSecond",
          has_arrivals ? Number(world.arrivals.front().requests_per_second) : Node());
  out.Add("promptTokensPerSecond",
          has_arrivals ? Number(world.arrivals.front().prompt_tokens_per_second) : Node());
  out.Add("running", Number(world.now.running));
  out.Add("waiting", Number(world.now.waiting));
  out.Add("attention", Node::Integer(world.attention.ready));
  out.Add("experts", Node::Integer(world.experts.ready));
  out.Add("attentionWanted", Node::Integer(tick.summary.to.attention));
  out.Add("expertsWanted", Node::Integer(tick.summary.to.experts));
  out.Add("tpotSeconds", Number(world.observed.tpot_seconds));
  out.Add("ttftSeconds", Number(world.observed.ttft_seconds));
  out.Add("predictedTpotSeconds", Positive(tick.decision.current.tpot_seconds));
  out.Add("ended", Number(world.ended.requests));
  out.Add("attained", Number(world.ended.attained));
  return out;
}

std::string CountsOf(const controllers::Configuration& how) {
  const std::string all = ToString(InstanceCounts{how.m * how.pools, how.n * how.pools});
  return how.pools > 1 ? all + " in " + std::to_string(how.pools) + " pools" : all;
}

Node CandidateTree(const controllers::Candidate& one) {
  const controllers::Prediction& of = one.prediction;
  Node out = Node::Map();
  out.Add("counts", Node::String(CountsOf(of.how)));
  out.Add("tpotSeconds", Positive(of.tpot_seconds));
  out.Add("ttftSeconds", Positive(of.ttft_seconds));
  out.Add("pressure", Number(of.pressure));
  out.Add("gpus", Node::Integer(of.how.pools *
                                (of.how.m * of.how.tp_attention + of.how.n * of.how.tp_experts)));
  out.Add("cost", Number(of.cost));
  out.Add("lostBy", Node::String(one.lost_by));
  return out;
}

Node DecisionTreeOf(const TickRecord& tick) {
  const DecisionRecord& summary = tick.summary;
  Node out = Node::Map();
  out.Add("t", TimeOf(tick.time));
  out.Add("action", Node::String(NameOf(summary.action)));
  out.Add("from", Node::String(ToString(summary.from)));
  out.Add("to", Node::String(ToString(summary.to)));
  out.Add("reason", Node::String(summary.reason));
  out.Add("message", Node::String(summary.message));
  out.Add("limitedBy", Node::String(summary.limited_by));
  out.Add("predictedTpotSeconds", FromMicroseconds(summary.predicted_tpot_microseconds));
  out.Add("observedTpotSeconds", FromMicroseconds(summary.observed_tpot_microseconds));
  out.Add("cost", Number(summary.cost));
  Node& candidates = out.Add("candidates", Node::List());
  for (const controllers::Candidate& one : tick.decision.candidates) {
    candidates.items.push_back(CandidateTree(one));
  }
  return out;
}

Node HoldTree(const DecisionRecord& held) {
  Node out = Node::Map();
  out.Add("t", TimeOf(held.time));
  out.Add("at", Node::String(ToString(held.to)));
  out.Add("reason", Node::String(held.reason));
  out.Add("message", Node::String(held.message));
  return out;
}

Node ErrorTree(const controllers::Decision& decision) {
  const bool is_known = decision.error.count > 0;
  Node out = Node::Map();
  out.Add("attention", Number(std::abs(decision.corrections.attention - 1)));
  out.Add("experts", Number(std::abs(decision.corrections.experts - 1)));
  out.Add("exchange", Number(std::abs(decision.corrections.exchange - 1)));
  out.Add("step", is_known ? Number(decision.error.corrected_median) : Node());
  out.Add("stepUncorrected", is_known ? Number(decision.error.uncorrected_median) : Node());
  out.Add("samples", Node::Integer(decision.error.count));
  return out;
}

Node PlacementTree(const PlacementRecord& record) {
  Node out = Node::Map();
  out.Add("t", TimeOf(record.time));
  out.Add("message", Node::String(record.message));
  out.Add("busiestBefore", Positive(record.busiest_before));
  out.Add("busiestAfter", Positive(record.busiest_after));
  Node& instances = out.Add("instances", Node::List());
  for (const std::string& name : record.instances) instances.items.push_back(Node::String(name));
  Node layers = Node::List();
  for (size_t l = 0; l < record.layers.size(); ++l) {
    Node layer = Node::Map();
    layer.Add("layer", Node::Integer(static_cast<int64_t>(l)));
    Node& share = layer.Add("share", Node::List());
    for (const double one : record.layers[l].share) share.items.push_back(Number(one));
    Node& slots = layer.Add("slots", Node::List());
    for (const auto& held : record.layers[l].slots) {
      Node& on = slots.items.emplace_back(Node::List());
      for (const uint16_t expert : held) on.items.push_back(Node::Integer(expert));
    }
    layers.items.push_back(std::move(layer));
  }
  out.Add("layers", std::move(layers));
  return out;
}

// Points and decisions after `since`, and the last decision.
Node ServiceTree(const ObjectKey& key, const ServiceRecords& records, WallTime now,
                 WallTime since) {
  Node out = Node::Map();
  out.Add("namespace", Node::String(key.namespace_));
  out.Add("name", Node::String(key.name));
  out.Add("time", TimeOf(now));
  out.Add("emulated", Node::String(records.emulated));
  Node series = Node::List(), decisions = Node::List();
  for (const auto& tick : records.ticks) {
    const bool is_new = tick->time > since;
    if (is_new) series.items.push_back(PointTree(*tick));
    const bool is_change = tick->summary.action != DecisionRecord::Action::kHold;
    if ((is_new && is_change) || tick == records.ticks.back()) {
      decisions.items.push_back(DecisionTreeOf(*tick));
    }
  }
  if (!records.ticks.empty()) {
    const TickRecord& last = *records.ticks.back();
    out.Add("targets", TargetsTree(last.setting->policy));
    Node& counts = out.Add("now", Node::Map());
    counts.Add("microBatches", Node::Integer(last.world.current.micro_batches));
    counts.Add("attention", RoleTree(last.world.attention, last.summary.to.attention));
    counts.Add("experts", RoleTree(last.world.experts, last.summary.to.experts));
    out.Add("modelError", ErrorTree(last.decision));
  }
  out.Add("hold", records.held ? HoldTree(*records.held) : Node());
  out.Add("series", std::move(series));
  out.Add("decisions", std::move(decisions));
  out.Add("placement", records.placement ? PlacementTree(*records.placement) : Node());
  return out;
}

std::string RoutingCsv(const PlacementRecord& record) {
  // [layers][tokens] experts of a token, as in a cell.
  std::vector<std::vector<std::string>> cells(record.layers.size());
  for (const auto& one : record.rounds) {
    const RoutedRound& round = one->round;
    if (round.layer < 0 || static_cast<size_t>(round.layer) >= cells.size()) continue;
    std::vector<std::string>& column = cells[static_cast<size_t>(round.layer)];
    const auto top_k = static_cast<size_t>(std::max(round.top_k, 1));
    for (size_t at = 0; at + top_k <= round.experts.size(); at += top_k) {
      std::string cell;
      for (size_t k = 0; k < top_k; ++k) {
        cell += (k == 0 ? "" : " ") + std::to_string(round.experts[at + k]);
      }
      column.push_back(std::move(cell));
    }
  }
  std::string out;
  size_t rows = cells.empty() ? 0 : cells[0].size();
  for (size_t layer = 0; layer < cells.size(); ++layer) {
    out += (layer == 0 ? "layer" : ",layer") + std::to_string(layer);
    rows = std::min(rows, cells[layer].size());
  }
  out += "\n";
  for (size_t row = 0; row < rows; ++row) {
    for (size_t layer = 0; layer < cells.size(); ++layer) {
      out += (layer == 0 ? "" : ",") + cells[layer][row];
    }
    out += "\n";
  }
  return out;
}

RecordsAnswer NotFoundAnswer(const std::string& message) {
  // As an API server answers, so that its clients can read it.
  Node out = Node::Map();
  out.Add("kind", Node::String("Status"));
  out.Add("apiVersion", Node::String("v1"));
  out.Add("status", Node::String("Failure"));
  out.Add("reason", Node::String("NotFound"));
  out.Add("code", Node::Integer(404));
  out.Add("message", Node::String(message));
  return {404, "application/json", WriteJson(out)};
}

// As TimeOf writes it. The points themselves have milliseconds, so half of one is added.
std::optional<WallTime> TimeIn(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kMost = 1e10;
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 0) ||
      seconds > kMost) {
    return std::nullopt;
  }
  return WallTime(std::chrono::duration_cast<WallTime::duration>(Seconds(seconds + 0.0005)));
}

std::vector<std::string_view> PartsOf(std::string_view path) {
  std::vector<std::string_view> out;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view part = path.substr(0, path.find('/'));
    out.push_back(part);
    path.remove_prefix(part.size());
  }
  return out;
}

RecordsAnswer ListOf(const std::vector<ObjectKey>& keys) {
  Node out = Node::Map();
  Node& services = out.Add("services", Node::List());
  for (const ObjectKey& key : keys) {
    Node one = Node::Map();
    one.Add("namespace", Node::String(key.namespace_));
    one.Add("name", Node::String(key.name));
    services.items.push_back(std::move(one));
  }
  return {200, "application/json", WriteJson(out)};
}

// Nothing: no number of a pool.
std::optional<int> PoolIn(std::string_view text) {
  int out = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_number = error == std::errc() && at == text.data() + text.size();
  return is_number && out >= 1 ? std::optional(out) : std::nullopt;
}

// `pool`: 0: the lowest with a step.
RecordsAnswer AnswerStep(const RecordBook& book, const ObjectKey& key, int pool, WallTime now) {
  const std::optional<StepRecord> step = book.StepOf(key, pool);
  if (!step) {
    return NotFoundAnswer("no step of " +
                          (pool > 0 ? "pool " + std::to_string(pool) + " of " : "") +
                          "the service " + key.ToString() +
                          " is recorded yet: it needs requests; each sixteenth step is kept, and "
                          "shown some seconds later");
  }
  return {200, "application/json", StepJson(key, *step, book.PoolsWithSteps(key), now)};
}

}  // namespace

RecordsAnswer AnswerRecords(const RecordBook& book, std::string_view path, WallTime now) {
  const std::vector<std::string_view> parts = PartsOf(path);
  const bool is_known = parts.size() >= 2 && parts[0] == "v1";
  const bool is_of_steps = is_known && parts[1] == "steps";
  const bool is_of_services = is_known && parts[1] == "services";
  if (is_of_services && parts.size() == 2) return ListOf(book.Services());
  if (is_of_steps && parts.size() == 2) return ListOf(book.ServicesWithSteps());
  ObjectKey key;
  if ((is_of_services || is_of_steps) && parts.size() >= 4) {
    key = {std::string(parts[2]), std::string(parts[3])};
  }
  if (is_of_steps && parts.size() == 4) return AnswerStep(book, key, 0, now);
  if (is_of_steps && parts.size() == 6 && parts[4] == "pools") {
    if (const std::optional<int> pool = PoolIn(parts[5])) {
      return AnswerStep(book, key, *pool, now);
    }
  }
  const bool wants_worlds = parts.size() == 5 && parts[4] == "worlds";
  const bool wants_routing = parts.size() == 5 && parts[4] == "routing";
  const std::optional<WallTime> since =
      parts.size() == 6 && parts[4] == "since" ? TimeIn(parts[5]) : std::nullopt;
  if (!is_of_services || key.name.empty() ||
      (parts.size() != 4 && !wants_worlds && !wants_routing && !since)) {
    return NotFoundAnswer("there is no such page; /v1/services lists the services");
  }
  const std::optional<ServiceRecords> records = book.Of(key);
  if (!records) {
    return NotFoundAnswer("no decisions are recorded for the service " + key.ToString() +
                          " yet: it needs spec.slo.tpot, and members that report their counters; "
                          "its condition ScalingReady says what it waits for");
  }
  if (wants_worlds) {
    return {200, "text/plain; charset=utf-8",
            ToLines({records->ticks.begin(), records->ticks.end()})};
  }
  if (wants_routing) {
    if (records->placement == nullptr) {
      return NotFoundAnswer("no routing of the service " + key.ToString() +
                            " is sampled yet: it needs two expert instances, a placement that is "
                            "not RoundRobin, and a minute of traffic");
    }
    return {200, "text/csv; charset=utf-8", RoutingCsv(*records->placement)};
  }
  return {200, "application/json",
          WriteJson(ServiceTree(key, *records, now, since.value_or(WallTime())))};
}

}  // namespace janus::control
