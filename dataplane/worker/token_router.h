#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "dataplane/engine/request.h"

namespace janus::dataplane {

// Receives the output of steps for one gateway's stream. The emission thread calls it; it must not
// block.
class TokenReceiver {
 public:
  virtual ~TokenReceiver() = default;
  // `output.events` belong to this stream. Empty: only the other figures are news.
  virtual void OnStep(StepOutput&& output) = 0;
};

// Distributes the output of a step to the gateways' streams by RequestKey::stream. Events of a
// closed stream are dropped. Thread-safe.
class TokenRouter final : public TokenSink {
 public:
  // Returns the stream's number for RequestKey.
  uint64_t Add(std::shared_ptr<TokenReceiver> receiver);
  void Remove(uint64_t stream);
  // The number of attached gateways' streams.
  size_t streams() const;

  void Push(StepOutput&& output) override;

 private:
  mutable Mutex mu_;
  uint64_t next_ JANUS_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<TokenReceiver>> receivers_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
