#pragma once

#include <string>
#include <vector>

#include "cli/screen.h"
#include "common/status.h"
#include "common/stop_signals.h"

namespace janus::cli {

struct CalibrateOptions {
  std::string model;    // a folder, or owner/name[@revision] of a hub
  std::string prompts;  // file with one in each line; empty: built in
  int bits = 32;        // of an element of a sum
};

// The exponents of a model for exchange.sum FixedPoint, as YAML: an `exchange` with sum, sumBits
// and sumExponents. Runs `janus-worker calibrate` on all cores; all weights must fit into memory.
// `folder`: the checkpoint's. Errors are the program's, with its words. Cancelled: a signal came.
Result<std::string> RunCalibration(const std::string& folder, const CalibrateOptions& options,
                                   StopSignals& stop);

// The exponents in such YAML.
Result<std::vector<int>> ReadExponents(const std::string& yaml);

// `janusctl calibrate`: downloads the model if a hub has it, and prints the YAML.
Status Calibrate(const CalibrateOptions& options, StopSignals& stop);

}  // namespace janus::cli
