#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "common/status.h"
#include "dataplane/comm/handshake/callers.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/comm/handshake/hello.h"
#include "dataplane/comm/wire/layout.h"

namespace janus::dataplane {

// An epoch as the door of one of its members knows it: for as long as somebody holds this. While it
// is open, callers of it wait here for the meeting (meeting.h); the newest of each member, as
// whoever calls once more has given up what it said before. Thread-safe.
class EpochAtDoor {
 public:
  // `waiting`: an eventfd that does not block.
  EpochAtDoor(const ExchangeIdentity& identity, const TransportLayout& layout, Fd waiting,
              ExchangeRefusalCounts* counts);
  EpochAtDoor(const EpochAtDoor&) = delete;
  EpochAtDoor& operator=(const EpochAtDoor&) = delete;

  uint64_t epoch() const { return ours_.epoch; }

  // Of the meeting.

  // For poll: readable while callers wait.
  int fd() const { return waiting_fd_.get(); }
  // Those who wait, by member.
  std::vector<Caller> Take();
  // Refuses a caller for what the door does not look at; null: without a word.
  void Refuse(const Caller& caller, const Status* why) const;
  // Why somebody was refused last while it was open; empty: nobody was.
  std::string last_refusal() const;
  // All have been met: whoever calls from now on is refused.
  void Close();

  // Of the door.

  bool is_open() const;
  // What we say, but for the pair's transport.
  const Hello& ours() const { return ours_; }
  const TransportLayout& layout() const { return layout_; }
  // False: it is closed, or the member is none that calls us.
  bool Admit(Caller& caller);
  void NoteRefusal(const Status& why);

 private:
  const Hello ours_;
  const TransportLayout layout_;
  ExchangeRefusalCounts* const counts_;
  const Fd waiting_fd_;
  mutable Mutex mu_;
  bool is_open_ JANUS_GUARDED_BY(mu_) = true;
  std::map<int, Caller> waiting_ JANUS_GUARDED_BY(mu_);
  std::string last_refusal_ JANUS_GUARDED_BY(mu_);
};

// Where the peers of an instance find it, over epochs. A thread of its own hears whoever comes
// (callers.h), hands the callers of an epoch that is awaited over to it, and refuses all others:
//  - of an epoch that is over, or with another key than the epoch's, or from who is no member: told
//    why, and counted;
//  - of a member that is here already: closed, and counted;
//  - of a newer epoch than any that is known: closed. It is ours in a moment, as a rule, and the
//    peer dials again; so it is not counted either.
// Thread-safe, but for Listen.
class ExchangeDoor {
 public:
  // `counts` outlives the door and its epochs; null: nobody is counted.
  explicit ExchangeDoor(ExchangeRefusalCounts* counts = nullptr) : counts_(counts) {}
  ExchangeDoor(const ExchangeDoor&) = delete;
  ExchangeDoor& operator=(const ExchangeDoor&) = delete;

  // One that listens. Errors: those of Listen.
  static Result<std::unique_ptr<ExchangeDoor>> Create(const std::string& address,
                                                      ExchangeRefusalCounts* counts = nullptr);

  // Opens the door at `address`, and closes the one before if that was elsewhere. Not by two
  // threads at once. Errors: those of ExchangeListener::Create and Callers::Create, and
  // ResourceExhausted: no descriptor.
  Status Listen(const std::string& address);
  // Where to dial, with the port that was chosen. Not while Listen runs.
  const std::string& address() const { return bound_; }

  // Makes an epoch known, or finds it if it is known by this key and still open.
  // ResourceExhausted: no descriptor.
  Result<std::shared_ptr<EpochAtDoor>> Expect(const ExchangeIdentity& identity,
                                              const TransportLayout& layout);
  // The epoch is committed: it, and so that whatever is older is over, is known until another is.
  void Serve(std::shared_ptr<EpochAtDoor> epoch);

 private:
  void Run(Callers& callers, const std::stop_token& stop);
  void Judge(Caller caller);
  // Those that are known, oldest first.
  std::vector<std::shared_ptr<EpochAtDoor>> Known();
  void Count(ExchangeRefusal why) {
    if (counts_ != nullptr) counts_->Count(why);
  }

  ExchangeRefusalCounts* const counts_;
  Fd wake_;              // while thread_ runs
  std::string address_;  // as it was asked for
  std::string bound_;
  Mutex mu_;
  std::vector<std::weak_ptr<EpochAtDoor>> known_ JANUS_GUARDED_BY(mu_);
  std::shared_ptr<EpochAtDoor> served_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;  // first to go
};

}  // namespace janus::dataplane
