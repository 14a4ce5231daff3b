#pragma once

// Shared by all benchmarks: repeated timing with median and spread, and one JSON line per result
// that names the machine and the commit.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace janus::bench {

struct Spread {
  double median = 0.0;  // seconds, here and below
  double p10 = 0.0;
  double p90 = 0.0;
  double p99 = 0.0;
};

inline Spread SpreadOf(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto at = [&](double share) {
    return seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  return {at(0.5), at(0.1), at(0.9), at(0.99)};
}

// Times fn(i) for i = 0, 1, ...: a few calls to warm up, then at least `repeats` calls, and calls
// for at least `least` seconds.
template <class Fn>
Spread Measure(int repeats, double least, Fn&& fn) {
  using Clock = std::chrono::steady_clock;
  int64_t i = 0;
  for (; i < 3; ++i) fn(i);
  std::vector<double> seconds;
  double total = 0.0;
  while (static_cast<int>(seconds.size()) < repeats || total < least) {
    const auto begin = Clock::now();
    fn(i++);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    total += seconds.back();
  }
  return SpreadOf(std::move(seconds));
}

inline std::string FirstLineOf(const std::string& command) {
  std::string line;
  if (FILE* pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    for (int c = std::fgetc(pipe); c != EOF && c != '\n'; c = std::fgetc(pipe)) {
      line += static_cast<char>(c);
    }
    pclose(pipe);
  }
  return line;
}

inline std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

// Builds {"bench":...,"commit":...,"machine":...,...} and prints it when destroyed.
class JsonLine {
 public:
  explicit JsonLine(std::string_view bench) {
    static const std::string commit =
        FirstLineOf("git -C '" JANUS_SOURCE_DIR "' describe --always --dirty 2>/dev/null");
    static const std::string machine = CpuName();
    Text("bench", bench).Text("commit", commit).Text("machine", machine);
  }
  ~JsonLine() { std::printf("{%s}\n", fields_.c_str()); }
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  JsonLine& Text(std::string_view name, std::string_view value) {
    return Raw(name, '"' + std::string(value) + '"');
  }
  JsonLine& Int(std::string_view name, int64_t value) { return Raw(name, std::to_string(value)); }
  JsonLine& Number(std::string_view name, double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.4g", value);
    return Raw(name, text);
  }
  JsonLine& Microseconds(const Spread& spread) {
    return Number("median_us", spread.median * 1e6)
        .Number("p10_us", spread.p10 * 1e6)
        .Number("p90_us", spread.p90 * 1e6);
  }

 private:
  JsonLine& Raw(std::string_view name, std::string_view value) {
    if (!fields_.empty()) fields_ += ',';
    fields_ += '"';
    fields_ += name;
    fields_ += "\":";
    fields_ += value;
    return *this;
  }

  std::string fields_;
};

}  // namespace janus::bench
