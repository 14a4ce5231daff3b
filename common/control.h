#pragma once

#include <cstdint>
#include <string>

#include "common/device_report.h"
#include "common/process_room.h"

namespace janus {

// What a write to a worker carries: whose, and how new.
struct Stamp {
  std::string service_uid;
  uint64_t fence = 0;
  uint64_t epoch = 0;
};

// How far a worker is with preparing an epoch.
struct PrepareProgress {
  std::string phase;  // "weights", "connect", "memory", "instance"
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};

// What a worker says of the model that it would load, of its room and of its device.
struct ModelReport {
  std::string config_json;  // the checkpoint's
  std::string digest;       // of that and of its weights
  std::string text_digest;  // of its tokenizer; empty: it has none, or it was not told
  ProcessRoom room;
  DeviceReport device = {};
};

}  // namespace janus
