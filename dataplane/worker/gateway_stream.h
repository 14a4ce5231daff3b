#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/mutex.h"
#include "common/status.h"
#include "dataplane/engine/request.h"
#include "proto/tokens.pb.h"

namespace janus::dataplane {

// The attention instance behind a stream, as far as a stream needs it. Thread-safe.
class StreamTarget {
 public:
  virtual ~StreamTarget() = default;
  // PermissionDenied: another service's.
  virtual Status CheckService(const std::string& service_uid) const = 0;
  // What it serves and has room for; max_requests is the stream's.
  virtual v1::Welcome Describe() const = 0;
  virtual int64_t max_model_len() const = 0;
  // New requests are refused with the reason.
  virtual Status CheckTakesRequests() const = 0;
  virtual Status Submit(Request request) = 0;
  virtual void Cancel(const RequestKey& key) = 0;
};

// The worker's side of one token stream (proto/tokens.proto): the order of messages, the gateway's
// credits, its open requests, and what is owed to it. The owner of the connection hands messages in
// and takes messages out.
//
// What is owed is bounded: tokens by the max_tokens of the requests that may be open, rejections by
// holds_reading.
//
// Thread-safe; Handle is called by one thread at a time. It calls the target without its lock.
class GatewayStream {
 public:
  // `target` must outlive it. `number` is the stream's in RequestKey.
  GatewayStream(StreamTarget& target, uint64_t number, Logger log);

  // Takes a message. An error ends the stream.
  Status Handle(const v1::ToAttention& message);
  // What a step brought to requests of this stream.
  void OnStep(StepOutput&& output);

  // The next message, if one is due: the welcome, rejections, then one Step with all that is owed,
  // or with the load alone, if the gateway has credit for it.
  bool TakeNext(v1::FromAttention& message);
  // A gateway that leaves its rejections unread is not to be read from.
  bool holds_reading() const;

  // Of Hello; empty before it. By the thread of Handle, or when that has ended.
  const std::string& gateway() const { return gateway_; }

 private:
  using RequestId = std::pair<uint64_t, uint32_t>;  // id, attempt

  Status Greet(const v1::Hello& hello);
  void Submit(const v1::Submit& submit);
  Status TrySubmit(const v1::Submit& submit, const RequestId& id);
  Status Open(const RequestId& id);
  void Cancel(const v1::Cancel& cancel);

  StreamTarget& target_;
  const uint64_t number_;
  const Logger log_;
  std::string gateway_;

  mutable Mutex mu_;
  uint32_t credits_ JANUS_GUARDED_BY(mu_) = 0;
  std::optional<v1::Welcome> welcome_ JANUS_GUARDED_BY(mu_);
  std::deque<v1::Rejected> rejected_ JANUS_GUARDED_BY(mu_);
  std::set<RequestId> open_ JANUS_GUARDED_BY(mu_);
  std::map<RequestId, v1::RequestTokens> owed_ JANUS_GUARDED_BY(mu_);
  size_t ended_owed_ JANUS_GUARDED_BY(mu_) = 0;  // of owed_, those that are open no more
  StepOutput load_ JANUS_GUARDED_BY(mu_);        // without events
  bool load_is_news_ JANUS_GUARDED_BY(mu_) = false;
};

}  // namespace janus::dataplane
