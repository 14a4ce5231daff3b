#include "dataplane/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "dataplane/attention/layers.h"
#include "dataplane/engine/kv_page_pool.h"
#include "dataplane/engine/scheduler.h"
#include "dataplane/experts/expert_layers.h"

namespace janus::dataplane {
namespace {

constexpr int kRowsAtOnce = 64;

// One instance of each role; expert i is in slot i.
Topology AloneOf(const ModelDescription& model) {
  Topology topology;
  topology.epoch = 1;
  topology.max_rows_per_round = kRowsAtOnce;
  Instance instance;
  topology.attention.push_back(instance);
  instance.role = Role::kExperts;
  instance.slots = model.moe.experts;
  topology.experts.push_back(instance);
  Placement& placement = topology.placement;
  placement.layers = model.moe_layers();
  placement.slots_of_instance = {model.moe.experts};
  for (int layer = 0; layer < placement.layers; ++layer) {
    for (int expert = 0; expert < model.moe.experts; ++expert) {
      placement.expert_of.push_back(static_cast<uint16_t>(expert));
    }
  }
  return topology;
}

Result<std::unique_ptr<KvPagePool>> PagesOf(const ModelDescription& model) {
  KvPagePoolOptions options;
  options.layers = model.layers;
  options.dtype = WireType(model);
  options.page_bytes = CachePageBytes(model, options.dtype);
  options.bytes =
      options.page_bytes * options.layers * KvPagePool::PagesFor(kMostCalibratedPositions);
  return KvPagePool::Create(options);
}

// The sum of squares of a layer's contributions, and the largest magnitude.
struct Seen {
  double squares = 0.0;
  double largest = 0.0;
  int64_t elements = 0;

  void Add(const std::byte* contributions, DType type, int64_t count) {
    elements += count;
    for (int64_t i = 0; i < count; ++i) {
      const double value = type == DType::kFloat32
                               ? reinterpret_cast<const float*>(contributions)[i]
                               : FromBFloat16(reinterpret_cast<const uint16_t*>(contributions)[i]);
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
  }
};

// The instances' layers, one after the other, without an exchange between them.
class Calibration {
 public:
  Calibration(const ModelDescription& model, const AttentionWeights& attention,
              const ExpertWeights& experts, std::unique_ptr<KvPagePool> pages,
              const kernels::Place& place)
      : model_(model),
        pages_(std::move(pages)),
        layers_(model, attention, *pages_, place, {.max_rows = kRowsAtOnce}),
        experts_(MakeExpertLayers(model, experts, AloneOf(model), Rank{0}, {}, place)),
        row_bytes_(static_cast<size_t>(model.hidden) *
                   static_cast<size_t>(SizeOf(WireType(model)))),
        rows_(kRowsAtOnce * row_bytes_ / sizeof(uint64_t) + 1),
        replies_(
            kRowsAtOnce * static_cast<size_t>(model.moe.top_k) * row_bytes_ / sizeof(uint64_t) + 1),
        refs_(kRowsAtOnce * static_cast<size_t>(model.moe.top_k)),
        contributions_(refs_.size()),
        seen_(static_cast<size_t>(model.moe_layers())) {}

  Status Compute(std::span<const int32_t> prompt) {
    Sequence sequence{Request()};
    const auto length = static_cast<int>(
        std::min<size_t>(prompt.size(), static_cast<size_t>(kMostCalibratedPositions)));
    JANUS_CHECK(pages_->Grow(sequence.pages, KvPagePool::PagesFor(length)), length);
    Status done;
    for (int first = 0; first < length && done.ok(); first += kRowsAtOnce) {
      Batch batch;
      for (int p = first; p < std::min(first + kRowsAtOnce, length); ++p) {
        batch.rows.push_back({&sequence, p, prompt[static_cast<size_t>(p)], p + 1 == length,
                              PositionClass::kPrompt});
      }
      done = ComputeRows(batch);
    }
    pages_->Release(sequence.pages);
    return done;
  }

  const std::vector<Seen>& seen() const { return seen_; }

 private:
  Status ComputeRows(const Batch& batch) {
    JANUS_RETURN_IF_ERROR(layers_.Begin(batch));
    auto* const rows = reinterpret_cast<std::byte*>(rows_.data());
    int moe_layer = 0;
    for (int layer = 0; layer < model_.layers; ++layer) {
      if (model_.IsDense(layer)) {
        JANUS_RETURN_IF_ERROR(layers_.DenseLayer(layer, 0));
        continue;
      }
      JANUS_RETURN_IF_ERROR(layers_.Attend(layer, 0, rows));
      JANUS_RETURN_IF_ERROR(layers_.SharedExperts(layer, 0, rows));
      JANUS_RETURN_IF_ERROR(ComputeExperts(moe_layer, static_cast<int>(batch.rows.size())));
      JANUS_RETURN_IF_ERROR(layers_.TakeExperts(0, contributions_));
      JANUS_RETURN_IF_ERROR(layers_.AddExperts(0));
      ++moe_layer;
    }
    return OkStatus();
  }

  Status ComputeExperts(int moe_layer, int rows) {
    auto* const replies = reinterpret_cast<std::byte*>(replies_.data());
    ArrivedRows arrived;
    arrived.count = rows;
    arrived.rows = reinterpret_cast<const std::byte*>(rows_.data());
    experts_->Begin(moe_layer);
    JANUS_RETURN_IF_ERROR(experts_->Gate(Rank{0}, arrived));
    JANUS_RETURN_IF_ERROR(experts_->Assign());
    JANUS_RETURN_IF_ERROR(experts_->Compute([&](Rank, int count) {
      return ExpertExchange::Outgoing{std::span(refs_).first(static_cast<size_t>(count)), replies};
    }));
    const int k = model_.moe.top_k;
    const int count = rows * k;
    for (int i = 0; i < count; ++i) {
      const ContributionRef ref = refs_[static_cast<size_t>(i)];
      contributions_[static_cast<size_t>(ref.row * k + ref.slot)] =
          replies + static_cast<size_t>(i) * row_bytes_;
    }
    seen_[static_cast<size_t>(moe_layer)].Add(replies, WireType(model_),
                                              int64_t{count} * model_.hidden);
    return OkStatus();
  }

  const ModelDescription& model_;
  const std::unique_ptr<KvPagePool> pages_;
  AttentionLayers layers_;
  const std::unique_ptr<ExpertLayers> experts_;
  const size_t row_bytes_;
  std::vector<uint64_t> rows_;     // in words, so that they are aligned
  std::vector<uint64_t> replies_;  // likewise
  std::vector<ContributionRef> refs_;
  std::vector<const void*> contributions_;  // [row * K + slot]
  std::vector<Seen> seen_;                  // by MoE layer
};

}  // namespace

Result<std::vector<ContributionRange>> MeasureContributions(
    const ModelDescription& model, const AttentionWeights& attention, const ExpertWeights& experts,
    std::span<const std::vector<int32_t>> prompts, const kernels::Place& place,
    const CalibrationProgress& progress) {
  JANUS_CHECK(place.context->is_host(), prompts.size());
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<KvPagePool> pages, PagesOf(model));
  Calibration calibration(model, attention, experts, std::move(pages), place);
  size_t done = 0;
  for (const std::vector<int32_t>& prompt : prompts) {
    JANUS_RETURN_IF_ERROR(calibration.Compute(prompt));
    if (progress) progress(++done);
  }
  std::vector<ContributionRange> ranges;
  for (const Seen& seen : calibration.seen()) {
    if (seen.elements == 0) return InvalidArgument("there is no prompt to calibrate with");
    const ContributionRange range{std::sqrt(seen.squares / static_cast<double>(seen.elements)),
                                  seen.largest};
    if (!std::isfinite(range.root_mean_square)) {
      return InvalidArgument("MoE layer " + std::to_string(ranges.size()) +
                             ": contributions are not finite");
    }
    ranges.push_back(range);
  }
  return ranges;
}

Result<FixedPointSums> ChooseExponents(std::span<const ContributionRange> ranges, int bits,
                                       int top_k) {
  FixedPointSums sums;
  sums.bits = bits;
  for (const ContributionRange& range : ranges) {
    const Result<int8_t> exponent = ChooseExponent(range, bits, top_k);
    if (!exponent.ok()) {
      return InvalidArgument("MoE layer " + std::to_string(sums.exponents.size()) + ": " +
                             exponent.status().message());
    }
    sums.exponents.push_back(*exponent);
  }
  return sums;
}

std::string ToYaml(const FixedPointSums& sums, const std::string& from) {
  std::string out = "# " + from +
                    "\nexchange:\n  sum: FixedPoint\n  sumBits: " + std::to_string(sums.bits) +
                    "\n  sumExponents: [";
  for (size_t i = 0; i < sums.exponents.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(sums.exponents[i]);
  }
  return out + "]\n";
}

}  // namespace janus::dataplane
