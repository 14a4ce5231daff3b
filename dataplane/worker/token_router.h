#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "dataplane/engine/request.h"

namespace janus::dataplane {

// Takes what steps bring one gateway's stream; called by the emission thread, must not block.
class TokenReceiver {
 public:
  virtual ~TokenReceiver() = default;
  // `output.events` are those of this stream alone; never empty.
  virtual void OnStep(StepOutput&& output) = 0;
};

// Deals what a step brought to the streams of the gateways by RequestKey::stream. Events of a
// stream that has gone are dropped. Thread-safe.
class TokenRouter final : public TokenSink {
 public:
  // Returns the number the stream's requests carry.
  uint64_t Add(std::shared_ptr<TokenReceiver> receiver);
  void Remove(uint64_t stream);
  // Streams of gateways that are attached.
  size_t streams() const;

  void Push(StepOutput&& output) override;

 private:
  mutable Mutex mu_;
  uint64_t next_ JANUS_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<TokenReceiver>> receivers_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
