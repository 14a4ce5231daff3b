#include "operator/records/step_page.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "common/pools.h"
#include "operator/api/json.h"
#include "operator/api/tree.h"

namespace janus::control {
namespace {

constexpr std::string_view kAttention = "attention";
constexpr std::string_view kExperts = "experts";

Node InstanceTree(const StepTrace& trace, int64_t origin) {
  Node out = Node::Map();
  out.Add("role", Node::String(trace.role == Role::kAttention ? kAttention : kExperts));
  out.Add("rank", Node::Integer(trace.rank.value));
  out.Add("beganNanoseconds", Node::Integer(trace.began_ns - origin));
  Node& spans = out.Add("spans", Node::List());
  for (const StepSpan& span : trace.spans) {
    Node one = Node::List();
    one.items = {Node::Integer(static_cast<int64_t>(span.work)), Node::Integer(span.layer),
                 Node::Integer(span.micro_batch), Node::Integer(span.took_ns)};
    spans.items.push_back(std::move(one));
  }
  return out;
}

// Reads the fields of one document. The first error stays.
class Reader {
 public:
  // 0 if it is missing or out of bounds, which is an error.
  int64_t IntegerAt(const Node& from, std::string_view field, int64_t least, int64_t most) {
    return Bounded(from.Find(field), field, least, most);
  }
  int64_t Bounded(const Node* node, std::string_view field, int64_t least, int64_t most) {
    if (node != nullptr && node->kind == Node::Kind::kInteger && node->integer >= least &&
        node->integer <= most) {
      return node->integer;
    }
    Fail(std::string(field) + " is missing, or no integer from " + std::to_string(least) + " to " +
         std::to_string(most));
    return 0;
  }
  const std::vector<Node>& ListAt(const Node& from, std::string_view field) {
    static const std::vector<Node> kNone;
    const Node* const node = from.Find(field);
    if (node != nullptr && node->kind == Node::Kind::kList) return node->items;
    Fail(std::string(field) + " is missing, or no list");
    return kNone;
  }
  void Fail(std::string why) {
    if (status_.ok()) status_ = InvalidArgument("the step's page: " + std::move(why));
  }
  const janus::Status& status() const { return status_; }

 private:
  janus::Status status_;
};

constexpr int64_t kMostTime = int64_t{1} << 52;  // nanoseconds; 52 days

StepTrace InstanceOf(Reader& reader, const Node& tree) {
  constexpr int64_t kMostRank = 1 << 16;
  constexpr int64_t kMostLayers = 1 << 16;
  StepTrace out;
  const std::string_view role = TextAt(tree, {"role"});
  if (role != kAttention && role != kExperts) reader.Fail("role is missing");
  out.role = role == kExperts ? Role::kExperts : Role::kAttention;
  out.rank = Rank{static_cast<int32_t>(reader.IntegerAt(tree, "rank", 0, kMostRank))};
  out.began_ns = reader.IntegerAt(tree, "beganNanoseconds", 0, kMostTime);
  for (const Node& one : reader.ListAt(tree, "spans")) {
    if (one.kind != Node::Kind::kList || one.items.size() != 4) {
      reader.Fail("a span is no list of four integers");
      break;
    }
    const auto at = [&](size_t i, int64_t least, int64_t most) {
      return reader.Bounded(&one.items[i], "an entry of a span", least, most);
    };
    out.spans.push_back({static_cast<StepWork>(at(0, 1, kStepWorks)),
                         static_cast<int>(at(1, -1, kMostLayers)),
                         static_cast<int>(at(2, 0, kMaxMicroBatches - 1)), at(3, 0, kMostTime)});
    if (!reader.status().ok()) break;
  }
  return out;
}

}  // namespace

std::string StepJson(const ObjectKey& key, const StepRecord& record, const std::vector<int>& pools,
                     WallTime now) {
  std::vector<StepTrace> traces = record.statistics->traces;
  const int64_t error = AlignClocks(traces);
  const int64_t origin = std::ranges::min_element(traces, {}, &StepTrace::began_ns)->began_ns;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - record.time);
  Node out = Node::Map();
  out.Add("namespace", Node::String(key.namespace_));
  out.Add("name", Node::String(key.name));
  out.Add("pool", Node::Integer(record.pool));
  Node& others = out.Add("pools", Node::List());
  for (const int pool : pools) others.items.push_back(Node::Integer(pool));
  out.Add("ageMilliseconds", Node::Integer(std::max<int64_t>(age.count(), 0)));
  out.Add("epoch", Node::Integer(static_cast<int64_t>(traces[0].epoch)));
  out.Add("step", Node::Integer(static_cast<int64_t>(traces[0].step)));
  out.Add("layers", Node::Integer(traces[0].layers));
  out.Add("clockErrorNanoseconds", Node::Integer(error));
  // What the first entry of a span stands for, from 1. The others: layer (-1: outside of rounds),
  // micro-batch, nanoseconds.
  Node& works = out.Add("work", Node::List());
  for (int i = 1; i <= kStepWorks; ++i) {
    works.items.push_back(Node::String(ToString(static_cast<StepWork>(i))));
  }
  Node& instances = out.Add("instances", Node::List());
  for (const StepTrace& one : traces) instances.items.push_back(InstanceTree(one, origin));
  return WriteJson(out);
}

janus::Result<StepPage> ParseStepJson(const std::string& text) {
  constexpr int64_t kMost = INT64_MAX;
  JANUS_ASSIGN_OR_RETURN(const Node root, ParseJson(text, "the step's page"));
  Reader reader;
  StepPage out;
  out.service = {std::string(TextAt(root, {"namespace"})), std::string(TextAt(root, {"name"}))};
  out.age_seconds =
      static_cast<double>(reader.IntegerAt(root, "ageMilliseconds", 0, kMostTime)) * 1e-3;
  out.clock_error_ns = reader.IntegerAt(root, "clockErrorNanoseconds", 0, kMost);
  // Operators before pools say nothing of them.
  if (root.Find("pool") != nullptr) {
    out.pool = static_cast<int>(reader.IntegerAt(root, "pool", 1, kMostPools));
    for (const Node& one : reader.ListAt(root, "pools")) {
      out.pools.push_back(
          static_cast<int>(reader.Bounded(&one, "an entry of pools", 1, kMostPools)));
    }
  }
  const auto epoch = static_cast<uint64_t>(reader.IntegerAt(root, "epoch", 0, kMost));
  const auto step = static_cast<uint64_t>(reader.IntegerAt(root, "step", 0, kMost));
  const auto layers = static_cast<int>(reader.IntegerAt(root, "layers", 0, 1 << 16));
  for (const Node& one : reader.ListAt(root, "instances")) {
    StepTrace& trace = out.instances.emplace_back(InstanceOf(reader, one));
    trace.epoch = epoch;
    trace.step = step;
    trace.layers = layers;
  }
  if (out.instances.empty()) reader.Fail("instances is empty");
  JANUS_RETURN_IF_ERROR(reader.status());
  return out;
}

}  // namespace janus::control
