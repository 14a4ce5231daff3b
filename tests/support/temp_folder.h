#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/check.h"

namespace janus {

// An empty folder that is removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "janus-test-XXXXXX").string();
    JANUS_CHECK(mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream out(path_ + "/" + name, std::ios::binary);
    out << bytes;
    JANUS_CHECK(out.good(), path_, name);
  }

 private:
  std::string path_;
};

}  // namespace janus
