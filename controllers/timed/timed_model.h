#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"
#include "common/timed_device.h"
#include "controllers/plan/terms.h"
#include "controllers/timed/replica_shares.h"

namespace janus::controllers {

// What of the model that is really computed the mapping needs.
struct ServedShape {
  int moe_layers = 0;
  int experts = 0;  // of a layer
  int top_k = 0;
};

// Times and room of a timed device: what the named device would need for the named model, while the
// served model, a small one, is computed (docs/timed-devices.md). The times are those of
// controllers/plan. The mapping of the served model onto the named one:
//
//   layers    a served MoE layer stands for L_named / L_served named ones; the dense layers and the
//             output head come once, at the end of a step
//   rows      one row stands for `scale` rows, one sequence for `scale` sequences
//   experts   a served expert stands for g = E_named / E_served named ones. One with t rows has
//             u = t scale K_named / K_served token-slots, spread evenly over the r g (1 - (1 -
//             1/g)^u) named experts that so many activate. r makes up for rows that choose
//             together: under uniform routing, the expected sum over all served experts is then
//             what the round's rows activate in the named model. At a scale above 1 with AEBS,
//             the instances that hold the served expert share these (replica_shares.h)
//   memory    keys and values that the named device has room for, divided by `scale`; named experts
//             of a layer that it has room for, divided by g and rounded down
//   time      all times are divided by `time_scale`
//
// With equal numbers of layers, experts and K, and scale 1, nothing is approximated.
//
// Immutable, so thread-safe. Times are seconds of the real clock; no rows take no time.
class TimedModel {
 public:
  // NotFound: no such hardware or model. InvalidArgument: a factor is out of range, the served
  // model has more experts in a layer than the named one, or the named one does not fit the device.
  static Result<TimedModel> Make(const TimedDevice& device, const ServedShape& served);

  // One MoE layer over rows of the served model, one attention instance.
  double AttentionSeconds(const AttentionRows& rows) const;
  double SharedSeconds(double rows) const;
  // One expert instance: rows of each expert that it holds, in a round that has `rows` rows in all.
  double ExpertSeconds(std::span<const int> rows_of_held, double rows) const;
  // The same if AEBS shares out the named experts: `rows_of_experts` are those of each served
  // expert, over all instances. Like the plan, it counts half an expert more than the mean, since
  // an instance computes whole ones.
  double ExpertSeconds(ReplicaShares& shares, std::span<const int> rows_of_experts,
                       double rows) const;
  // One round over `rows` rows of all m attention instances, with n expert instances.
  ExchangeTimes ExchangeSeconds(int m, int n, double rows) const;
  // What a step takes beside its MoE layers: dense layers, output head.
  double DenseSeconds(const AttentionRows& rows) const;

  // Served experts of each layer that one expert instance has room for; at most all.
  int slots() const { return slots_; }
  // Positions of the served model that one attention instance has room for.
  int64_t kv_tokens() const { return kv_tokens_; }

  const TimedDevice& device() const { return device_; }
  // The named model on the named device, as plans have it.
  const Setting& setting() const { return setting_; }
  // Named MoE layers that one served MoE layer stands for.
  double layers_for_one() const { return layers_for_one_; }
  // Named experts that one served expert stands for.
  double experts_for_one() const { return experts_for_one_; }

 private:
  TimedModel() = default;
  // Rows as the named model has them.
  AttentionRows Named(const AttentionRows& rows) const;
  // An expert of the named model.
  ExpertShape NamedExpert() const;
  // r of `experts` above.
  double SpreadOf(double rows) const;

  TimedDevice device_;
  Setting setting_;
  double layers_for_one_ = 1;
  double experts_for_one_ = 1;
  double chosen_ = 1;  // share of the rows that choose one served expert, under uniform routing
  double slots_for_one_ = 1;  // named token-slots for one (row, top-k slot)
  int slots_ = 0;
  int64_t kv_tokens_ = 0;
};

}  // namespace janus::controllers
