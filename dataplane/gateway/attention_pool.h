#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/status.h"
#include "dataplane/gateway/attention_link.h"
#include "dataplane/gateway/gateway_metrics.h"
#include "dataplane/gateway/generation.h"

namespace grpc {
class ChannelCredentials;
}

namespace janus::gateway {

// What an attached attention instance said of itself.
struct AttentionCapacity {
  std::string instance;
  int64_t vocabulary_size = 0;
  int64_t max_context_tokens = 0;
  int64_t max_requests = 0;
  int64_t kv_capacity_tokens = 0;
  int64_t kv_tokens_in_use = 0;
  bool accepts_replay = false;
  std::string model_digest{};  // as in proto/tokens.proto; empty: not told
  std::string text_digest{};
};

struct AttentionLoad {
  int64_t kv_tokens_in_use = 0;
  int64_t queued = 0;
  int64_t running = 0;
};

struct AttentionPoolOptions {
  std::string gateway_id{};
  std::string service_uid{};
  int64_t queued_requests = 4096;  // waiting for a free instance; beyond it requests are refused
  std::shared_ptr<grpc::ChannelCredentials> credentials{};  // null: plain text
  uint32_t step_credits = 64;  // Step messages on their way or unhandled, per instance
  // How long requests wait while no instance is attached, once one was; then they end with
  // Unavailable. 0: they end at once.
  Seconds hold{0};
  // Of the gateway's own tokenizer, as Welcome has it: an instance that serves with another one is
  // given nothing, whose tokens would be other words. Empty: not known, and all are taken.
  std::string text_digest{};
};

// Gives requests to the attention instance with the fewest KV tokens (in use, as last reported,
// plus the prompts submitted since that have no token yet; ties to the first in the list) and
// passes their tokens on. Requests that no instance has room for wait in order, up to a bound.
//
// When an instance is lost or sheds a request, the request goes to another one under the next
// attempt number: from its prompt if no token has come yet, with the tokens so far if that instance
// accepts replays; otherwise it ends with Aborted. An answer goes on under the model that it began
// under alone: once only others serve, it ends with Aborted, too; what has no token yet they may
// begin. Tokens of an attempt that is not the current one are dropped. Prompt, tokens and seed are
// kept for that until the end. While no instance is attached, as in a change that replaces all,
// requests are held. Thread-safe.
class AttentionPool {
 public:
  // Makes the streams; a test's makes none.
  using LinkFactory =
      std::function<std::shared_ptr<AttentionLink>(AttentionLink::Options, AttentionPool*, Logger)>;
  AttentionPool(AttentionPoolOptions options, const Clock& clock, GatewayMetrics& metrics,
                Logger log, LinkFactory make_link = AttentionLink::Create);
  ~AttentionPool();

  // The instances to be attached to, by gRPC address ("host:port", "unix:/path"). One that is not
  // listed any more gets no new request, and is let go when those it has are over. Not from a link.
  void SetMembers(const std::vector<std::string>& addresses);
  // Ends what was held too long; called every now and then.
  void EndHeld();
  // Ends every stream; requests still open get no further event.
  void Stop();

  // Events go to `sink` until one with a finish. The id names the request in Cancel.
  // ResourceExhausted: the queue is full. Unavailable: no instance is attached. InvalidArgument: it
  // fits into no instance.
  Result<uint64_t> Submit(GenerationRequest request, std::shared_ptr<TokenSink> sink);
  // No event follows, but one may be on its way. Unknown ids are nothing.
  void Cancel(uint64_t id);

  bool HasInstance() const;
  // There is one, or requests are held for one.
  bool AdmitsRequests() const;
  // Of the attached instances the least, or of the last one while requests are held; else 0.
  int64_t MaxContextTokens() const;
  int64_t VocabularySize() const;
  // When a refused client may try again: the time the queue takes at the rate of the last answers.
  int RetryAfterSeconds() const;

  // From the links.
  void OnUp(AttentionLink* link, const AttentionCapacity& capacity);
  void OnDown(AttentionLink* link, const Status& why);
  struct RequestEvent {
    uint64_t id;
    uint32_t attempt;
    TokenEvent event{};
    bool shed = false;  // refused or cancelled by the instance: event.error says why
    bool left = false;  // it takes no more requests: it drains, or has no place in the service
  };
  // `rejected`: not a step but a refusal, which says nothing of the load.
  void OnStep(AttentionLink* link, std::vector<RequestEvent> events,
              const std::optional<AttentionLoad>& load);

 private:
  struct Member {
    std::string address;
    std::shared_ptr<AttentionLink> link;
    std::optional<AttentionCapacity> capacity;  // attached
    AttentionLoad load;
    int64_t open = 0;            // requests submitted and not over
    int64_t pending_tokens = 0;  // prompts of those without a token yet
    bool full = false;           // it shed a request; until one of its requests is over
    bool leaving = false;        // not in the topology any more
    bool left = false;           // it said so itself; until a topology has it again
    bool foreign = false;        // it serves with another tokenizer than this gateway's

    bool TakesRequests() const { return capacity.has_value() && !leaving && !left && !foreign; }
  };
  struct Open {
    GenerationRequest request;
    std::shared_ptr<TokenSink> sink;
    std::vector<int32_t> generated;
    std::string model_digest;  // of what `generated` came from
    uint32_t attempt = 0;
    AttentionLink* on = nullptr;  // null: waits
    bool has_token = false;       // of this attempt
    std::set<std::string> tried;  // instances that were lost or shed it, by address
  };
  using Deliveries = std::vector<std::pair<std::shared_ptr<TokenSink>, TokenEvent>>;

  Member* Find(AttentionLink* link) JANUS_REQUIRES(mu_);
  Member* Choose(const Open& open) JANUS_REQUIRES(mu_);
  // Whether the request, with that many tokens of its answer, could ever go on there.
  static Status Fits(const GenerationRequest& request, size_t generated,
                     const AttentionCapacity& capacity);
  // By their digests. Workers of a build that tells none are taken for it, as they always were.
  static bool IsSameModel(const std::string& a, const std::string& b);
  // Whether what has come of the answer may be replayed there.
  static bool GoesOn(const Open& open, const AttentionCapacity& capacity);
  // True if it began under a model that no instance that takes requests serves any more: tokens of
  // another model would mix two texts. An epoch has one model, so further instances change nothing.
  bool IsOfAnotherModel(const Open& open) const JANUS_REQUIRES(mu_);
  // Why none of those that take requests could ever run it; OK: one could, or there is none.
  Status FitsNobody(const Open& open) const JANUS_REQUIRES(mu_);
  // Ends it for `why`. An answer too long for every instance ends by its length.
  void End(uint64_t id, const Status& why, Deliveries* deliveries) JANUS_REQUIRES(mu_);
  // Ends waiting requests of another model and, once all listed instances are attached, those that
  // fit no instance.
  void EndMisfits(Deliveries* deliveries) JANUS_REQUIRES(mu_);
  // Whether an instance may send this: no more tokens than the request asked for, all in the
  // vocabulary it told, and log probabilities of prompt tokens that there are. Internal: it may
  // not.
  static Status Owed(const Open& open, const TokenEvent& event, const AttentionCapacity& capacity);
  void SubmitTo(Member& member, uint64_t id, Open& open) JANUS_REQUIRES(mu_);
  void Pump() JANUS_REQUIRES(mu_);
  void Leave(uint64_t id, Open& open) JANUS_REQUIRES(mu_);
  // Finds another place for a request that its instance lost; false: there is none, it ended.
  void Retry(uint64_t id, const Status& why, Deliveries* deliveries) JANUS_REQUIRES(mu_);
  void Finish(uint64_t id) JANUS_REQUIRES(mu_);
  // After any change of the instances that take requests.
  void NoteWhoTakes() JANUS_REQUIRES(mu_);
  bool Holds() const JANUS_REQUIRES(mu_);
  // Why no instance takes requests.
  Status NobodyTakes() const JANUS_REQUIRES(mu_);
  int64_t Least(int64_t AttentionCapacity::*of) const JANUS_EXCLUDES(mu_);
  void UpdateGauges() JANUS_REQUIRES(mu_);
  static void Deliver(Deliveries&& deliveries);

  const AttentionPoolOptions options_;
  const Clock& clock_;
  GatewayMetrics& metrics_;
  const Logger log_;
  const LinkFactory make_link_;

  mutable Mutex mu_;
  std::vector<Member> members_ JANUS_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, Open> open_ JANUS_GUARDED_BY(mu_);
  std::deque<uint64_t> waiting_ JANUS_GUARDED_BY(mu_);
  uint64_t next_id_ JANUS_GUARDED_BY(mu_) = 1;
  MonotonicTime last_finish_ JANUS_GUARDED_BY(mu_);
  Seconds finish_interval_ JANUS_GUARDED_BY(mu_){0};  // running mean
  // Since when no instance takes requests, and what the last one that did has room for.
  std::optional<MonotonicTime> nobody_since_ JANUS_GUARDED_BY(mu_) = MonotonicTime();
  std::optional<AttentionCapacity> last_capacity_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::gateway
