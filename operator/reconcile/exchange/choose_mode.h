#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/measured_link.h"
#include "common/statistics.h"
#include "common/topology.h"
#include "controllers/exchange/mode_times.h"
#include "operator/api/moe_topology.h"
#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// exchange.mode: Auto and exchange.gate: Auto follow what the links between nodes were measured to
// do (docs/exchange.md, "Auto").

// What is known of the committed epoch: what its members have reported of their links.
struct LinksReported {
  bool has_answer = false;  // they have answered at all
  // Each of its nodes has one instance: that it is Direct was no choice.
  bool has_single_instances = false;
  // By (attention node, expert node).
  std::map<std::pair<std::string, std::string>, MeasuredLink> links;
  std::string not_measured;  // a pair that was not measured, and why; empty: none
  // Rows and contributions of all pairs stay in GPU memory.
  bool in_gpus = false;
  bool some_in_gpus = false;  // of some pairs, at least one way
  // RDMA device by node name and index within it, "mlx5_0/1"; none: not listed.
  std::map<std::pair<std::string, int>, std::string> devices;
  // Mean rows of an attention instance in a step; 0: too few steps to tell.
  double rows_per_step = 0;
};
// Takes answers of other epochs than the record's as none. Pure.
LinksReported LinksReportedBy(const TopologyRecord& committed, const Statistics* statistics);

struct ChosenMode {
  controllers::ExchangeWay way;
  std::string why;  // for people, at most kMostWhy characters
};
inline constexpr size_t kMostWhy = 400;

// An epoch that is made anyway takes another mode or side of the gate if its rounds are predicted
// to be shorter by this share. An epoch is made only for that if they are shorter by a quarter, and
// by a tenth of a millisecond: about what its repeated step costs is then gained within seconds of
// steps.
inline constexpr double kGainOfMode = 0.05;
inline constexpr double kGainOfEpoch = 0.25;
inline constexpr double kGainOfEpochSeconds = 1e-4;

// Mode and side of the gate for `topology`, whose own do not matter. Its placement says which rows
// each expert instance and node needs; routing is taken for uniform. The plan says what may be
// chosen (ServicePlan::mode_fits, gate_fits). `current`: of the committed epoch; nothing: there is
// none. `only_for_mode`: nothing but these two would be new in the epoch. Without a measured link
// what was chosen holds while the plan allows it, else the planned default. Pure.
ChosenMode ChooseMode(const Topology& topology, const PlannedService& planned,
                      const LinksReported& reported,
                      const std::optional<controllers::ExchangeWay>& current, bool only_for_mode);

}  // namespace janus::control
