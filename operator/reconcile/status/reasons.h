#pragma once

#include <span>
#include <string>
#include <string_view>

namespace janus::control {

// The reasons that a MoEService's conditions and Events may have. docs/conditions.md is printed
// from them, and tests fail for any other.

struct ConditionMeaning {
  std::string_view type;
  std::string_view when_true;  // what True means
};

struct ReasonMeaning {
  std::string_view statuses;  // under which a condition has it: "True", "False", "True, False"
  std::string_view reason;
  std::string_view types;  // of conditions, with ", " between them
  std::string_view meaning;
  std::string_view remedy;  // empty: nothing needs to be done
};

struct EventMeaning {
  std::string_view reason;
  std::string_view meaning;
};

std::span<const ConditionMeaning> ConditionMeanings();
std::span<const ReasonMeaning> ReasonMeanings();
std::span<const EventMeaning> EventMeanings();

// Whether a condition of that type may be `status` ("True", "False", "Unknown") for that reason.
bool IsKnownReason(std::string_view type, std::string_view status, std::string_view reason);
bool IsKnownEvent(std::string_view reason);

// docs/conditions.md, whole.
std::string ConditionsPage();

}  // namespace janus::control
