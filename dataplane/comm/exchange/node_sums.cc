#include "dataplane/comm/exchange/node_sums.h"

#include <algorithm>
#include <cstring>

#include "dataplane/comm/exchange/load_ref.h"

namespace janus::dataplane {

NodeSums::NodeSums(const ExchangeShape& shape, size_t most)
    : bits_(shape.sums.bits),
      hidden_(shape.hidden),
      sum_bytes_(shape.reply_bytes()),
      most_refs_(static_cast<size_t>(shape.max_rows) * static_cast<size_t>(shape.top_k)) {
  rests_.reserve(most);
}

bool NodeSums::Load(Rest& rest, int row) {
  if (rest.at == rest.count) return true;
  rest.next = LoadRef(rest.refs + rest.at);
  return rest.next.row >= row;
}

bool NodeSums::Add(std::span<const SlotMessage* const> messages, std::span<std::byte> into,
                   Header& header) {
  rests_.clear();
  size_t total = 0;
  for (const SlotMessage* const message : messages) {
    Rest rest;
    rest.count = message->header.count;
    const size_t bytes = message->payload.size();
    if (rest.count > most_refs_ || ContributionRowsOffset(rest.count) > bytes) return false;
    const size_t of_sums = bytes - ContributionRowsOffset(rest.count);
    if (of_sums % sum_bytes_ != 0) return false;
    rest.sums = of_sums / sum_bytes_;
    rest.refs = reinterpret_cast<const ContributionRef*>(message->payload.data());
    rest.sum = message->payload.data() + ContributionRowsOffset(rest.count);
    total += rest.count;
    if (!Load(rest, 0)) return false;
    if (message == messages.front() || message->header.ready_ns > header.ready_ns) {
      header = message->header;
    }
    rests_.push_back(rest);
  }
  if (total > most_refs_ || ContributionRowsOffset(total) > into.size()) return false;
  std::byte* ref_at = into.data();
  std::byte* sum_at = into.data() + ContributionRowsOffset(total);
  const std::byte* const end = into.data() + into.size();
  for (size_t left = total; left > 0;) {
    int row = INT32_MAX;
    for (const Rest& rest : rests_) {
      if (rest.at < rest.count) row = std::min<int>(row, rest.next.row);
    }
    if (static_cast<size_t>(end - sum_at) < sum_bytes_) return false;
    bool is_first = true;
    for (Rest& rest : rests_) {
      if (rest.at == rest.count || rest.next.row != row) continue;
      if (rest.sums == 0) return false;
      if (is_first) {
        std::memcpy(sum_at, rest.sum, sum_bytes_);
      } else {
        AddSum(bits_, hidden_, sum_at, rest.sum);
      }
      is_first = false;
      rest.sum += sum_bytes_;
      --rest.sums;
      while (rest.at < rest.count && rest.next.row == row) {
        std::memcpy(ref_at, &rest.next, sizeof rest.next);
        ref_at += sizeof rest.next;
        ++rest.at;
        --left;
        if (!Load(rest, row)) return false;
      }
    }
    sum_at += sum_bytes_;
  }
  for (const Rest& rest : rests_) {
    if (rest.sums != 0) return false;
  }
  header.count = static_cast<uint32_t>(total);
  header.bytes = static_cast<uint64_t>(sum_at - into.data());
  return true;
}

}  // namespace janus::dataplane
