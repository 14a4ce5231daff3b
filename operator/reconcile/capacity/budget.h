#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "operator/reconcile/capacity/service_plan.h"

namespace janus::control {

// For keys and values of one attention instance.
struct KvRoom {
  int64_t pages = 0;
  int64_t swap = 0;    // for those of preempted sequences
  bool is_one = true;  // the same memory for both, `pages` bytes
};

// A room that a plan is held against: what plan.cc asks of either kind. Pure.
class Budget {
 public:
  virtual ~Budget() = default;

  // Whether more expert instances bring more memory.
  virtual bool GrowsWithInstances() const = 0;
  // What each instance computes with.
  virtual int ComputeThreads(int m, int n) const = 0;
  // The memory that the gateway takes its share of; nothing: it lives elsewhere.
  virtual std::optional<int64_t> GatewayRoom() const = 0;
  // Where keys and values of one attention instance lie: what the rest of `plan` leaves.
  virtual KvRoom RoomForKv(const ServicePlan& plan) const = 0;
  // ResourceExhausted: what is needed, what there is, what takes it and what to change.
  virtual Status Check(const std::string& service, const ServicePlan& plan) const = 0;
};

class MachineBudget final : public Budget {
 public:
  explicit MachineBudget(const MachineRoom& room) : room_(room) {}

  bool GrowsWithInstances() const override { return false; }
  int ComputeThreads(int m, int n) const override;
  std::optional<int64_t> GatewayRoom() const override { return room_.memory_bytes; }
  KvRoom RoomForKv(const ServicePlan& plan) const override;
  Status Check(const std::string& service, const ServicePlan& plan) const override;

 private:
  const MachineRoom room_;
};

// A pod with a limit has that room to itself. A pod without one shares its machine with other
// programs, at the worst with all instances of its service. It may need the whole machine, but
// takes no more than its part for itself.
class PodBudget final : public Budget {
 public:
  explicit PodBudget(const PodRooms& rooms) : rooms_(rooms) {}

  bool GrowsWithInstances() const override { return rooms_.experts && rooms_.experts_are_wanted; }
  int ComputeThreads(int m, int n) const override;
  std::optional<int64_t> GatewayRoom() const override { return std::nullopt; }
  KvRoom RoomForKv(const ServicePlan& plan) const override;
  Status Check(const std::string& service, const ServicePlan& plan) const override;

 private:
  const PodRooms rooms_;
};

}  // namespace janus::control
