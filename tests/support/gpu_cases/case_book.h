#pragma once

#include <fstream>
#include <map>
#include <string>

#include "tests/support/gpu_cases/json_text.h"

namespace janus::kernels {

// The file that a run of cases on a GPU writes and a later run resumes from: one line before each
// case and one after it, flushed. A case without a second line hung, was cut, or ended the process.
class CaseBook {
 public:
  explicit CaseBook(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (const std::string name = NameIn(line, "begins"); !name.empty()) ++cases_[name].begun;
      if (const std::string name = NameIn(line, "case"); !name.empty()) cases_[name].ended = true;
    }
    out_.open(path, std::ios::app);
  }
  bool ok() const { return out_.good(); }

  void Write(const std::string& line) { out_ << line << std::endl; }
  void Begin(const std::string& name) { Write("{\"begins\": \"" + name + "\"}"); }
  // `lost`: the process cannot use the GPU any more. `skipped`: why the case was skipped; empty: it
  // ran.
  void End(const std::string& name, bool passed, bool lost, int64_t ms,
           const std::string& skipped = "") {
    Write("{\"case\": \"" + name + "\", \"passed\": " + (passed && !lost ? "true" : "false") +
          (lost ? ", \"lost\": true" : "") +
          (skipped.empty() ? "" : ", \"skipped\": " + JsonText(skipped)) +
          ", \"ms\": " + std::to_string(ms) + '}');
  }

  // GoogleTest's filter for the cases of `filter` that have not begun; with `again`, for those that
  // began once and did not end. A case that began twice, or ended, does not run any more.
  std::string FilterOf(const std::string& filter, bool again) const {
    std::string cut;
    std::string without;
    for (const auto& [name, seen] : cases_) {
      if (!seen.ended && seen.begun == 1) cut += ':' + name;
      without += ':' + name;
    }
    if (again) return cut.empty() ? "-*" : cut.substr(1);
    if (without.empty()) return filter;
    return filter + (filter.find('-') == std::string::npos ? "-" + without.substr(1) : without);
  }

 private:
  struct Seen {
    int begun = 0;
    bool ended = false;
  };
  static std::string NameIn(const std::string& line, const std::string& key) {
    const std::string begin = "{\"" + key + "\": \"";
    const size_t end = line.find('"', begin.size());
    if (!line.starts_with(begin) || end == std::string::npos) return "";
    return line.substr(begin.size(), end - begin.size());
  }

  std::map<std::string, Seen> cases_;
  std::ofstream out_;
};

}  // namespace janus::kernels
