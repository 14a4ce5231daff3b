#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "dataplane/comm/transport/ucx/ucp_worker.h"

namespace janus::dataplane::ucx {

// Receives of one tag into fixed memory, all posted from the start: messages land where they are
// read, in order. Confined.
//
// Invariants: an entry is either posted (in `order_`) or belongs to the caller. UCX fills posted
// entries in the order of `order_`.
class ReceiveRing {
 public:
  // `memory`: room for `entries` of `entry_bytes`.
  ReceiveRing(UcpWorker& worker, std::span<std::byte> memory, size_t entry_bytes, size_t entries,
              ucp_tag_t tag, ucp_mem_h registration)
      : worker_(worker),
        memory_(memory),
        entry_bytes_(entry_bytes),
        tag_(tag),
        registration_(registration),
        order_(entries) {
    operations_.reserve(entries);
    for (size_t i = 0; i < entries; ++i) operations_.emplace_back(worker);
    for (size_t i = 0; i < entries; ++i) Repost(i);
  }

  // Returns the oldest received message; its entry belongs to the caller until Repost(entry).
  // False: no message. A message longer than an entry is skipped and counted.
  bool Next(size_t& entry, std::span<const std::byte>& message) {
    for (size_t looked = 0; posted_ > 0 && looked <= order_.size(); ++looked) {
      entry = order_[first_];
      const Operation& operation = operations_[entry];
      if (operation.pending()) return false;
      first_ = (first_ + 1) % order_.size();
      --posted_;
      if (operation.status() == UCS_OK) {
        message = memory_.subspan(entry * entry_bytes_, operation.bytes());
        return true;
      }
      if (operation.status() == UCS_ERR_CANCELED) return false;
      ++failed_;
      Repost(entry);
    }
    return false;
  }

  void Repost(size_t entry) {
    operations_[entry].Receive(worker_.get(), memory_.subspan(entry * entry_bytes_, entry_bytes_),
                               tag_, registration_);
    order_[(first_ + posted_) % order_.size()] = entry;
    ++posted_;
  }

  uint64_t failed() const { return failed_; }

  void Cancel() {
    for (Operation& operation : operations_) operation.Cancel(worker_.get());
  }
  bool pending() const {
    return std::any_of(operations_.begin(), operations_.end(),
                       [](const Operation& operation) { return operation.pending(); });
  }

 private:
  UcpWorker& worker_;
  const std::span<std::byte> memory_;
  const size_t entry_bytes_;
  const ucp_tag_t tag_;
  const ucp_mem_h registration_;
  std::vector<Operation> operations_;
  std::vector<size_t> order_;  // of posted entries, a ring: oldest at first_
  size_t first_ = 0;
  size_t posted_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace janus::dataplane::ucx
