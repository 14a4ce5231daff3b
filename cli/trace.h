#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus::cli {

// One request of a workload: when it is sent, and its lengths.
struct Arrival {
  double seconds = 0;     // from the start; ascending
  int input_tokens = 0;   // >= 1
  int output_tokens = 0;  // >= 1
  friend bool operator==(const Arrival&, const Arrival&) = default;
};

// Reads a trace from CSV with a header row. Columns are found by name: arrival_s or gap_s (since
// the row before), input_tokens, output_tokens, or BurstGPT's Timestamp, Request tokens, Response
// tokens. Other columns are ignored. Zero tokens count as one. Stops after `limit` rows (0: all).
// InvalidArgument: a column is missing, or a row is broken (the message has its line).
Result<std::vector<Arrival>> ParseTrace(std::string_view csv, int64_t limit);

// The same from a file, plain or gzip, with at most 1 GiB of text. A folder stands for its files in
// order of their names, as one trace. NotFound: the file cannot be read.
Result<std::vector<Arrival>> ReadTrace(const std::string& path, int64_t limit);

}  // namespace janus::cli
