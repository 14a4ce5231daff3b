#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// One thing the schema allows and this version cannot do. The table of them is printed in the docs;
// what gets built deletes its line.
struct Limit {
  std::string_view field;    // below spec: "exchange.mode"
  std::string_view use;      // what may be written: "Auto or Direct"; empty: leave the field out
  std::string_view because;  // a reason that `use` does not tell; may be empty
  // The value that was asked for and cannot be had, if one was.
  std::optional<std::string> (*refused)(const MoEServiceSpec& spec);
};

std::span<const Limit> Limits();

// The table as docs/not-supported.md has it.
std::string LimitsAsMarkdown();

// One error per line of the table that the object runs into: "TwoPhaseParallel is not supported by
// this version; use Auto or Direct" at spec.exchange.mode. Judged at reconcile time, by
// `janusctl validate` and by `janusctl serve`, never at admission. Pure.
FieldErrors ValidateSupported(const MoEService& service);

}  // namespace janus::control
