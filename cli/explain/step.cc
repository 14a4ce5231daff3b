#include "cli/explain/step.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/html.h"
#include "common/format.h"

namespace janus::cli {
namespace {

using Times = std::array<int64_t, kStepWorks + 1>;  // nanoseconds by StepWork; [0] stays 0

struct Look {
  char letter;
  const char* colour;
};
constexpr std::array<Look, kStepWorks + 1> kLooks = {{{' ', "#fff"},
                                                      {'o', "#8d96a3"},
                                                      {'k', "#6f4e7c"},
                                                      {'A', "#1b6ca8"},
                                                      {'s', "#222"},
                                                      {'h', "#66a182"},
                                                      {'.', "#e4e4e4"},
                                                      {'c', "#00798c"},
                                                      {'g', "#edae49"},
                                                      {'b', "#a05195"},
                                                      {'X', "#d1495b"}}};
const Look& LookOf(StepWork work) {
  return kLooks[static_cast<size_t>(work)];
}

std::string Duration(int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return Format("%.0f us", value * 1e-3);
  return Format(ns < 100'000'000 ? "%.2f ms" : "%.0f ms", value * 1e-6);
}

std::string NameOf(const StepTrace& trace) {
  return (trace.role == Role::kAttention ? "attention " : "experts ") +
         std::to_string(trace.rank.value);
}

// The layers that are drawn, with what follows from them.
class Drawn {
 public:
  Drawn(const control::StepPage& page, int layers) : page_(page), traces_(page.instances) {
    for (StepTrace& one : traces_) {
      if (layers > 0) KeepMiddle(one, layers);
    }
    std::erase_if(traces_, [](const StepTrace& one) { return one.spans.empty(); });
    if (traces_.empty()) return;
    begin_ = std::ranges::min_element(traces_, {}, &StepTrace::began_ns)->began_ns;
    for (StepTrace& one : traces_) {
      one.began_ns -= begin_;
      int64_t at = one.began_ns;
      for (const StepSpan& span : one.spans) {
        at += span.took_ns;
        micro_batches_ = std::max(micro_batches_, span.micro_batch + 1);
        if (span.layer < 0) continue;
        first_ = first_ < 0 ? span.layer : std::min(first_, span.layer);
        last_ = std::max(last_, span.layer);
      }
      end_ = std::max(end_, at);
    }
    // Between the chosen layers lie pieces of their neighbours, of other micro-batches.
    const int all = traces_.front().layers;
    if (layers > 0 && layers < all) {
      first_ = std::max(first_, (all - layers) / 2);
      last_ = std::min(last_, (all - layers) / 2 + layers - 1);
    }
  }

  const std::vector<StepTrace>& traces() const { return traces_; }
  int micro_batches() const { return micro_batches_; }
  int64_t length() const { return std::max<int64_t>(end_, 1); }

  std::string Title() const {
    const control::StepPage& page = page_;
    const StepTrace& any = page.instances.front();
    const bool has_several = page.pools.size() > 1 || page.pool > 1;
    std::string out = page.service.ToString() +
                      (has_several ? ", pool " + std::to_string(page.pool) : "") + ": step " +
                      std::to_string(any.step) + " of epoch " + std::to_string(any.epoch) + ", " +
                      Format("%.0f s ago", page.age_seconds);
    if (first_ >= 0) {
      out += first_ == last_ ? "; MoE layer " + std::to_string(first_ + 1)
                             : "; MoE layers " + std::to_string(first_ + 1) + " to " +
                                   std::to_string(last_ + 1);
      out += " of " + std::to_string(any.layers);
    }
    return out + "; " + Duration(length());
  }

  // Sentences under the drawing.
  std::vector<std::string> Remarks() const {
    std::vector<std::string> out;
    if (const auto [slowest, rounds, all] = LastOfRounds(); all > 0) {
      out.push_back(Format("experts %d answers last in %d of %d rounds.", slowest, rounds, all));
    }
    if (page_.clock_error_ns > 0) {
      out.push_back(
          "The clocks of the machines differ. Instances are moved so that no message "
          "arrives before it was sent; their places are exact to " +
          Duration(page_.clock_error_ns) + ".");
    }
    std::string others;
    for (const int pool : page_.pools) {
      if (pool != page_.pool) others += (others.empty() ? "" : ", ") + std::to_string(pool);
    }
    if (!others.empty()) out.push_back("Steps of other pools: --pool " + others + ".");
    return out;
  }

  // Of an instance: what it did, longest first.
  static std::vector<std::pair<StepWork, int64_t>> Sums(const StepTrace& trace) {
    Times took{};
    for (const StepSpan& span : trace.spans) took[static_cast<size_t>(span.work)] += span.took_ns;
    std::vector<std::pair<StepWork, int64_t>> out;
    for (int work = 1; work <= kStepWorks; ++work) {
      if (took[static_cast<size_t>(work)] > 0) {
        out.emplace_back(static_cast<StepWork>(work), took[static_cast<size_t>(work)]);
      }
    }
    std::ranges::stable_sort(out, std::ranges::greater(), &std::pair<StepWork, int64_t>::second);
    return out;
  }

 private:
  // The expert instance that handed over its contributions last in most rounds; how often; of how
  // many rounds. {0, 0, 0} with fewer than two such instances.
  std::tuple<int, int, int> LastOfRounds() const {
    std::map<std::pair<int, int>, std::pair<int64_t, int>> last;  // by round: when, rank
    int experts = 0;
    for (const StepTrace& one : traces_) {
      if (one.role != Role::kExperts) continue;
      ++experts;
      int64_t at = one.began_ns;
      for (const StepSpan& span : one.spans) {
        if (span.work == StepWork::kSend && span.layer >= 0) {
          auto& of =
              last.try_emplace({span.layer, span.micro_batch}, at, one.rank.value).first->second;
          of = std::max(of, std::pair(at, static_cast<int>(one.rank.value)));
        }
        at += span.took_ns;
      }
    }
    if (experts < 2 || last.empty()) return {0, 0, 0};
    std::map<int, int> often;
    for (const auto& [round, of] : last) ++often[of.second];
    const auto most = std::ranges::max_element(often, {}, &std::pair<const int, int>::second);
    return {most->first, most->second, static_cast<int>(last.size())};
  }

  const control::StepPage& page_;
  std::vector<StepTrace> traces_;
  int micro_batches_ = 1;
  int first_ = -1;
  int last_ = -1;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// One line of time: in each column the letter of what took most of it.
std::string LineOf(const StepTrace& trace, int micro_batch, int64_t length, int columns) {
  std::vector<Times> cells(static_cast<size_t>(columns));
  const auto edge = [&](int column) { return length * column / columns; };
  int64_t at = trace.began_ns;
  for (const StepSpan& span : trace.spans) {
    const int64_t end = at + span.took_ns;
    const int64_t begin = std::exchange(at, end);
    if (span.micro_batch != micro_batch) continue;
    const auto first = static_cast<int>(begin * columns / length);
    for (int column = first; column < columns && edge(column) < end; ++column) {
      cells[static_cast<size_t>(column)][static_cast<size_t>(span.work)] +=
          std::min(end, edge(column + 1)) - std::max(begin, edge(column));
    }
  }
  std::string out;
  for (const Times& cell : cells) {
    const auto most = std::ranges::max_element(cell);
    out += *most > 0 ? kLooks[static_cast<size_t>(most - cell.begin())].letter : ' ';
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace

std::string StepText(const control::StepPage& page, int layers, int columns) {
  const Drawn drawn(page, layers);
  std::string out = drawn.Title() + "\n\n";
  size_t wide = 0;
  for (const StepTrace& one : drawn.traces()) wide = std::max(wide, NameOf(one).size());
  for (const StepTrace& one : drawn.traces()) {
    for (int i = 0; i < drawn.micro_batches(); ++i) {
      std::string label = i == 0 ? NameOf(one) : "";
      label.resize(wide, ' ');
      if (drawn.micro_batches() > 1) label += " " + std::to_string(i + 1);
      out += label + " |" + LineOf(one, i, drawn.length(), columns) + "\n";
    }
  }
  out += "\n";
  for (int work = 1; work <= kStepWorks; ++work) {
    out += std::string(work > 1 ? ", " : "") + kLooks[static_cast<size_t>(work)].letter + " " +
           std::string(ToString(static_cast<StepWork>(work)));
  }
  out += drawn.micro_batches() > 1 ? "; a line for each micro-batch\n\n" : "\n\n";
  for (const StepTrace& one : drawn.traces()) {
    std::string label = NameOf(one);
    label.resize(wide, ' ');
    std::string sums;
    for (const auto& [work, took] : Drawn::Sums(one)) {
      const double percent =
          100.0 * static_cast<double>(took) / static_cast<double>(drawn.length());
      if (percent < 0.5) continue;
      sums += (sums.empty() ? "" : ", ") + std::string(ToString(work)) + " " + Duration(took) +
              Format(" (%.0f %%)", percent);
    }
    out += label + "  " + sums + "\n";
  }
  for (const std::string& remark : drawn.Remarks()) out += "\n" + remark + "\n";
  return out;
}

std::string StepHtml(const control::StepPage& page, int layers) {
  constexpr int kLeft = 110, kLine = 16, kGap = 8;
  const Drawn drawn(page, layers);
  const int micro_batches = drawn.micro_batches();
  size_t spans = 0;
  for (const StepTrace& one : drawn.traces()) spans = std::max(spans, one.spans.size());
  // Wide enough to tell pieces apart; the page scrolls.
  const int width = std::clamp(static_cast<int>(spans) * 10, 1000, 20'000);
  const auto across = [&](int64_t ns) {
    return kLeft + static_cast<double>(width) * static_cast<double>(ns) /
                       static_cast<double>(drawn.length());
  };
  std::string svg;
  std::string table;
  int y = kGap;
  for (const StepTrace& one : drawn.traces()) {
    svg += Format("<text x=\"4\" y=\"%d\">", y + 12) + NameOf(one) + "</text>\n";
    int64_t at = one.began_ns;
    for (const StepSpan& span : one.spans) {
      const int64_t begin = std::exchange(at, at + span.took_ns);
      if (span.took_ns <= 0) continue;
      svg += Format("<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>",
                    across(begin), y + span.micro_batch * kLine, across(at) - across(begin),
                    kLine - 2, LookOf(span.work).colour) +
             std::string(ToString(span.work)) + ", " + Duration(span.took_ns);
      if (span.layer >= 0) {
        svg += Format("; layer %d, micro-batch %d", span.layer + 1, span.micro_batch + 1);
      }
      svg += "</title></rect>\n";
    }
    y += micro_batches * kLine + kGap;
    table += "<tr><td>" + NameOf(one) + "<td>";
    std::string sums;
    for (const auto& [work, took] : Drawn::Sums(one)) {
      sums += (sums.empty() ? "" : ", ") + std::string(ToString(work)) + " " + Duration(took);
    }
    table += sums + "</tr>\n";
  }
  std::string legend;
  for (int work = 1; work <= kStepWorks; ++work) {
    legend +=
        Format("<span style=\"background:%s\"></span>", kLooks[static_cast<size_t>(work)].colour) +
        std::string(ToString(static_cast<StepWork>(work))) + " ";
  }
  std::string html =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>janusctl trace</title>"
      "<style>body{font:14px sans-serif;margin:24px;color:#222}h1{font-size:20px}"
      "div{overflow-x:auto}svg{font-size:12px}span{display:inline-block;width:12px;height:12px;"
      "margin:0 6px 0 12px}table{border-collapse:collapse}td{padding:2px 10px;"
      "border-bottom:1px solid #ddd}</style>\n<h1>" +
      Escape(drawn.Title()) + "</h1>\n<p>" + legend + "</p>\n";
  html += Format(
              "<div tabindex=\"0\"><svg role=\"img\" aria-label=\"time of each instance\" "
              "width=\"%d\" height=\"%d\">\n",
              kLeft + width + 10, y) +
          svg + "</svg></div>\n<table>\n" + table + "</table>\n";
  for (const std::string& remark : drawn.Remarks()) html += "<p>" + Escape(remark) + "</p>\n";
  return html + "</html>\n";
}

}  // namespace janus::cli
