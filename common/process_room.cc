#include "common/process_room.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <vector>

#include "common/free_memory.h"
#include "common/read_file.h"

namespace janus {
namespace {

// Above any real machine: version 1 reports such a number if there is no limit.
constexpr int64_t kNoLimit = int64_t{1} << 50;

// A process's group in one hierarchy: its mount point, and the group's path there.
struct Group {
  std::string mount;
  std::string path;
};

// The numbers at the beginning of a file, up to the first word ("max").
std::vector<int64_t> Numbers(const std::string& path) {
  std::ifstream in(path);
  std::vector<int64_t> out;
  for (int64_t value = 0; in >> value;) out.push_back(value);
  return out;
}

std::optional<int64_t> MemoryLimit(const std::string& folder) {
  for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
    const std::vector<int64_t> limit = Numbers(folder + file);
    if (!limit.empty() && limit[0] < kNoLimit) return limit[0];
  }
  return std::nullopt;
}

std::optional<int64_t> CoresLimit(const std::string& folder) {
  std::vector<int64_t> quota = Numbers(folder + "/cpu.max");
  if (quota.empty()) {
    quota = Numbers(folder + "/cpu.cfs_quota_us");
    const std::vector<int64_t> period = Numbers(folder + "/cpu.cfs_period_us");
    quota.insert(quota.end(), period.begin(), period.end());
  }
  if (quota.size() != 2 || quota[0] <= 0 || quota[1] <= 0) return std::nullopt;
  return std::max<int64_t>(quota[0] / quota[1], 1);
}

// The groups of this process for `controller`, of either version.
std::vector<Group> GroupsOf(const std::string& root, const std::string& controller) {
  std::vector<Group> out;
  std::ifstream in(root + "/proc/self/cgroup");
  const std::string mounts = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(in, line);) {
    // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names.empty()) {
      out.push_back({mounts, path});
    } else if (("," + names + ",").find("," + controller + ",") != std::string::npos) {
      out.push_back({mounts + "/" + controller, path});
    }
  }
  return out;
}

// The least value of a group and its ancestors.
std::optional<int64_t> Least(
    const std::vector<Group>& groups,
    const std::function<std::optional<int64_t>(const std::string& folder)>& read) {
  std::optional<int64_t> least;
  for (const Group& group : groups) {
    std::string path = group.path == "/" ? "" : group.path;
    while (true) {
      if (const auto limit = read(group.mount + path))
        least = std::min(least.value_or(*limit), *limit);
      if (path.empty()) break;
      path = path.substr(0, path.rfind('/'));
    }
  }
  return least;
}

// "Name:   42 kB" in a file of /proc, in bytes; 0: not found.
int64_t KilobytesOf(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string word;
    int64_t kilobytes = 0;
    if (fields >> word >> kilobytes && word == name + ":") return kilobytes * 1024;
  }
  return 0;
}

int UsableCores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return 1;
  return std::max(1, CPU_COUNT(&usable));
}

}  // namespace

Result<ProcessRoom> ReadProcessRoom(const std::string& root) {
  JANUS_ASSIGN_OR_RETURN(const std::string machine, ReadFile(root + "/proc/meminfo"));
  JANUS_ASSIGN_OR_RETURN(const std::string process, ReadFile(root + "/proc/self/status"));
  ProcessRoom out;
  if (const auto limit = Least(GroupsOf(root, "memory"), MemoryLimit)) {
    out.memory_bytes = std::min(*limit, KilobytesOf(machine, "MemTotal"));
    out.memory_is_limited = true;
  } else {
    JANUS_ASSIGN_OR_RETURN(out.memory_bytes, ParseMemAvailable(machine));
    // The process holds these already; the caller wants the total that it could have.
    out.memory_bytes += KilobytesOf(process, "RssAnon") + KilobytesOf(process, "RssShmem");
  }
  out.cores = UsableCores();
  if (const auto quota = Least(GroupsOf(root, "cpu"), CoresLimit)) {
    out.cores_are_limited = true;
    out.cores = static_cast<int>(std::min<int64_t>(out.cores, *quota));
  }
  return out;
}

ProcessRoom ShareOf(ProcessRoom room, int processes) {
  if (room.memory_is_limited) room.memory_bytes /= processes;
  if (room.cores_are_limited) room.cores = std::max(1, room.cores / processes);
  return room;
}

}  // namespace janus
