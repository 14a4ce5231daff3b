#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "operator/reconcile/capacity/service_plan.h"

namespace janus::control {

// Memory for the keys and values of one attention instance.
struct KvRoom {
  int64_t pages = 0;
  int64_t swap = 0;    // for preempted sequences
  bool is_one = true;  // both share one memory of `pages` bytes
};

// Usable part of the memory that a GPU reports as free. The rest is lost to page rounding, gaps in
// the pool, and driver memory for graphs. Assumed, not measured.
constexpr int64_t UsableOfGpu(int64_t free_bytes) {
  return std::max<int64_t>(free_bytes / 100 * 98 - (int64_t{256} << 20), 0);
}

// The resources that a plan must fit. plan.cc works with either kind of budget. Pure.
class Budget {
 public:
  virtual ~Budget() = default;

  // Whether more expert instances bring more memory.
  virtual bool GrowsWithInstances() const = 0;
  // What each instance computes with.
  virtual int ComputeThreads(int m, int n) const = 0;
  // The memory from which the gateway takes its share; nothing: the gateway runs elsewhere.
  virtual std::optional<int64_t> GatewayRoom() const = 0;
  // Nodes that a machine plays. Nothing: a pod is a node, and all instances of one machine share
  // memory.
  virtual std::optional<NodeSizes> Nodes() const { return std::nullopt; }
  // Whether instances are in pods.
  virtual bool HasPods() const = 0;
  // Memory for keys and values of one attention instance: what the rest of `plan` leaves.
  virtual KvRoom RoomForKv(const ServicePlan& plan) const = 0;
  // ResourceExhausted: the need, the available memory, the largest parts, and what to change.
  virtual Status Check(const std::string& service, const ServicePlan& plan) const = 0;
};

class MachineBudget final : public Budget {
 public:
  // `pools` of the service share the machine, in equal parts.
  MachineBudget(const MachineRoom& room, int pools) : room_(PartOf(room, pools)), pools_(pools) {}

  bool GrowsWithInstances() const override { return room_.gpus && room_.gpus->count > 1; }
  int ComputeThreads(int m, int n) const override;
  std::optional<int64_t> GatewayRoom() const override { return room_.memory_bytes; }
  std::optional<NodeSizes> Nodes() const override { return room_.nodes; }
  bool HasPods() const override { return false; }
  KvRoom RoomForKv(const ServicePlan& plan) const override;
  Status Check(const std::string& service, const ServicePlan& plan) const override;

 private:
  static MachineRoom PartOf(MachineRoom room, int pools) {
    room.memory_bytes /= pools;
    room.cores = std::max(1, room.cores / pools);
    return room;
  }
  // How many instances of each role a GPU may get, at most together as many as the fullest one has.
  struct OnOneGpu {
    int attention = 0;
    int experts = 0;
  };
  std::array<OnOneGpu, 2> FullestGpus(const ServicePlan& plan) const;
  KvRoom RoomOnGpu(const ServicePlan& plan) const;
  Status CheckGpus(const std::string& service, const ServicePlan& plan) const;

  const MachineRoom room_;  // of each pool
  const int pools_;
};

// A pod with a limit has that memory alone. A pod without a limit shares its machine with other
// programs, at worst with all instances of its service in all pools. So its need must fit the whole
// machine, but it takes only its share for KV cache.
class PodBudget final : public Budget {
 public:
  PodBudget(const PodRooms& rooms, int pools) : rooms_(rooms), pools_(pools) {}

  bool GrowsWithInstances() const override { return rooms_.experts && rooms_.experts_are_wanted; }
  int ComputeThreads(int m, int n) const override;
  std::optional<int64_t> GatewayRoom() const override { return std::nullopt; }
  bool HasPods() const override { return true; }
  KvRoom RoomForKv(const ServicePlan& plan) const override;
  Status Check(const std::string& service, const ServicePlan& plan) const override;

 private:
  const PodRooms rooms_;
  const int pools_;
};

}  // namespace janus::control
