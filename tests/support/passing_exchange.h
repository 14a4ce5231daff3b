#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

// Passes everything on to the exchange that it owns; tests override single functions.
class PassingExchange : public AttentionExchange {
 public:
  explicit PassingExchange(std::unique_ptr<AttentionExchange> inner) : inner_(std::move(inner)) {}

  void BeginStep(const RoundKey& first, const Participants& participants) override {
    inner_->BeginStep(first, participants);
  }
  bool Abandon() override { return inner_->Abandon(); }
  bool LetGo() override { return inner_->LetGo(); }
  bool PostsBehindGpu() const override { return inner_->PostsBehindGpu(); }
  uint64_t stale() const override { return inner_->stale(); }
  Traffic sent() const override { return inner_->sent(); }
  Traffic received() const override { return inner_->received(); }
  Compression compression() const override { return inner_->compression(); }
  FixedPointSums sums() const override { return inner_->sums(); }
  GateSide gate() const override { return inner_->gate(); }
  ChosenExperts Choices(int micro_batch, int rows) override {
    return inner_->Choices(micro_batch, rows);
  }
  std::span<std::byte> Rows(int micro_batch) override { return inner_->Rows(micro_batch); }
  std::byte* DeviceRows(int micro_batch) override { return inner_->DeviceRows(micro_batch); }
  Status Post(const RoundKey& key, int rows, MonotonicTime ready) override {
    return inner_->Post(key, rows, ready);
  }
  Result<bool> Poll(const RoundKey& key) override { return inner_->Poll(key); }
  MonotonicTime Ready(int micro_batch) const override { return inner_->Ready(micro_batch); }
  std::vector<Rank> Awaited(int micro_batch) const override { return inner_->Awaited(micro_batch); }
  std::span<const void* const> Contributions(int micro_batch) const override {
    return inner_->Contributions(micro_batch);
  }
  std::span<const uint16_t> Experts(int micro_batch) const override {
    return inner_->Experts(micro_batch);
  }
  std::span<const uint8_t> OnDevice(int micro_batch) const override {
    return inner_->OnDevice(micro_batch);
  }
  Status StreamWait(const RoundKey& key) override { return inner_->StreamWait(key); }
  std::vector<LateExpert> Behind() const override { return inner_->Behind(); }

 private:
  const std::unique_ptr<AttentionExchange> inner_;
};

}  // namespace janus::dataplane
