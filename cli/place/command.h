#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus::cli {

inline constexpr int kMostPlacedBatch = 65'536;

// Options of `janusctl place`.
struct PlaceOptions {
  std::string routing;         // file or folder, cli/place/routing_file.h; not empty
  std::string model;           // the model that was measured, checked; empty: unknown
  int experts = 0;             // per layer; 0: from the model, or from the data
  int instances = 8;           // n
  int slots_per_instance = 0;  // C, with spare slots; 0: the fewest that hold the model
  int spare_slots = 0;
  int instances_per_pod = 1;
  int batch = 64;               // tokens of a step, over all attention instances
  int steps = 24;               // sampled steps
  std::string method = "best";  // "best": the method that the second half judges best
  bool greedy = false;          // judge and place for AEBSGreedy instead of AEBS
  bool survivable = false;
  int evaluations = 700;
  uint64_t seed = 1;
  bool json = false;
};

// Places on the first half of the measurement and judges on the second. Returns the text to print.
// InvalidArgument, FailedPrecondition, NotFound: what is wrong and what to do.
Result<std::string> Place(const PlaceOptions& options);

}  // namespace janus::cli
