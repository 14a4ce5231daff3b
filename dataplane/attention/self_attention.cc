#include "dataplane/attention/self_attention.h"

#include "dataplane/attention/grouped_attention.h"
#include "dataplane/attention/latent_attention.h"

namespace janus::dataplane {

std::unique_ptr<SelfAttention> MakeSelfAttention(const ModelDescription& model,
                                                 const AttentionWeights& weights,
                                                 const KvPagePool& cache,
                                                 const kernels::Place& place, int max_rows) {
  if (model.attention.latent) {
    return std::make_unique<LatentAttention>(model, weights, cache, place, max_rows);
  }
  return std::make_unique<GroupedAttention>(model, weights, cache, place, max_rows);
}

int64_t AttendedWidth(const AttentionDescription& attention) {
  return int64_t{attention.heads} *
         (attention.latent ? attention.latent->value_dim : attention.head_dim);
}

int64_t CachePageBytes(const ModelDescription& model, DType type) {
  const AttentionDescription& a = model.attention;
  return a.latent ? kernels::LatentPageBytes(type, a.latent->rank, a.rope.rotary_dim)
                  : kernels::KvPageBytes(type, a.kv_heads, a.head_dim);
}

}  // namespace janus::dataplane
