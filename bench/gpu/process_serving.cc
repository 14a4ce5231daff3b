#include "bench/gpu/process_serving.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/fd.h"
#include "tests/support/temp_folder.h"

namespace janus::bench {
namespace {

using dataplane::LoopbackCluster;
using dataplane::PeerId;

// Messages between the parent and a child: a count, then that many words.
using Words = std::vector<uint64_t>;
constexpr uint64_t kMostWords = uint64_t{1} << 24;

bool WriteAll(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = send(fd, at, bytes, MSG_NOSIGNAL);
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, 0);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool Tell(int fd, const Words& words) {
  const uint64_t count = words.size();
  return WriteAll(fd, &count, sizeof(count)) &&
         WriteAll(fd, words.data(), words.size() * sizeof(words[0]));
}

// nullopt: the other side has ended.
std::optional<Words> Hear(int fd) {
  uint64_t count = 0;
  if (!ReadAll(fd, &count, sizeof(count)) || count > kMostWords) return std::nullopt;
  Words words(count);
  if (!ReadAll(fd, words.data(), words.size() * sizeof(words[0]))) return std::nullopt;
  return words;
}

// The answers and times of an attention instance, for its requests in order.
Words ToWords(const Served& served) {
  Words words;
  for (const double value : {served.seconds, served.decode_rate, served.tpot, served.step,
                             served.wait_share, served.host_share}) {
    words.push_back(std::bit_cast<uint64_t>(value));
  }
  for (size_t i = 0; i < served.tokens.size(); ++i) {
    words.push_back(served.tokens[i].size());
    for (const int32_t token : served.tokens[i]) words.push_back(static_cast<uint64_t>(token));
    words.push_back(served.logit_bits[i].size());
    words.insert(words.end(), served.logit_bits[i].begin(), served.logit_bits[i].end());
  }
  return words;
}

Served FromWords(const Words& words) {
  Served served;
  size_t at = 0;
  for (double* const value : {&served.seconds, &served.decode_rate, &served.tpot, &served.step,
                              &served.wait_share, &served.host_share}) {
    *value = std::bit_cast<double>(words[at++]);
  }
  while (at < words.size()) {
    std::vector<int32_t>& tokens = served.tokens.emplace_back(words[at++]);
    for (int32_t& token : tokens) token = static_cast<int32_t>(words[at++]);
    std::vector<uint64_t>& bits = served.logit_bits.emplace_back(words[at++]);
    for (uint64_t& word : bits) word = words[at++];
  }
  return served;
}

// Runs a child to its end. The parent says when to begin a wave, to stop and to exit. No child
// exits while others are in a step: they would count it as lost.
int RunMember(const ProcessService& service, const ServingTopology& topology,
              const ServingLoad& load, PeerId self, const std::vector<std::string>& listeners,
              int parent) {
  const dataplane::HeldModel held = service.make_model();
  LoopbackCluster::Options options = service.options;
  SetUp(held.model, topology, load, options);
  options.only = self;
  options.listeners = listeners;
  const std::vector<dataplane::ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held.model, held.attention, dataplane::PointersTo(shares));
  if (const std::string why = cluster.InPlaceRefusal(); topology.in_place && !why.empty()) {
    std::fprintf(stderr, "%s: rows do not go in place: %s\n", ToString(self).c_str(), why.c_str());
    return kNotInPlace;
  }
  const auto awaits = [&] { return Tell(parent, {}) && Hear(parent).has_value(); };
  if (self.role == Role::kAttention) {
    LoadClient client(cluster, held.model, load, topology.m, self.rank.value);
    Served served;
    if (!awaits()) return 1;
    client.Hashed(served);
    if (!awaits()) return 1;
    if (const Status timed = client.Timed(served); !timed.ok()) {
      std::fprintf(stderr, "%s: %s\n", ToString(self).c_str(), timed.ToString().c_str());
      return kOtherTokens;
    }
    if (!Tell(parent, ToWords(served)) || !Hear(parent)) return 1;
  } else if (!awaits()) {
    return 1;
  }
  const Status stopped = cluster.Stop();
  if (!stopped.ok()) {
    std::fprintf(stderr, "%s: %s\n", ToString(self).c_str(), stopped.ToString().c_str());
    return 1;
  }
  return awaits() ? 0 : 1;
}

// The processes by member. They end with this object.
class Members {
 public:
  ~Members() {
    for (const Member& member : members_) {
      if (member.pid > 0) kill(member.pid, SIGKILL);
    }
    for (Member& member : members_) Await(member);
  }

  template <class Run>
  Status Start(PeerId id, Run run) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return ResourceExhausted("no socket for a process");
    }
    Member member{id, Fd(ends[0]), 0};
    const Fd child(ends[1]);
    member.pid = fork();
    if (member.pid < 0) return ResourceExhausted("no process can be made");
    if (member.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Closes the other sockets, so that each waiting reader sees the end of its peer.
      for (const Member& other : members_) close(other.socket.get());
      close(ends[0]);
      const int status = run(child.get());
      std::fflush(nullptr);
      _exit(status);
    }
    members_.push_back(std::move(member));
    return OkStatus();
  }

  size_t size() const { return members_.size(); }
  Result<Words> HearOf(size_t at) {
    std::optional<Words> words = Hear(members_[at].socket.get());
    if (words) return *std::move(words);
    return Ended(members_[at]);
  }
  Status TellTo(size_t at) {
    return Tell(members_[at].socket.get(), {}) ? OkStatus() : Ended(members_[at]);
  }
  // Call it only for a member that has nothing more to do.
  Status End(size_t at) {
    Member& member = members_[at];
    const Status ended = Ended(member);
    return member.status == 0 ? OkStatus() : ended;
  }

 private:
  struct Member {
    PeerId id;
    Fd socket;
    pid_t pid = 0;  // 0: it has ended
    int status = 0;
  };

  static void Await(Member& member) {
    if (member.pid > 0 && waitpid(member.pid, &member.status, 0) == member.pid) member.pid = 0;
  }
  static Status Ended(Member& member) {
    Await(member);
    const int status = member.status;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNotInPlace) {
      return FailedPrecondition("rows of " + ToString(member.id) + " do not go in place");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kOtherTokens) {
      return DataLoss("a request of " + ToString(member.id) +
                      " has other tokens when it comes again");
    }
    return Unavailable("the process of " + ToString(member.id) + " has ended " +
                       (WIFSIGNALED(status)
                            ? "by signal " + std::to_string(WTERMSIG(status))
                            : "with status " + std::to_string(WEXITSTATUS(status))));
  }

  std::vector<Member> members_;
};

}  // namespace

Result<Served> ServeByProcesses(const ProcessService& service, const ServingTopology& topology,
                                const ServingLoad& load) {
  const auto m = static_cast<size_t>(topology.m);
  const TempFolder folder;
  std::vector<PeerId> ids;
  std::vector<std::string> listeners;
  for (int a = 0; a < topology.m; ++a) ids.push_back({Role::kAttention, Rank{a}});
  for (size_t e = 0; e < topology.slots.size(); ++e) {
    ids.push_back({Role::kExperts, Rank{static_cast<int32_t>(e)}});
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    listeners.push_back("unix:" + folder.path() + "/" + std::to_string(i));
  }
  Members members;
  for (const PeerId id : ids) {
    JANUS_RETURN_IF_ERROR(members.Start(
        id, [&](int parent) { return RunMember(service, topology, load, id, listeners, parent); }));
  }
  // Wait until all are connected.
  for (size_t i = 0; i < members.size(); ++i) JANUS_RETURN_IF_ERROR(members.HearOf(i).status());
  for (size_t a = 0; a < m; ++a) JANUS_RETURN_IF_ERROR(members.TellTo(a));
  for (size_t a = 0; a < m; ++a) JANUS_RETURN_IF_ERROR(members.HearOf(a).status());
  for (size_t a = 0; a < m; ++a) JANUS_RETURN_IF_ERROR(members.TellTo(a));
  Served served;
  served.tokens.resize(static_cast<size_t>(load.batch));
  served.logit_bits.resize(static_cast<size_t>(load.batch));
  for (size_t a = 0; a < m; ++a) {
    JANUS_ASSIGN_OR_RETURN(const Words words, members.HearOf(a));
    Served of = FromWords(words);
    for (size_t i = 0; i < of.tokens.size(); ++i) {
      served.tokens[i * m + a] = std::move(of.tokens[i]);
      served.logit_bits[i * m + a] = std::move(of.logit_bits[i]);
    }
    served.seconds = std::max(served.seconds, of.seconds);
    served.decode_rate += of.decode_rate;
    served.tpot += of.tpot / static_cast<double>(m);
    if (a == 0) {
      served.step = of.step;
      served.wait_share = of.wait_share;
      served.host_share = of.host_share;
    }
  }
  for (size_t i = 0; i < members.size(); ++i) JANUS_RETURN_IF_ERROR(members.TellTo(i));
  for (size_t i = 0; i < members.size(); ++i) JANUS_RETURN_IF_ERROR(members.HearOf(i).status());
  for (size_t i = 0; i < members.size(); ++i) JANUS_RETURN_IF_ERROR(members.TellTo(i));
  for (size_t i = 0; i < members.size(); ++i) JANUS_RETURN_IF_ERROR(members.End(i));
  return served;
}

}  // namespace janus::bench
