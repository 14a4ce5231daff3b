#include "tests/support/emulated_device.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/check.h"

namespace janus::kernels {
namespace {

constexpr size_t kAlignment = 256;
constexpr uintptr_t kPage = 4096;
constexpr int kNaN = 0xFF;

// Where Linux puts a program, its heap, its libraries and its stacks on x86-64.
constexpr uintptr_t kLowestHost = 0x5000'0000'0000;
constexpr uintptr_t kHighestHost = 0x8000'0000'0000;

// Far from where the host's memory lies, and the address sanitizer's, so that the two are told
// apart by address.
std::byte* Reserve(size_t bytes) {
  constexpr uintptr_t kFirst = 0x2000'0000'0000;
  constexpr uintptr_t kMost = 0x1'0000'0000;  // of a device
  static std::atomic<uintptr_t> devices{0};
  JANUS_CHECK(bytes <= kMost, bytes);
  void* const wanted = reinterpret_cast<void*>(kFirst + devices++ * kMost);
  void* const memory =
      mmap(wanted, bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  JANUS_CHECK(memory == wanted, wanted);
  return static_cast<std::byte*>(memory);
}

// Whether this process has something there: numbers seldom look like an address of which that is
// true.
bool IsInUse(uintptr_t address) {
  unsigned char is_resident = 0;
  return mincore(reinterpret_cast<void*>(address / kPage * kPage), 1, &is_resident) == 0 &&
         (is_resident & 1) != 0;
}

size_t Rounded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

EmulatedDevice::EmulatedDevice(size_t most_bytes)
    : most_bytes_(most_bytes), begin_(Reserve(most_bytes)), end_(begin_) {}

EmulatedDevice::~EmulatedDevice() {
  const MutexLock lock(mu_);
  JANUS_CHECK(taken_.empty(), taken_.size());
  munmap(begin_, most_bytes_);
}

Stream EmulatedDevice::stream() {
  return {.device = Device::kCuda, .native = static_cast<cuda::PlayedDevice*>(this)};
}

uint64_t EmulatedDevice::launches() const {
  const MutexLock lock(mu_);
  return launches_;
}

void EmulatedDevice::Open() {
  const size_t bytes = (static_cast<size_t>(end_ - begin_) + kPage - 1) / kPage * kPage;
  if (bytes > 0) JANUS_CHECK(mprotect(begin_, bytes, PROT_READ | PROT_WRITE) == 0, bytes);
}

void EmulatedDevice::Close() {
  const size_t bytes = (static_cast<size_t>(end_ - begin_) + kPage - 1) / kPage * kPage;
  if (bytes > 0) JANUS_CHECK(mprotect(begin_, bytes, PROT_NONE) == 0, bytes);
}

Result<std::byte*> EmulatedDevice::AllocateDevice(size_t bytes) {
  const size_t rounded = Rounded(bytes);
  const MutexLock lock(mu_);
  // The first gap that is large enough.
  std::byte* at = begin_;
  for (const auto& [data, size] : taken_) {
    if (static_cast<size_t>(data - at) >= rounded) break;
    at = data + Rounded(size);
  }
  if (rounded > most_bytes_ - static_cast<size_t>(at - begin_)) {
    return ResourceExhausted(std::to_string(bytes) + " bytes of the emulated device's memory");
  }
  taken_.emplace(at, bytes);
  if (at + rounded > end_) end_ = at + rounded;
  Open();
  std::memset(at, kNaN, rounded);
  Close();
  return at;
}

void EmulatedDevice::FreeDevice(std::byte* data, size_t) {
  const MutexLock lock(mu_);
  JANUS_CHECK(taken_.erase(data) == 1);
}

Result<std::byte*> EmulatedDevice::AllocatePinned(size_t bytes) {
  auto* const data = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)));
  std::memset(data, kNaN, bytes);
  return data;
}

// A copy that is under way still uses it.
void EmulatedDevice::FreePinned(std::byte* data, size_t) {
  Deliver();
  ::operator delete(data, std::align_val_t(kAlignment));
}

bool EmulatedDevice::Holds(const void* data, size_t bytes) const {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(data));
  const auto after = taken_.upper_bound(at);
  if (after == taken_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  const auto offset = static_cast<size_t>(at - begin);
  return offset <= size && bytes <= size - offset;
}

const void* EmulatedDevice::HostAddressIn(const void* data, size_t bytes) const {
  for (size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(data) + i, sizeof word);
    if (word >= kLowestHost && word < kHighestHost && IsInUse(word)) {
      return reinterpret_cast<const void*>(word);
    }
  }
  return nullptr;
}

Status EmulatedDevice::QueueIn(void* device, const void* host, size_t bytes) {
  const MutexLock lock(mu_);
  if (!Holds(device, bytes)) return Internal("a copy goes up beyond what was taken");
  if (HostAddressIn(host, bytes) != nullptr) {
    return Internal("an address of the host is copied up, among " + std::to_string(bytes) +
                    " bytes");
  }
  Open();
  std::memcpy(device, host, bytes);
  Close();
  return OkStatus();
}

Status EmulatedDevice::QueueOut(void* host, const void* device, size_t bytes) {
  const MutexLock lock(mu_);
  if (!Holds(device, bytes)) return Internal("a copy comes down from beyond what was taken");
  CopyDown copy{static_cast<std::byte*>(host), std::make_unique<std::byte[]>(bytes), bytes};
  Open();
  std::memcpy(copy.bytes.get(), device, bytes);
  Close();
  std::memset(host, kNaN, bytes);
  down_.push_back(std::move(copy));
  return OkStatus();
}

Status EmulatedDevice::CopyWithin(void* to, const void* from, size_t bytes) {
  const MutexLock lock(mu_);
  if (!Holds(to, bytes) || !Holds(from, bytes)) {
    return Internal("a copy within the device goes beyond what was taken");
  }
  Open();
  std::memcpy(to, from, bytes);
  Close();
  return OkStatus();
}

Status EmulatedDevice::WaitForStream() {
  if (is_broken_) return Internal("the emulated device is broken");
  Deliver();
  return OkStatus();
}

void EmulatedDevice::Deliver() {
  const MutexLock lock(mu_);
  for (const CopyDown& copy : down_) std::memcpy(copy.host, copy.bytes.get(), copy.size);
  down_.clear();
}

Status EmulatedDevice::WaitForEvent(Event&) {
  return OkStatus();
}

// The mutex is held from here until EndLaunch, on one thread.
Status EmulatedDevice::BeginLaunch(std::string_view operation, const void* kernel,
                                   size_t bytes) JANUS_NO_THREAD_SAFETY_ANALYSIS {
  mu_.Lock();
  if (HostAddressIn(kernel, bytes) != nullptr) {
    mu_.Unlock();
    return Internal(std::string(operation) + ": an argument is an address of the host");
  }
  ++launches_;
  ++cuda::host_order_seed;
  Open();
  return OkStatus();
}

void EmulatedDevice::EndLaunch() JANUS_NO_THREAD_SAFETY_ANALYSIS {
  Close();
  mu_.Unlock();
}

}  // namespace janus::kernels
