#include "controllers/simulate/perturbed.h"

namespace janus::controllers {
namespace {

void Stretch(ExpertCost& cost, double by) {
  cost.fixed_seconds *= by;
  cost.idle_expert_seconds *= by;
  cost.bytes_per_second /= by;
  cost.operations_per_second /= by;
}

void Stretch(LatentAttentionCost& cost, double by) {
  for (double* seconds :
       {&cost.fixed_seconds, &cost.head_seconds, &cost.row_seconds, &cost.row_head_seconds,
        &cost.key_seconds, &cost.key_head_seconds, &cost.split_seconds}) {
    *seconds *= by;
  }
}

void Stretch(GroupedAttentionCost& cost, double by) {
  for (double* seconds : {&cost.fixed_seconds, &cost.kv_head_seconds, &cost.query_head_seconds,
                          &cost.operation_seconds, &cost.split_seconds}) {
    *seconds *= by;
  }
  cost.bytes_per_second /= by;
  cost.cached_bytes_per_second /= by;
}

void Stretch(ExchangeCost& cost, double by) {
  for (double* seconds :
       {&cost.fixed_seconds, &cost.network_seconds, &cost.peer_seconds, &cost.row_seconds}) {
    *seconds *= by;
  }
  cost.inner_bytes_per_second /= by;
  cost.network_bytes_per_second /= by;
}

void Stretch(CollectiveCost& cost, double by) {
  for (CollectiveCost::Protocol* protocol : {&cost.latency, &cost.bandwidth}) {
    protocol->fixed_seconds *= by;
    protocol->peer_seconds *= by;
    protocol->bytes_per_second /= by;
  }
}

}  // namespace

Setting Perturbed(Setting setting, const TermFactors& factors) {
  // The efficiency of an expert kernel on the attention device also stands for its dense
  // projections.
  Stretch(setting.attention.experts, factors.attention);
  Stretch(setting.attention.latent, factors.attention);
  Stretch(setting.attention.grouped, factors.attention);
  Stretch(setting.attention.all_reduce, factors.attention);
  Stretch(setting.experts.experts, factors.experts);
  Stretch(setting.experts.all_reduce, factors.experts);
  for (DeviceCosts* device : {&setting.attention, &setting.experts}) {
    Stretch(device->dispatch, factors.exchange);
    Stretch(device->combine, factors.exchange);
    Stretch(device->all_gather, factors.exchange);
  }
  return setting;
}

}  // namespace janus::controllers
