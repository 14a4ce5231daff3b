#include "common/wait_policy.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

namespace janus {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The path of this process in the unified hierarchy: the line "0::<path>".
std::string ControlGroup() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "";
}

// The smallest quota of the group and its ancestors.
std::optional<double> Quota() {
  std::optional<double> least;
  for (std::string group = ControlGroup();;) {
    const auto own = CoresOfQuota(ReadAll("/sys/fs/cgroup" + group + "/cpu.max"));
    if (own && (!least || *own < *least)) least = own;
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

// Two threads that only sleep and wake each other up.
class PingPong {
 public:
  PingPong() : other_([this] { Answer(); }) {}

  std::chrono::nanoseconds Round() {
    const MonotonicTime start = MonotonicClock::now();
    const uint32_t mine = sent_.fetch_add(1, std::memory_order_release) + 1;
    to_other_.Ring();
    WaitFor(to_us_, kSleep, start + std::chrono::seconds(1),
            [&] { return answered_.load(std::memory_order_acquire) == mine; });
    return MonotonicClock::now() - start;
  }
  ~PingPong() {
    over_.store(true, std::memory_order_release);
    to_other_.Ring();
  }

 private:
  static constexpr WaitPolicy kSleep{.spin = std::chrono::microseconds(0), .yields = 0};

  void Answer() {
    uint32_t seen = 0;
    for (;;) {
      WaitFor(to_other_, kSleep, MonotonicTime::max(), [&] {
        return sent_.load(std::memory_order_acquire) != seen ||
               over_.load(std::memory_order_acquire);
      });
      if (over_.load(std::memory_order_acquire)) return;
      seen = sent_.load(std::memory_order_acquire);
      answered_.store(seen, std::memory_order_release);
      to_us_.Ring();
    }
  }

  Doorbell to_other_, to_us_;
  std::atomic<uint32_t> sent_{0}, answered_{0};
  std::atomic<bool> over_{false};
  std::jthread other_;
};

}  // namespace

std::optional<double> CoresOfQuota(std::string_view cpu_max) {
  int64_t quota = 0, period = 0;
  const char* end = cpu_max.data() + cpu_max.size();
  const auto first = std::from_chars(cpu_max.data(), end, quota);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc() || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  if (const std::optional<double> quota = Quota()) {
    cores = static_cast<int>(std::min<double>(cores, std::floor(*quota)));
  }
  return std::max(1, cores);
}

std::chrono::microseconds MeasureWake() {
  constexpr size_t kRounds = 200;
  std::vector<std::chrono::nanoseconds> rounds;
  PingPong pair;
  const MonotonicTime end = MonotonicClock::now() + std::chrono::milliseconds(20);
  while (rounds.empty() || (rounds.size() < kRounds && MonotonicClock::now() < end)) {
    rounds.push_back(pair.Round());
  }
  return WakeOf(std::move(rounds));
}

std::chrono::microseconds WakeOf(std::vector<std::chrono::nanoseconds> rounds) {
  using std::chrono::microseconds;
  const auto middle = rounds.begin() + static_cast<ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  const auto one_way = std::chrono::duration_cast<microseconds>(*middle / 2);
  return std::clamp(one_way, microseconds(1), microseconds(200));
}

WaitPolicy PolicyFor(int threads, int cores, std::chrono::microseconds wake) {
  WaitPolicy policy;
  policy.spin = threads <= cores ? wake : std::chrono::microseconds(0);
  return policy;
}

}  // namespace janus
