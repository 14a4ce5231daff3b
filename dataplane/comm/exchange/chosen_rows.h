#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/exchange_size.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// The payload of a kRows message with the gate on attention: the rows that are sent, then, behind
// padding to 64 bytes, what the gate chose for all rows: uint32 (number of rows sent), uint16
// [rows, K] expert ids, float [rows, K] weights, each aligned to 4 bytes. The header counts all
// rows. The rows sent are all of them, or those that the reader needs (HeldExperts), in order.

// Where the sender writes the choices for its rows, all of which are in the payload.
struct ChosenExperts {
  std::span<uint16_t> ids;   // [rows, K]
  std::span<float> weights;  // likewise
};
ChosenExperts WriteChoices(std::span<std::byte> payload, int rows, int top_k, size_t row_bytes);

// Writes to `into` the message for a reader that needs the rows with places[row] >= 0, `sent` in
// number. `all`: the payload with all `count` rows. Returns its bytes.
size_t WriteSelected(std::span<const std::byte> all, int count, int top_k, size_t row_bytes,
                     std::span<const int32_t> places, int sent, std::span<std::byte> into);

// A received payload, which is outside data: the number of rows that its sender says were sent.
// -1: the size of the payload does not fit that.
int RowsSent(std::span<const std::byte> payload, int count, int top_k, size_t row_bytes);
// Copies ids and weights [count, K] out of a payload for which RowsSent gave `sent`.
void ReadChoices(std::span<const std::byte> payload, int sent, int count, int top_k,
                 size_t row_bytes, std::span<uint16_t> ids, std::span<float> weights);

}  // namespace janus::dataplane
