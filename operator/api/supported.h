#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// Where a service runs: as processes of one machine, or as pods of a cluster.
enum class Ground { kMachine, kCluster };

// Something that the schema allows but this version cannot do. The docs contain this table; delete
// a line once it is implemented.
struct Limit {
  std::string_view field;    // below spec: "exchange.mode"
  std::string_view use;      // allowed values: "Auto or Direct"; empty: leave the field out
  std::string_view because;  // a reason beyond `use`; may be empty
  // Returns the refused value if the spec has one.
  std::optional<std::string> (*refused)(const MoEServiceSpec& spec);
  std::optional<Ground> only_on = {};  // absent: on both grounds
};

std::span<const Limit> Limits();

// The complete docs/not-supported.md: fields with their allowed values, on both grounds and on one.
std::string LimitsAsMarkdown();

// One error for each line of the table that applies: "TwoPhaseParallel is not supported by this
// version; use Auto or Direct" at spec.exchange.mode. Used at reconcile time, by `janusctl
// validate` and by `janusctl serve`, never at admission. Pure.
FieldErrors ValidateSupported(const MoEService& service, Ground ground = Ground::kMachine);

}  // namespace janus::control
