#include "dataplane/comm/exchange/chosen_rows.h"

#include <cstring>

#include "common/check.h"

namespace janus::dataplane {
namespace {

size_t Cells(int rows, int top_k) {
  return static_cast<size_t>(rows) * static_cast<size_t>(top_k);
}

size_t ChoicesAt(int sent, size_t row_bytes) {
  return exchange_size::Aligned(static_cast<size_t>(sent) * row_bytes);
}

void WriteSent(std::byte* choices, int sent) {
  const auto number = static_cast<uint32_t>(sent);
  static_assert(sizeof number == exchange_size::kChoicesHead);
  std::memcpy(choices, &number, sizeof number);
}

}  // namespace

ChosenExperts WriteChoices(std::span<std::byte> payload, int rows, int top_k, size_t row_bytes) {
  const size_t cells = Cells(rows, top_k);
  JANUS_CHECK(ChosenRowsBytes(static_cast<size_t>(rows), cells, row_bytes) <= payload.size(), rows);
  std::byte* const choices = payload.data() + ChoicesAt(rows, row_bytes);
  WriteSent(choices, rows);
  return {{reinterpret_cast<uint16_t*>(choices + exchange_size::kChoicesHead), cells},
          {reinterpret_cast<float*>(choices + ChoiceWeightsOffset(cells)), cells}};
}

size_t WriteSelected(std::span<const std::byte> all, int count, int top_k, size_t row_bytes,
                     std::span<const int32_t> places, int sent, std::span<std::byte> into) {
  const size_t cells = Cells(count, top_k);
  const size_t bytes = ChosenRowsBytes(static_cast<size_t>(sent), cells, row_bytes);
  JANUS_CHECK(bytes <= into.size(), sent, count);
  for (int row = 0; row < count; ++row) {
    const int32_t place = places[static_cast<size_t>(row)];
    if (place < 0) continue;
    std::memcpy(into.data() + static_cast<size_t>(place) * row_bytes,
                all.data() + static_cast<size_t>(row) * row_bytes, row_bytes);
  }
  std::byte* const choices = into.data() + ChoicesAt(sent, row_bytes);
  std::memcpy(choices, all.data() + ChoicesAt(count, row_bytes), ChoiceBytes(cells));
  WriteSent(choices, sent);
  return bytes;
}

int RowsSent(std::span<const std::byte> payload, int count, int top_k, size_t row_bytes) {
  const size_t choices = ChoiceBytes(Cells(count, top_k));
  if (payload.size() < choices) return -1;
  uint32_t sent = 0;
  std::memcpy(&sent, payload.data() + (payload.size() - choices), sizeof sent);
  const bool fits = sent <= static_cast<uint32_t>(count) &&
                    ChoicesAt(static_cast<int>(sent), row_bytes) + choices == payload.size();
  return fits ? static_cast<int>(sent) : -1;
}

void ReadChoices(std::span<const std::byte> payload, int sent, int count, int top_k,
                 size_t row_bytes, std::span<uint16_t> ids, std::span<float> weights) {
  const size_t cells = Cells(count, top_k);
  JANUS_CHECK(ids.size() >= cells && weights.size() >= cells, cells);
  const std::byte* const choices = payload.data() + ChoicesAt(sent, row_bytes);
  std::memcpy(ids.data(), choices + exchange_size::kChoicesHead, cells * sizeof ids[0]);
  std::memcpy(weights.data(), choices + ChoiceWeightsOffset(cells), cells * sizeof weights[0]);
}

}  // namespace janus::dataplane
