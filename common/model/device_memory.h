#pragma once

#include <cstdint>

#include "common/model/description.h"

namespace janus {

// Bytes that an epoch of an instance takes of the GPU it computes on, beside its weights and keys
// and values: no less than what dataplane/ takes there, and little more
// (tests/integration/emulated_device/plan_bytes_test.cc). While an epoch is prepared the running
// one keeps its own.

// What a step computes, and what peers are promised of it.
struct RoundRoom {
  int rows = 0;           // of an attention instance in a round, at most
  int batch = 0;          // sequences of an attention instance, at most
  int micro_batches = 1;  // each has a part of the rows
};

// Activations, logits, contributions that were taken up, and what the batch consists of; for `keys`
// cached positions, of the states in which the splits of long contexts are merged.
int64_t AttentionDeviceBytes(const ModelDescription& model, const RoundRoom& room, int64_t keys);

// Rows of `senders` attention instances, the gate's logits and what fell to `slots` slots, of one
// of `instances` expert instances.
int64_t ExpertDeviceBytes(const ModelDescription& model, const RoundRoom& room, int senders,
                          int instances, int slots);

// What the instance sends: the exchange's slots that peers read, or the place from which it goes to
// the host; and where the network brings what it reads of peers elsewhere.
int64_t AttentionDeviceSlotBytes(const ModelDescription& model, const RoundRoom& room);
int64_t ExpertDeviceSlotBytes(const ModelDescription& model, const RoundRoom& room, int senders);

// What CUDA keeps of the graphs that an epoch records: an assumption, of 32 KiB a graph, since only
// a driver knows.
int64_t AttentionGraphBytes(const ModelDescription& model, const RoundRoom& room);
int64_t ExpertGraphBytes(const ModelDescription& model, const RoundRoom& room, int senders);

}  // namespace janus
