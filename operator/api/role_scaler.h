#pragma once

#include <cstdint>
#include <string>

#include "common/topology.h"
#include "operator/api/object.h"

namespace janus::control {

// MoERoleScaler: the scale subresource of one role of a MoEService in mode External. Plain data.
struct RoleScalerSpec {
  std::string service;
  Role role = Role::kAttention;
  int32_t replicas = 0;  // pods
};

struct RoleScaler {
  ObjectMeta metadata;
  RoleScalerSpec spec;
};

// Like ParseMoEService. Pure.
Parsed<RoleScaler> ParseRoleScaler(const Node& root);

// Checks every rule of the schema; paths are the API server's. Pure.
FieldErrors ValidateSchema(const RoleScaler& scaler, Scope scope = Scope::kAll);

// Service and role are immutable. Pure.
FieldErrors ValidateUpdate(const RoleScaler& before, const RoleScaler& after);

}  // namespace janus::control
