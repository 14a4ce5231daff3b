// The process of a GPU and the workers that have their instances run there. Instances are functions
// of the test; clients are threads with a socket. No test waits for a fixed time.

#include "dataplane/worker/gpu_process/gpu_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "common/mutex.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

using Arguments = std::vector<std::string>;

class GpuProcessTest : public testing::Test {
 protected:
  // Serves while `client` runs on another thread; then a stop signal comes.
  void Serve(const std::function<void()>& client) {
    options_.socket = folder_.path() + "/gpu";
    std::jthread clients;
    options_.on_ready = [&] {
      clients = std::jthread([&] {
        client();
        StopSignals::Request();
      });
    };
    const Status served = RunGpuProcess(options_, stop_, Logger(2, LogLevel::kError));
    EXPECT_TRUE(served.ok()) << served.ToString();
  }

  Fd Connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options_.socket.data(), options_.socket.size());
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  Fd Order(const std::string& listen, const Arguments& arguments = {"janus-worker"}) const {
    Fd fd = Connect();
    const Status sent = SendOrder(fd.get(), listen, arguments);
    EXPECT_TRUE(sent.ok()) << sent.ToString();
    return fd;
  }
  // The exit code; empty: the process has ended.
  static std::string AwaitCode(const Fd& connection) {
    std::array<char, 16> text{};
    const ssize_t bytes = recv(connection.get(), text.data(), text.size(), 0);
    return std::string(text.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  }
  static void Ask(const Fd& connection) { send(connection.get(), "T", 1, MSG_NOSIGNAL); }

  TempFolder folder_;
  StopSignals stop_;  // before any thread
  GpuProcessOptions options_;
};

TEST_F(GpuProcessTest, RunsWhatAWorkerOrdersAndReturnsItsCode) {
  options_.run = [](const InstanceOrder& order, StopRequests&) {
    EXPECT_EQ(order.listen, "unix:/a");
    EXPECT_EQ(order.arguments, (Arguments{"janus-worker", "--role=experts", ""}));
    EXPECT_TRUE(order.out && order.err);
    return 7;
  };
  Serve([this] {
    const Fd worker = Order("unix:/a", {"janus-worker", "--role=experts", ""});
    EXPECT_EQ(AwaitCode(worker), "7");
  });
}

TEST_F(GpuProcessTest, ASignalToTheWorkerIsARequestAndItsEndLeavesNoTime) {
  std::atomic<bool> was_gone = false, runs = false;
  options_.run = [&](const InstanceOrder& order, StopRequests& stop) {
    EXPECT_TRUE(stop.Await(MonotonicTime::max()));
    EXPECT_FALSE(stop.leaves_no_time());
    if (order.listen == "asked") {
      EXPECT_FALSE(stop.Await(MonotonicClock::now())) << "there was one request";
      return 0;
    }
    runs = true;
    EXPECT_TRUE(stop.Await(MonotonicTime::max()));
    was_gone = stop.leaves_no_time();
    return 0;
  };
  Serve([&] {
    const Fd asked = Order("asked");
    Ask(asked);
    EXPECT_EQ(AwaitCode(asked), "0");
    const Fd killed = Order("killed");
    Ask(killed);
    while (!runs) std::this_thread::yield();
  });  // closes `killed`
  EXPECT_TRUE(was_gone);
}

TEST_F(GpuProcessTest, AnInstanceStartsWhenTheLastAtItsAddressHasEnded) {
  std::atomic<int> running = 0, most = 0;
  options_.run = [&](const InstanceOrder&, StopRequests& stop) {
    most = std::max<int>(most, ++running);
    EXPECT_TRUE(stop.Await(MonotonicTime::max()));
    --running;
    return 0;
  };
  Serve([this] {
    Fd first = Order("a");
    first.Reset();  // killed
    const Fd second = Order("a");
    Ask(second);
    EXPECT_EQ(AwaitCode(second), "0");
  });
  EXPECT_EQ(most, 1);
}

TEST_F(GpuProcessTest, AnInstanceThatDoesNotEndIsTheEndOfTheProcess) {
  Mutex mu;
  CondVar changed;
  bool is_stuck = false;
  options_.ends_within = Seconds(0.01);
  options_.on_stuck = [&] {  // the program ends here
    const MutexLock lock(mu);
    is_stuck = true;
    changed.NotifyAll();
  };
  std::atomic<int> runs = 0;
  options_.run = [&](const InstanceOrder&, StopRequests&) {
    if (runs++ > 0) return 0;
    const MutexLock lock(mu);
    while (!is_stuck) changed.Wait(mu);
    return 0;
  };
  Serve([&] {
    const Fd first = Order("a");
    while (runs == 0) std::this_thread::yield();
    const Fd second = Order("a");
    EXPECT_EQ(AwaitCode(second), "0");
  });
  EXPECT_TRUE(is_stuck);
}

TEST_F(GpuProcessTest, AStopSignalAsksEveryInstanceOnceAndWaitsForAll) {
  std::atomic<int> began = 0, ended = 0;
  options_.run = [&](const InstanceOrder&, StopRequests& stop) {
    ++began;
    EXPECT_TRUE(stop.Await(MonotonicTime::max()));
    EXPECT_FALSE(stop.leaves_no_time());
    EXPECT_FALSE(stop.Await(MonotonicClock::now()));
    ++ended;
    return 0;
  };
  std::vector<Fd> workers;  // outlive the clients' thread
  Serve([&] {
    for (const char* const name : {"a", "b"}) workers.push_back(Order(name));
    while (began < 2) std::this_thread::yield();
  });
  EXPECT_EQ(ended, 2);
  for (const Fd& worker : workers) EXPECT_EQ(AwaitCode(worker), "0");
}

TEST_F(GpuProcessTest, WhatIsNoOrderIsRefused) {
  options_.run = [](const InstanceOrder&, StopRequests&) {
    ADD_FAILURE();
    return 0;
  };
  Serve([this] {
    const Fd without_descriptors = Connect();
    send(without_descriptors.get(), "a\0b", 4, 0);
    EXPECT_EQ(AwaitCode(without_descriptors), "1");
    const Fd gone = Connect();
  });
}

TEST_F(GpuProcessTest, TellsWhyItCannotListen) {
  options_.socket = folder_.path() + "/no-such-folder/gpu";
  const Status served = RunGpuProcess(options_, stop_, Logger(2, LogLevel::kError));
  EXPECT_EQ(served.code(), StatusCode::kUnavailable) << served.ToString();
}

TEST(SendOrder, RefusesWhatItCannotSend) {
  EXPECT_EQ(SendOrder(-1, "a", {std::string("x\0y", 3)}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SendOrder(-1, "a", {std::string(70'000, 'x')}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SendOrder(-1, "a", {"x"}).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace janus::dataplane
