#pragma once

#include <cstdint>
#include <string>

#include "common/device_report.h"
#include "common/process_room.h"

namespace janus {

// Every write to a worker carries this: which service sends it, and how new it is.
struct Stamp {
  std::string service_uid;
  uint64_t fence = 0;
  uint64_t epoch = 0;
  uint32_t pool = 0;  // of the service; 0: not named
};

// A worker's progress in preparing an epoch.
struct PrepareProgress {
  std::string phase;  // "weights", "connect", "memory", "instance"
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};

// What a worker says of the model that it would load, of its room and of its device.
struct ModelReport {
  std::string config_json;  // of the checkpoint
  std::string digest;       // of config.json and the weights
  std::string text_digest;  // of its tokenizer; empty: it has none, or the report lacks it
  ProcessRoom room;
  DeviceReport device = {};
};

}  // namespace janus
