#include "dataplane/worker/gpu_process/gpu_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <list>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "common/mutex.h"
#include "common/unix_address.h"

namespace janus::dataplane {
namespace {

// The requests of an instance: one for each byte from its worker, and one when the whole process is
// to end, unless the worker has asked before. A worker that has gone leaves no time.
class HostedStops final : public StopRequests {
 public:
  HostedStops(int connection, int ending) : connection_(connection), ending_(ending) {}

  bool Await(MonotonicTime deadline) override {
    constexpr std::chrono::milliseconds kLongest{60'000};  // of one poll
    while (!has_gone_) {
      const auto left = std::max(MonotonicTime::duration::zero(), deadline - MonotonicClock::now());
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
          std::min<MonotonicTime::duration>(left, kLongest));
      std::array<pollfd, 2> fds = {
          {{connection_, POLLIN, 0}, {was_asked_ ? -1 : ending_, POLLIN, 0}}};
      if (poll(fds.data(), fds.size(), static_cast<int>(wait.count())) > 0) {
        was_asked_ = true;
        if (fds[0].revents == 0) return true;
        char request = 0;
        has_gone_ = recv(connection_, &request, 1, 0) <= 0;
        return true;
      }
      if (wait >= left) return false;
    }
    return true;
  }
  bool leaves_no_time() const override { return has_gone_; }

 private:
  const int connection_;
  const int ending_;
  bool was_asked_ = false;
  bool has_gone_ = false;
};

Result<Fd> Listen(const std::string& path) {
  const std::optional<sockaddr_un> address = UnixAddressOf(path);
  if (!address) {
    return InvalidArgument(path + ": the path of a socket has 1 to " +
                           std::to_string(kMostUnixPathBytes) + " bytes");
  }
  unlink(path.c_str());  // of a process that was killed
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  constexpr int kBacklog = 64;
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return Unavailable(path + ": cannot listen: " + std::strerror(errno));
  }
  return fd;
}

void Raise(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof(one));
}

class Host {
 public:
  Host(const GpuProcessOptions& options, StopSignals& stop, const Logger& log)
      : options_(options), stop_(stop), log_(log) {}

  Status Serve() {
    if (!ending_ || !changed_) return ResourceExhausted("no file descriptors for events");
    JANUS_ASSIGN_OR_RETURN(const Fd listener, Listen(options_.socket));
    options_.on_ready();
    bool is_ending = false;
    while (!is_ending || !hosted_.empty()) {
      const bool takes =
          !is_ending && hosted_.size() < static_cast<size_t>(options_.most_instances);
      std::array<pollfd, 3> fds = {{{takes ? listener.get() : -1, POLLIN, 0},
                                    {changed_.get(), POLLIN, 0},
                                    {stop_.fd(), POLLIN, 0}}};
      poll(fds.data(), fds.size(), -1);
      if ((fds[0].revents & POLLIN) != 0) Take(listener);
      JoinEnded();
      if (stop_.Next() && !std::exchange(is_ending, true)) Raise(ending_);
    }
    unlink(options_.socket.c_str());
    return OkStatus();
  }

 private:
  struct Hosted {
    Fd connection;
    bool has_ended = false;  // guarded by mu_
    std::jthread thread;     // last: joined first
  };

  void Take(const Fd& listener) {
    Fd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;
    Hosted& hosted = hosted_.emplace_back();
    hosted.connection = std::move(connection);
    hosted.thread = std::jthread([this, &hosted] { RunOne(hosted); });
  }

  void RunOne(Hosted& hosted) {
    const int code = Run(hosted.connection.get());
    const std::string text = std::to_string(code);
    send(hosted.connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
    const MutexLock lock(mu_);
    hosted.has_ended = true;
    Raise(changed_);
  }

  int Run(int connection) JANUS_EXCLUDES(mu_) {
    Result<InstanceOrder> order = ReceiveOrder(connection);
    if (!order.ok()) {
      log_.Error("a worker is refused", {{"error", order.status().message()}});
      return 1;
    }
    AwaitAddress(order->listen);
    HostedStops stops(connection, ending_.get());
    const int code = options_.run(*order, stops);
    const MutexLock lock(mu_);
    taken_.erase(order->listen);
    freed_.NotifyAll();
    return code;
  }

  // A worker that was killed is started again before its last instance has ended.
  void AwaitAddress(const std::string& listen) JANUS_EXCLUDES(mu_) {
    const MonotonicTime deadline =
        MonotonicClock::now() +
        std::chrono::duration_cast<MonotonicTime::duration>(options_.ends_within);
    const MutexLock lock(mu_);
    bool is_late = false;
    while (!taken_.insert(listen).second) {
      if (!is_late && MonotonicClock::now() >= deadline) {
        is_late = true;
        log_.Error("an instance does not end, and another waits for its address",
                   {{"listen", listen}, {"seconds", options_.ends_within.count()}});
        options_.on_stuck();
      }
      if (is_late) {
        freed_.Wait(mu_);
      } else {
        freed_.WaitUntil(mu_, deadline);
      }
    }
  }

  void JoinEnded() {
    uint64_t ignored;
    [[maybe_unused]] const ssize_t drained = read(changed_.get(), &ignored, sizeof(ignored));
    std::list<Hosted> ended;
    {
      const MutexLock lock(mu_);
      for (auto it = hosted_.begin(); it != hosted_.end();) {
        const auto one = it++;
        if (one->has_ended) ended.splice(ended.end(), hosted_, one);
      }
    }
  }

  const GpuProcessOptions& options_;
  StopSignals& stop_;
  const Logger log_;
  const Fd ending_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};   // once raised, it stays
  const Fd changed_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // an instance has ended
  Mutex mu_;
  CondVar freed_;
  std::set<std::string> taken_ JANUS_GUARDED_BY(mu_);  // addresses of the instances
  std::list<Hosted> hosted_;  // the list itself belongs to the thread of Serve
};

}  // namespace

Status RunGpuProcess(const GpuProcessOptions& options, StopSignals& stop, const Logger& log) {
  return Host(options, stop, log).Serve();
}

}  // namespace janus::dataplane
