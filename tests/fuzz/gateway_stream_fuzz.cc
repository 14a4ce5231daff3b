// Messages of a gateway on its stream, in any order with steps and reads. There is no Step without
// credit. Each Step has exactly the requests with unsent output: never a refused request, and
// nothing more for a cancelled one.
//
// The input is a list of [action, length, bytes...].

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "dataplane/worker/gateway_stream.h"
#include "tests/fuzz/actions.h"

namespace janus::dataplane {
namespace {

constexpr uint64_t kNumber = 3;

// Takes requests of up to 4 tokens of a vocabulary of 100.
class Target final : public StreamTarget {
 public:
  Status CheckService(const std::string& uid) const override {
    return uid == "s" ? OkStatus() : PermissionDenied("another service");
  }
  v1::Welcome Describe() const override { return {}; }
  int64_t max_model_len() const override { return 64; }
  Status CheckTakesRequests() const override {
    return draining ? Unavailable("this instance drains") : OkStatus();
  }
  Status Submit(Request request) override {
    JANUS_CHECK(request.key.stream == kNumber);
    JANUS_CHECK(!request.prompt.empty() && request.max_tokens >= 1);
    if (request.prompt.front() >= 100) return InvalidArgument("token");
    running.push_back(request.key);
    return OkStatus();
  }
  Result<std::shared_ptr<const TokenGrammar>> Compile(const std::string&) override {
    return InvalidArgument("no grammar");
  }
  void Cancel(const RequestKey& key) override { JANUS_CHECK(taken(key)); }
  void Attached(const std::string& gateway_id) override { JANUS_CHECK(!gateway_id.empty()); }
  void TakeCounts(GatewayCounts) override {}

  bool taken(const RequestKey& key) const {
    return std::find(running.begin(), running.end(), key) != running.end();
  }

  bool draining = false;
  std::vector<RequestKey> running;
};

class World {
 public:
  World() : stream_(target_, kNumber, Logger(2, LogLevel::kError)) {}

  // False: the stream has ended.
  bool Do(uint8_t action, std::string_view bytes) {
    switch (action % 4) {
      case 0:
        return Handle(bytes);
      case 1:
        Step(bytes);
        return true;
      case 2:
        Read();
        return true;
      default:
        target_.draining = !target_.draining;
        return true;
    }
  }

 private:
  bool Handle(std::string_view bytes) {
    v1::ToAttention message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
    if (stream_.holds_reading()) return true;
    const size_t running = target_.running.size();
    const bool greeted = !stream_.gateway().empty();
    const Status handled = stream_.Handle(message);
    if (!handled.ok()) {
      JANUS_CHECK(!handled.message().empty());
      return false;
    }
    JANUS_CHECK(greeted || message.has_hello());
    if (target_.running.size() > running) open_.insert(target_.running.back());
    if (message.has_cancel()) {
      const RequestKey key{kNumber, message.cancel().request_id(), message.cancel().attempt()};
      if (open_.erase(key) > 0) owed_.erase(key);
    }
    if (message.has_hello()) credits_ = message.hello().credits();
    if (message.has_credits()) credits_ += message.credits().steps();
    return true;
  }

  // One byte per event: which of the running requests gets it, and whether it ends.
  void Step(std::string_view bytes) {
    StepOutput output;
    std::set<RequestKey> told;
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      if (target_.running.empty()) break;
      const size_t which = (byte >> 2) % target_.running.size();
      TokenEvent event;
      event.key = target_.running[which];
      if (!told.insert(event.key).second) continue;
      event.token = byte;
      if (open_.contains(event.key)) owed_.insert(event.key);
      if ((byte & 3) == 0) {
        open_.erase(event.key);
        event.finish = FinishReason::kLength;
        target_.running.erase(target_.running.begin() + static_cast<ptrdiff_t>(which));
      }
      output.events.push_back(event);
    }
    if (!output.events.empty()) stream_.OnStep(std::move(output));
  }

  void Read() {
    v1::FromAttention message;
    while (stream_.TakeNext(message)) {
      JANUS_CHECK(message.message_case() != v1::FromAttention::MESSAGE_NOT_SET);
      if (!message.has_step()) continue;
      JANUS_CHECK(credits_ > 0);
      --credits_;
      std::set<RequestKey> told;
      for (const v1::RequestTokens& tokens : message.step().requests()) {
        told.insert({kNumber, tokens.request_id(), tokens.attempt()});
      }
      JANUS_CHECK(told == owed_ &&
                  message.step().requests().size() == static_cast<int>(told.size()));
      owed_.clear();
    }
    JANUS_CHECK(!stream_.holds_reading());
  }

  Target target_;
  GatewayStream stream_;
  std::set<RequestKey> open_;
  std::set<RequestKey> owed_;  // requests with output for the next Step
  uint64_t credits_ = 0;
};

}  // namespace
}  // namespace janus::dataplane

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  janus::dataplane::World world;
  janus::ForEachAction(
      data, size, [&](uint8_t action, std::string_view bytes) { return world.Do(action, bytes); });
  return 0;
}
