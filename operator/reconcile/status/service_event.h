#pragma once

#include <functional>
#include <string>

#include "operator/kube/event_book.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// An Event about a MoEService. `action`: what was done or tried, in one CamelCase word. The
// Reconciler adds the service.
struct ServiceEvent {
  EventType type = EventType::kNormal;
  std::string action;
  Cause cause;
  friend bool operator==(const ServiceEvent&, const ServiceEvent&) = default;
};
using TellEvent = std::function<void(const ServiceEvent&)>;

}  // namespace janus::control
