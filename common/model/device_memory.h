#pragma once

#include <cstdint>

#include "common/model/description.h"
#include "common/row_format.h"

namespace janus {

// Bytes that an epoch of an instance needs on its GPU, beside weights, keys and values. At least
// what dataplane/ allocates there, and little more
// (tests/integration/emulated_device/plan_bytes_test.cc). While an epoch is prepared the running
// one keeps its own.

// The sizes of a step.
struct RoundRoom {
  int rows = 0;                                  // of an attention instance in a round, at most
  int batch = 0;                                 // sequences of an attention instance, at most
  int micro_batches = 1;                         // each has a part of the rows
  Compression compression = Compression::kNone;  // of rows and contributions in the exchange
  int sum_bits = 0;                              // of a sum's elements (FixedPoint); 0: none
};

// Activations, logits, copied contributions, and the description of the batch; for `keys` cached
// positions, also the states for merging the splits of long contexts.
int64_t AttentionDeviceBytes(const ModelDescription& model, const RoundRoom& room, int64_t keys);

// Rows of `senders` attention instances, the gate's logits and the work of `slots` slots, for one
// of `instances` expert instances.
int64_t ExpertDeviceBytes(const ModelDescription& model, const RoundRoom& room, int senders,
                          int instances, int slots);

// The slots for sending: the exchange's slots that peers read, or the buffer that is copied to the
// host. Also the landing memory for reads over a network. With compression or sums only the buffer.
int64_t AttentionDeviceSlotBytes(const ModelDescription& model, const RoundRoom& room);
int64_t ExpertDeviceSlotBytes(const ModelDescription& model, const RoundRoom& room, int senders);

// Memory that CUDA uses for the graphs that an epoch records: assumes 32 KiB per graph, since only
// a driver knows.
int64_t AttentionGraphBytes(const ModelDescription& model, const RoundRoom& room);
int64_t ExpertGraphBytes(const ModelDescription& model, const RoundRoom& room, int senders);

}  // namespace janus
