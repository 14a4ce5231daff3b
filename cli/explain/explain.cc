#include "cli/explain/explain.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "cli/objects/columns.h"
#include "cli/objects/describe.h"
#include "operator/api/json.h"
#include "operator/kube/object.h"

namespace janus::cli {
namespace {

using control::Node;

// Attainment is that of the last five minutes, like the condition SLOMet.
constexpr double kAttainmentSeconds = 300;

std::optional<double> NumberAt(const Node& root, control::FieldPath path) {
  const Node* const node = control::FindAt(root, path);
  if (node == nullptr) return std::nullopt;
  if (node->kind == Node::Kind::kInteger) return static_cast<double>(node->integer);
  if (node->kind == Node::Kind::kFloat) return std::strtod(node->text.c_str(), nullptr);
  return std::nullopt;
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Milliseconds(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  return Text(*seconds < 0.01 ? "%.2f ms" : *seconds < 1 ? "%.1f ms" : "%.0f ms", *seconds * 1e3);
}

std::string Percent(double share) {
  return Text("%.1f %%", 100 * share);
}

std::string Age(double now, std::optional<double> then) {
  return then ? FormatAge(Seconds(std::max(now - *then, 0.0))) + " ago" : "";
}

const Node* ListAt(const Node& root, std::string_view field) {
  const Node* const list = root.Find(field);
  return list != nullptr && list->kind == Node::Kind::kList ? list : nullptr;
}

class Service {
 public:
  static Result<Service> Read(const std::string& records) {
    JANUS_ASSIGN_OR_RETURN(Node root, control::ParseJson(records, "the records"));
    const std::optional<double> now = NumberAt(root, {"time"});
    if (!now || ListAt(root, "series") == nullptr || ListAt(root, "decisions") == nullptr) {
      return InvalidArgument("the records lack time, series or decisions");
    }
    return Service(std::move(root), *now);
  }

  std::string Name() const {
    return std::string(control::TextAt(root_, {"namespace"})) + "/" +
           std::string(control::TextAt(root_, {"name"}));
  }
  double now() const { return now_; }
  const Node& root() const { return root_; }
  const Node* LastPoint() const {
    const Node* const series = ListAt(root_, "series");
    return series->items.empty() ? nullptr : &series->items.back();
  }
  const Node* LastDecision() const {
    const Node* const decisions = ListAt(root_, "decisions");
    return decisions->items.empty() ? nullptr : &decisions->items.back();
  }
  // Why nothing can be decided now; null: it can be.
  const Node* Hold() const {
    const Node* const hold = root_.Find("hold");
    return hold != nullptr && hold->kind == Node::Kind::kMap ? hold : nullptr;
  }
  // The newest decision in two words, and its age.
  std::pair<std::string, std::string> Latest() const {
    const Node* const latest = Hold() != nullptr ? Hold() : LastDecision();
    if (latest == nullptr) return {"none yet", ""};
    const std::string action(Hold() != nullptr ? "Hold" : control::TextAt(*latest, {"action"}));
    return {action + ", " + std::string(control::TextAt(*latest, {"reason"})),
            Age(now_, NumberAt(*latest, {"t"}))};
  }
  const Node* LastChange() const {
    const std::vector<Node>& items = ListAt(root_, "decisions")->items;
    for (auto at = items.rbegin(); at != items.rend(); ++at) {
      if (control::TextAt(*at, {"action"}) != "Hold") return &*at;
    }
    return nullptr;
  }
  // Requests that ended lately, and those that kept their targets.
  std::pair<double, double> Ended() const {
    double ended = 0, attained = 0;
    for (const Node& point : ListAt(root_, "series")->items) {
      if (NumberAt(point, {"t"}).value_or(0) < now_ - kAttainmentSeconds) continue;
      ended += NumberAt(point, {"ended"}).value_or(0);
      attained += NumberAt(point, {"attained"}).value_or(0);
    }
    return {ended, attained};
  }
  // Median of the observed TPOT from that time on.
  std::optional<double> ObservedSince(double time) const {
    std::vector<double> seen;
    for (const Node& point : ListAt(root_, "series")->items) {
      const std::optional<double> tpot = NumberAt(point, {"tpotSeconds"});
      if (tpot && NumberAt(point, {"t"}).value_or(0) > time) seen.push_back(*tpot);
    }
    if (seen.empty()) return std::nullopt;
    std::ranges::nth_element(seen, seen.begin() + static_cast<ptrdiff_t>(seen.size() / 2));
    return seen[seen.size() / 2];
  }

 private:
  Service(Node root, double now) : root_(std::move(root)), now_(now) {}
  Node root_;
  double now_;
};

std::string CountOf(const Node& root, std::string_view role) {
  const auto count = [&](std::string_view field) {
    return control::IntegerAt(root, {"now", role, field}).value_or(0);
  };
  std::string out = std::to_string(count("ready")) + " ready of " + std::to_string(count("wanted"));
  if (count("starting") > 0) out += ", " + std::to_string(count("starting")) + " starting";
  if (count("draining") > 0) out += ", " + std::to_string(count("draining")) + " draining";
  return out;
}

std::string TargetText(const Node& root) {
  std::string out;
  const auto add = [&](const char* name, std::string_view seconds, std::string_view percentile) {
    const std::optional<double> target = NumberAt(root, {"targets", seconds});
    if (!target) return;
    out += (out.empty() ? "" : "; ") + std::string(name) + " " + Milliseconds(target) + " for " +
           Text("%.0f %%", 100 * NumberAt(root, {"targets", percentile}).value_or(0)) +
           " of requests";
  };
  add("TPOT", "tpotSeconds", "tpotPercentile");
  add("TTFT", "ttftSeconds", "ttftPercentile");
  return out;
}

std::string LoadText(const Node& point) {
  const auto rate = NumberAt(point, {"requestsPerSecond"});
  return (rate ? Text("%.2f requests/s", *rate) : "rate not known") + ", " +
         Text("%.0f prompt tokens/s", NumberAt(point, {"promptTokensPerSecond"}).value_or(0)) +
         ", " + Text("%.0f running", NumberAt(point, {"running"}).value_or(0)) + ", " +
         Text("%.0f waiting", NumberAt(point, {"waiting"}).value_or(0));
}

std::string DecisionText(const Service& of, const Node& decision) {
  std::string out(control::TextAt(decision, {"action"}));
  const std::string from(control::TextAt(decision, {"from"}));
  const std::string to(control::TextAt(decision, {"to"}));
  out += from == to ? " at " + to : " from " + from + " to " + to;
  out += ", " + std::string(control::TextAt(decision, {"reason"})) + " (" +
         Age(of.now(), NumberAt(decision, {"t"})) + ")\n";
  out += "    " + std::string(control::TextAt(decision, {"message"})) + "\n";
  const std::string_view limit = control::TextAt(decision, {"limitedBy"});
  if (!limit.empty()) out += "    limited by " + std::string(limit) + "\n";
  return out;
}

// Why the operator can decide nothing now. Empty: it can, or does not say so.
std::string HoldText(const Service& of) {
  const Node* const hold = of.Hold();
  if (hold == nullptr) return "";
  return "held at " + std::string(control::TextAt(*hold, {"at"})) + ", " +
         std::string(control::TextAt(*hold, {"reason"})) + " (" +
         Age(of.now(), NumberAt(*hold, {"t"})) + ")\n    " +
         std::string(control::TextAt(*hold, {"message"})) + "\n";
}

std::string CandidatesText(const Node& decision) {
  const Node* const candidates = ListAt(decision, "candidates");
  if (candidates == nullptr || candidates->items.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"COUNTS", "TPOT", "TTFT", "GPUS", "COST", "PRESSURE", "WHY NOT"}};
  for (const Node& one : candidates->items) {
    const std::string lost(control::TextAt(one, {"lostBy"}));
    // None if no TPOT carries the load.
    const std::optional<double> pressure = NumberAt(one, {"pressure"});
    rows.push_back({std::string(control::TextAt(one, {"counts"})),
                    Milliseconds(NumberAt(one, {"tpotSeconds"})),
                    Milliseconds(NumberAt(one, {"ttftSeconds"})),
                    Text("%.0f", NumberAt(one, {"gpus"}).value_or(0)),
                    Text("%.4g", NumberAt(one, {"cost"}).value_or(0)),
                    pressure ? Text("%.2f", *pressure) : "-", lost.empty() ? "(chosen)" : lost});
  }
  return "  what was weighed (pressure: above 1 it breaks a target or has no room):\n" +
         RenderColumns(rows, 4);
}

std::string ErrorText(const Node& root) {
  const std::optional<double> step = NumberAt(root, {"modelError", "step"});
  if (!step) return "predictions: none could be compared with a measurement yet\n";
  std::string out = "predictions: of steps, " + Percent(*step) + " off in the median of " +
                    Text("%.0f", NumberAt(root, {"modelError", "samples"}).value_or(0)) +
                    " samples";
  if (const auto raw = NumberAt(root, {"modelError", "stepUncorrected"})) {
    out += "; " + Percent(*raw) + " without what was learned";
  }
  return out + "\n";
}

std::string PlacementText(const Service& of) {
  const Node* const placement = of.root().Find("placement");
  if (placement == nullptr || placement->kind != Node::Kind::kMap) {
    return "placement: no routing was sampled yet\n";
  }
  const std::string message(control::TextAt(*placement, {"message"}));
  if (message.empty()) return "placement: the first search comes after five minutes of traffic\n";
  return "placement: " + message + " (" + Age(of.now(), NumberAt(*placement, {"t"})) + ")\n";
}

}  // namespace

Result<std::string> ExplainText(const std::string& records) {
  JANUS_ASSIGN_OR_RETURN(const Service of, Service::Read(records));
  const Node& root = of.root();
  std::string out = of.Name() + "\n";
  const std::string_view emulated = control::TextAt(root, {"emulated"});
  if (!emulated.empty()) out += "emulated:    " + std::string(emulated) + "\n";
  const Node* const point = of.LastPoint();
  if (point == nullptr) {
    const std::string hold = HoldText(of);
    out += hold.empty() ? "no decision was made yet; the first one comes after one interval of "
                          "traffic\n"
                        : "no decision was made yet: " + hold;
    return out + PlacementText(of);
  }
  out += "attention:   " + CountOf(root, "attention") + "\n";
  out += "experts:     " + CountOf(root, "experts") + "\n";
  out += "target:      " + TargetText(root) + "\n";
  out += "load:        " + LoadText(*point) + "\n";
  out += "TPOT:        " + Milliseconds(NumberAt(*point, {"tpotSeconds"})) + " observed, " +
         Milliseconds(NumberAt(*point, {"predictedTpotSeconds"})) + " predicted\n";
  const auto [ended, attained] = of.Ended();
  out += "attainment:  ";
  out += ended > 0 ? Percent(attained / ended) + " of " + Text("%.0f", ended) +
                         " requests in the last 5 minutes\n"
                   : "no request ended in the last 5 minutes\n";
  if (const std::string hold = HoldText(of); !hold.empty()) out += "\nnow " + hold;
  const Node& last = *of.LastDecision();
  out += "\nlast decision\n  " + DecisionText(of, last);
  if (const Node* const change = of.LastChange(); change != nullptr) {
    if (change != &last) out += "last change\n  " + DecisionText(of, *change);
    const double time = NumberAt(*change, {"t"}).value_or(0);
    out += "    expected TPOT " + Milliseconds(NumberAt(*change, {"predictedTpotSeconds"})) +
           ", observed median since then " + Milliseconds(of.ObservedSince(time)) + "\n";
    out += CandidatesText(*change);
  } else {
    out += CandidatesText(last);
  }
  return out + "\n" + ErrorText(root) + PlacementText(of);
}

Result<std::string> TopText(const std::vector<std::string>& records) {
  std::vector<std::vector<std::string>> rows = {{"SERVICE", "ATTENTION", "EXPERTS", "REQUESTS/S",
                                                 "RUNNING", "WAITING", "TPOT", "TARGET", "ATTAINED",
                                                 "DECISION", "AGE"}};
  for (const std::string& one : records) {
    JANUS_ASSIGN_OR_RETURN(const Service of, Service::Read(one));
    const Node* const point = of.LastPoint();
    const auto [what, age] = of.Latest();
    if (point == nullptr) {
      rows.push_back({of.Name(), "-", "-", "-", "-", "-", "-", "-", "-", what, age});
      continue;
    }
    const auto ready = [&](std::string_view role) {
      return std::to_string(control::IntegerAt(of.root(), {"now", role, "ready"}).value_or(0)) +
             "/" +
             std::to_string(control::IntegerAt(of.root(), {"now", role, "wanted"}).value_or(0));
    };
    const auto [ended, attained] = of.Ended();
    rows.push_back({of.Name(), ready("attention"), ready("experts"),
                    Text("%.2f", NumberAt(*point, {"requestsPerSecond"}).value_or(0)),
                    Text("%.0f", NumberAt(*point, {"running"}).value_or(0)),
                    Text("%.0f", NumberAt(*point, {"waiting"}).value_or(0)),
                    Milliseconds(NumberAt(*point, {"tpotSeconds"})),
                    Milliseconds(NumberAt(of.root(), {"targets", "tpotSeconds"})),
                    ended > 0 ? Percent(attained / ended) : "-", what, age});
  }
  return RenderColumns(rows);
}

}  // namespace janus::cli
