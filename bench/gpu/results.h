#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace janus::kernels::cuda {

// A file with a JSON line before and after each case, flushed. A later run continues it.
class Results {
 public:
  explicit Results(const std::string& path) : path_(path), out_(path, std::ios::app) {}
  bool ok() const { return out_.good(); }
  // The number `key` in the line of a case; negative: not found.
  double Find(const std::string& name, const std::string& key) const {
    std::ifstream file(path_);
    const std::string begin = "{\"bench\": \"" + name + "\",";
    const std::string field = " \"" + key + "\": ";
    for (std::string line; std::getline(file, line);) {
      const size_t at = line.find(field);
      if (line.starts_with(begin) && at != std::string::npos) {
        return std::atof(&line[at + field.size()]);
      }
    }
    return -1.0;
  }
  // Call it before a case is timed. False: the case began twice and never ended, so it hangs or
  // ends the process. Skip it (scripts/gpu reports it).
  bool Begin(const std::string& name) {
    const std::string line = "{\"bench_begins\": \"" + name + "\"}";
    int begun = 0;
    std::ifstream file(path_);
    for (std::string there; std::getline(file, there);) begun += there == line ? 1 : 0;
    if (begun >= 2) return false;
    out_ << line << std::endl;
    return true;
  }
  // Writes nothing if a field is not finite: the case was skipped, and JSON has no such number.
  void Write(const std::string& name, const std::string& fields) {
    if (fields.find(": nan") != std::string::npos || fields.find(": -nan") != std::string::npos ||
        fields.find(": inf") != std::string::npos || fields.find(": -inf") != std::string::npos) {
      return;
    }
    out_ << "{\"bench\": \"" << name << "\", " << fields << '}' << std::endl;
  }

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace janus::kernels::cuda
