#pragma once

// Shared by benchmarks with limited links: processes in separate network namespaces, which have no
// names and disappear with their processes. Needs root.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/check.h"
#include "common/fd.h"

namespace janus::bench {

inline void Must(const std::string& command) {
  if (std::system(command.c_str()) == 0) return;
  std::fprintf(stderr, "this failed: %s\n", command.c_str());
  std::exit(1);
}

// Why this machine cannot have such namespaces; empty: it can, and this process is in one.
inline std::string EnterFreshNamespace();

// UCX finds its devices in /sys, which shows the namespace in which it was mounted.
inline bool MountOwnSys() {
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
}

// A process in a separate network and process namespace, until this object is destroyed. It is the
// first process of its process namespace: all that is started inside ends with it, and it ends with
// this process.
class OtherNamespace {
 public:
  OtherNamespace() {
    int ready[2];
    JANUS_CHECK(pipe(ready) == 0);
    // Like fork, which has no flags.
    constexpr unsigned long kFlags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | SIGCHLD;
    pid_ = static_cast<pid_t>(syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, nullptr));
    JANUS_CHECK(pid_ >= 0, std::strerror(errno));
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char mounted = MountOwnSys() ? 1 : 0;
      (void)!write(ready[1], &mounted, 1);
      for (;;) pause();
    }
    close(ready[1]);
    char mounted = 0;
    (void)!read(ready[0], &mounted, 1);
    close(ready[0]);
    JANUS_CHECK(mounted == 1, "no sysfs of its own");
  }
  ~OtherNamespace() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  OtherNamespace(const OtherNamespace&) = delete;
  OtherNamespace& operator=(const OtherNamespace&) = delete;

  std::string pid() const { return std::to_string(pid_); }
  std::string inside() const { return "nsenter -t " + pid() + " -n -m -p "; }
  // Moves the calling process into the namespace.
  void Enter() const {
    const Fd net(open(("/proc/" + pid() + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
    const Fd files(open(("/proc/" + pid() + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
    JANUS_CHECK(net && setns(net.get(), CLONE_NEWNET) == 0);
    JANUS_CHECK(files && setns(files.get(), CLONE_NEWNS) == 0);
  }

 private:
  pid_t pid_ = -1;
};

// The kernel reports a link as up with a delay. Until then UCX ignores it.
inline void AwaitLink(const std::string& prefix, const std::string& device) {
  Must(prefix + "timeout 10 sh -c 'until grep -qx up /sys/class/net/" + device +
       "/operstate; do sleep 0.05; done'");
}

inline std::string EnterFreshNamespace() {
  if (geteuid() != 0) return "network namespaces need root";
  for (const char* program : {"ip", "tc", "nsenter"}) {
    if (std::system((std::string("command -v ") + program + " >/dev/null").c_str()) == 0) continue;
    return "no '" + std::string(program) + "' (Debian: iproute2, util-linux)";
  }
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 || !MountOwnSys()) {
    return std::string("no network namespace can be made here: ") + std::strerror(errno);
  }
  return "";
}

}  // namespace janus::bench
