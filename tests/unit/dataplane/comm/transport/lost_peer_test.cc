// A peer process is killed or stopped at each of its calls in turn. The survivor ends with a clear
// error in bounded time, has seen no wrong byte, and never hangs.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/networks.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
constexpr int kRounds = 2;
// How long the survivor waits for a stopped peer, at each position. If a living peer takes longer
// on a busy machine, that proves nothing, and the position is tried again with more patience.
constexpr std::chrono::milliseconds kHelloTimeout(700);
// The end of its connection reveals a killed peer, however long that takes on a busy machine.
const std::chrono::milliseconds kDeadline = Scaled(std::chrono::milliseconds(20'000));

// Counts the calls of one side; at the chosen call it kills or stops this process.
class DoomedTransport final : public Transport {
 public:
  DoomedTransport(Transport& under, int position, int signal)
      : under_(under), left_(position), signal_(signal) {}

  const TransportLayout& layout() const override { return under_.layout(); }
  std::span<std::byte> Payload(int slot) override { return under_.Payload(slot); }
  Status Post(int slot, const Header& header) override {
    Count();
    return under_.Post(slot, header);
  }
  bool Take(PeerId from, int slot, SlotMessage& message) override {
    const bool taken = under_.Take(from, slot, message);
    if (taken) Count();
    return taken;
  }
  bool Settle() override { return under_.Settle(); }
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override {
    Count();
    return under_.Send(to, header, payload);
  }
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override {
    const bool received = under_.Receive(from, header, payload);
    if (received) Count();
    return received;
  }
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override {
    Count();
    return under_.Wait(deadline, ready);
  }
  void Wake() override { under_.Wake(); }
  uint64_t dropped() const override { return under_.dropped(); }
  std::span<std::byte> FlagsOf(PeerId owner) override { return under_.FlagsOf(owner); }
  std::vector<std::span<std::byte>> PayloadMemory() override { return under_.PayloadMemory(); }
  std::string_view Describe(PeerId peer) const override { return under_.Describe(peer); }

 private:
  void Count() {
    if (left_-- == 0) raise(signal_);
  }
  Transport& under_;
  int left_;
  const int signal_;
};

ExchangeShape Shape() {
  ExchangeShape shape;
  shape.hidden = 512;
  shape.top_k = 1;
  shape.max_rows = 64;
  shape.m = shape.n = 1;
  return shape;
}

std::byte Mark(uint64_t step) {
  return static_cast<std::byte>(17 * step);
}

// Per round: a ticket, rows, their contributions, and a reply.
Status ServeExperts(Transport& transport) {
  JANUS_ASSIGN_OR_RETURN(const auto exchange, MakeExpertExchange(Shape(), transport));
  RoundKey key;
  Header header;
  std::vector<std::byte> payload;
  for (key.step = 1; key.step <= kRounds; ++key.step) {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(30));
    JANUS_RETURN_IF_ERROR(
        transport.Wait(deadline, [&] { return transport.Receive(kAttention0, header, payload); }));
    ArrivedRows rows;
    Result<bool> here = false;
    JANUS_RETURN_IF_ERROR(transport.Wait(deadline, [&] {
      here = exchange->Poll(key, Rank{0}, rows);
      return !here.ok() || *here;
    }));
    if (!here.ok()) return here.status();
    const ExpertExchange::Outgoing out = exchange->Begin(0, Rank{0}, rows.count);
    for (int r = 0; r < rows.count; ++r)
      out.refs[static_cast<size_t>(r)] = {static_cast<uint16_t>(r), 0, 0};
    std::memcpy(out.rows, rows.rows, static_cast<size_t>(rows.count) * Shape().row_bytes());
    JANUS_RETURN_IF_ERROR(exchange->Post(key, Rank{0}, rows.posted));
    JANUS_RETURN_IF_ERROR(
        transport.Send(kAttention0, MakeHeader(MessageKind::kDemand, key, 0, 0), {}));
  }
  return OkStatus();
}

// How many rounds were complete, and why it ended.
struct Outcome {
  int rounds = 0;
  Status status;
};

Outcome DriveAttention(Transport& transport, std::chrono::milliseconds patience) {
  Outcome outcome;
  auto exchange = *MakeAttentionExchange(Shape(), transport);
  RoundKey key;
  Header header;
  std::vector<std::byte> payload;
  const auto round = [&]() -> Status {
    const MonotonicTime deadline = MonotonicClock::now() + patience;
    JANUS_RETURN_IF_ERROR(
        transport.Send(kExperts0, MakeHeader(MessageKind::kTicket, key, 0, 0), {}));
    const std::span<std::byte> rows = exchange->Rows(0);
    std::memset(rows.data(), static_cast<int>(Mark(key.step)), rows.size());
    JANUS_RETURN_IF_ERROR(exchange->Post(key, Shape().max_rows, MonotonicTime()));
    Result<bool> all = false;
    JANUS_RETURN_IF_ERROR(transport.Wait(deadline, [&] {
      all = exchange->Poll(key);
      return !all.ok() || *all;
    }));
    if (!all.ok()) return all.status();
    for (const void* row : exchange->Contributions(0)) {
      const auto* bytes = static_cast<const std::byte*>(row);
      for (size_t i = 0; i < Shape().row_bytes(); ++i) {
        if (bytes[i] != Mark(key.step)) return DataLoss("a wrong byte");
      }
    }
    return transport.Wait(deadline, [&] { return transport.Receive(kExperts0, header, payload); });
  };
  for (key.step = 1; key.step <= kRounds; ++key.step) {
    outcome.status = round();
    if (!outcome.status.ok()) return outcome;
    ++outcome.rounds;
  }
  return outcome;
}

class LostPeerTest : public testing::TestWithParam<NetworkKind> {
 protected:
  // Runs the rounds with an expert process that gets `signal` at its call `position`. False: the
  // process finished before that.
  bool Run(int position, int signal, Outcome& outcome,
           std::chrono::milliseconds patience = kHelloTimeout) {
    const TempFolder folder;
    const pid_t peer = fork();
    JANUS_CHECK(peer >= 0);
    const auto connect = [&](PeerId self) {
      TransportLayout layout = LayoutFor(ExchangeMode::kDirect, Shape(), self);
      ConnectOptions options = TestOptions();
      options.addresses = {"unix:" + folder.path() + "/attention"};
      const auto listener = *ExchangeListener::Create(
          "unix:" + folder.path() + (self == kAttention0 ? "/attention" : "/experts"));
      return *GetParam().join(layout, options, *listener);
    };
    if (peer == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto transport = connect(kExperts0);
      DoomedTransport doomed(*transport, position, signal);
      const Status served = ServeExperts(doomed);
      // Stay until the peer has read everything; it may be behind this process.
      (void)transport->Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                            [] { return false; });
      _exit(served.ok() ? 0 : 1);
    }
    {
      const auto transport = connect(kAttention0);
      outcome = DriveAttention(*transport, signal == SIGSTOP ? patience : kDeadline);
    }
    // A process that is neither stopped nor killed ends now, because its peer has gone.
    int status = 0;
    waitpid(peer, &status, WUNTRACED);
    const bool stopped = WIFSTOPPED(status);
    if (stopped) {
      kill(peer, SIGKILL);
      waitpid(peer, &status, 0);
    }
    return stopped || WIFSIGNALED(status);
  }

  // Position 0, 1, ... until the rounds end without the signal.
  void Sweep(int signal, StatusCode code) {
    for (int position = 0;; ++position) {
      SCOPED_TRACE("position " + std::to_string(position));
      ASSERT_LT(position, 100);
      Outcome outcome;
      bool happened = Run(position, signal, outcome);
      // If a living peer took longer than our patience on a busy machine, that proves nothing.
      std::chrono::milliseconds patience = kHelloTimeout;
      for (int again = 0; again < 6 && !happened && !outcome.status.ok(); ++again) {
        outcome = Outcome();
        patience *= 2;
        happened = Run(position, signal, outcome, patience);
      }
      if (!happened) {
        EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
        EXPECT_EQ(outcome.rounds, kRounds);
        EXPECT_GT(position, 4 * kRounds) << "every call of every round had its turn";
        return;
      }
      // After its last message, the rounds are complete in any case.
      if (outcome.rounds == kRounds) continue;
      EXPECT_EQ(outcome.status.code(), code) << outcome.status.ToString();
      if (code == StatusCode::kUnavailable) {
        EXPECT_EQ(outcome.status.message().find("experts 0 "), 0u) << outcome.status.message();
      }
    }
  }
};

TEST_P(LostPeerTest, AKilledPeerIsNamedAtEveryPosition) {
  Sweep(SIGKILL, StatusCode::kUnavailable);
}

TEST_P(LostPeerTest, AStoppedPeerEndsInTheDeadlineAtEveryPosition) {
  Sweep(SIGSTOP, StatusCode::kDeadlineExceeded);
}

INSTANTIATE_TEST_SUITE_P(All, LostPeerTest, testing::ValuesIn(ProcessNetworks()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
