#include "dataplane/worker/supervise/merge_metrics.h"

#include <deque>
#include <string_view>
#include <unordered_map>

namespace janus::dataplane {
namespace {

struct Family {
  std::string_view help;  // whole lines
  std::string_view type;
  std::string samples;
};

std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

std::string MergeMetrics(const std::map<int, std::string>& texts) {
  std::deque<Family> families;  // in the order in which they are found
  std::unordered_map<std::string_view, Family*> by_name;
  const auto family_of = [&](std::string_view name) -> Family& {
    Family*& at = by_name[name];
    if (at == nullptr) at = &families.emplace_back();
    return *at;
  };
  constexpr std::string_view kHelp = "# HELP ", kType = "# TYPE ";
  for (const auto& [index, text] : texts) {
    const std::string label = "index=\"" + std::to_string(index) + "\"";
    std::string_view current;  // the family of the lines here; a histogram's samples have suffixes
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = TakeLine(rest);
      if (line.starts_with(kHelp) || line.starts_with(kType)) {
        const std::string_view behind = line.substr(kHelp.size());
        current = behind.substr(0, behind.find(' '));
        Family& family = family_of(current);
        (line.starts_with(kHelp) ? family.help : family.type) = line;
        continue;
      }
      const size_t end = line.find_first_of("{ ");
      if (line.starts_with('#') || end == std::string_view::npos || end == 0) continue;
      const std::string_view name = line.substr(0, end);
      const bool has_labels = line[end] == '{';
      const bool has_some = has_labels && line.substr(end + 1, 1) != "}";
      Family& family = family_of(!current.empty() && name.starts_with(current) ? current : name);
      family.samples.append(name).append("{").append(label);
      if (!has_labels) {
        family.samples.append("}").append(line.substr(end));
      } else {
        family.samples.append(has_some ? "," : "").append(line.substr(end + 1));
      }
      family.samples += '\n';
    }
  }
  std::string out;
  for (const Family& family : families) {
    if (family.samples.empty()) continue;
    for (const std::string_view line : {family.help, family.type}) {
      if (!line.empty()) out.append(line).append("\n");
    }
    out += family.samples;
  }
  return out;
}

}  // namespace janus::dataplane
