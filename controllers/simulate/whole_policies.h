#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "controllers/simulate/policy.h"

namespace janus::controllers {

// Policies over instances of the whole model, several GPUs each. A router sends each request to the
// least loaded. Rules of peers are taken from their documentation, not their code: a peer's name
// stands for its way to decide.

struct WholeInputs {
  ShapeBook* book = nullptr;      // the step times that they assume; must outlive the policies
  WholeConfiguration how = {16};  // of an instance
  double tpot_seconds = 0.1;
  double aim = 0.85;  // share of the target up to which an instance is loaded
  // Factor on a rule's thresholds and on the target, if the published ones do not keep the target.
  // 1: as published.
  double strictness = 1;
  double interval_s = 15;
  int pool = 1024;  // GPUs of all copies together

  int MostCopies() const { return std::max(pool / how.gpus, 1); }
};

// Copies that carry a demand: ceil(demand / capacity), from 1 to as many as fit into the pool.
int CopiesFor(const WholeInputs& inputs, const Demand& demand);

// Among `ways`, the one with which the demands, one after the other, take fewest GPUs. nullopt: no
// way holds the model and keeps the target.
std::optional<WholeConfiguration> CheapestWhole(WholeInputs inputs, std::span<const Demand> demands,
                                                std::span<const WholeConfiguration> ways);

// k copies by demand; scales down to the largest k of the last 300 s.
std::unique_ptr<SimulatedPolicy> MakeWholeByDemand(const WholeInputs& inputs);
// JANUS's SGLang baseline, decided every 30 minutes: one instance of the smallest of `sizes`
// (ascending) that carries the busiest 5 minutes of the last 30. If none does, copies of the
// largest.
std::unique_ptr<SimulatedPolicy> MakeWholeSizes(const WholeInputs& inputs, std::vector<int> sizes);
// A horizontal pod autoscaler on key-value use and queue length, with its published defaults: every
// 15 s, tolerance 10 %, up by at most doubling or 4, down to the largest proposal of 300 s.
std::unique_ptr<SimulatedPolicy> MakeHpa(const WholeInputs& inputs);
// Saturation, as in llm-d's workload-variant-autoscaler. An instance is saturated at 80 % of its
// keys or 5 waiting requests. One more instance while the mean spare is under 10 % or 3 requests;
// one fewer if the others can take its load. Every 30 s, with 240 s of stabilization in both
// directions.
std::unique_ptr<SimulatedPolicy> MakeSaturation(const WholeInputs& inputs);
// The rules of Dynamo's planner. Every 180 s, ceil(demand / capacity) is a floor. Every 5 s: one
// more if all instances are above the target; one fewer if all are below 80 % of it and would stay
// below.
std::unique_ptr<SimulatedPolicy> MakeFloorAndStep(const WholeInputs& inputs);

}  // namespace janus::controllers
