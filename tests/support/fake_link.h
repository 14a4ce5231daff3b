#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/gateway/attention_pool.h"

namespace janus::gateway {

// Records the pool's messages; the test plays the instance.
class FakeLink final : public AttentionLink {
 public:
  struct Sent {
    uint64_t id;
    uint32_t attempt;
    std::vector<int32_t> generated;
    uint64_t seed;
  };
  explicit FakeLink(AttentionPool* pool) : pool_(pool) {}

  void Start() override {}
  void Close() override { ++closed; }
  void Stop() override {
    ++stopped;
    pool_->OnDown(this, Unavailable("stopped"));
  }
  void Submit(uint64_t id, uint32_t attempt, const GenerationRequest& request,
              std::span<const int32_t> generated) override {
    submitted.push_back({id, attempt, {generated.begin(), generated.end()}, request.seed});
  }
  void Cancel(uint64_t id, uint32_t attempt) override { cancelled.emplace_back(id, attempt); }

  void SendCounts(const GatewayCounts& counts) override { reports.push_back(counts); }

  std::vector<Sent> submitted;
  std::vector<std::pair<uint64_t, uint32_t>> cancelled;
  std::vector<GatewayCounts> reports;
  int closed = 0;
  int stopped = 0;

 private:
  AttentionPool* const pool_;
};

}  // namespace janus::gateway
