#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// What carries a service: the processes of one machine, or the pods of a cluster.
enum class Ground { kMachine, kCluster };

// One thing the schema allows and this version cannot do. The table of them is printed in the docs;
// what gets built deletes its line.
struct Limit {
  std::string_view field;    // below spec: "exchange.mode"
  std::string_view use;      // what may be written: "Auto or Direct"; empty: leave the field out
  std::string_view because;  // a reason that `use` does not tell; may be empty
  // The refused value that the spec asks for, if it asks for one.
  std::optional<std::string> (*refused)(const MoEServiceSpec& spec);
  std::optional<Ground> only_on = {};  // absent: wherever it runs
};

std::span<const Limit> Limits();

// docs/not-supported.md, whole: fields with what is allowed, everywhere and on one ground alone.
std::string LimitsAsMarkdown();

// One error per line of the table that the object runs into: "TwoPhaseParallel is not supported by
// this version; use Auto or Direct" at spec.exchange.mode. Judged at reconcile time, by
// `janusctl validate` and by `janusctl serve`, never at admission. Pure.
FieldErrors ValidateSupported(const MoEService& service, Ground ground = Ground::kMachine);

}  // namespace janus::control
