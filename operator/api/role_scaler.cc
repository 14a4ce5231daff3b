#include "operator/api/role_scaler.h"

#include "operator/api/checks.h"
#include "operator/api/read_object.h"
#include "operator/api/topology_enums.h"

namespace janus::control {

static void Read(const At& at, RoleScalerSpec& out) {
  Fields(at)
      .Require("service", out.service, "the MoEService")
      .Require("role", out.role, "its role")
      .Require("replicas", out.replicas, "pods")
      .RefuseOthers();
}

Parsed<RoleScaler> ParseRoleScaler(const Node& root) {
  return ReadObject<RoleScaler>(root, "MoERoleScaler", "what is wanted");
}

FieldErrors ValidateSchema(const RoleScaler& scaler, Scope scope) {
  Checks checks(scope);
  checks.Name("spec.service", scaler.spec.service);
  checks.Range("spec.replicas", scaler.spec.replicas, 0, 1024);
  return checks.TakeErrors();
}

FieldErrors ValidateUpdate(const RoleScaler& before, const RoleScaler& after) {
  Checks checks;
  if (before.spec.service != after.spec.service) {
    checks.Fail("spec.service", "may not change from " + before.spec.service);
  }
  if (before.spec.role != after.spec.role) checks.Fail("spec.role", "may not change");
  return checks.TakeErrors();
}

}  // namespace janus::control
