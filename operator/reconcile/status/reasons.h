#pragma once

#include <span>
#include <string>
#include <string_view>

namespace janus::control {

// The allowed reasons of a MoEService's conditions and Events. docs/conditions.md is generated from
// them, and tests fail for any other.

struct ConditionMeaning {
  std::string_view type;
  std::string_view when_true;  // what True means
};

struct ReasonMeaning {
  std::string_view statuses;  // condition statuses with this reason: "True", "False", "True, False"
  std::string_view reason;
  std::string_view types;  // of conditions, separated by ", "
  std::string_view meaning;
  std::string_view remedy;  // empty: no action needed
};

struct EventMeaning {
  std::string_view reason;
  std::string_view meaning;
};

std::span<const ConditionMeaning> ConditionMeanings();
std::span<const ReasonMeaning> ReasonMeanings();
std::span<const EventMeaning> EventMeanings();

// True if a condition of that type may have `status` ("True", "False", "Unknown") and that reason.
bool IsKnownReason(std::string_view type, std::string_view status, std::string_view reason);
bool IsKnownEvent(std::string_view reason);

// The complete docs/conditions.md.
std::string ConditionsPage();

}  // namespace janus::control
