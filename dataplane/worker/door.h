#pragma once

#include <memory>
#include <string>

#include "dataplane/comm/meeting.h"

namespace janus::dataplane {

// Where the peers of a worker find it: a listener that outlasts epochs as long as its address does.
// One Prepare at a time uses it.
class Door {
 public:
  // The listener at `address`, valid until the next call. Errors: those of
  // ExchangeListener::Create.
  Result<ExchangeListener*> At(const std::string& address) {
    if (listener_ == nullptr || address_ != address) {
      listener_.reset();
      JANUS_ASSIGN_OR_RETURN(listener_, ExchangeListener::Create(address));
      address_ = address;
    }
    return listener_.get();
  }

 private:
  std::string address_;
  std::unique_ptr<ExchangeListener> listener_;
};

}  // namespace janus::dataplane
