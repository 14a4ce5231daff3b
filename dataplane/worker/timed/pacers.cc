#include "dataplane/worker/timed/pacers.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace janus::dataplane {
namespace {

using controllers::AttentionRows;
using controllers::ReplicaShares;
using controllers::TimedModel;

// One thing that does one piece of work after the other.
class Timeline {
 public:
  // When work that takes so long is done, from `inputs` on.
  MonotonicTime Do(double seconds, MonotonicTime inputs) {
    free_ = std::max(free_, inputs) + Took(seconds);
    return free_;
  }
  // The same of `layers` layers; what follows begins when the first of them is done.
  MonotonicTime DoFirst(double seconds, double layers, MonotonicTime inputs) {
    const MonotonicTime start = std::max(free_, inputs);
    free_ = start + Took(seconds);
    return start + Took(seconds / layers);
  }
  // The same; the inputs of the last of them come at `inputs`, and those of the others in time.
  MonotonicTime DoLast(double seconds, double layers, MonotonicTime inputs) {
    free_ = std::max(free_ + Took(seconds), inputs + Took(seconds / layers));
    return free_;
  }
  MonotonicTime free() const { return free_; }
  void NotBefore(MonotonicTime now) { free_ = std::max(free_, now); }

 private:
  static MonotonicClock::duration Took(double seconds) {
    return std::chrono::duration_cast<MonotonicClock::duration>(Seconds(seconds));
  }

  MonotonicTime free_;
};

// Counts what is shown of a timeline.
class Shown {
 public:
  MonotonicTime Show(MonotonicTime due, MonotonicTime now, Timeline& device) {
    ++counts_.waits;
    if (now - due <= kLate) return due;
    ++counts_.overruns;
    device.NotBefore(now);
    return now;
  }
  PacerCounts counts() const { return counts_; }

 private:
  PacerCounts counts_;
};

double Mean(int64_t sum, int count) {
  return count == 0 ? 0 : static_cast<double>(sum) / count;
}

AttentionRows RowsOf(const PacedRows& rows) {
  AttentionRows out;
  out.decode = rows.decode;
  out.context = std::max(Mean(rows.decode_keys, rows.decode), 1.0);
  out.prompt = rows.prompt;
  out.prompt_keys = Mean(rows.prompt_keys, rows.prompt);
  return out;
}

class TimedAttention final : public AttentionPacer {
 public:
  explicit TimedAttention(const TimedModel& model) : model_(model) {}

  // A step that follows at once goes on where the last one was due to end.
  void BeginStep(MonotonicTime now) override {
    if (now - device_.free() > kPause) device_.NotBefore(now);
  }
  MonotonicTime Attend(const PacedRows& rows, MonotonicTime inputs, bool is_first) override {
    const double seconds = model_.AttentionSeconds(RowsOf(rows));
    return is_first ? device_.DoFirst(seconds, model_.layers_for_one(), inputs)
                    : device_.Do(seconds, inputs);
  }
  MonotonicTime Share(int rows) override {
    return device_.Do(model_.SharedSeconds(rows), device_.free());
  }
  MonotonicTime EndStep(const PacedRows& rows, MonotonicTime inputs) override {
    return device_.Do(model_.DenseSeconds(RowsOf(rows)), inputs);
  }
  MonotonicTime Show(MonotonicTime due, MonotonicTime now) override {
    return shown_.Show(due, now, device_);
  }
  PacerCounts counts() const override { return shown_.counts(); }

 private:
  const TimedModel& model_;
  Timeline device_;
  Shown shown_;
};

class TimedExperts final : public ExpertPacer {
 public:
  TimedExperts(const TimedModel& model, int m, int n, std::vector<ReplicaShares> shares)
      : model_(model), m_(m), n_(n), shares_(std::move(shares)) {
    if (!shares_.empty()) rows_of_experts_.resize(static_cast<size_t>(shares_.front().experts()));
  }

  MonotonicTime Receive(int rows, MonotonicTime sent, bool is_first) override {
    rows_ = rows;
    exchange_ = model_.ExchangeSeconds(m_, n_, rows);
    come_ = is_first ? out_.DoFirst(exchange_.out, model_.layers_for_one(), sent)
                     : out_.Do(exchange_.out, sent);
    return come_;
  }
  MonotonicTime Compute(const Work& work, bool is_last) override {
    const double seconds = SecondsOf(work);
    return is_last ? device_.DoLast(seconds, model_.layers_for_one(), come_)
                   : device_.Do(seconds, come_);
  }
  MonotonicTime Send(MonotonicTime shown, bool is_last) override {
    return is_last ? back_.DoLast(exchange_.back, model_.layers_for_one(), shown)
                   : back_.Do(exchange_.back, shown);
  }
  MonotonicTime Show(MonotonicTime due, MonotonicTime now) override {
    return shown_.Show(due, now, device_);
  }
  PacerCounts counts() const override { return shown_.counts(); }

 private:
  double SecondsOf(const Work& work) {
    if (shares_.empty()) return model_.ExpertSeconds(work.rows_of_held, rows_);
    std::ranges::fill(rows_of_experts_, 0);
    for (const uint16_t expert : work.routed) ++rows_of_experts_[expert];
    return model_.ExpertSeconds(shares_[static_cast<size_t>(work.layer)], rows_of_experts_, rows_);
  }

  const TimedModel& model_;
  const int m_;
  const int n_;
  std::vector<ReplicaShares> shares_;  // by MoE layer; empty: the assignment's
  std::vector<int> rows_of_experts_;   // of the round at hand
  Timeline out_;
  Timeline device_;
  Timeline back_;
  // Of the round at hand.
  int rows_ = 0;
  controllers::ExchangeTimes exchange_;
  MonotonicTime come_;
  Shown shown_;
};

}  // namespace

std::unique_ptr<AttentionPacer> MakeAttentionPacer(const controllers::TimedModel& model) {
  return std::make_unique<TimedAttention>(model);
}

std::unique_ptr<ExpertPacer> MakeExpertPacer(const controllers::TimedModel& model, int m, int n) {
  return std::make_unique<TimedExperts>(model, m, n, std::vector<ReplicaShares>());
}

std::unique_ptr<ExpertPacer> MakeExpertPacer(const controllers::TimedModel& model,
                                             const Topology& topology, Rank rank, int experts,
                                             SchedulingPolicy scheduling) {
  std::vector<ReplicaShares> shares;
  const bool is_aebs =
      scheduling == SchedulingPolicy::kAebs || scheduling == SchedulingPolicy::kAebsGreedy;
  // At scale 1 each row is one of the named model, and how well its experts are scheduled shows. A
  // row that stands for many would have chosen many more.
  if (is_aebs && model.device().scale > 1) {
    for (int layer = 0; layer < topology.placement.layers; ++layer) {
      shares.emplace_back(LayerPlacement::Of(topology.placement, layer, experts), rank.value);
    }
  }
  return std::make_unique<TimedExperts>(model, topology.m(), topology.n(), std::move(shares));
}

}  // namespace janus::dataplane
