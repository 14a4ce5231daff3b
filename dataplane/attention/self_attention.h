#pragma once

#include <cstdint>
#include <memory>

#include "common/model/description.h"
#include "dataplane/engine/kv_page_pool.h"
#include "dataplane/engine/scheduler.h"
#include "dataplane/weights/attention_weights.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// Rows of a batch, one after the other; rows of one sequence are neighbours, positions ascending.
struct AttentionRows {
  const kernels::KvRow* rows = nullptr;  // [count]
  const int32_t* positions = nullptr;    // [count], those of `rows`
  // On the host, [count] each. `on_host` repeats `rows`; the block tables of both are in the same
  // memory.
  const PositionClass* classes = nullptr;
  const kernels::KvRow* on_host = nullptr;
  int count = 0;
};

// One kind of attention, between the input norm and the output projection: projects queries and
// cache entries, writes the cache, attends.
//
// Confined to the step thread. Buffers are sized once for max_rows; a step allocates nothing.
class SelfAttention {
 public:
  virtual ~SelfAttention() = default;

  // On a stream of the place's device. x [count,H] and y [count, AttendedWidth] have the wire type.
  // Within a layer, rows of one sequence must come in order of position.
  virtual Status Attend(const kernels::Stream& on, int layer, const AttentionRows& rows,
                        const void* x, void* y) = 0;
  // Whether launches depend on the classes of the rows.
  virtual bool has_classes() const = 0;
};

// Makes the attention for the model's kind. All references must outlive the object.
std::unique_ptr<SelfAttention> MakeSelfAttention(const ModelDescription& model,
                                                 const AttentionWeights& weights,
                                                 const KvPagePool& cache,
                                                 const kernels::Place& place, int max_rows);

// Columns that attention passes to the output projection: heads times the size of a value.
int64_t AttendedWidth(const AttentionDescription& attention);

// Bytes of one layer's page of the model's cache with elements of `type`.
int64_t CachePageBytes(const ModelDescription& model, DType type);

}  // namespace janus::dataplane
