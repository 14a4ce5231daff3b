#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace janus::bench {

// A cell of exchange_modes_bench, from a line that it has printed. Arrays are by ExchangeMode.
// Thread-compatible.
struct EarlierCell {
  // Attention nodes, instances of each, expert nodes, instances of each.
  std::array<int, 4> nodes{};
  double row_bytes = 0;  // of an attention instance in a round
  std::array<double, 3> milliseconds{};
  std::array<double, 3> cpu_share{};
  double latency_microseconds = 0;
  double megabits = 0;  // per second
  double message_microseconds = 0;
};

// `modes`: their names in the line. Nothing: the line is something else. InvalidArgument names the
// key that is absent or has an impossible value, or says that a JSON line is cut. Pure.
inline Result<std::optional<EarlierCell>> ReadEarlierCell(const std::string& text,
                                                          const std::array<std::string, 3>& modes) {
  using Read = std::optional<EarlierCell>;
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (line.is_discarded() && text.starts_with('{')) {
    return InvalidArgument("is no JSON object, and begins like one; it may have been cut");
  }
  if (!line.is_object() || !line.contains("bench") || line.at("bench") != "exchange_modes") {
    return Read();
  }
  const auto wrong = [&](const std::string& key, const std::string& wanted) {
    const std::string is = line.contains(key) ? "is " + line.at(key).dump() : "is absent";
    return InvalidArgument("\"" + key + "\" " + is + "; want " + wanted);
  };
  EarlierCell out;
  std::string counts;
  if (line.contains("nodes") && line.at("nodes").is_string()) counts = line.at("nodes");
  auto& [attention, attention_each, experts, experts_each] = out.nodes;
  int end = 0;
  const int read = std::sscanf(counts.c_str(), "%4dx%4d,%4dx%4d%n", &attention, &attention_each,
                               &experts, &experts_each, &end);
  bool are_counts = read == 4 && static_cast<size_t>(end) == counts.size();
  for (const int count : out.nodes) are_counts = are_counts && count > 0;
  if (!are_counts) return wrong("nodes", "four counts, as in \"1x4,2x2\"");

  std::vector<std::pair<std::string, double*>> positive = {
      {"row_bytes_of_an_instance", &out.row_bytes}, {"measured_mbit", &out.megabits}};
  std::vector<std::pair<std::string, double*>> others = {
      {"measured_latency_us", &out.latency_microseconds},
      {"measured_message_us", &out.message_microseconds}};
  for (size_t i = 0; i < modes.size(); ++i) {
    positive.emplace_back(modes[i] + "_ms", &out.milliseconds[i]);
    others.emplace_back(modes[i] + "_cpu_share", &out.cpu_share[i]);
  }
  const auto take = [&](const std::string& key, double* into) {
    if (!line.contains(key) || !line.at(key).is_number()) return false;
    *into = line.at(key).get<double>();
    return true;
  };
  for (const auto& [key, into] : positive) {
    if (!take(key, into) || *into <= 0) return wrong(key, "a number above 0");
  }
  for (const auto& [key, into] : others) {
    if (!take(key, into) || *into < 0) return wrong(key, "a number of at least 0");
  }
  return Read(out);
}

}  // namespace janus::bench
