#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/gateway_counts.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/status.h"
#include "dataplane/engine/request.h"
#include "proto/tokens.pb.h"

namespace janus::dataplane {

// What a stream needs of its attention instance. Thread-safe.
class StreamTarget {
 public:
  virtual ~StreamTarget() = default;
  // PermissionDenied: the gateway belongs to another service.
  virtual Status CheckService(const std::string& service_uid) const = 0;
  // The model and the room of the instance; the stream fills in max_requests.
  virtual v1::Welcome Describe() const = 0;
  virtual int64_t max_model_len() const = 0;
  // An error with the reason if new requests are refused.
  virtual Status CheckTakesRequests() const = 0;
  virtual Status Submit(Request request) = 0;
  // InvalidArgument: not a grammar. FailedPrecondition: this worker has no tokenizer.
  virtual Result<std::shared_ptr<const TokenGrammar>> Compile(const std::string& grammar) = 0;
  virtual void Cancel(const RequestKey& key) = 0;
  // The gateway's Hello was taken.
  virtual void Attached(const std::string& gateway_id) = 0;
  // A report of the gateway that is attached.
  virtual void TakeCounts(GatewayCounts counts) = 0;
};

// The worker's side of one token stream (proto/tokens.proto): the order of messages, the gateway's
// credits, its open requests, and the output not sent yet. The owner of the connection passes
// messages in and takes messages out.
//
// That output is bounded: tokens by the max_tokens of open requests, rejections by holds_reading.
//
// Thread-safe, but only one thread at a time may call Handle. Calls the target without its lock.
class GatewayStream {
 public:
  // `target` must outlive it. `number` identifies the stream in RequestKey.
  GatewayStream(StreamTarget& target, uint64_t number, Logger log);

  // Handles a received message. An error ends the stream.
  Status Handle(const v1::ToAttention& message);
  // Takes the output of a step for requests of this stream.
  void OnStep(StepOutput&& output);

  // The next message, if one is due: the welcome, rejections, then a Step. A Step has all pending
  // output, or only the load, and needs credit from the gateway.
  bool TakeNext(v1::FromAttention& message);
  // True: do not read from this gateway, because it leaves its rejections unread.
  bool holds_reading() const;

  // From Hello; empty before it. Only for the thread of Handle, or after Handle has ended.
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
  size_t ended_owed_ JANUS_GUARDED_BY(mu_) = 0;  // requests in owed_ that are not open any more
  StepOutput load_ JANUS_GUARDED_BY(mu_);        // only the load, without events
  bool load_is_news_ JANUS_GUARDED_BY(mu_) = false;
};

}  // namespace janus::dataplane
