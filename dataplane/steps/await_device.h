#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/transport.h"
#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// Transport::Wait for work of a device. A device cannot wake a waiting host, so this polls `ready`.
inline Status AwaitDevice(Transport& transport, MonotonicTime deadline, FunctionRef<bool()> ready) {
  constexpr std::chrono::microseconds kAgain(50);
  for (;;) {
    const MonotonicTime again = MonotonicClock::now() + kAgain;
    const Status waited = transport.Wait(std::min(again, deadline), ready);
    if (waited.code() != StatusCode::kDeadlineExceeded || again >= deadline) return waited;
  }
}

// AwaitDevice or Transport::Wait.
inline Status Await(bool of_device, Transport& transport, MonotonicTime deadline,
                    FunctionRef<bool()> ready) {
  return of_device ? AwaitDevice(transport, deadline, ready) : transport.Wait(deadline, ready);
}

// Stops the GPU's waits for peers, then waits at most `at_most` until it has run what was queued.
inline void LetGo(Exchange& exchange, Seconds at_most) {
  const MonotonicTime deadline = Later(MonotonicClock::now(), at_most);
  while (!exchange.LetGo() && MonotonicClock::now() < deadline) std::this_thread::yield();
}

}  // namespace janus::dataplane
