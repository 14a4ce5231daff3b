#include "cli/load/arrivals.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <random>

namespace janus::cli {
namespace {

constexpr size_t kMaxTraceBytes = size_t{1} << 30;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

// The next line without its end; false at the end of the text.
bool NextLine(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const size_t end = text.find('\n');
  line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return true;
}

std::string_view Column(std::string_view line, int index) {
  for (; index > 0; --index) {
    const size_t comma = line.find(',');
    if (comma == std::string_view::npos) return {};
    line.remove_prefix(comma + 1);
  }
  return Trim(line.substr(0, line.find(',')));
}

int FindColumn(std::string_view header, std::initializer_list<std::string_view> names) {
  const int columns = 1 + static_cast<int>(std::count(header.begin(), header.end(), ','));
  for (int i = 0; i < columns; ++i) {
    for (const std::string_view name : names) {
      if (Column(header, i) == name) return i;
    }
  }
  return -1;
}

template <class T>
std::optional<T> Number(std::string_view text) {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// Token counts are integers, but some traces write them as 12.0.
std::optional<int> Tokens(std::string_view text) {
  const std::optional<double> value = Number<double>(text);
  if (!value || !(*value >= 0 && *value <= 1e8)) return std::nullopt;
  return std::max(1, static_cast<int>(*value));
}

}  // namespace

Result<std::vector<Arrival>> ParseTrace(std::string_view csv, int64_t limit) {
  std::string_view header;
  if (!NextLine(csv, header)) return InvalidArgument("is empty; want CSV with a header row");
  const int time = FindColumn(header, {"arrival_s", "Timestamp"});
  const int input = FindColumn(header, {"input_tokens", "Request tokens"});
  const int output = FindColumn(header, {"output_tokens", "Response tokens"});
  if (time < 0 || input < 0 || output < 0) {
    return InvalidArgument("line 1: want the columns arrival_s, input_tokens, output_tokens; is '" +
                           std::string(header.substr(0, 80)) + "'");
  }
  std::vector<Arrival> arrivals;
  std::string_view line;
  for (int64_t number = 2; NextLine(csv, line); ++number) {
    if (Trim(line).empty()) continue;
    const std::optional<double> seconds = Number<double>(Column(line, time));
    const std::optional<int> in = Tokens(Column(line, input));
    const std::optional<int> out = Tokens(Column(line, output));
    if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || !in || !out) {
      return InvalidArgument("line " + std::to_string(number) + ": '" +
                             std::string(line.substr(0, 80)) +
                             "' is no arrival; want seconds and two token counts");
    }
    if (!arrivals.empty() && *seconds < arrivals.back().seconds) {
      return InvalidArgument("line " + std::to_string(number) + ": the time falls from " +
                             std::to_string(arrivals.back().seconds) + " to " +
                             std::to_string(*seconds) + "; sort the trace by arrival");
    }
    arrivals.push_back({*seconds, *in, *out});
    if (limit > 0 && static_cast<int64_t>(arrivals.size()) == limit) break;
  }
  if (arrivals.empty()) return InvalidArgument("has no rows below its header");
  return arrivals;
}

Result<std::vector<Arrival>> ReadTrace(const std::string& path, int64_t limit) {
  gzFile file = gzopen(path.c_str(), "rb");  // reads plain text as it is
  if (file == nullptr) return NotFound(path + ": cannot be opened; want a trace's CSV file");
  std::string text;
  std::array<char, 1 << 16> buffer;
  int got = 0;
  while ((got = gzread(file, buffer.data(), buffer.size())) > 0 && text.size() <= kMaxTraceBytes) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  gzclose(file);
  if (got < 0) return InvalidArgument(path + ": cannot be read, or its gzip is damaged");
  if (text.size() > kMaxTraceBytes) return InvalidArgument(path + ": larger than 1 GiB of text");
  Result<std::vector<Arrival>> arrivals = ParseTrace(text, limit);
  if (!arrivals.ok()) return std::move(arrivals).status().Annotate(path);
  return arrivals;
}

std::vector<Arrival> PoissonArrivals(double rate_per_second, int64_t count, int input_tokens,
                                     int output_tokens, uint64_t seed) {
  // The engine's bits are fixed by the standard; the distributions' are not, so the logarithm is
  // taken here.
  std::mt19937_64 random(seed);
  std::vector<Arrival> arrivals;
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    arrivals.push_back({now, input_tokens, output_tokens});
    const double uniform = static_cast<double>((random() >> 11) + 1) * 0x1p-53;  // (0, 1]
    now += -std::log(uniform) / rate_per_second;
  }
  return arrivals;
}

}  // namespace janus::cli
