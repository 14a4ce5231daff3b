#include "dataplane/gateway/attention_pool.h"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace janus::gateway {

AttentionPool::AttentionPool(AttentionPoolOptions options, const Clock& clock,
                             GatewayMetrics& metrics, Logger log, LinkFactory make_link)
    : options_(std::move(options)),
      clock_(clock),
      metrics_(metrics),
      counts_(metrics),
      started_(clock.Now()),
      log_(std::move(log)),
      make_link_(std::move(make_link)) {
  metrics_.queue_limit.Set(static_cast<double>(options_.queued_requests));
  MutexLock lock(mu_);
  last_finish_ = clock_.Now();
}

AttentionPool::~AttentionPool() {
  Stop();
}

void AttentionPool::Stop() {
  std::vector<std::shared_ptr<AttentionLink>> links;
  {
    MutexLock lock(mu_);
    for (const Member& member : members_) links.push_back(member.link);
  }
  // Their ends arrive as OnDown, which needs the lock.
  for (const auto& link : links) link->Stop();
  MutexLock lock(mu_);
  members_.clear();
}

void AttentionPool::SetMembers(const std::vector<std::string>& addresses) {
  std::vector<std::shared_ptr<AttentionLink>> gone, joining;
  Deliveries deliveries;
  {
    MutexLock lock(mu_);
    for (Member& member : members_) {
      const bool listed = std::ranges::find(addresses, member.address) != addresses.end();
      if (!listed && !member.leaving) {
        log_.Info("attention instance leaves",
                  {{"attention", member.address}, {"requests", member.open}});
      }
      // A detached instance is dialled anew if it is listed again.
      if (member.leaving && member.open == 0) {
        gone.push_back(member.link);
      } else {
        member.leaving = !listed;
        member.left = member.left && !listed;
        if (member.leaving && member.open == 0) gone.push_back(member.link);
      }
    }
    const auto is_gone = [&](const Member& member) {
      return std::ranges::find(gone, member.link) != gone.end();
    };
    // Remove them from the list at once: the ends of their streams do not matter any more.
    std::erase_if(members_, is_gone);
    for (const std::string& address : addresses) {
      if (std::ranges::find(members_, address, &Member::address) != members_.end()) continue;
      Member member;
      member.address = address;
      member.link = make_link_({.address = address,
                                .gateway_id = options_.gateway_id,
                                .service_uid = options_.service_uid,
                                .step_credits = options_.step_credits,
                                .credentials = options_.credentials},
                               this, log_.With({{"attention", address}}));
      joining.push_back(member.link);
      members_.push_back(std::move(member));
    }
    NoteWhoTakes();
    EndMisfits(&deliveries);
    TakeFromSilent();
    Pump();
  }
  Deliver(std::move(deliveries));
  for (const auto& link : joining) link->Start();
  for (const auto& link : gone) link->Stop();
}

void AttentionPool::NoteWhoTakes() {
  for (const Member& member : members_) {
    if (!member.TakesRequests()) continue;
    last_capacity_ = member.capacity;
    nobody_since_.reset();
    return;
  }
  if (!nobody_since_) nobody_since_ = clock_.Now();
}

bool AttentionPool::Holds() const {
  return nobody_since_ && last_capacity_ && clock_.Now() - *nobody_since_ < options_.hold;
}

Status AttentionPool::NobodyTakes() const {
  if (std::ranges::any_of(members_, [](const Member& member) { return member.foreign; })) {
    return Unavailable(
        "the new model has another tokenizer than this gateway; retry to reach its gateway");
  }
  return Unavailable("no attention instance is attached");
}

void AttentionPool::EndHeld() {
  Deliveries deliveries;
  {
    MutexLock lock(mu_);
    if (!nobody_since_ || Holds()) return;
    const Status why = NobodyTakes();
    while (!waiting_.empty()) End(waiting_.back(), why, &deliveries);
    UpdateGauges();
  }
  Deliver(std::move(deliveries));
}

void AttentionPool::MoveFromSilent() {
  MutexLock lock(mu_);
  TakeFromSilent();
  Pump();
}

std::vector<uint64_t> AttentionPool::MovableFromSilent(const Member& member) const {
  std::vector<uint64_t> out;
  for (const auto& [id, open] : open_) {
    if (open.on == member.link.get() && GoesOnElsewhere(open)) out.push_back(id);
  }
  std::ranges::sort(out);
  return out;
}

std::vector<uint64_t> AttentionPool::MovableFromHolding(const Member& member) const {
  const MonotonicTime now = clock_.Now();
  // Without room elsewhere they would only lose their keys and values, and wait in the queue.
  int64_t room = -static_cast<int64_t>(waiting_.size());
  std::vector<const Member*> others;
  for (const Member& other : members_) {
    if (!other.Serves() || other.full || now - other.serves_since < kHolding) continue;
    room += std::max<int64_t>(other.capacity->max_requests - other.open, 0);
    others.push_back(&other);
  }
  std::vector<uint64_t> out;
  if (room <= 0) return out;
  for (const auto& [id, open] : open_) {
    if (open.on != member.link.get()) continue;
    const auto could = [&](const Member* other) { return CouldGoOn(open, *other); };
    if (std::ranges::any_of(others, could)) out.push_back(id);
  }
  std::ranges::sort(out);
  out.resize(std::min(out.size(), static_cast<size_t>(room)));
  return out;
}

void AttentionPool::TakeFromSilent() {
  const MonotonicTime now = clock_.Now();
  for (Member& member : members_) {
    const bool is_silent = member.leaving && now - member.heard >= kSilentLeaver;
    const bool holds = member.holding_since && now - *member.holding_since >= kHolding;
    if (!member.capacity || (!is_silent && !holds)) continue;
    const std::vector<uint64_t> moved =
        is_silent ? MovableFromSilent(member) : MovableFromHolding(member);
    if (moved.empty()) continue;
    log_.Warning(is_silent
                     ? "attention instance left the topology and sends nothing; its requests move"
                     : "attention instance waits for an epoch; its requests move",
                 {{"attention", member.address}, {"requests", static_cast<int64_t>(moved.size())}});
    // Newest first, because each goes to the front of the queue.
    for (const uint64_t id : std::views::reverse(moved)) {
      Open& open = open_.at(id);
      member.link->Cancel(id, open.attempt);
      Leave(id, open);
      waiting_.push_front(id);
    }
  }
}

void AttentionPool::ReportCounts() {
  MutexLock lock(mu_);
  if (!MakeReport()) return;
  for (const Member& member : members_) {
    if (member.capacity && member.capacity->accepts_counts) member.link->SendCounts(reported_);
  }
}

bool AttentionPool::MakeReport() {
  GatewayCounts now = counts_.Read();
  const MonotonicTime time = clock_.Now();
  for (const uint64_t id : waiting_) {
    const Open& open = open_.at(id);
    ++now.waiting;
    now.waiting_prompt_tokens += open.request.prompt.size() + open.generated.size();
    now.oldest_waiting_seconds =
        std::max(now.oldest_waiting_seconds, Seconds(time - open.submitted).count());
  }
  now.reports = reported_.reports;
  now.age_seconds = reported_.age_seconds;
  if (now.reports > 0 && now == reported_) return false;
  reported_ = std::move(now);
  ++reported_.reports;
  reported_.age_seconds = Seconds(time - started_).count();
  return true;
}

AttentionPool::Member* AttentionPool::Find(AttentionLink* link) {
  for (Member& member : members_) {
    if (member.link.get() == link) return &member;
  }
  return nullptr;
}

Status AttentionPool::Fits(const GenerationRequest& request, size_t generated,
                           const AttentionCapacity& capacity) {
  if (request.grammar && !capacity.accepts_grammar) {
    return InvalidArgument("the service's instances cannot constrain an answer");
  }
  if (request.routed_from >= 0 &&
      (request.routed_width == 0 || request.routed_width != capacity.routed_width)) {
    return InvalidArgument("return_routed_experts: the service's instances do not report experts");
  }
  const auto tokens = static_cast<int64_t>(request.prompt.size() + generated);
  const std::string has = (generated == 0 ? "the prompt has " : "prompt and answer so far have ") +
                          std::to_string(tokens) + " tokens";
  if (tokens + 1 > capacity.max_context_tokens) {
    return InvalidArgument(has + "; the model's context is " +
                           std::to_string(capacity.max_context_tokens) +
                           ", including one new token");
  }
  if (tokens + 1 > capacity.kv_capacity_tokens) {
    return InvalidArgument(has + ", the KV cache of an instance has room for " +
                           std::to_string(capacity.kv_capacity_tokens));
  }
  return OkStatus();
}

bool AttentionPool::IsSameModel(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || a == b;
}

bool AttentionPool::GoesOn(const Open& open, const AttentionCapacity& capacity) {
  if (open.generated.empty()) return true;
  return capacity.accepts_replay && IsSameModel(open.model_digest, capacity.model_digest);
}

bool AttentionPool::IsOfAnotherModel(const Open& open) const {
  if (open.generated.empty()) return false;
  bool is_another = false;
  for (const Member& member : members_) {
    if (!member.TakesRequests()) continue;
    if (IsSameModel(member.capacity->model_digest, open.model_digest)) return false;
    is_another = true;
  }
  return is_another;
}

Status AttentionPool::FitsNobody(const Open& open) const {
  Status why;
  for (const Member& member : members_) {
    if (!member.TakesRequests()) continue;
    why = Fits(open.request, open.generated.size(), *member.capacity);
    if (why.ok()) break;
  }
  return why;
}

void AttentionPool::End(uint64_t id, const Status& why, Deliveries* deliveries) {
  const Open& open = open_.at(id);
  TokenEvent event;
  if (IsOfAnotherModel(open)) {
    event.finish = Finish::kError;
    event.error = Aborted(
        "the answer was begun by a model that the service does not serve any more, and the new one "
        "cannot go on with it; ask again");
  } else if (!open.generated.empty() && !FitsNobody(open).ok()) {
    event.finish = Finish::kLength;
  } else {
    event.finish = Finish::kError;
    event.error = why;
  }
  deliveries->emplace_back(open.sink, std::move(event));
  Finish(id);
}

void AttentionPool::EndMisfits(Deliveries* deliveries) {
  for (const uint64_t id : std::deque<uint64_t>(waiting_)) {
    if (IsOfAnotherModel(open_.at(id))) End(id, OkStatus(), deliveries);
  }
  const bool all_attached = std::ranges::none_of(members_, [](const Member& member) {
    return !member.leaving && !member.left && !member.capacity;
  });
  if (!all_attached) return;
  const std::deque<uint64_t> waiting = waiting_;
  for (const uint64_t id : waiting) {
    if (const Status why = FitsNobody(open_.at(id)); !why.ok()) End(id, why, deliveries);
  }
}

Status AttentionPool::Owed(const Open& open, const TokenEvent& event,
                           const AttentionCapacity& capacity) {
  const auto sent = static_cast<int64_t>(open.generated.size() + event.tokens.size());
  if (sent > open.request.max_tokens) {
    return Internal("the attention instance sent " + std::to_string(sent) +
                    " tokens of an answer of at most " + std::to_string(open.request.max_tokens));
  }
  const auto scored_to =
      event.prompt_logprobs_from + static_cast<int64_t>(event.prompt_logprobs.size());
  if (!event.prompt_logprobs.empty() &&
      (open.request.prompt_logprobs < 0 ||
       scored_to > static_cast<int64_t>(open.request.prompt.size()))) {
    return Internal(
        "the attention instance sent log probabilities of prompt tokens up to position " +
        std::to_string(scored_to) + ", of a prompt of " +
        std::to_string(open.request.prompt.size()) + " tokens");
  }
  if (!event.routed.empty()) {
    const int64_t width = open.request.routed_width;
    const auto ids = static_cast<int64_t>(event.routed.size());
    const int64_t most =
        static_cast<int64_t>(open.request.prompt.size()) + open.request.max_tokens - 1;
    if (open.request.routed_from < 0 || ids % width != 0 ||
        event.routed_from < open.request.routed_from || event.routed_from + ids / width > most) {
      return Internal("the attention instance sent " + std::to_string(ids) +
                      " experts from position " + std::to_string(event.routed_from) +
                      " on, which were not asked for");
    }
  }
  for (const int32_t token : event.tokens) {
    if (token >= capacity.vocabulary_size) {
      return Internal("the attention instance sent token " + std::to_string(token) +
                      " of a vocabulary of " + std::to_string(capacity.vocabulary_size));
    }
  }
  return OkStatus();
}

AttentionPool::Member* AttentionPool::Choose(const Open& open) {
  Member* best = nullptr;
  int64_t least = 0;
  for (Member& member : members_) {
    if (!CouldGoOn(open, member)) continue;
    if (member.full || member.open >= member.capacity->max_requests) continue;
    if (member.holding_since && IsServedElsewhere(open)) continue;
    const int64_t load = member.load.keys + member.pending_tokens -
                         prefixes_.TokensAt(member.attachment, open.blocks);
    if (best == nullptr || load < least) {
      best = &member;
      least = load;
    }
  }
  return best;
}

void AttentionPool::SubmitTo(Member& member, uint64_t id, Open& open) {
  ++open.attempt;
  open.on = member.link.get();
  open.has_token = false;
  ++untold_;
  ++member.open;
  member.pending_tokens += static_cast<int64_t>(open.request.prompt.size());
  prefixes_.Note(member.attachment, open.blocks);
  if (open.attempt > 1) metrics_.resubmitted.Add();
  member.link->Submit(id, open.attempt, open.request, open.generated);
}

void AttentionPool::Pump() {
  while (!waiting_.empty()) {
    const uint64_t id = waiting_.front();
    Open& open = open_.at(id);
    Member* member = Choose(open);
    if (member == nullptr) break;
    waiting_.pop_front();
    SubmitTo(*member, id, open);
  }
  UpdateGauges();
}

void AttentionPool::Leave(uint64_t id, Open& open) {
  if (open.on == nullptr) {
    std::erase(waiting_, id);
    return;
  }
  if (Member* member = Find(open.on)) {
    --member->open;
    member->full = false;
    if (!open.has_token) {
      member->pending_tokens -= static_cast<int64_t>(open.request.prompt.size());
    }
    // The next SetMembers removes it.
    if (member->leaving && member->open == 0) member->link->Close();
  }
  Detach(open);
}

void AttentionPool::Detach(Open& open) {
  if (open.on != nullptr && !open.has_token) --untold_;
  open.on = nullptr;
}

// The next turn of a conversation begins with this prompt and this answer.
void AttentionPool::NoteAnswer(const Open& open) {
  const Member* const member = open.on == nullptr ? nullptr : Find(open.on);
  const size_t tokens = open.request.prompt.size() + open.generated.size();
  if (member == nullptr || tokens / KnownPrefixes::kBlockTokens == open.blocks.size()) return;
  std::vector<int32_t> all = open.request.prompt;
  all.insert(all.end(), open.generated.begin(), open.generated.end());
  prefixes_.Note(member->attachment, KnownPrefixes::BlocksOf(all));
}

void AttentionPool::Finish(uint64_t id) {
  const auto found = open_.find(id);
  NoteAnswer(found->second);
  Leave(id, found->second);
  open_.erase(found);
  const MonotonicTime now = clock_.Now();
  // A running mean over about sixteen answers.
  finish_interval_ += (Seconds(now - last_finish_) - finish_interval_) / 16.0;
  last_finish_ = now;
}

bool AttentionPool::CouldGoOn(const Open& open, const Member& member) {
  return member.TakesRequests() && !open.tried.contains(member.address) &&
         Fits(open.request, open.generated.size(), *member.capacity).ok() &&
         GoesOn(open, *member.capacity);
}

bool AttentionPool::GoesOnElsewhere(const Open& open) const {
  return std::ranges::any_of(members_,
                             [&](const Member& member) { return CouldGoOn(open, member); });
}

bool AttentionPool::IsServedElsewhere(const Open& open) const {
  return std::ranges::any_of(
      members_, [&](const Member& member) { return member.Serves() && CouldGoOn(open, member); });
}

void AttentionPool::Retry(uint64_t id, const Status& why, Deliveries* deliveries) {
  Open& open = open_.at(id);
  Detach(open);
  const bool possible = GoesOnElsewhere(open);
  const bool held = Holds() && (open.generated.empty() || last_capacity_->accepts_replay);
  // Any instance that attaches may take it, even the one that was lost.
  if (held) open.tried.clear();
  if (possible || held) {
    // In front of later requests. Still bounded, because it counted as an open request before.
    waiting_.push_front(id);
    return;
  }
  End(id, why, deliveries);
}

Result<uint64_t> AttentionPool::Submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) {
  Open open;
  open.blocks = KnownPrefixes::BlocksOf(request.prompt);
  MutexLock lock(mu_);
  Status fits = NobodyTakes();
  for (const Member& member : members_) {
    if (!member.TakesRequests()) continue;
    fits = Fits(request, 0, *member.capacity);
    if (fits.ok()) break;
  }
  if (Holds()) fits = Fits(request, 0, *last_capacity_);
  JANUS_RETURN_IF_ERROR(fits);
  open.request = std::move(request);
  open.sink = std::move(sink);
  open.submitted = clock_.Now();
  Member* member = waiting_.empty() ? Choose(open) : nullptr;
  if (member == nullptr && static_cast<int64_t>(waiting_.size()) >= options_.queued_requests) {
    return ResourceExhausted("the queue is full: " + std::to_string(waiting_.size()) +
                             " requests wait");
  }
  const uint64_t id = next_id_++;
  Open& stored = open_.emplace(id, std::move(open)).first->second;
  if (member != nullptr) {
    SubmitTo(*member, id, stored);
  } else {
    waiting_.push_back(id);
  }
  UpdateGauges();
  return id;
}

void AttentionPool::Cancel(uint64_t id) {
  MutexLock lock(mu_);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  if (found->second.on != nullptr) found->second.on->Cancel(id, found->second.attempt);
  Finish(id);
  Pump();
}

void AttentionPool::OnUp(AttentionLink* link, const AttentionCapacity& capacity) {
  Deliveries deliveries;
  {
    MutexLock lock(mu_);
    Member* member = Find(link);
    if (member == nullptr) return;
    member->capacity = capacity;
    member->attachment = ++attachments_;
    member->heard = clock_.Now();
    member->load = {.kv_tokens_in_use = capacity.kv_tokens_in_use,
                    .keys = capacity.kv_tokens_in_use};
    member->open = 0;
    member->pending_tokens = 0;
    member->full = false;
    member->left = false;
    member->serves_since = clock_.Now();
    member->holding_since.reset();
    if (capacity.holding) member->holding_since = clock_.Now();
    member->foreign = !options_.text_digest.empty() && !capacity.text_digest.empty() &&
                      options_.text_digest != capacity.text_digest;
    if (member->foreign) {
      log_.Warning("attention instance serves a model with another tokenizer",
                   {{"attention", member->address},
                    {"own_text_digest", options_.text_digest},
                    {"its_text_digest", capacity.text_digest}});
    }
    // After this change the instance may be able to run what it could not run before.
    for (auto& [id, open] : open_) open.tried.erase(member->address);
    NoteWhoTakes();
    MakeReport();
    if (capacity.accepts_counts) link->SendCounts(reported_);
    log_.Info("attention instance attached", {{"attention", member->address},
                                              {"instance", capacity.instance},
                                              {"context_tokens", capacity.max_context_tokens},
                                              {"kv_tokens", capacity.kv_capacity_tokens}});
    EndMisfits(&deliveries);
    Pump();
  }
  Deliver(std::move(deliveries));
}

void AttentionPool::OnDown(AttentionLink* link, const Status& why) {
  Deliveries deliveries;
  {
    MutexLock lock(mu_);
    Member* member = Find(link);
    if (member == nullptr || !member->capacity) return;
    member->capacity.reset();
    member->foreign = false;
    member->holding_since.reset();
    member->load = {};
    member->open = 0;
    member->pending_tokens = 0;
    NoteWhoTakes();
    if (member->leaving) link->Close();  // without dialling again
    std::vector<uint64_t> lost;
    for (auto& [id, open] : open_) {
      if (open.on == link) {
        open.tried.insert(member->address);
        lost.push_back(id);
      } else if (open.on == nullptr) {
        lost.push_back(id);
      }
    }
    log_.Warning("attention instance lost", {{"attention", member->address},
                                             {"requests", static_cast<int64_t>(lost.size())},
                                             {"reason", why.message()}});
    // Requests that waited for it are judged again, each with its own status. Newest first, because
    // each goes to the front of the queue.
    waiting_.clear();
    std::ranges::sort(lost, std::greater<>());
    const Status ended = Aborted("the attention instance was lost; no other can continue");
    for (const uint64_t id : lost) Retry(id, ended, &deliveries);
    Pump();
  }
  Deliver(std::move(deliveries));
}

void AttentionPool::OnStep(AttentionLink* link, std::vector<RequestEvent> events,
                           const std::optional<AttentionLoad>& load) {
  Deliveries deliveries;
  {
    MutexLock lock(mu_);
    Member* member = Find(link);
    if (member == nullptr || !member->capacity) return;
    member->heard = clock_.Now();
    if (load) {
      member->load = *load;
      if (!load->holding) {
        if (member->holding_since) member->serves_since = clock_.Now();
        member->holding_since.reset();
      } else if (!member->holding_since) {
        member->holding_since = clock_.Now();
      }
    }
    for (RequestEvent& event : events) {
      const auto found = open_.find(event.id);
      if (found == open_.end()) continue;  // cancelled; its last tokens were still in flight
      Open& open = found->second;
      if (open.on != link || open.attempt != event.attempt) {
        metrics_.stale_dropped.Add();
        continue;
      }
      if (event.shed) {
        Leave(event.id, open);
        if (event.left) {
          member->left = true;
          NoteWhoTakes();
        }
        // If it has other requests from here, it has room again when one of them ends.
        member->full = member->open > 0;
        if (!member->full) open.tried.insert(member->address);
        Retry(event.id, event.event.error, &deliveries);
        continue;
      }
      const std::vector<int32_t>& tokens = event.event.tokens;
      if (Status owed = Owed(open, event.event, *member->capacity); !owed.ok()) {
        link->Cancel(event.id, event.attempt);
        event.event = TokenEvent();
        event.event.finish = Finish::kError;
        event.event.error = std::move(owed);
      }
      if (open.generated.empty()) open.model_digest = member->capacity->model_digest;
      open.generated.insert(open.generated.end(), tokens.begin(), tokens.end());
      if (!tokens.empty() && !open.has_token) {
        open.has_token = true;
        --untold_;
        member->pending_tokens -= static_cast<int64_t>(open.request.prompt.size());
      }
      const bool over = event.event.finish != Finish::kNone;
      deliveries.emplace_back(open.sink, std::move(event.event));
      if (over) Finish(event.id);
    }
    Pump();
  }
  Deliver(std::move(deliveries));
}

void AttentionPool::Deliver(Deliveries&& deliveries) {
  for (auto& [sink, event] : deliveries) sink->OnTokens(std::move(event));
}

void AttentionPool::UpdateGauges() {
  int64_t attached = 0, capacity = 0, in_use = 0;
  uint64_t waits = 0, overruns = 0;
  for (const Member& member : members_) {
    if (!member.capacity || member.foreign) continue;
    ++attached;
    capacity += member.capacity->kv_capacity_tokens;
    in_use += member.load.kv_tokens_in_use;
    waits += member.load.timed_waits;
    overruns += member.load.timed_overruns;
  }
  metrics_.timed_waits.Set(static_cast<double>(waits));
  metrics_.timed_overruns.Set(static_cast<double>(overruns));
  metrics_.instances.Set(static_cast<double>(attached));
  const size_t waiting = waiting_.size() + untold_;
  metrics_.waiting.Set(static_cast<double>(waiting));
  metrics_.running.Set(static_cast<double>(open_.size() - waiting));
  metrics_.kv_usage.Set(capacity > 0 ? static_cast<double>(in_use) / static_cast<double>(capacity)
                                     : 0);
}

bool AttentionPool::HasInstance() const {
  MutexLock lock(mu_);
  return std::ranges::any_of(members_, [](const Member& m) { return m.TakesRequests(); });
}

bool AttentionPool::AdmitsRequests() const {
  MutexLock lock(mu_);
  return !nobody_since_ || Holds();
}

int64_t AttentionPool::MaxContextTokens() const {
  return Least(&AttentionCapacity::max_context_tokens);
}

int64_t AttentionPool::VocabularySize() const {
  return Least(&AttentionCapacity::vocabulary_size);
}

int64_t AttentionPool::RoutedWidth() const {
  return Least(&AttentionCapacity::routed_width);
}

int64_t AttentionPool::Least(int64_t AttentionCapacity::*of) const {
  MutexLock lock(mu_);
  if (Holds()) return (*last_capacity_).*of;
  int64_t least = 0;
  for (const Member& member : members_) {
    if (!member.TakesRequests()) continue;
    const int64_t own = (*member.capacity).*of;
    least = least == 0 ? own : std::min(least, own);
  }
  return least;
}

int AttentionPool::RetryAfterSeconds() const {
  MutexLock lock(mu_);
  const double seconds = static_cast<double>(waiting_.size()) * finish_interval_.count();
  return static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 60.0));
}

}  // namespace janus::gateway
