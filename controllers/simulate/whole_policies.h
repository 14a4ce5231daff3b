#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "controllers/simulate/policy.h"

namespace janus::controllers {

// Policies over instances of the whole model, several GPUs each, with a router that sends a request
// to the least loaded. Rules of peers are taken from their documentation, not their code: a name
// stands for a way to decide.

struct WholeInputs {
  ShapeBook* book = nullptr;      // what they believe of step times; outlives the policies
  WholeConfiguration how = {16};  // of an instance
  double tpot_seconds = 0.1;
  double aim = 0.85;  // share of the target that an instance is loaded to
  // What a rule is tuned by where its published thresholds do not keep the target: they and the
  // target are taken times it. 1: as published.
  double strictness = 1;
  double interval_s = 15;
  int pool = 1024;  // GPUs of all copies, whatever their size

  int MostCopies() const { return std::max(pool / how.gpus, 1); }
};

// Copies that carry a demand: ceil(demand / capacity), 1 to as many as the pool has room for.
int CopiesFor(const WholeInputs& inputs, const Demand& demand);

// Of `ways` the one with which the demands, one after the other, take fewest GPUs; nullopt: none of
// them holds the model and keeps the target.
std::optional<WholeConfiguration> CheapestWhole(WholeInputs inputs, std::span<const Demand> demands,
                                                std::span<const WholeConfiguration> ways);

// k by demand, down to the largest k of the last 300 s.
std::unique_ptr<SimulatedPolicy> MakeWholeByDemand(const WholeInputs& inputs);
// JANUS's SGLang baseline: one instance, of the smallest of `sizes` (ascending) that carries the
// busiest 5 minutes of the last 30, decided every 30 minutes; copies of the largest beyond it.
std::unique_ptr<SimulatedPolicy> MakeWholeSizes(const WholeInputs& inputs, std::vector<int> sizes);
// A horizontal pod autoscaler on key-value use and queue length, with its published defaults: 15 s,
// tolerance 10 %, up by at most doubling or 4, down over the largest proposal of 300 s.
std::unique_ptr<SimulatedPolicy> MakeHpa(const WholeInputs& inputs);
// By saturation as in llm-d's workload-variant-autoscaler: an instance is saturated at 80 % of its
// keys or 5 waiting; one more while the mean spare is under 10 % or 3 requests, one fewer when the
// others can take its load; 30 s, 240 s stabilization both ways.
std::unique_ptr<SimulatedPolicy> MakeSaturation(const WholeInputs& inputs);
// As Dynamo's planner decides: ceil(demand / capacity) every 180 s as a floor; every 5 s one more
// when all instances are above the target, one fewer when all are below 80 % of it and would stay
// so.
std::unique_ptr<SimulatedPolicy> MakeFloorAndStep(const WholeInputs& inputs);

}  // namespace janus::controllers
