#pragma once

#include "controllers/plan/setting.h"

namespace janus::controllers {

// The rows of one step, over all attention instances. Fractions are expected values.
struct StepLoad {
  double decode_rows = 0;  // sequences that decode
  double context = 1;      // mean keys of such a sequence
  double prompt_rows = 0;  // prompt positions computed in the same step
  double prompt_keys = 0;  // mean keys of such a position: half a prompt without a prefix
  // Of timed devices: every row is computed in the time of so many, and none is split.
  double rows_for_one = 1;

  friend bool operator==(const StepLoad&, const StepLoad&) = default;
};

// The times of a MoE layer, for one micro-batch, in seconds.
struct LayerTimes {
  double attention = 0;  // T_a without shared experts
  double shared = 0;     // shared experts: in T_a if b > 1, during the wait if b = 1
  double experts = 0;    // T_e
  double out = 0;        // rows to the experts
  double back = 0;       // contributions
  double layer = 0;      // the result of ComposeLayer
  double activated_busiest = 0;
};

// The micro-batches of a step that have rows. An instance with fewer rows than micro-batches leaves
// the others empty. Instances begin with different ones (dataplane/attention/micro_batch.h), so the
// experts may still get all of them. Means over instances and steps: fractions.
struct Parts {
  double of_one = 1;  // of an attention instance
  double of_all = 1;  // of all of them together
};
Parts PartsOf(const StepLoad& load, int attention_instances, int micro_batches);

// The time for b micro-batches: max(b_1 T_a, b T_e, b T_out, b T_back, T_a + T_e + T_out + T_back)
// with shared experts in T_a; b_1 of them have rows of one attention instance. For b_1 = 1 shared
// experts run while the instance waits, and up to 2 a share of them does.
double ComposeLayer(const LayerTimes& terms, const Parts& parts);

// Uses load.context, not setting.context.
LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, const StepLoad& load);
// Decode alone: `batch` sequences of setting.context keys.
LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, double batch);

// The times of a step over all layers and micro-batches, in seconds. The first three are busy
// times: of the busiest instances, and of both directions of the exchange. They overlap: `step` is
// not their sum.
struct StepTimes {
  double attention = 0;  // kernels of an attention instance, with dense layers and output head
  double experts = 0;    // kernels of an expert instance
  double exchange = 0;   // rows out and contributions back
  double step = 0;       // from one step's begin to the next

  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

// A step in which decode rows and prompt rows pass through every layer together: dense layers, MoE
// layers, and the output head for the decode rows. A prompt with more rows than a round may hold
// counts as one round.
StepTimes TimesOfStep(const Setting& setting, const Configuration& how, const StepLoad& load);

// Time per output token with `batch` sequences decoding, in steps without prompts.
double TimePerOutputToken(const Setting& setting, const Configuration& how, double batch);

// MegaScale-Infer, eq. 5. It agrees with ComposeLayer if its constraints 1-3 hold and T_c is for
// one direction.
double MegaScaleIterationSeconds(double attention, double experts, double communication,
                                 int micro_batches, int layers);

struct MemoryUse {
  double attention_bytes = 0;  // of one GPU: weights, cache of its share of the batch, buffers
  double expert_bytes = 0;     // of one GPU: the requested slots (or those that hold the model),
                               // spare ones, buffers
  bool fits_attention = false;
  bool fits_experts = false;
};
MemoryUse MemoryOf(const Setting& setting, const Configuration& how, double batch);

// Bytes of rows in flight: two sets of a row and its contributions.
double BufferBytes(const ModelShape& model, double rows);

// Rows of one instance for which buffers are planned if no batch is known: two full rounds.
inline constexpr double kBufferRows = 1024;
// Keys for which an attention instance has room beside weights and buffers; 0: the model does not
// fit. Does not use setting.context.
double KvTokensOfOne(const Setting& setting, const Configuration& how);

}  // namespace janus::controllers
