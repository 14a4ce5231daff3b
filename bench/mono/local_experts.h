#pragma once

#include <cstring>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/experts/expert_layers.h"
#include "kernels/device/context.h"

namespace janus::bench {

// The experts behind the interface of the attention side, without an exchange. Post computes them
// at once on the caller's threads, and reads the rows where they are; the caller reads
// contributions where they were written. On a device, rows and contributions pass through pinned
// host memory, as between instances that do not exchange in place; Post waits for them.
class LocalExperts final : public dataplane::AttentionExchange {
 public:
  // `context`: where the layers compute. It must outlive this.
  LocalExperts(const dataplane::ExchangeShape& shape, dataplane::ExpertLayers& layers,
               kernels::Context& context)
      : shape_(shape), layers_(layers), context_(context) {
    for (int i = 0; i < shape.micro_batches; ++i) {
      const auto rows = static_cast<size_t>(shape.max_rows);
      const auto cells = rows * static_cast<size_t>(shape.top_k);
      parts_.push_back({*context.AllocatePinned(rows * shape.row_bytes()),
                        *context.AllocatePinned(cells * shape.row_bytes()),
                        std::vector<dataplane::ContributionRef>(cells),
                        std::vector<const void*>(cells), std::vector<uint16_t>(cells), 0});
    }
  }

  std::span<std::byte> Rows(int micro_batch) override {
    Part& part = At(micro_batch);
    return {part.rows.data(), part.rows.size()};
  }

  std::byte* DeviceRows(int) override { return nullptr; }

  MonotonicTime Ready(int) const override { return {}; }

  Status Post(const dataplane::RoundKey& key, int rows, MonotonicTime) override {
    Part& part = At(key.micro_batch);
    const MonotonicTime start = MonotonicClock::now();
    layers_.Begin(key.layer);
    dataplane::ArrivedRows arrived;
    arrived.rows = part.rows.data();
    arrived.count = rows;
    JANUS_RETURN_IF_ERROR(layers_.Gate(Rank{0}, arrived));
    JANUS_RETURN_IF_ERROR(layers_.Assign());
    JANUS_RETURN_IF_ERROR(layers_.Start());
    JANUS_RETURN_IF_ERROR(layers_.Compute([&](Rank, int) {
      return dataplane::ExpertExchange::Outgoing{part.refs, part.contributions.data()};
    }));
    JANUS_RETURN_IF_ERROR(context_.Wait());
    part.count = rows * shape_.top_k;
    for (int i = 0; i < part.count; ++i) {
      const dataplane::ContributionRef& ref = part.refs[static_cast<size_t>(i)];
      const size_t cell =
          static_cast<size_t>(ref.row) * static_cast<size_t>(shape_.top_k) + ref.slot;
      part.cells[cell] = part.contributions.data() + static_cast<size_t>(i) * shape_.row_bytes();
      part.experts[cell] = ref.expert;
    }
    expert_seconds_ += Seconds(MonotonicClock::now() - start).count();
    activated_ += static_cast<uint64_t>(layers_.activated());
    return OkStatus();
  }
  std::vector<LateExpert> Behind() const override { return {}; }
  Result<bool> Poll(const dataplane::RoundKey&) override { return true; }
  std::vector<Rank> Awaited(int) const override { return {}; }
  void BeginStep(const dataplane::RoundKey&, const dataplane::Participants&) override {}
  bool Abandon() override { return true; }
  bool LetGo() override { return true; }
  bool PostsBehindGpu() const override { return true; }
  Status StreamWait(const dataplane::RoundKey&) override { return OkStatus(); }
  uint64_t stale() const override { return 0; }
  std::span<const uint8_t> OnDevice(int) const override { return {}; }
  std::span<const void* const> Contributions(int micro_batch) const override {
    const Part& part = parts_[static_cast<size_t>(micro_batch)];
    return std::span(part.cells).first(static_cast<size_t>(part.count));
  }
  std::span<const uint16_t> Experts(int micro_batch) const override {
    const Part& part = parts_[static_cast<size_t>(micro_batch)];
    return std::span(part.experts).first(static_cast<size_t>(part.count));
  }

  double expert_seconds() const { return expert_seconds_; }
  uint64_t activated() const { return activated_; }

 private:
  struct Part {
    kernels::Buffer rows;
    kernels::Buffer contributions;
    std::vector<dataplane::ContributionRef> refs;
    std::vector<const void*> cells;  // [row * K + slot]
    std::vector<uint16_t> experts;   // likewise
    int count;
  };
  Part& At(int micro_batch) { return parts_[static_cast<size_t>(micro_batch)]; }

  const dataplane::ExchangeShape shape_;
  dataplane::ExpertLayers& layers_;
  kernels::Context& context_;
  std::vector<Part> parts_;
  double expert_seconds_ = 0.0;
  uint64_t activated_ = 0;
};

}  // namespace janus::bench
