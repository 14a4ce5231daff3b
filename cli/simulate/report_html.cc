#include <algorithm>
#include <array>
#include <cmath>

#include "cli/html.h"
#include "cli/simulate/report.h"
#include "common/format.h"

namespace janus::cli {
namespace {

using controllers::SimulationRun;
using controllers::WindowRecord;

constexpr std::array<const char*, 9> kColours = {"#1b6ca8", "#d1495b", "#edae49",
                                                 "#66a182", "#6f4e7c", "#8d96a3",
                                                 "#00798c", "#a05195", "#2f4b2f"};
constexpr size_t kMostDecisions = 200;  // of a policy, listed on the page
constexpr size_t kMostPoints = 1500;    // of a line in a plot

struct Line {
  std::string name;
  const char* colour;
  std::vector<std::pair<double, double>> points;  // seconds, value
};

// Merges neighbouring points and keeps the largest, so that no peak is lost.
std::vector<std::pair<double, double>> Thinned(std::vector<std::pair<double, double>> points) {
  const size_t merged = (points.size() + kMostPoints - 1) / kMostPoints;
  if (merged < 2) return points;
  std::vector<std::pair<double, double>> thin;
  for (size_t i = 0; i < points.size(); i += merged) {
    auto most = points[i];
    for (size_t j = i; j < std::min(i + merged, points.size()); ++j) {
      most.second = std::max(most.second, points[j].second);
    }
    thin.push_back(most);
  }
  return thin;
}

// A round number that is at least the value.
double NiceAbove(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 1.5, 2.0, 3.0, 5.0, 10.0}) {
    if (factor * power >= value) return factor * power;
  }
  return 10 * power;
}

// A plot over time with values from 0. `level` draws a dashed line; 0: no line.
std::string Plot(const std::string& title, const std::string& unit, std::vector<Line> lines,
                 double level, double most) {
  constexpr double kWidth = 1000, kHeight = 260, kLeft = 60, kRight = 10, kTop = 10, kBottom = 24;
  double end = 1;
  double top = level;
  for (Line& line : lines) {
    line.points = Thinned(std::move(line.points));
    for (const auto& [x, y] : line.points) {
      end = std::max(end, x);
      if (std::isfinite(y)) top = std::max(top, y);
    }
  }
  top = NiceAbove(std::min(top, most));
  const auto across = [&](double x) { return kLeft + (kWidth - kLeft - kRight) * x / end; };
  const auto up = [&](double y) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * std::min(y, top) / top;
  };
  std::string svg = "<h2>" + Escape(title) + "</h2><svg viewBox=\"0 0 1000 260\" role=\"img\">";
  for (int i = 0; i <= 4; ++i) {
    const std::string y = Format("%.1f", up(top * i / 4));
    svg += "<line x1=\"60\" x2=\"990\" y1=\"" + y + "\" y2=\"" + y +
           "\" class=\"grid\"/><text x=\"54\" y=\"" + y + "\" class=\"left\">" +
           Format("%.4g", top * i / 4) + "</text>";
  }
  const bool in_days = end > 3 * 86400.0;
  const bool in_hours = end > 3 * 3600.0;
  const double one = in_days ? 86400 : in_hours ? 3600 : 60;
  const double ticks = std::max(1.0, std::ceil(end / one / 14));
  for (double x = 0; x <= end; x += ticks * one) {
    svg += "<text x=\"" + Format("%.1f", across(x)) + "\" y=\"254\" class=\"below\">" +
           Format("%.0f", x / one) +
           (in_days    ? " d"
            : in_hours ? " h"
                       : " min") +
           "</text>";
  }
  svg += "<text x=\"4\" y=\"12\">" + Escape(unit) + "</text>";
  if (level > 0) {
    const std::string y = Format("%.1f", up(level));
    svg += "<line x1=\"60\" x2=\"990\" y1=\"" + y + "\" y2=\"" + y + "\" class=\"level\"/>";
  }
  for (const Line& line : lines) {
    svg += "<polyline fill=\"none\" stroke-width=\"1.4\" stroke=\"";
    svg += line.colour;
    svg += "\" points=\"";
    for (const auto& [x, y] : line.points) {
      if (!std::isfinite(y)) continue;
      svg += Format("%.1f", across(x)) + "," + Format("%.1f ", up(y));
    }
    svg += "\"><title>" + Escape(line.name) + "</title></polyline>";
  }
  return svg + "</svg>\n";
}

template <class Value>
std::vector<Line> OfWindows(const SimulationReport& report, const Value& value) {
  std::vector<Line> lines;
  for (size_t r = 0; r < report.runs.size(); ++r) {
    Line line = {report.runs[r].policy, kColours[r % kColours.size()], {}};
    for (const WindowRecord& w : report.runs[r].windows) {
      if (w.arrived > 0) line.points.emplace_back(w.start_s, value(w));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

int64_t HoldsOf(const SimulationRun& run) {
  int64_t holds = 0;
  for (const controllers::HoldRecord& hold : run.holds) holds += hold.count;
  return holds;
}

std::string MostlyHeldFor(const SimulationRun& run) {
  if (run.holds.empty()) return "";
  return std::to_string(HoldsOf(run)) + ", " + Escape(run.holds.front().reason);
}

std::string Table(const SimulationReport& report) {
  std::string html =
      "<table><tr><th>policy<th>GPU-hours<th>relative to the first<th>attained<th>TPOT p50<th>TPOT "
      "p99<th>TTFT p99<th>refused<th>peak GPUs<th>changes<th>held, most often because</tr>\n";
  const double first = report.runs.empty() ? 1 : report.runs[0].totals.gpu_hours;
  for (size_t r = 0; r < report.runs.size(); ++r) {
    const SimulationRun& run = report.runs[r];
    const controllers::Totals& t = run.totals;
    html += "<tr><td><span style=\"background:";
    html += kColours[r % kColours.size()];
    html += "\"></span>" + Escape(run.policy) + "<td>" + Format("%.1f", t.gpu_hours) + "<td>" +
            Format("%.1f %%", 100 * t.gpu_hours / first) + "<td>" +
            Format("%.2f %%", 100 * t.Attainment()) + "<td>" + Format("%.1f ms", t.tpot_p50 * 1e3) +
            "<td>" + Format("%.1f ms", t.tpot_p99 * 1e3) + "<td>" + Format("%.2f s", t.ttft_p99) +
            "<td>" + std::to_string(t.refused) + "<td>" + std::to_string(t.peak_gpus) + "<td>" +
            std::to_string(run.decisions.size() - 1) + "<td>" + MostlyHeldFor(run) + "</tr>\n";
  }
  return html + "</table>\n";
}

std::string Decisions(const SimulationRun& run) {
  std::string html = "<details><summary>" + Escape(run.policy) + ": " +
                     std::to_string(run.decisions.size() - 1) + " changes, " +
                     std::to_string(HoldsOf(run)) + " times held</summary><table>";
  html += "<tr><th>hour<th>to<th>GPUs<th>why</tr>\n";
  const size_t shown = std::min(run.decisions.size(), kMostDecisions);
  for (size_t i = 0; i < shown; ++i) {
    const controllers::DecisionRecord& d = run.decisions[i];
    html += "<tr><td>" + Format("%.3f", d.time_s / 3600) + "<td>" + Escape(d.what) + "<td>" +
            std::to_string(d.gpus) + "<td class=\"why\">" + Escape(d.why) + "</tr>\n";
  }
  html += "</table>";
  if (shown < run.decisions.size()) {
    html += "<p>" + std::to_string(run.decisions.size() - shown) +
            " more are in the output of --json.</p>";
  }
  if (!run.holds.empty()) {
    html += "<table><tr><th>held because<th>times<th>first at hour<th>first message</tr>\n";
    for (const controllers::HoldRecord& hold : run.holds) {
      html += "<tr><td>" + Escape(hold.reason) + "<td>" + std::to_string(hold.count) + "<td>" +
              Format("%.3f", hold.first_s / 3600) + "<td class=\"why\">" + Escape(hold.why) +
              "</tr>\n";
    }
    html += "</table>";
  }
  return html + "</details>\n";
}

}  // namespace

std::string RenderHtml(const SimulationReport& report) {
  std::string html =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>janusctl simulate</title>"
      "<style>body{font:14px sans-serif;max-width:1040px;margin:24px auto;color:#222}"
      "h1{font-size:20px}h2{font-size:15px;margin:24px 0 4px}svg{width:100%;font-size:11px}"
      ".grid{stroke:#ddd}.level{stroke:#222;stroke-dasharray:5 4}.left{text-anchor:end}"
      ".below{text-anchor:middle}table{border-collapse:collapse}td,th{padding:2px 10px;"
      "text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child,.why{"
      "text-align:left}span{display:inline-block;width:10px;height:10px;margin-right:6px}"
      "</style>\n<h1>" +
      Escape(report.title) + "</h1><p>" + Escape(report.workload) + "</p>\n" + Table(report);
  std::vector<Line> load(1);
  load[0] = {"requests", "#222", {}};
  if (!report.runs.empty()) {
    for (const WindowRecord& w : report.runs[0].windows) {
      load[0].points.emplace_back(w.start_s, static_cast<double>(w.arrived) / report.window_s);
    }
  }
  html += Plot("Load", "requests/s", load, 0, HUGE_VAL);
  std::vector<Line> gpus;
  for (size_t r = 0; r < report.runs.size(); ++r) {
    Line line = {report.runs[r].policy, kColours[r % kColours.size()], {}};
    for (const WindowRecord& w : report.runs[r].windows) {
      line.points.emplace_back(w.start_s, w.gpu_seconds / report.window_s);
    }
    // The last window is rarely complete.
    if (line.points.size() > 1) line.points.pop_back();
    gpus.push_back(std::move(line));
  }
  html += Plot("GPUs, mean of each window", "GPUs", gpus, 0, HUGE_VAL);
  html += Plot("TPOT, median of requests; dashed: the target", "ms",
               OfWindows(report, [](const WindowRecord& w) { return w.tpot_p50 * 1e3; }),
               report.tpot_seconds * 1e3, 4e3 * report.tpot_seconds);
  html += Plot("TPOT, 99th percentile of requests; dashed: the target", "ms",
               OfWindows(report, [](const WindowRecord& w) { return w.tpot_p99 * 1e3; }),
               report.tpot_seconds * 1e3, 4e3 * report.tpot_seconds);
  html += Plot("TTFT, 99th percentile of requests; dashed: the target", "s",
               OfWindows(report, [](const WindowRecord& w) { return w.ttft_p99; }),
               report.ttft_seconds, 4 * report.ttft_seconds);
  html += Plot("Attainment of the requests that arrived in each window", "%",
               OfWindows(report,
                         [](const WindowRecord& w) {
                           return 100 * static_cast<double>(w.attained) /
                                  static_cast<double>(w.arrived);
                         }),
               0, 100);
  html += "<h2>Decisions</h2>\n";
  for (const SimulationRun& run : report.runs) html += Decisions(run);
  return html + "</html>\n";
}

}  // namespace janus::cli
