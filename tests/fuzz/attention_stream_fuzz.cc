// Messages of two attention instances to a gateway, in any order, while requests come and are
// cancelled and streams end. A request gets one end, and no token that it did not ask for.
//
// The input is a list of [action, instance, length, bytes...].

#include <cstdint>
#include <optional>
#include <string>

#include "common/check.h"
#include "dataplane/gateway/answer.h"
#include "dataplane/gateway/answers/response.h"
#include "dataplane/gateway/routed_experts.h"
#include "dataplane/gateway/token_messages.h"
#include "tests/support/fake_link.h"
#include "tests/unit/dataplane/text/small_tokenizer.h"

namespace janus::gateway {
namespace {

constexpr int64_t kMaxTokens = 6;

const text::Tokenizer& TestTokenizer() {
  static const std::shared_ptr<const text::Tokenizer> tokenizer = text::SmallTokenizer();
  return *tokenizer;
}

// Makes the chunks that a client would receive.
class CheckedSink final : public TokenSink {
 public:
  explicit CheckedSink(bool logprobs)
      : answer_(
            Answer::Create(TestTokenizer(), {.stop = {"a b"}, .want_logprobs = logprobs}).value()) {
    head_.logprobs = logprobs;
    head_.top_logprobs = 1;
    head_.return_token_ids = true;
    head_.logits_hash = true;
  }
  void Take(const GenerationRequest& request) {
    prompt_tokens_ = static_cast<int64_t>(request.prompt.size());
    if (request.routed_from >= 0) routed_.emplace(request.routed_from, request.routed_width);
  }
  void OnTokens(TokenEvent event) override {
    JANUS_CHECK(!over_);
    over_ = event.finish != Finish::kNone;
    tokens_ += static_cast<int64_t>(event.tokens.size());
    JANUS_CHECK(tokens_ <= kMaxTokens, tokens_);
    JANUS_CHECK(event.routed.empty() || routed_);
    if (routed_ && routed_->Put(event.routed_from, event.routed).ok()) {
      (void)routed_->TextTo(prompt_tokens_ + tokens_ - 1);
    }
    if (event.finish == Finish::kError) {
      JANUS_CHECK(!event.error.ok());
      return;
    }
    Result<Answer::Delta> delta = answer_.Push(event);
    if (!delta.ok()) return;
    ResponseChoice choice;
    choice.delta = *std::move(delta);
    choice.finish = answer_.finish();
    JANUS_CHECK(!ChunkJson(head_, choice, TestTokenizer()).empty());
  }

 private:
  Answer answer_;
  ResponseHead head_;
  std::optional<RoutedExperts> routed_;
  int64_t prompt_tokens_ = 0;
  int64_t tokens_ = 0;
  bool over_ = false;
};

class World {
 public:
  World()
      : metrics_(registry_, "m"),
        pool_({.queued_requests = 4}, clock_, metrics_, Logger(2, LogLevel::kError),
              [this](const AttentionLink::Options&, AttentionPool* pool, const Logger&) {
                links_.push_back(std::make_shared<FakeLink>(pool));
                return links_.back();
              }) {
    pool_.SetMembers({"a", "b"});
  }

  void Do(uint8_t action, uint8_t instance, std::string_view bytes) {
    FakeLink* link = links_[instance % 2].get();
    switch (action % 5) {
      case 0:
        return Welcome(link, bytes);
      case 1:
        return Events(link, bytes);
      case 2:
        return pool_.OnDown(link, Unavailable("gone"));
      case 3:
        return Submit(bytes);
      default:
        return pool_.Cancel(instance);
    }
  }

 private:
  void Welcome(FakeLink* link, std::string_view bytes) {
    v1::FromAttention message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const Result<AttentionCapacity> capacity = ReadWelcome(message);
    if (capacity.ok()) pool_.OnUp(link, *capacity);
  }
  void Events(FakeLink* link, std::string_view bytes) {
    v1::FromAttention message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    Result<AttentionEvents> events = ReadEvents(message, std::make_shared<int>(0));
    if (events.ok()) pool_.OnStep(link, std::move(events->requests), events->load);
  }
  void Submit(std::string_view bytes) {
    GenerationRequest request;
    for (const char c : bytes) request.prompt.push_back(static_cast<uint8_t>(c) % 11);
    request.max_tokens = kMaxTokens;
    request.logprobs = bytes.size() % 2 == 0 ? -1 : 1;
    if (bytes.size() % 3 == 0) {
      request.routed_from = static_cast<int64_t>(bytes.size() / 2);
      request.routed_width = pool_.RoutedWidth();
      if (request.routed_width == 0) request.routed_from = -1;
    }
    auto sink = std::make_shared<CheckedSink>(bytes.size() % 2 != 0);
    sink->Take(request);
    (void)pool_.Submit(std::move(request), std::move(sink));
  }

  SystemClock clock_;
  MetricRegistry registry_;
  GatewayMetrics metrics_;
  std::vector<std::shared_ptr<FakeLink>> links_;
  AttentionPool pool_;
};

}  // namespace
}  // namespace janus::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  janus::gateway::World world;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() >= 3) {
    const auto action = static_cast<uint8_t>(rest[0]);
    const auto instance = static_cast<uint8_t>(rest[1]);
    const size_t length = std::min<size_t>(static_cast<uint8_t>(rest[2]), rest.size() - 3);
    world.Do(action, instance, rest.substr(3, length));
    rest.remove_prefix(3 + length);
  }
  return 0;
}
