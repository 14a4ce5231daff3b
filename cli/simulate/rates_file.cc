#include "cli/simulate/rates_file.h"

#include <array>
#include <cmath>

#include "cli/csv.h"

namespace janus::cli {
namespace {

constexpr std::array<std::string_view, 10> kColumns = {
    "window_start_s", "rate_rps", "in_mean", "in_p50",  "in_p90",
    "in_p99",         "out_mean", "out_p50", "out_p90", "out_p99"};

}  // namespace

Result<std::vector<controllers::RateWindow>> ParseRates(std::string_view csv) {
  CsvReader reader(csv);
  std::array<int, kColumns.size()> columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i] = reader.FindColumn({kColumns[i]});
    if (columns[i] >= 0) continue;
    return InvalidArgument("line 1: want the column " + std::string(kColumns[i]) + "; is '" +
                           std::string(reader.header().substr(0, 80)) + "'");
  }
  std::vector<controllers::RateWindow> windows;
  while (reader.Next()) {
    std::array<double, kColumns.size()> row;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::optional<double> number = reader.Number(columns[i]);
      if (number && std::isfinite(*number) && *number >= 0 && *number <= 1e9) {
        row[i] = *number;
        continue;
      }
      return InvalidArgument(
          "line " + std::to_string(reader.line()) + ": " + std::string(kColumns[i]) + " is '" +
          std::string(reader.Text(columns[i]).substr(0, 40)) + "'; want a number from 0 to 1e9");
    }
    if (!windows.empty() && row[0] <= windows.back().start_s) {
      return InvalidArgument(
          "line " + std::to_string(reader.line()) +
          ": the window does not start after the one before it; sort the windows by their start");
    }
    windows.push_back(
        {row[0], row[1], {row[2], row[3], row[4], row[5]}, {row[6], row[7], row[8], row[9]}});
  }
  if (windows.empty()) return InvalidArgument("has no rows below its header");
  return windows;
}

Result<std::vector<controllers::RateWindow>> ReadRates(const std::string& path) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadPossiblyGzip(path));
  Result<std::vector<controllers::RateWindow>> windows = ParseRates(text);
  if (!windows.ok()) return std::move(windows).status().Annotate(path);
  return windows;
}

}  // namespace janus::cli
