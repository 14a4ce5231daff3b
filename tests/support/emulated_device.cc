#include "tests/support/emulated_device.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/check.h"

namespace janus::kernels {
namespace {

constexpr size_t kAlignment = 256;
constexpr uintptr_t kPage = 4096;
// Used memory is opened and closed in pages; large pages keep that cheap.
constexpr size_t kLargePage = size_t{2} << 20;
constexpr int kNaN = 0xFF;
constexpr size_t kAdmitted = 64;  // granularity of AdmitNetwork

// Where Linux puts a program, its heap, its libraries and its stacks on x86-64.
constexpr uintptr_t kLowestHost = 0x5000'0000'0000;
constexpr uintptr_t kHighestHost = 0x8000'0000'0000;

// Far from the host's memory and the address sanitizer's, so that addresses tell which memory they
// belong to.
std::byte* Reserve(size_t bytes) {
  constexpr uintptr_t kFirst = 0x2000'0000'0000;
  constexpr uintptr_t kMost = 0x1'0000'0000;  // per device
  static std::atomic<uintptr_t> devices{0};
  JANUS_CHECK(bytes <= kMost, bytes);
  void* const wanted = reinterpret_cast<void*>(kFirst + devices++ * kMost);
  void* const memory =
      mmap(wanted, bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  JANUS_CHECK(memory == wanted, wanted);
  madvise(memory, bytes, MADV_HUGEPAGE);  // slower if the kernel has none
  return static_cast<std::byte*>(memory);
}

// Whether this process uses memory at the address. For numbers that are no addresses this is rarely
// true.
bool IsInUse(uintptr_t address) {
  unsigned char is_resident = 0;
  return mincore(reinterpret_cast<void*>(address / kPage * kPage), 1, &is_resident) == 0 &&
         (is_resident & 1) != 0;
}

size_t Rounded(size_t bytes, size_t to = kAlignment) {
  return (bytes + to - 1) / to * to;
}

// Of a recorded event: the number of its step, or how many loads must have run. Guarded by the
// device's mutex. A timed event also has the time when that was reached.
struct EmulatedEvent final : Event {
  explicit EmulatedEvent(bool is_timed) : has_moments(is_timed) {}

  const bool has_moments;
  uint64_t step = 0;
  uint64_t loads = 0;
  std::shared_ptr<MonotonicTime> moment;  // of the last record; an earlier one may be pending
};

EmulatedEvent& Ours(Event& event) {
  return static_cast<EmulatedEvent&>(event);
}

// What a recording stream records into, and the resulting graph.
class EmulatedGraph final : public Graph, public cuda::PlayedDevice {
 public:
  Status BeginLaunch(std::string_view, const void*, size_t) override {
    return Internal("a launch of a graph that is being recorded");
  }
  void EndLaunch() override {}
  bool records() const override { return true; }
  void Keep(Launch launch) override { launches_->push_back(std::move(launch)); }

  // They outlive the graph while they run.
  std::shared_ptr<const std::vector<Launch>> launches() const { return launches_; }

 private:
  const std::shared_ptr<std::vector<Launch>> launches_ = std::make_shared<std::vector<Launch>>();
};

// Ranges are keyed by their begin.
template <class Ranges>
bool LiesWithin(const Ranges& ranges, const std::byte* at, size_t bytes) {
  return std::ranges::any_of(ranges, [&](const auto& range) {
    const auto& [begin, size] = range;
    return at >= begin && at + bytes <= begin + size;
  });
}

void EraseRange(std::multimap<const std::byte*, size_t>& ranges, const std::byte* begin,
                size_t bytes) {
  auto [at, end] = ranges.equal_range(begin);
  while (at != end && at->second != bytes) ++at;
  JANUS_CHECK(at != end, bytes);
  ranges.erase(at);
}

}  // namespace

EmulatedDevice::EmulatedDevice(size_t most_bytes)
    : most_bytes_(most_bytes), begin_(Reserve(most_bytes)), end_(begin_) {}

EmulatedDevice::~EmulatedDevice() {
  const WaitWatch::Wait watched = Watched("the end of what was queued");
  (void)WaitForSteps();
  const MutexLock lock(mu_);
  RunLoads(loads_run_ + loads_.size());
  JANUS_CHECK(taken_.empty(), taken_.size());
  munmap(begin_, most_bytes_);
}

Stream EmulatedDevice::stream() {
  return {.device = Device::kCuda, .native = static_cast<cuda::PlayedDevice*>(this)};
}

Stream EmulatedDevice::launching() {
  return {.device = Device::kCuda, .native = static_cast<cuda::PlayedDevice*>(&launcher_)};
}

void EmulatedDevice::RunBehind(uint64_t seed) {
  JANUS_CHECK(stream_ == nullptr && steps_at_once_ == 0);
  stream_ = std::make_unique<EmulatedStream>(seed);
}

void EmulatedDevice::Break() {
  is_broken_ = true;
  if (stream_ != nullptr) stream_->Abandon(Internal("the emulated device is broken"));
}

Result<uint64_t> EmulatedDevice::Queue(EmulatedStream::Step step) {
  if (stream_ != nullptr) return stream_->Queue(std::move(step));
  const uint64_t number = ++steps_at_once_;
  JANUS_RETURN_IF_ERROR(step(number));
  return number;
}

Status EmulatedDevice::WaitForSteps() {
  return stream_ == nullptr ? OkStatus() : stream_->Await(stream_->queued());
}

uint64_t EmulatedDevice::steps_queued() const {
  return stream_ == nullptr ? steps_at_once_.load() : stream_->queued();
}

uint64_t EmulatedDevice::steps_run() const {
  return stream_ == nullptr ? steps_at_once_.load() : stream_->run();
}

// The next wait reports a refusal.
void EmulatedDevice::Keep(Launch launch) {
  const Result<uint64_t> queued =
      stream_->Queue([this, launch = std::move(launch)](uint64_t) { return launch(launching()); });
  (void)queued;
}

Result<DeviceMemory> EmulatedDevice::memory() {
  const MutexLock lock(mu_);
  uint64_t held = 0;
  for (const auto& [data, taken] : taken_) held += RoomOf(taken);
  return DeviceMemory{most_bytes_, most_bytes_ - held, held};
}

uint64_t EmulatedDevice::launches() const {
  const MutexLock lock(mu_);
  return launches_;
}

void EmulatedDevice::Open() {
  Protect(PROT_READ | PROT_WRITE);
}

void EmulatedDevice::Close() {
  Protect(PROT_NONE);
}

void EmulatedDevice::Protect(int protection) {
  const auto used = static_cast<size_t>(end_ - begin_);
  const size_t bytes = std::min(most_bytes_, (used + kLargePage - 1) / kLargePage * kLargePage);
  if (bytes > 0) JANUS_CHECK(mprotect(begin_, bytes, protection) == 0, bytes);
}

size_t EmulatedDevice::RoomOf(const Taken& taken) {
  return Rounded(taken.size, taken.is_shared ? kPage : kAlignment);
}

// Returns the first gap that is large enough.
std::byte* EmulatedDevice::FindGap(size_t bytes, size_t alignment) const {
  size_t at = 0;
  for (const auto& [data, taken] : taken_) {
    const auto begin = static_cast<size_t>(data - begin_);
    if (begin >= at && begin - at >= bytes) break;
    at = Rounded(begin + RoomOf(taken), alignment);
  }
  return at <= most_bytes_ && bytes <= most_bytes_ - at ? begin_ + at : nullptr;
}

Result<std::byte*> EmulatedDevice::Place(size_t bytes, bool is_loaded) {
  const size_t rounded = Rounded(bytes);
  const auto has_gap = [&] {
    const MutexLock lock(mu_);
    return FindGap(rounded, kAlignment) != nullptr;
  };
  // Queued steps or loads may free memory.
  const bool is_short = !has_gap();
  if (is_short) (void)WaitForSteps();
  const MutexLock lock(mu_);
  if (is_short) RunLoads(loads_run_ + loads_.size());
  std::byte* const at = FindGap(rounded, kAlignment);
  if (at == nullptr) {
    return ResourceExhausted(std::to_string(bytes) + " bytes of the emulated device's memory");
  }
  taken_.emplace(at, Taken{bytes, is_loaded});
  if (at + rounded > end_) end_ = at + rounded;
  Open();
  std::memset(at, kNaN, rounded);
  Close();
  return at;
}

Result<std::byte*> EmulatedDevice::AllocateDeviceMemory(size_t bytes) {
  return Place(bytes, false);
}

// Callers may queue no new work on it, but queued work still uses it.
void EmulatedDevice::FreeDevice(std::byte* data, size_t) {
  {
    const MutexLock lock(mu_);
    const auto taken = taken_.find(data);
    JANUS_CHECK(taken != taken_.end() && !taken->second.is_loaded && !taken->second.is_given_back);
    taken->second.is_given_back = true;
  }
  const auto end = [this, data] {
    const MutexLock lock(mu_);
    taken_.erase(data);
  };
  if (stream_ == nullptr) return end();
  stream_->QueueAlways(end);
}

Result<std::byte*> EmulatedDevice::AllocateLoadMemory(size_t bytes) {
  return Place(bytes, true);
}

void EmulatedDevice::FreeLoaded(std::byte* data, size_t) {
  const MutexLock lock(mu_);
  const auto taken = taken_.find(data);
  JANUS_CHECK(taken != taken_.end() && taken->second.is_loaded && !taken->second.is_given_back);
  taken->second.is_given_back = true;
  loads_.push_back({.device = data, .size = taken->second.size, .after_step = steps_queued()});
}

Result<std::byte*> EmulatedDevice::AllocatePinnedMemory(size_t bytes) {
  if (!pins_memory_) return ResourceExhausted(std::to_string(bytes) + " bytes of pinned memory");
  auto* const data = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)));
  std::memset(data, kNaN, bytes);
  const MutexLock lock(mu_);
  pinned_.emplace(data, bytes);
  return data;
}

// A pending copy still uses it.
void EmulatedDevice::FreePinned(std::byte* data, size_t) {
  {
    const WaitWatch::Wait watched = Watched(kGivesBack);
    (void)WaitForSteps();
  }
  {
    const MutexLock lock(mu_);
    Deliver(UINT64_MAX);
    RunLoads(loads_run_ + loads_.size());
    pinned_.erase(data);
  }
  ::operator delete(data, std::align_val_t(kAlignment));
}

std::byte* EmulatedDevice::Place(const Fd& fd, size_t bytes) {
  const size_t room = Rounded(bytes, kPage);
  std::byte* const at = FindGap(room, kPage);
  if (at == nullptr) return nullptr;
  if (mmap(at, room, PROT_NONE, MAP_SHARED | MAP_FIXED, fd.get(), 0) == MAP_FAILED) return nullptr;
  Taken taken{bytes};
  taken.is_shared = true;
  taken_.emplace(at, taken);
  end_ = std::max(end_, at + room);
  return at;
}

Result<std::byte*> EmulatedDevice::AllocateSharedMemory(size_t bytes, Fd& fd) {
  fd = Fd(memfd_create("emulated-device", MFD_CLOEXEC));
  JANUS_CHECK(fd && ftruncate(fd.get(), static_cast<off_t>(Rounded(bytes, kPage))) == 0, bytes);
  const MutexLock lock(mu_);
  std::byte* const at = Place(fd, bytes);
  if (at == nullptr) {
    return ResourceExhausted(std::to_string(bytes) + " bytes of the emulated device's memory");
  }
  Open();
  std::memset(at, kNaN, bytes);
  Close();
  return at;
}

Result<std::byte*> EmulatedDevice::Map(const Fd& fd, size_t bytes) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || static_cast<size_t>(info.st_size) < bytes) {
    return InvalidArgument("no shared memory of " + std::to_string(bytes) + " bytes");
  }
  if (!reaches_others_) return FailedPrecondition("the emulated device reaches no other");
  const MutexLock lock(mu_);
  std::byte* const at = Place(fd, bytes);
  if (at == nullptr) return ResourceExhausted("the emulated device has no room to map others'");
  return at;
}

// Steps may still use it.
void EmulatedDevice::Unmap(std::byte* data, size_t) {
  (void)WaitForSteps();
  const MutexLock lock(mu_);
  const auto taken = taken_.find(data);
  JANUS_CHECK(taken != taken_.end() && taken->second.is_shared);
  const size_t room = RoomOf(taken->second);
  void* const memory =
      mmap(data, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  JANUS_CHECK(memory == data, memory);
  taken_.erase(taken);
}

// Network devices read a second mapping of the memory, which the host may touch. They write to a
// separate piece of memory.
Result<std::byte*> EmulatedDevice::OpenToNetwork(const SharedMemory& memory, NetworkUse use) {
  if (!takes_network_) return FailedPrecondition("the emulated device is on no network");
  const size_t room = Rounded(memory.buffer.size(), kPage);
  const bool is_written = use != NetworkUse::kReads;
  const bool is_apart = is_written || shows_other_memory_;
  void* const opened =
      mmap(nullptr, room, PROT_READ | PROT_WRITE,
           is_apart ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, is_apart ? -1 : memory.fd.get(), 0);
  JANUS_CHECK(opened != MAP_FAILED, room);
  auto* const data = static_cast<std::byte*>(opened);
  if (is_written) {
    std::memset(data, kNaN, room);
    const MutexLock lock(mu_);
    written_.emplace(data, std::pair(memory.buffer.data(), use));
  }
  return data;
}

void EmulatedDevice::CloseToNetwork(std::byte* data, size_t bytes) {
  {
    const MutexLock lock(mu_);
    written_.erase(data);
  }
  munmap(data, Rounded(bytes, kPage));
}

Status EmulatedDevice::AdmitNetwork(NetworkUse use) {
  const MutexLock lock(mu_);
  Open();
  for (const auto& [from, place] : written_) {
    if (place.second != use) continue;
    const size_t bytes = taken_.at(place.first).size;
    for (size_t at = 0; at < bytes; at += kAdmitted) {
      // What has not changed may be read by other devices now.
      const size_t piece = std::min(kAdmitted, bytes - at);
      if (std::memcmp(place.first + at, from + at, piece) == 0) continue;
      std::memcpy(place.first + at, from + at, piece);
    }
  }
  Close();
  return OkStatus();
}

const EmulatedDevice::Taken* EmulatedDevice::Find(const void* data, size_t bytes) const {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(data));
  const auto after = taken_.upper_bound(at);
  if (after == taken_.begin()) return nullptr;
  const auto& [begin, taken] = *std::prev(after);
  const auto offset = static_cast<size_t>(at - begin);
  const bool is_within = offset <= taken.size && bytes <= taken.size - offset;
  return is_within && !taken.is_given_back ? &taken : nullptr;
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
  {
    const MutexLock lock(mu_);
    if (!Holds(device, bytes)) return Internal("a copy goes up beyond what was taken");
    CountIfPageable(host, bytes);
  }
  return Queue([=, this](uint64_t) {
           const MutexLock lock(mu_);
           LandSome();
           if (HostAddressIn(host, bytes) != nullptr) {
             return Internal("an address of the host is copied up, among " + std::to_string(bytes) +
                             " bytes");
           }
           Open();
           Read(static_cast<std::byte*>(device), static_cast<const std::byte*>(host), bytes);
           Close();
           return OkStatus();
         })
      .status();
}

void EmulatedDevice::Read(std::byte* to, const std::byte* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
  for (const CopyDown& copy : down_) {
    const std::byte* const begin = std::max<const std::byte*>(copy.host, from);
    const std::byte* const end = std::min<const std::byte*>(copy.host + copy.size, from + bytes);
    if (begin < end) {
      std::memcpy(to + (begin - from), copy.bytes.get() + (begin - copy.host),
                  static_cast<size_t>(end - begin));
    }
  }
}

Status EmulatedDevice::QueueOut(void* host, const void* device, size_t bytes) {
  {
    const MutexLock lock(mu_);
    if (!Holds(device, bytes)) return Internal("a copy comes down from beyond what was taken");
    CountIfPageable(host, bytes);
  }
  return Queue([=, this](uint64_t number) {
           const MutexLock lock(mu_);
           LandSome();
           CopyDown copy{number, static_cast<std::byte*>(host),
                         std::make_unique<std::byte[]>(bytes), bytes};
           Open();
           std::memcpy(copy.bytes.get(), device, bytes);
           Close();
           std::memset(host, kNaN, bytes);
           down_.push_back(std::move(copy));
           return OkStatus();
         })
      .status();
}

Status EmulatedDevice::CopyWithin(void* to, const void* from, size_t bytes) {
  {
    const MutexLock lock(mu_);
    if (!Holds(to, bytes) || !Holds(from, bytes)) {
      return Internal("a copy within the device goes beyond what was taken");
    }
  }
  return Queue([=, this](uint64_t) {
           const MutexLock lock(mu_);
           LandSome();
           Open();
           std::memcpy(to, from, bytes);
           Close();
           return OkStatus();
         })
      .status();
}

Status EmulatedDevice::WaitForStream() {
  const uint64_t until = steps_queued();
  JANUS_RETURN_IF_ERROR(WaitForSteps());
  if (is_broken_) return Internal("the emulated device is broken");
  const MutexLock lock(mu_);
  Deliver(until);
  return OkStatus();
}

void EmulatedDevice::Deliver(uint64_t until) {
  for (; !down_.empty() && down_.front().step <= until; down_.pop_front()) {
    const CopyDown& copy = down_.front();
    std::memcpy(copy.host, copy.bytes.get(), copy.size);
  }
}

Result<std::unique_ptr<Event>> EmulatedDevice::MakeEvent() {
  return std::unique_ptr<Event>(std::make_unique<EmulatedEvent>(false));
}

Result<std::unique_ptr<Event>> EmulatedDevice::MakeTimedEvent() {
  return std::unique_ptr<Event>(std::make_unique<EmulatedEvent>(true));
}

Status EmulatedDevice::Record(Event& event) {
  std::shared_ptr<MonotonicTime> moment;
  if (Ours(event).has_moments) moment = std::make_shared<MonotonicTime>();
  JANUS_ASSIGN_OR_RETURN(const uint64_t step, Queue([moment](uint64_t) {
                           if (moment != nullptr) *moment = MonotonicClock::now();
                           return OkStatus();
                         }));
  const MutexLock lock(mu_);
  Ours(event).step = step;
  Ours(event).loads = 0;  // the steps it follows have waited for these loads
  Ours(event).moment = std::move(moment);
  return OkStatus();
}

Status EmulatedDevice::RecordLoads(Event& event) {
  const MutexLock lock(mu_);
  if (Ours(event).has_moments) {
    Ours(event).moment = std::make_shared<MonotonicTime>();
    loads_.push_back({.moment = Ours(event).moment});
  }
  Ours(event).step = 0;
  Ours(event).loads = loads_run_ + loads_.size();
  return OkStatus();
}

Status EmulatedDevice::WaitForEvent(Event& event) {
  uint64_t after = 0;
  {
    const MutexLock lock(mu_);
    after = StepOf(Ours(event).step, Ours(event).loads);
  }
  if (stream_ != nullptr) JANUS_RETURN_IF_ERROR(stream_->Await(after));
  if (is_broken_) return Internal("the emulated device is broken");
  const MutexLock lock(mu_);
  RunLoads(Ours(event).loads);
  Deliver(Ours(event).step);
  return OkStatus();
}

uint64_t EmulatedDevice::StepOf(uint64_t step, uint64_t loads) const {
  for (uint64_t load = loads_run_; load < loads; ++load) {
    step = std::max(step, loads_[load - loads_run_].after_step);
  }
  return step;
}

// Loads have a separate stream: each query runs one of them.
Result<bool> EmulatedDevice::QueryEvent(Event& event) {
  if (stream_ != nullptr) JANUS_RETURN_IF_ERROR(stream_->failure());
  if (is_broken_) return Internal("the emulated device is broken");
  const MutexLock lock(mu_);
  if (loads_run_ < Ours(event).loads) {
    RunLoads(loads_run_ + 1);
    return false;
  }
  if (steps_run() < Ours(event).step) return false;
  Deliver(Ours(event).step);
  return true;
}

Result<Seconds> EmulatedDevice::TimeBetween(Event& from, Event& to) {
  const MutexLock lock(mu_);
  for (const EmulatedEvent* event : {&Ours(from), &Ours(to)}) {
    if (event->moment == nullptr) return Internal("the time of an event that has none");
    if (loads_run_ < event->loads || steps_run() < event->step) {
      return Internal("the time of an event that has not come");
    }
  }
  return Seconds(*Ours(to).moment - *Ours(from).moment);
}

// The host waits for nothing; copies down stay invisible.
Status EmulatedDevice::QueueWait(Event& event) {
  if (is_broken_) return Internal("the emulated device is broken");
  uint64_t loads = 0;  // that the event stands for now
  {
    const MutexLock lock(mu_);
    loads = Ours(event).loads;
  }
  return Queue([this, loads](uint64_t) {
           const MutexLock lock(mu_);
           RunLoads(loads);
           JANUS_CHECK(loads_run_ >= loads, loads);  // the steps before them have run
           return OkStatus();
         })
      .status();
}

Status EmulatedDevice::RegisterFlagPages(std::byte* begin, size_t bytes) {
  if (!takes_flags_) return FailedPrecondition("the emulated device takes no flags");
  const MutexLock lock(mu_);
  shown_.emplace(begin, bytes);
  return OkStatus();
}

// Steps may still raise and await flags there.
void EmulatedDevice::UnregisterFlagPages(std::byte* begin, size_t bytes) {
  (void)WaitForSteps();
  const MutexLock lock(mu_);
  EraseRange(shown_, begin, bytes);
}

Status EmulatedDevice::PinHere(std::byte* begin, size_t bytes) {
  if (!pins_) return FailedPrecondition("the emulated device pins no memory");
  const MutexLock lock(mu_);
  pinned_here_.emplace(begin, bytes);
  return OkStatus();
}

// Copies may be pending.
void EmulatedDevice::Unpin(std::byte* begin, size_t bytes) {
  (void)WaitForSteps();
  const MutexLock lock(mu_);
  Deliver(UINT64_MAX);
  EraseRange(pinned_here_, begin, bytes);
}

void EmulatedDevice::CountIfPageable(const void* host, size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(host);
  if (!LiesWithin(pinned_, at, bytes) && !LiesWithin(pinned_here_, at, bytes)) ++pageable_copies_;
}

uint64_t EmulatedDevice::pinned_bytes() const {
  const MutexLock lock(mu_);
  uint64_t bytes = 0;
  for (const auto& [data, size] : pinned_) bytes += size;
  return bytes;
}

uint64_t EmulatedDevice::pageable_copies() const {
  const MutexLock lock(mu_);
  return pageable_copies_;
}

Status EmulatedDevice::CheckShown(std::span<const FlagCount> flags) const {
  const MutexLock lock(mu_);
  for (const FlagCount& flag : flags) {
    const auto* const at = reinterpret_cast<const std::byte*>(flag.flag);
    const bool is_shown = LiesWithin(shown_, at, sizeof(Flag));
    if (!is_shown) return Internal("a flag lies in no memory that the emulated device was shown");
  }
  return OkStatus();
}

Status EmulatedDevice::QueueSignal(std::span<const FlagCount> flags) {
  JANUS_RETURN_IF_ERROR(CheckShown(flags));
  return Queue([raised = std::vector(flags.begin(), flags.end())](uint64_t) {
           for (const auto& [flag, count] : raised) flag->store(count, std::memory_order_release);
           return OkStatus();
         })
      .status();
}

Status EmulatedDevice::QueueWaitFlags(std::span<const FlagCount> flags) {
  JANUS_RETURN_IF_ERROR(CheckShown(flags));
  return Queue([this, awaited = std::vector(flags.begin(), flags.end())](uint64_t) {
           if (stream_ != nullptr) return stream_->AwaitFlags(awaited);
           for (const FlagCount& flag : awaited) {
             if (HasReached(flag)) continue;
             return Internal("steps follow a flag that was never raised: it is at " +
                             std::to_string(flag.flag->load()) + ", not at " +
                             std::to_string(flag.count));
           }
           return OkStatus();
         })
      .status();
}

Result<std::unique_ptr<Graph>> EmulatedDevice::Capture(
    FunctionRef<Status(const Stream&)> operations) {
  auto graph = std::make_unique<EmulatedGraph>();
  Stream recording = stream();
  recording.native = static_cast<cuda::PlayedDevice*>(graph.get());
  JANUS_RETURN_IF_ERROR(operations(recording));
  return std::unique_ptr<Graph>(std::move(graph));
}

Status EmulatedDevice::QueueGraph(Graph& graph) {
  return Queue([this, launches = static_cast<EmulatedGraph&>(graph).launches()](uint64_t) {
           for (const Launch& launch : *launches) JANUS_RETURN_IF_ERROR(launch(launching()));
           return OkStatus();
         })
      .status();
}

Status EmulatedDevice::QueueLoad(void* device, const void* pinned, size_t bytes) {
  const MutexLock lock(mu_);
  if (loads_until_refusal_ >= 0 && loads_until_refusal_-- == 0) {
    return Internal("the emulated device refuses a load");
  }
  const Taken* const taken = Find(device, bytes);
  if (taken == nullptr || !taken->is_loaded) {
    return Internal("a load goes beyond what was taken for loads");
  }
  const auto* const from = static_cast<const std::byte*>(pinned);
  if (!LiesWithin(pinned_, from, bytes)) {
    return Internal("what is loaded does not lie in pinned memory");
  }
  if (HostAddressIn(from, bytes) != nullptr) {
    return Internal("an address of the host is loaded, among " + std::to_string(bytes) + " bytes");
  }
  loads_.push_back({.device = static_cast<std::byte*>(device), .pinned = from, .size = bytes});
  return OkStatus();
}

void EmulatedDevice::RunLoads(uint64_t until) {
  if (loads_run_ >= until) return;
  const uint64_t steps = steps_run();
  Open();
  for (; loads_run_ < until; ++loads_run_, loads_.pop_front()) {
    const LoadOp& load = loads_.front();
    if (load.after_step > steps) break;
    if (load.device == nullptr) {
      *load.moment = MonotonicClock::now();
    } else if (load.pinned != nullptr) {
      std::memcpy(load.device, load.pinned, load.size);
    } else {
      std::memset(load.device, kNaN, load.size);
      taken_.erase(load.device);
    }
  }
  Close();
}

void EmulatedDevice::LandSome() {
  if (!landing_ || loads_.empty() || !landing_->Chance(0.5)) return;
  const int some = landing_->Between(1, static_cast<int>(loads_.size()));
  RunLoads(loads_run_ + static_cast<uint64_t>(some));
}

size_t EmulatedDevice::pending_loads() const {
  const MutexLock lock(mu_);
  return loads_.size();
}

void EmulatedDevice::RefuseLoadAfter(int loads) {
  const MutexLock lock(mu_);
  loads_until_refusal_ = loads;
}

void EmulatedDevice::LandAtAnyTime(uint64_t seed) {
  const MutexLock lock(mu_);
  landing_.emplace(seed);
}

// One thread holds the mutex from here until EndLaunch.
Status EmulatedDevice::BeginLaunch(std::string_view operation, const void* kernel,
                                   size_t bytes) JANUS_NO_THREAD_SAFETY_ANALYSIS {
  if (is_broken_) return Internal("the emulated device is broken");
  mu_.Lock();
  if (HostAddressIn(kernel, bytes) != nullptr) {
    mu_.Unlock();
    return Internal(std::string(operation) + ": an argument is an address of the host");
  }
  LandSome();
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
