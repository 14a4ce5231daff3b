#include "cli/objects/describe.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cli/objects/columns.h"
#include "common/timed_device.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::cli {
namespace {

using control::Condition;
using control::FindAt;
using control::IntegerAt;
using control::Node;
using control::TextAt;

std::string OrNone(std::string_view text) {
  return text.empty() ? "<none>" : std::string(text);
}

std::string AgeSince(std::string_view time, WallTime now) {
  const Result<WallTime> since = control::ParseTime(time);
  return since.ok() ? FormatAge(std::chrono::duration_cast<Seconds>(now - *since)) : "<unknown>";
}

const Node* RoleOf(const Node& service, Role role) {
  const Node* const roles = FindAt(service, {"status", "roles"});
  if (roles == nullptr) return nullptr;
  for (const Node& one : roles->items) {
    if (TextAt(one, {"name"}) == ToString(role)) return &one;
  }
  return nullptr;
}

std::string ReadyOf(const Node& service, Role role) {
  const Node* const found = RoleOf(service, role);
  return OrNone(found == nullptr ? "" : TextAt(*found, {"ready"}));
}

std::string StatusOf(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& one : conditions) {
    if (one.type != type) continue;
    return one.status == control::ConditionStatus::kTrue    ? "True"
           : one.status == control::ConditionStatus::kFalse ? "False"
                                                            : "Unknown";
  }
  return "Unknown";
}

std::string ReasonOf(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& one : conditions) {
    if (one.type == type) return one.reason;
  }
  return "<none>";
}

const Node* ContainerOf(const Node& pod) {
  const Node* const all = FindAt(pod, {"status", "containerStatuses"});
  return all == nullptr || all->items.empty() ? nullptr : &all->items[0];
}

// The same as kubectl's column STATUS.
std::string StatusOfPod(const Node& pod) {
  if (FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr) return "Terminating";
  if (const Node* const container = ContainerOf(pod)) {
    for (const std::string_view state : {"waiting", "terminated"}) {
      const std::string_view reason = TextAt(*container, {"state", state, "reason"});
      if (!reason.empty()) return std::string(reason);
    }
  }
  const std::string_view reason = TextAt(pod, {"status", "reason"});
  return OrNone(reason.empty() ? TextAt(pod, {"status", "phase"}) : reason);
}

std::vector<std::string> PodRow(const Node& pod, WallTime now) {
  const Node* const container = ContainerOf(pod);
  const Node* const ready = container == nullptr ? nullptr : FindAt(*container, {"ready"});
  const int64_t restarts =
      container == nullptr ? 0 : IntegerAt(*container, {"restartCount"}).value_or(0);
  const bool is_member = TextAt(pod, {"metadata", "labels", control::kMemberLabel}) == "true";
  const bool is_worker = !TextAt(pod, {"metadata", "labels", control::kRoleLabel}).empty();
  return {control::KeyOf(pod).name,
          ready != nullptr && ready->boolean ? "1/1" : "0/1",
          StatusOfPod(pod),
          std::to_string(restarts),
          AgeSince(TextAt(pod, {"metadata", "creationTimestamp"}), now),
          !is_worker  ? "<none>"
          : is_member ? "yes"
                      : "no"};
}

// The time of an event; of a series, the latest.
std::string_view TimeOf(const Node& event) {
  const std::string_view last = TextAt(event, {"series", "lastObservedTime"});
  return last.empty() ? TextAt(event, {"eventTime"}) : last;
}

std::vector<std::string> EventRow(const Node& event, WallTime now) {
  const int64_t count = IntegerAt(event, {"series", "count"}).value_or(1);
  return {AgeSince(TimeOf(event), now) + (count > 1 ? " (x" + std::to_string(count) + ")" : ""),
          std::string(TextAt(event, {"type"})), std::string(TextAt(event, {"reason"})),
          std::string(TextAt(event, {"note"}))};
}

std::string Indented(const std::string& text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    out += "  " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string Source(const Node& service) {
  const std::string_view type = TextAt(service, {"spec", "model", "source", "type"});
  const std::string_view path = TextAt(service, {"spec", "model", "source", "hostPath", "path"});
  return std::string(type) + (path.empty() ? "" : " " + std::string(path));
}

// What its timed devices stand for, for people; empty: it has none.
std::string Emulated(const Node& service) {
  const Node* const timed = FindAt(service, {"spec", "timed"});
  if (timed == nullptr) return "";
  const auto factor = [&](std::string_view field) {
    return static_cast<int>(IntegerAt(*timed, {field}).value_or(1));
  };
  return ToString(TimedDevice{std::string(TextAt(*timed, {"hardware"})),
                              std::string(TextAt(*timed, {"model"})), factor("scale"),
                              factor("timeScale")});
}

int MembersOf(const Node& topology, Role role) {
  const Node* const instances = FindAt(topology, {"spec", "committed", "instances"});
  if (instances == nullptr) return 0;
  return static_cast<int>(std::ranges::count_if(
      instances->items, [&](const Node& one) { return TextAt(one, {"role"}) == ToString(role); }));
}

// "Direct, gate on attention", of the status of a topology or a pool; empty: nothing is committed.
std::string Exchange(const Node& topology) {
  const bool on_attention = TextAt(topology, {"gate"}) == "Attention";
  return std::string(TextAt(topology, {"exchangeMode"})) +
         (on_attention ? ", gate on attention" : "");
}

std::string Topology(const Node& service) {
  const Node* const topology = FindAt(service, {"status", "topology"});
  const int64_t epoch = topology == nullptr ? 0 : IntegerAt(*topology, {"epoch"}).value_or(0);
  if (epoch == 0) return "<none>";
  const std::string exchange = Exchange(*topology);
  return "epoch " + std::to_string(epoch) + ", " +
         std::to_string(IntegerAt(*topology, {"m"}).value_or(0)) + " attention, " +
         std::to_string(IntegerAt(*topology, {"n"}).value_or(0)) + " experts" +
         (exchange.empty() ? "" : ", exchange " + exchange);
}

std::string PoolTable(const Node& pools) {
  std::vector<std::vector<std::string>> rows = {
      {"POOL", "STATE", "ATTENTION", "EXPERTS", "EPOCH", "TOPOLOGY", "EXCHANGE"}};
  for (const Node& pool : pools.items) {
    const auto number = [&](std::string_view field) {
      return std::to_string(IntegerAt(pool, {field}).value_or(0));
    };
    rows.push_back({number("number"), std::string(TextAt(pool, {"state"})), number("attention"),
                    number("experts"), number("epoch"), OrNone(TextAt(pool, {"topology"})),
                    OrNone(Exchange(pool))});
  }
  return RenderColumns(rows);
}

}  // namespace

std::string FormatAge(Seconds age) {
  const int64_t seconds = std::max<int64_t>(0, static_cast<int64_t>(age.count()));
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  const auto two = [](int64_t high, const char* unit, int64_t low, const char* low_unit) {
    return std::to_string(high) + unit + (low > 0 ? std::to_string(low) + low_unit : "");
  };
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (minutes < 10) return two(minutes, "m", seconds % 60, "s");
  if (hours < 3) return std::to_string(minutes) + "m";
  if (hours < 8) return two(hours, "h", minutes % 60, "m");
  if (hours < 48) return std::to_string(hours) + "h";
  return std::to_string(days) + "d";
}

std::string ServiceTable(const std::vector<Node>& services, WallTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "MODEL", "ATTENTION", "EXPERTS", "READY", "AGE", "REASON", "EPOCH"}};
  for (const Node& service : services) {
    const std::vector<Condition> conditions = control::ReadConditions(service);
    rows.push_back(
        {control::KeyOf(service).name,
         OrNone(TextAt(service, {"status", "effective", "modelName"})) +
             (Emulated(service).empty() ? "" : " (emulated)"),
         ReadyOf(service, Role::kAttention), ReadyOf(service, Role::kExperts),
         StatusOf(conditions, "Ready"),
         AgeSince(TextAt(service, {"metadata", "creationTimestamp"}), now),
         ReasonOf(conditions, "Ready"),
         std::to_string(IntegerAt(service, {"status", "topology", "epoch"}).value_or(0))});
  }
  return RenderColumns(rows);
}

std::string PodTable(const std::vector<Node>& pods, WallTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "READY", "STATUS", "RESTARTS", "AGE", "MEMBER"}};
  for (const Node& pod : pods) rows.push_back(PodRow(pod, now));
  return RenderColumns(rows);
}

std::string ScalerTable(const std::vector<Node>& scalers, WallTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "ROLE", "DESIRED", "CURRENT", "READY", "AGE", "REASON"}};
  for (const Node& scaler : scalers) {
    const std::vector<Condition> conditions = control::ReadConditions(scaler);
    rows.push_back({control::KeyOf(scaler).name, std::string(TextAt(scaler, {"spec", "role"})),
                    std::to_string(IntegerAt(scaler, {"spec", "replicas"}).value_or(0)),
                    std::to_string(IntegerAt(scaler, {"status", "replicas"}).value_or(0)),
                    StatusOf(conditions, "Ready"),
                    AgeSince(TextAt(scaler, {"metadata", "creationTimestamp"}), now),
                    ReasonOf(conditions, "Ready")});
  }
  return RenderColumns(rows);
}

std::string TopologyTable(const std::vector<Node>& topologies, WallTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "EPOCH", "PROPOSED", "FENCE", "MODE", "ATTENTION", "EXPERTS", "AGE"}};
  for (const Node& topology : topologies) {
    const auto number = [&](control::FieldPath path) {
      const std::optional<int64_t> value = IntegerAt(topology, path);
      return value ? std::to_string(*value) : "<none>";
    };
    rows.push_back({control::KeyOf(topology).name, number({"spec", "committed", "epoch"}),
                    number({"spec", "proposed", "epoch"}), number({"spec", "fence"}),
                    OrNone(TextAt(topology, {"spec", "committed", "mode"})),
                    std::to_string(MembersOf(topology, Role::kAttention)),
                    std::to_string(MembersOf(topology, Role::kExperts)),
                    AgeSince(TextAt(topology, {"metadata", "creationTimestamp"}), now)});
  }
  return RenderColumns(rows);
}

std::string DeploymentTable(const std::vector<Node>& deployments, WallTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"}};
  for (const Node& deployment : deployments) {
    const auto count = [&](control::FieldPath path) {
      return std::to_string(IntegerAt(deployment, path).value_or(0));
    };
    rows.push_back({control::KeyOf(deployment).name,
                    count({"status", "readyReplicas"}) + "/" + count({"spec", "replicas"}),
                    count({"status", "updatedReplicas"}), count({"status", "availableReplicas"}),
                    AgeSince(TextAt(deployment, {"metadata", "creationTimestamp"}), now)});
  }
  return RenderColumns(rows);
}

std::string EventTable(const std::vector<Node>& events, WallTime now) {
  std::vector<Node> sorted = events;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Node& a, const Node& b) { return TimeOf(a) < TimeOf(b); });
  std::vector<std::vector<std::string>> rows = {{"LAST SEEN", "TYPE", "REASON", "NOTE"}};
  for (const Node& event : sorted) rows.push_back(EventRow(event, now));
  return RenderColumns(rows);
}

std::string DescribeService(const Node& service, const std::vector<Node>& pods,
                            const std::vector<Node>& events, WallTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"Name:", control::KeyOf(service).name},
      {"Namespace:", control::KeyOf(service).namespace_},
      {"Model:", OrNone(TextAt(service, {"status", "effective", "modelName"}))},
      {"Source:", Source(service)},
      {"Attention:", ReadyOf(service, Role::kAttention) + " ready"},
      {"Experts:", ReadyOf(service, Role::kExperts) + " ready"},
      {"Topology:", Topology(service)},
      {"Exchange:", OrNone(TextAt(service, {"status", "topology", "exchangeReason"}))},
      {"Age:", AgeSince(TextAt(service, {"metadata", "creationTimestamp"}), now)}};
  const Node* const pools = FindAt(service, {"status", "pools"});
  if (pools != nullptr) {
    const int64_t wanted = IntegerAt(service, {"status", "desiredPools"}).value_or(0);
    rows.insert(rows.begin() + 6, {"Pools:", std::to_string(wanted) + " wanted"});
  }
  if (const std::string emulated = Emulated(service); !emulated.empty()) {
    rows.insert(rows.begin() + 4, {"Emulated:", emulated});
  }
  std::string out = RenderColumns(rows);
  rows = {{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}};
  const std::vector<Condition> conditions = control::ReadConditions(service);
  for (const Condition& one : conditions) {
    rows.push_back({one.type, StatusOf(conditions, one.type), one.reason,
                    FormatAge(std::chrono::duration_cast<Seconds>(now - one.last_transition)),
                    one.message});
  }
  out += "Conditions:\n" + RenderColumns(rows, 2);
  if (pools != nullptr) out += "Pools:\n" + Indented(PoolTable(*pools));
  out += "Pods:\n" + Indented(PodTable(pods, now));
  out += "Events:\n" + Indented(EventTable(events, now));
  return out;
}

}  // namespace janus::cli
