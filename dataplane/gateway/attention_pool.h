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
#include "dataplane/gateway/known_prefixes.h"
#include "dataplane/gateway/request_counts.h"

namespace grpc {
class ChannelCredentials;
}

namespace janus::gateway {

// What an attached attention instance reported of itself.
struct AttentionCapacity {
  std::string instance;
  int64_t vocabulary_size = 0;
  int64_t max_context_tokens = 0;
  int64_t max_requests = 0;
  int64_t kv_capacity_tokens = 0;
  int64_t kv_tokens_in_use = 0;
  bool accepts_replay = false;
  bool accepts_counts = false;
  bool accepts_grammar = false;
  int64_t routed_width = 0;    // experts of a position, in all layers; 0: it does not send them
  std::string model_digest{};  // as in proto/tokens.proto; empty: unknown
  std::string text_digest{};
  bool holding = false;  // as in AttentionLoad
};

struct AttentionLoad {
  int64_t kv_tokens_in_use = 0;  // one that several sequences share counts once
  int64_t keys = 0;              // it counts for each of them: what steps read
  int64_t queued = 0;
  int64_t running = 0;
  uint64_t timed_waits = 0;  // of a timed device, since its start
  uint64_t timed_overruns = 0;
  bool holding = false;  // it computes nothing until it has another epoch
};

struct AttentionPoolOptions {
  std::string gateway_id{};
  std::string service_uid{};
  int64_t queued_requests = 4096;  // that wait for a free instance; beyond it requests are refused
  std::shared_ptr<grpc::ChannelCredentials> credentials{};  // null: plain text
  uint32_t step_credits = 64;  // Step messages in flight or unhandled, per instance
  // How long requests are held when no instance is attached any more; then they end with
  // Unavailable. 0: they end at once.
  Seconds hold{0};
  // Digest of the gateway's own tokenizer, as in Welcome. An instance with a different digest gets
  // no requests, because its token ids would mean other words. Empty: unknown; all instances are
  // used.
  std::string text_digest{};
};

// Gives each request to an attention instance, and passes its tokens on. The instance is the one
// with the fewest keys, after those of the prompt are subtracted that it has computed before
// (KnownPrefixes). So requests with a common prefix meet where it is cached, until another instance
// has less to do by more than the prefix. Keys are those of the last report, plus
// submitted prompts without a token yet. Ties go to the first in the list. If no instance has room,
// requests wait in order, up to a bound.
//
// If an instance is lost or sheds a request, the request goes to another one under the next attempt
// number. It starts from the prompt if no token has arrived yet. Otherwise it continues behind the
// received tokens if the new instance accepts replays, or it ends with Aborted. An answer continues
// only under the model that it began with. If only other models are served, it ends with Aborted; a
// request without tokens may begin under another model. Tokens of an old attempt are dropped. For
// all this the pool keeps prompt, tokens and seed until the end. While no instance is attached, for
// example while all are replaced, requests are held. Thread-safe.
class AttentionPool {
 public:
  // Makes the links; tests replace it.
  using LinkFactory =
      std::function<std::shared_ptr<AttentionLink>(AttentionLink::Options, AttentionPool*, Logger)>;
  AttentionPool(AttentionPoolOptions options, const Clock& clock, GatewayMetrics& metrics,
                Logger log, LinkFactory make_link = AttentionLink::Create);
  ~AttentionPool();

  // Sets the instances to attach to, by gRPC address ("host:port", "unix:/path"). An instance that
  // is not listed any more gets no new request, and is detached when its requests are over. It
  // computes nothing after that topology, so it gives back its requests. If it hangs, it gives back
  // nothing: requests that another instance can continue move after kSilentLeaver without a
  // message. Must not be called from a link.
  void SetMembers(const std::vector<std::string>& addresses);
  static constexpr std::chrono::seconds kSilentLeaver{1};
  // How long requests stay at an instance that waits for an epoch while another one could continue
  // them. Mostly the epoch comes sooner, and they keep their keys and values.
  static constexpr std::chrono::seconds kHolding{2};
  // Ends requests that were held too long; call it periodically.
  void EndHeld();
  // Moves the requests of instances that are not listed any more and send nothing, and of those
  // that wait for an epoch, as those of a lost pool do, for kHolding. The latter move to instances
  // that have had an epoch for as long: those that wait for the same epoch do not get it at once.
  // Call it periodically; SetMembers does it too.
  void MoveFromSilent();
  // Sends counts() and what waits here to the attached instances, if anything has changed since the
  // last report. Called four times a second. An instance that attaches gets a report at once.
  void ReportCounts();
  // What becomes of requests: their callers count it.
  RequestCounts& counts() { return counts_; }
  // Ends every stream; open requests get no further event.
  void Stop();

  // Events go to `sink` until one with a finish. The returned id is for Cancel. ResourceExhausted:
  // the queue is full. Unavailable: no instance is attached. InvalidArgument: the request fits no
  // instance.
  Result<uint64_t> Submit(GenerationRequest request, std::shared_ptr<TokenSink> sink);
  // The sink gets no further event, except one that is already being delivered. Ignores unknown
  // ids.
  void Cancel(uint64_t id);

  bool HasInstance() const;
  // An instance is attached, or requests are held for one.
  bool AdmitsRequests() const;
  // The least of all attached instances; while requests are held, of the last one; otherwise 0.
  int64_t MaxContextTokens() const;
  int64_t VocabularySize() const;
  int64_t RoutedWidth() const;
  // When a refused client may try again: the time for the queue at the recent rate of answers.
  int RetryAfterSeconds() const;

  // Called by the links.
  void OnUp(AttentionLink* link, const AttentionCapacity& capacity);
  void OnDown(AttentionLink* link, const Status& why);
  struct RequestEvent {
    uint64_t id;
    uint32_t attempt;
    TokenEvent event{};
    bool shed = false;  // refused or cancelled by the instance: event.error says why
    bool left = false;  // it takes no more requests: it drains, or is not in the topology
  };
  // `load`: absent if the message is a refusal.
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
    uint64_t attachment = 0;     // its number among all; names it in prefixes_
    MonotonicTime heard;         // its last message
    bool full = false;           // it shed a request; until one of its requests is over
    bool leaving = false;        // no longer in the topology
    bool left = false;           // it reported that itself; until a topology lists it again
    bool foreign = false;        // its tokenizer differs from this gateway's
    std::optional<MonotonicTime> holding_since;  // it waits for an epoch
    MonotonicTime serves_since;                  // it has one, or is attached

    bool TakesRequests() const { return capacity.has_value() && !leaving && !left && !foreign; }
    bool Serves() const { return TakesRequests() && !holding_since; }
  };
  struct Open {
    GenerationRequest request;
    std::shared_ptr<TokenSink> sink;
    std::vector<int32_t> generated;
    std::vector<uint64_t> blocks;  // of the prompt (KnownPrefixes)
    std::string model_digest;      // of the instance that generated `generated`
    uint32_t attempt = 0;
    AttentionLink* on = nullptr;  // null: waits
    bool has_token = false;       // in this attempt
    MonotonicTime submitted;
    std::set<std::string> tried;  // instances that lost or shed it, by address
  };
  // Blocks of prompts whose instance is remembered: 2 million tokens, in about 4 MB.
  static constexpr size_t kMostKnownBlocks = size_t{1} << 15;
  using Deliveries = std::vector<std::pair<std::shared_ptr<TokenSink>, TokenEvent>>;

  Member* Find(AttentionLink* link) JANUS_REQUIRES(mu_);
  Member* Choose(const Open& open) JANUS_REQUIRES(mu_);
  // Whether the request, with that many tokens of its answer, could ever continue there.
  static Status Fits(const GenerationRequest& request, size_t generated,
                     const AttentionCapacity& capacity);
  // Compares digests. An empty digest (from an older worker) matches every model.
  static bool IsSameModel(const std::string& a, const std::string& b);
  // Whether the tokens of the answer so far may be replayed there.
  static bool GoesOn(const Open& open, const AttentionCapacity& capacity);
  // True if the answer began under a model that no instance that takes requests serves any more.
  // Tokens of another model would mix two texts. All instances of an epoch have one model, so
  // further instances would not help.
  bool IsOfAnotherModel(const Open& open) const JANUS_REQUIRES(mu_);
  // Why no instance that takes requests could ever run it; OK: one could, or no instance takes
  // requests.
  Status FitsNobody(const Open& open) const JANUS_REQUIRES(mu_);
  // Ends the request because of `why`. An answer too long for every instance ends with kLength.
  void End(uint64_t id, const Status& why, Deliveries* deliveries) JANUS_REQUIRES(mu_);
  // Ends waiting requests of another model. Once all listed instances are attached, also ends those
  // that fit no instance.
  void EndMisfits(Deliveries* deliveries) JANUS_REQUIRES(mu_);
  // Whether an instance may send this event: no more tokens than requested, all in its vocabulary,
  // log probabilities only of existing prompt tokens, and experts only of positions that were asked
  // for. Internal: it may not.
  static Status Owed(const Open& open, const TokenEvent& event, const AttentionCapacity& capacity);
  void SubmitTo(Member& member, uint64_t id, Open& open) JANUS_REQUIRES(mu_);
  void Pump() JANUS_REQUIRES(mu_);
  void Leave(uint64_t id, Open& open) JANUS_REQUIRES(mu_);
  void Detach(Open& open) JANUS_REQUIRES(mu_);
  // Moves a request to another instance after its own was lost. False: no instance can take it, and
  // the request has ended.
  void Retry(uint64_t id, const Status& why, Deliveries* deliveries) JANUS_REQUIRES(mu_);
  // Whether an instance that takes requests could continue this one.
  bool GoesOnElsewhere(const Open& open) const JANUS_REQUIRES(mu_);
  static bool CouldGoOn(const Open& open, const Member& member);
  // The same of one that has an epoch.
  bool IsServedElsewhere(const Open& open) const JANUS_REQUIRES(mu_);
  void TakeFromSilent() JANUS_REQUIRES(mu_);
  // Requests of a leaver that sends nothing, and of an instance that waits for an epoch, ascending.
  std::vector<uint64_t> MovableFromSilent(const Member& member) const JANUS_REQUIRES(mu_);
  std::vector<uint64_t> MovableFromHolding(const Member& member) const JANUS_REQUIRES(mu_);
  void NoteAnswer(const Open& open) JANUS_REQUIRES(mu_);
  void Finish(uint64_t id) JANUS_REQUIRES(mu_);
  // Call it after any change of the instances that take requests.
  void NoteWhoTakes() JANUS_REQUIRES(mu_);
  bool Holds() const JANUS_REQUIRES(mu_);
  // Why no instance takes requests.
  Status NobodyTakes() const JANUS_REQUIRES(mu_);
  int64_t Least(int64_t AttentionCapacity::*of) const JANUS_EXCLUDES(mu_);
  void UpdateGauges() JANUS_REQUIRES(mu_);
  static void Deliver(Deliveries&& deliveries);
  // Brings reported_ up to date; whether it is another report than before.
  bool MakeReport() JANUS_REQUIRES(mu_);

  const AttentionPoolOptions options_;
  const Clock& clock_;
  GatewayMetrics& metrics_;
  RequestCounts counts_;
  const MonotonicTime started_;
  const Logger log_;
  const LinkFactory make_link_;

  mutable Mutex mu_;
  std::vector<Member> members_ JANUS_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, Open> open_ JANUS_GUARDED_BY(mu_);
  std::deque<uint64_t> waiting_ JANUS_GUARDED_BY(mu_);
  KnownPrefixes prefixes_ JANUS_GUARDED_BY(mu_){kMostKnownBlocks};
  uint64_t attachments_ JANUS_GUARDED_BY(mu_) = 0;
  size_t untold_ JANUS_GUARDED_BY(mu_) = 0;  // that an instance has, before their first token
  GatewayCounts reported_ JANUS_GUARDED_BY(mu_);
  uint64_t next_id_ JANUS_GUARDED_BY(mu_) = 1;
  MonotonicTime last_finish_ JANUS_GUARDED_BY(mu_);
  Seconds finish_interval_ JANUS_GUARDED_BY(mu_){0};  // running mean
  // Since when no instance takes requests, and the capacity of the last one that did.
  std::optional<MonotonicTime> nobody_since_ JANUS_GUARDED_BY(mu_) = MonotonicTime();
  std::optional<AttentionCapacity> last_capacity_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::gateway
