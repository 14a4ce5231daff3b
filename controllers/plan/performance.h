#pragma once

#include "controllers/plan/setting.h"

namespace janus::controllers {

// The rows of one step, all attention instances together; fractions are expected values.
struct StepLoad {
  double decode_rows = 0;  // sequences that decode
  double context = 1;      // mean keys of one of them
  double prompt_rows = 0;  // prompt positions computed in the same step
  double prompt_keys = 0;  // mean keys such a position attends to: half a prompt without a prefix

  friend bool operator==(const StepLoad&, const StepLoad&) = default;
};

// Where the time of a MoE layer goes, of one micro-batch; seconds.
struct LayerTimes {
  double attention = 0;  // T_a without shared experts
  double shared = 0;     // shared experts: in T_a when b > 1, while waiting when b = 1
  double experts = 0;    // T_e
  double out = 0;        // rows to the experts
  double back = 0;       // contributions
  double layer = 0;      // what ComposeLayer makes of them
  double activated_busiest = 0;
};

// b micro-batches of these terms: max(b T_a, b T_e, b T_out, b T_back, T_a + T_e + T_out + T_back)
// with shared experts in T_a; for b = 1 they are computed while the instance waits.
double ComposeLayer(const LayerTimes& terms, int micro_batches);

// `load.context` counts, setting.context does not.
LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, const StepLoad& load);
// Decode alone, `batch` sequences of setting.context keys.
LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, double batch);

// Where the time of a step goes, all layers and micro-batches; seconds. The first three are busy
// times of the busiest instance and both directions of the exchange; they overlap, so `step` is not
// their sum.
struct StepTimes {
  double attention = 0;  // kernels of an attention instance: dense layers and output head too
  double experts = 0;    // kernels of an expert instance
  double exchange = 0;   // rows out and contributions back
  double step = 0;       // from one step's begin to the next

  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

// A step in which decode rows and prompt rows go through every layer together: dense layers, MoE
// layers, output head over the rows that decode. A prompt of more rows than a round may hold is
// taken as one round.
StepTimes TimesOfStep(const Setting& setting, const Configuration& how, const StepLoad& load);

// Time per output token with `batch` sequences decoding: the step without prompts.
double TimePerOutputToken(const Setting& setting, const Configuration& how, double batch);

// MegaScale-Infer, eq. 5: the same where its constraints 1-3 hold and T_c is that of one direction.
double MegaScaleIterationSeconds(double attention, double experts, double communication,
                                 int micro_batches, int layers);

struct MemoryUse {
  double attention_bytes = 0;  // of one GPU: weights, cache of its share of the batch, buffers
  double expert_bytes = 0;     // of one GPU: slots asked for (else those that hold the model),
                               // spare ones, buffers
  bool fits_attention = false;
  bool fits_experts = false;
};
MemoryUse MemoryOf(const Setting& setting, const Configuration& how, double batch);

// Rows on their way: two sets of a row and its contributions.
double BufferBytes(const ModelShape& model, double rows);

// Rows of one instance that buffers are reckoned for where no batch is known: two full rounds.
inline constexpr double kBufferRows = 1024;
// Keys that an attention instance has room for beside weights and buffers; 0: the model does not
// fit. setting.context does not count.
double KvTokensOfOne(const Setting& setting, const Configuration& how);

}  // namespace janus::controllers
