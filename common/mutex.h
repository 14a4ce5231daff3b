#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Thread-safety annotations that clang checks (-Wthread-safety); nothing elsewhere.
#if defined(__clang__)
#define JANUS_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define JANUS_THREAD_ANNOTATION(x)
#endif
#define JANUS_CAPABILITY(x) JANUS_THREAD_ANNOTATION(capability(x))
#define JANUS_SCOPED_CAPABILITY JANUS_THREAD_ANNOTATION(scoped_lockable)
#define JANUS_GUARDED_BY(x) JANUS_THREAD_ANNOTATION(guarded_by(x))
#define JANUS_REQUIRES(...) JANUS_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define JANUS_ACQUIRE(...) JANUS_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define JANUS_RELEASE(...) JANUS_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define JANUS_EXCLUDES(...) JANUS_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define JANUS_NO_THREAD_SAFETY_ANALYSIS JANUS_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace janus {

// std::mutex with annotations, which libstdc++'s mutex lacks.
class JANUS_CAPABILITY("mutex") Mutex {
 public:
  void Lock() JANUS_ACQUIRE() { mu_.lock(); }
  void Unlock() JANUS_RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class JANUS_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) JANUS_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() JANUS_RELEASE() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// Wakes may be spurious: wait in a loop on the condition itself.
class CondVar {
 public:
  void Wait(Mutex& mu) JANUS_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False when the deadline passed.
  bool WaitUntil(Mutex& mu, std::chrono::steady_clock::time_point deadline) JANUS_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    const bool woken = cv_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace janus
