#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus::cli {

inline constexpr int kMostPlacedBatch = 65'536;

// `janusctl place`.
struct PlaceOptions {
  std::string routing;         // file or folder, cli/place/routing_file.h
  std::string model;           // whose routing it is, checked; empty: not said
  int experts = 0;             // per layer; 0: the model's, or from the data
  int instances = 8;           // n
  int slots_per_instance = 0;  // C, spare slots included; 0: the fewest that hold the model
  int spare_slots = 0;
  int instances_per_pod = 1;
  int batch = 64;               // tokens of a step, all attention instances
  int steps = 24;               // sampled
  std::string method = "best";  // of all methods the one that the second half judges best
  bool greedy = false;          // judge and place for AEBSGreedy, not AEBS
  bool survivable = false;
  int evaluations = 700;
  uint64_t seed = 1;
  bool json = false;
};

// Places on the first half of the measurement and judges on the second; the text to print.
// InvalidArgument, FailedPrecondition, NotFound: what is wrong and what to do.
Result<std::string> Place(const PlaceOptions& options);

}  // namespace janus::cli
