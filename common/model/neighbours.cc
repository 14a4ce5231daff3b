#include "common/model/neighbours.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <vector>

namespace janus {
namespace {

namespace fs = std::filesystem;

// Length of the beginning that both share.
size_t SharedBeginning(const std::string& a, const std::string& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<size_t>(end - a.begin());
}

}  // namespace

std::string NeighboursOf(const std::string& folder) {
  std::error_code error;
  fs::path there = fs::path(folder).lexically_normal();
  std::string missing;
  while (!fs::is_directory(there, error)) {
    if (!there.has_relative_path()) return "";
    if (there.has_filename()) missing = there.filename();
    there = there.parent_path();
  }
  std::vector<std::string> names;
  for (fs::directory_iterator it(there, error), end; !error && it != end; it.increment(error)) {
    if (names.size() == kMostEntries) break;
    std::string name = it->path().filename();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (error) return "";
  if (names.empty()) return there.string() + " is empty";
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return std::tuple(SharedBeginning(b, missing), a) < std::tuple(SharedBeginning(a, missing), b);
  });
  std::string out = there.string() + " has: ";
  for (size_t i = 0; i < std::min(names.size(), kMostNeighbours); ++i) {
    out += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > kMostNeighbours) {
    out += " and " + std::to_string(names.size() - kMostNeighbours) + " more";
  }
  return out;
}

}  // namespace janus
