#include "common/free_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "common/read_file.h"

namespace janus {
namespace {

std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  if (!(in >> value)) return std::nullopt;  // "max" is no number: no limit
  return value;
}

// What the limits of our cgroup and its ancestors leave.
std::optional<int64_t> CgroupRoom() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  std::optional<int64_t> room;
  while (std::getline(in, line)) {
    if (!line.starts_with("0::")) continue;
    std::string group = line.substr(3);
    while (true) {
      const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
      const auto limit = ReadNumber(folder + "/memory.max");
      const auto used = ReadNumber(folder + "/memory.current");
      if (limit && used)
        room = std::min(room.value_or(INT64_MAX), std::max<int64_t>(*limit - *used, 0));
      if (group.empty() || group == "/") break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  return room;
}

}  // namespace

Result<int64_t> ParseMemAvailable(const std::string& meminfo) {
  std::istringstream in(meminfo);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string name;
    int64_t kilobytes = 0;
    if (fields >> name >> kilobytes && name == "MemAvailable:") return kilobytes * 1024;
  }
  return NotFound("/proc/meminfo: no MemAvailable");
}

Result<int64_t> AvailableMemoryBytes() {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/meminfo"));
  JANUS_ASSIGN_OR_RETURN(const int64_t available, ParseMemAvailable(text));
  return std::min(available, CgroupRoom().value_or(INT64_MAX));
}

}  // namespace janus
