#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace janus::kernels::cuda {

// A file with a JSON line a case, flushed when the case ends, that a later run goes on with.
class Results {
 public:
  explicit Results(const std::string& path) : path_(path), out_(path, std::ios::app) {}
  bool ok() const { return out_.good(); }
  // The number `key` in the line of a case; negative: there is none.
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
  void Write(const std::string& name, const std::string& fields) {
    out_ << "{\"bench\": \"" << name << "\", " << fields << '}' << std::endl;
  }

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace janus::kernels::cuda
