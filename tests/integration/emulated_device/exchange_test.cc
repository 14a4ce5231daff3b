// Members with separate devices: peers read rows and contributions there in place. For members that
// cannot do that, rows and contributions go through host memory.

#include "dataplane/comm/exchange/exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "dataplane/comm/transport/segment.h"
#include "tests/integration/emulated_device/held_up_reads.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"
#include "tests/support/networks.h"
#include "tests/support/random.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

ExchangeShape Shape() {
  ExchangeShape shape;
  shape.hidden = 6;
  shape.top_k = 3;
  shape.micro_batches = 2;
  shape.max_rows = 5;
  shape.m = 2;
  shape.n = 2;
  return shape;
}

constexpr RoundKey KeyOf(int micro_batch) {
  RoundKey key;
  key.epoch = key.step = 1;
  key.micro_batch = static_cast<uint8_t>(micro_batch);
  return key;
}

using Values = std::vector<float>;

// All members of an epoch, by member index; a null context means the host.
class Members {
 public:
  explicit Members(std::vector<kernels::EmulatedDevice*> devices, const Join& join = JoinMemory)
      : devices_(std::move(devices)),
        connected_(ConnectDevices(LayoutFor(ExchangeMode::kDirect, Shape(), PeerId{}), WaitPolicy(),
                                  {devices_.begin(), devices_.end()}, join)) {
    for (int a = 0; a < Shape().m; ++a) {
      attention_.push_back(
          *MakeAttentionExchange(Shape(), connected_.network.attention(a), slots(a)));
    }
    for (int e = 0; e < Shape().n; ++e) {
      experts_.push_back(*MakeExpertExchange(Shape(), connected_.network.experts(e), slots(2 + e)));
    }
  }

  // A network makes progress while the members at both ends wait.
  void Progress() {
    for (int member = 0; member < 4; ++member) {
      EXPECT_TRUE(transport(member).Wait(MonotonicTime::max(), [] { return true; }).ok());
    }
  }
  void Await(FunctionRef<Result<bool>()> poll) {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    for (;;) {
      const Result<bool> here = poll();
      ASSERT_TRUE(here.ok()) << here.status().ToString();
      if (*here) return;
      ASSERT_LT(MonotonicClock::now(), deadline);
      Progress();
    }
  }

  AttentionExchange& attention(int rank) { return *attention_[static_cast<size_t>(rank)]; }
  ExpertExchange& experts(int rank) { return *experts_[static_cast<size_t>(rank)]; }
  DeviceSlots* slots(int member) { return connected_.slots[static_cast<size_t>(member)].get(); }
  Transport& transport(int member) {
    return *connected_.network.members[static_cast<size_t>(member)];
  }

  void Write(int member, void* to, const Values& values, bool on_device) {
    const size_t bytes = values.size() * sizeof(float);
    if (on_device) {
      kernels::EmulatedDevice& device = *devices_[static_cast<size_t>(member)];
      ASSERT_TRUE(device.CopyIn(to, values.data(), bytes).ok());
    } else {
      std::memcpy(to, values.data(), bytes);
    }
  }
  Values Read(int member, const void* from, size_t count, bool on_device) {
    Values values(count);
    const size_t bytes = count * sizeof(float);
    if (on_device) {
      kernels::EmulatedDevice& device = *devices_[static_cast<size_t>(member)];
      EXPECT_TRUE(device.CopyOut(values.data(), from, bytes).ok());
      EXPECT_TRUE(device.Wait().ok());
    } else {
      std::memcpy(values.data(), from, bytes);
    }
    return values;
  }

  // A round in which attention instance a sends a + 1 rows, and expert instance e computes the
  // cells of its parity. Returns how each member read on a device: rows of each attention instance,
  // then contributions of each expert instance; "-" means through host memory.
  std::string Round(int micro_batch) {
    std::string how;
    const RoundKey key = KeyOf(micro_batch);
    const auto hidden = static_cast<size_t>(Shape().hidden);
    for (int a = 0; a < 2; ++a) {
      std::byte* const there = attention(a).DeviceRows(micro_batch);
      std::byte* const to = there != nullptr ? there : attention(a).Rows(micro_batch).data();
      Write(a, to, RowsOf(micro_batch, a), there != nullptr);
      EXPECT_TRUE(attention(a).Post(key, a + 1, MonotonicTime()).ok());
    }
    // Poll all senders before checking any rows: they have separate places.
    ArrivedRows arrived[2][2];
    for (int a = 0; a < 2; ++a) {
      for (int e = 0; e < 2; ++e) {
        Await([&] { return experts(e).Poll(key, Rank{a}, arrived[a][e]); });
        EXPECT_TRUE(experts(e).StreamWait().ok());
      }
    }
    for (int a = 0; a < 2; ++a) {
      for (int e = 0; e < 2; ++e) {
        const ArrivedRows& rows = arrived[a][e];
        EXPECT_EQ(rows.count, a + 1);
        EXPECT_EQ(Read(2 + e, rows.rows, RowsOf(micro_batch, a).size(), rows.on_device),
                  RowsOf(micro_batch, a));
        how += rows.on_device ? 'd' : '-';
      }
    }
    how += ' ';
    for (int e = 0; e < 2; ++e) {
      for (int a = 0; a < 2; ++a) {
        std::vector<int> cells;
        for (int cell = e; cell < (a + 1) * Shape().top_k; cell += 2) cells.push_back(cell);
        std::byte* const there = experts(e).DeviceReplies(micro_batch, Rank{a});
        const auto out = experts(e).Begin(micro_batch, Rank{a}, static_cast<int>(cells.size()));
        EXPECT_NE(there == nullptr, out.rows == nullptr);
        for (size_t i = 0; i < cells.size(); ++i) {
          out.refs[i] = {static_cast<uint16_t>(cells[i] / Shape().top_k),
                         static_cast<uint8_t>(cells[i] % Shape().top_k), 0};
          std::byte* const to = (there != nullptr ? there : out.rows) + i * Shape().row_bytes();
          Write(2 + e, to, ContributionOf(micro_batch, a, cells[i]), there != nullptr);
        }
        EXPECT_TRUE(experts(e).Post(key, Rank{a}, MonotonicTime()).ok());
      }
    }
    for (int a = 0; a < 2; ++a) {
      Await([&] { return attention(a).Poll(key); });
      EXPECT_TRUE(attention(a).StreamWait(key).ok());
      const auto table = attention(a).Contributions(micro_batch);
      const auto on_device = attention(a).OnDevice(micro_batch);
      for (int cell = 0; cell < (a + 1) * Shape().top_k; ++cell) {
        const auto at = static_cast<size_t>(cell);
        const bool there = !on_device.empty() && on_device[at] != 0;
        EXPECT_EQ(Read(a, table[at], hidden, there), ContributionOf(micro_batch, a, cell));
        if (cell < 2) how += there ? 'd' : '-';
      }
    }
    return how;
  }

 private:
  static Values RowsOf(int micro_batch, int a) {
    Values values(static_cast<size_t>((a + 1) * Shape().hidden));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(1000 * micro_batch + 100 * a) + static_cast<float>(i);
    }
    return values;
  }
  static Values ContributionOf(int micro_batch, int a, int cell) {
    return Values(static_cast<size_t>(Shape().hidden),
                  static_cast<float>(-1000 * micro_batch - 100 * a - cell - 1));
  }

  const std::vector<kernels::EmulatedDevice*> devices_;
  DeviceNetwork connected_;
  std::vector<std::unique_ptr<AttentionExchange>> attention_;
  std::vector<std::unique_ptr<ExpertExchange>> experts_;
};

TEST(DeviceExchange, AllReadInPlaceWhereAllHaveDevices) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  Members members({&a0, &a1, &e0, &e1});
  EXPECT_EQ(members.Round(1), "dddd dddd");
  EXPECT_EQ(members.Round(0), "dddd dddd");
  for (int member = 0; member < 4; ++member) EXPECT_EQ(members.slots(member)->refusal(), "");
}

// Attention 0 and experts 0 are in one domain, attention 1 and experts 1 in the other.
TEST(DeviceExchange, PeersOfOtherMachinesReadOverTheNetwork) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  Members members({&a0, &a1, &e0, &e1}, JoinDomains(2));
  EXPECT_EQ(members.Round(1), "dddd dddd");
  EXPECT_EQ(members.Round(0), "dddd dddd");
  EXPECT_EQ(members.Round(1), "dddd dddd");
  for (int member = 0; member < 4; ++member) {
    const DeviceSlots& slots = *members.slots(member);
    EXPECT_EQ(slots.refusal(), "");
    EXPECT_TRUE(slots.is_read_remotely());
    const Role other = member < 2 ? Role::kExperts : Role::kAttention;
    EXPECT_TRUE(slots.maps({other, Rank{member % 2}}));
    EXPECT_FALSE(slots.reads_remotely({other, Rank{member % 2}}));
    EXPECT_TRUE(slots.reads_remotely({other, Rank{1 - member % 2}}));
    EXPECT_TRUE((member < 2 ? static_cast<Exchange&>(members.attention(member))
                            : members.experts(member - 2))
                    .PostsBehindGpu());
  }
}

TEST(DeviceExchange, AllMayBeOfOtherMachines) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  Members members({&a0, &a1, &e0, &e1}, JoinDomains(9));
  EXPECT_EQ(members.Round(0), "dddd dddd");
  EXPECT_EQ(members.Round(1), "dddd dddd");
}

// Contributions of experts 1 each have a reader that cannot be reached, or that cannot read.
TEST(DeviceExchange, ADeviceThatNoNetworkReachesHasTheHostsMemory) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  e1.RefuseNetwork();
  Members members({&a0, &a1, &e0, &e1}, JoinDomains(2));
  EXPECT_EQ(members.Round(0), "--dd d-d-");
  EXPECT_EQ(members.Round(1), "--dd d-d-");
  EXPECT_EQ(members.slots(3)->refusal(),
            "no network reads this GPU's memory: the emulated device is on no network");
  EXPECT_EQ(members.slots(0)->refusal(), "experts 1 shows no GPU's memory to a network");
  EXPECT_EQ(members.slots(2)->refusal(), "");
}

TEST(DeviceExchange, NobodyGoesOnBeforeWhatTheNetworkReadsIsThere) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  Members members({&a0, &a1, &e0, &e1}, JoinDomains(2));
  HeldUpReads reads(*members.slots(3));  // experts 1 reads attention 0 over the network
  ASSERT_TRUE(members.attention(0).Post(KeyOf(0), 2, MonotonicTime()).ok());
  ArrivedRows arrived;
  const auto poll = [&] { return members.experts(1).Poll(KeyOf(0), Rank{0}, arrived); };
  while (reads.begun == 0) {
    ASSERT_FALSE(*poll());
    members.Progress();
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(*poll());
    ASSERT_FALSE(members.experts(1).Abandon()) << "what is on its way may still be written";
    members.Progress();
  }
  EXPECT_EQ(reads.begun, 1);
  reads.is_held_up = false;
  members.Await([&]() -> Result<bool> { return members.experts(1).Abandon(); });
}

TEST(DeviceExchange, AReadThatFailsIsTheRoundsError) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  Members members({&a0, &a1, &e0, &e1}, JoinDomains(2));
  HeldUpReads rows(*members.slots(3)), contributions(*members.slots(0));
  rows.failure = Unavailable("rows");
  contributions.failure = Unavailable("contributions");
  ASSERT_TRUE(members.attention(0).Post(KeyOf(0), 1, MonotonicTime()).ok());
  ArrivedRows arrived;
  Result<bool> here = false;
  while (here.ok()) {
    here = members.experts(1).Poll(KeyOf(0), Rank{0}, arrived);
    members.Progress();
  }
  EXPECT_EQ(here.status(), rows.failure);
  const auto out = members.experts(1).Begin(0, Rank{0}, 1);
  out.refs[0] = {0, 0, 0};
  ASSERT_TRUE(members.experts(1).Post(KeyOf(0), Rank{0}, MonotonicTime()).ok());
  here = false;
  while (here.ok()) {
    here = members.attention(0).Poll(KeyOf(0));
    members.Progress();
  }
  EXPECT_EQ(here.status(), contributions.failure);
  // It has ended, so the round can be left.
  members.Await([&]() -> Result<bool> { return members.attention(0).Abandon(); });
  members.Await([&]() -> Result<bool> { return members.experts(1).Abandon(); });
}

// Like a wrong setup between network device and GPU.
TEST(DeviceExchange, WhereTheNetworkReadsSomethingElseNothingIsReadByIt) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  e1.ShowOtherMemoryToNetwork();
  Members members({&a0, &a1, &e0, &e1}, JoinDomains(2));
  EXPECT_EQ(members.Round(0), "dddd d-d-");
  EXPECT_EQ(members.slots(0)->refusal(),
            "memory of experts 1: what UCX has read of it is something else");
}

TEST(DeviceExchange, AHostBeyondTheDomainHasRowsThroughTheHostsMemory) {
  kernels::EmulatedDevice a0, a1, e0;
  Members members({&a0, &a1, &e0, nullptr}, JoinDomains(2));
  EXPECT_EQ(members.Round(0), "---- d-d-");
}

// Rows have several readers. One has no device, so all get them through host memory.
TEST(DeviceExchange, AnExpertInstanceOfTheHostHasRowsThroughItsMemory) {
  kernels::EmulatedDevice a0, a1, e0;
  Members members({&a0, &a1, &e0, nullptr});
  EXPECT_EQ(members.Round(0), "---- d-d-");
  EXPECT_EQ(members.Round(1), "---- d-d-");
  EXPECT_EQ(members.slots(0)->refusal(), "experts 1 shows no GPU's memory");
}

TEST(DeviceExchange, AnAttentionInstanceOfTheHostHasContributionsThroughItsMemory) {
  kernels::EmulatedDevice a1, e0, e1;
  Members members({nullptr, &a1, &e0, &e1});
  EXPECT_EQ(members.Round(1), "--dd ----");
}

TEST(DeviceExchange, ADeviceThatReachesNoOtherIsReadByAll) {
  kernels::EmulatedDevice a0, a1, e0, e1;
  e1.Isolate();
  Members members({&a0, &a1, &e0, &e1});
  EXPECT_EQ(members.Round(0), "---- dddd");
  EXPECT_TRUE(Contains(members.slots(3)->refusal(), ": the emulated device reaches no other"));
  EXPECT_EQ(members.slots(2)->refusal(), "");
}

TEST(DeviceExchange, IsThereForWhoHasItMappedWhenItsOwnerHasGone) {
  kernels::EmulatedDevice attention;
  TransportLayout layout = LayoutFor(ExchangeMode::kDirect, Shape(), PeerId{});
  const PeerId expert{Role::kExperts, Rank{1}};
  std::unique_ptr<DeviceSlots> reader = *DeviceSlots::Make(layout, attention);
  {
    kernels::EmulatedDevice device;
    layout.self = expert;
    const std::unique_ptr<DeviceSlots> owner = *DeviceSlots::Make(layout, device);
    const Fd fd(dup(owner->fd()));
    reader->Map(expert, fd);
    const Values values(6, 3.5f);
    ASSERT_TRUE(device.CopyIn(owner->Own(3), values.data(), values.size() * sizeof(float)).ok());
  }
  Values got(6);
  ASSERT_TRUE(
      attention.CopyOut(got.data(), reader->Of(expert, 3), got.size() * sizeof(float)).ok());
  ASSERT_TRUE(attention.Wait().ok());
  EXPECT_EQ(got, Values(6, 3.5f));
}

// Wrong memory from a peer counts as no memory.
TEST(DeviceExchange, MemoryThatIsTooSmallIsNotMapped) {
  kernels::EmulatedDevice ours, theirs;
  ExchangeShape shape = Shape();
  shape.max_rows = 500;  // larger than a page
  const TransportLayout layout = LayoutFor(ExchangeMode::kDirect, shape, PeerId{});
  const std::unique_ptr<DeviceSlots> slots = *DeviceSlots::Make(layout, ours);
  const kernels::SharedMemory small = *theirs.AllocateShared(64);
  const PeerId expert{Role::kExperts, Rank{0}};
  slots->Map(expert, small.fd);
  EXPECT_FALSE(slots->maps(expert));
  EXPECT_TRUE(Contains(slots->refusal(), "memory of experts 0: ")) << slots->refusal();
}

TEST(DeviceExchange, SizesWithoutRowsAreAnErrorFromWhoIsNotMapped) {
  kernels::EmulatedDevice a0, a1, e0;
  Members members({&a0, &a1, &e0, nullptr});
  const RoundKey key = KeyOf(0);
  Header rows = MakeHeader(MessageKind::kRows, key, 0, 2);
  ASSERT_TRUE(members.transport(0).Post(0, rows).ok());
  ArrivedRows arrived;
  EXPECT_TRUE(*members.experts(0).Poll(key, Rank{0}, arrived)) << "who has it mapped reads it";
  EXPECT_EQ(members.experts(1).Poll(key, Rank{0}, arrived).status().message(),
            "attention 0: 2 rows in 0 bytes");
  Header contributions = MakeHeader(MessageKind::kContributions, key, 1, 3);
  contributions.bytes = ContributionRowsOffset(3);
  ASSERT_TRUE(members.attention(0).Post(key, 2, MonotonicTime()).ok());
  ASSERT_TRUE(members.transport(3).Post(0, contributions).ok());
  EXPECT_EQ(members.attention(0).Poll(key).status().message(),
            "experts 1: 3 contributions in 64 bytes");
}

// Four devices that lag, and a flag of the test for which the stream of the member under test waits
// first. Checks before the flag is raised find the stream still waiting.
class HeldMembers {
 public:
  HeldMembers(int member, uint64_t seed) : member_(member) {
    for (size_t i = 0; i < devices_.size(); ++i) devices_[i].RunBehind(seed + i);
    members_ = std::make_unique<Members>(
        std::vector{&devices_[0], &devices_[1], &devices_[2], &devices_[3]});
    shown_ = *device().RegisterFlags(reinterpret_cast<std::byte*>(&hold_), sizeof hold_);
    EXPECT_TRUE(device().StreamWaitFlags(std::array{kernels::FlagCount{&hold_, 1}}).ok());
  }
  // Ends the streams even if a test has failed.
  ~HeldMembers() {
    Release();
    for (int i = 0; i < 4; ++i) Set(members_->transport(i).layout().self, uint64_t{1} << 62);
  }

  kernels::EmulatedDevice& device() { return devices_[static_cast<size_t>(member_)]; }
  Members& operator*() { return *members_; }
  void Release() { hold_.store(1); }
  // Sets all flags of a member's slots, as the member under test sees them.
  void Set(PeerId owner, uint64_t count) {
    const std::span<std::byte> flags = members_->transport(member_).FlagsOf(owner);
    for (size_t at = 0; at < flags.size(); at += kFlagStride) {
      reinterpret_cast<kernels::Flag*>(flags.data() + at)->store(count);
    }
  }
  // After the member gives up and lets go, its posts stay unsent until its stream has finished. The
  // stream finishes although the owner lowers its flags meanwhile.
  void ExpectLetGo(Exchange& exchange, PeerId awaited) {
    const std::unique_ptr<kernels::Event> end = *device().MakeEvent();
    ASSERT_TRUE(device().Record(*end).ok());
    for (int i = 0; i < 3; ++i) {
      ASSERT_FALSE(exchange.Abandon()) << "the stream has not run what it was given";
      ASSERT_EQ(*device().Query(*end), false);
    }
    Set(awaited, 1);
    Release();
    const MonotonicTime most = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    while (!exchange.Abandon()) {
      ASSERT_LT(MonotonicClock::now(), most) << "the stream waits still";
      std::this_thread::yield();
    }
    EXPECT_EQ(*device().Query(*end), true);
    EXPECT_TRUE(exchange.Abandon());
  }

 private:
  const int member_;
  kernels::Flag hold_{0};
  std::array<kernels::EmulatedDevice, 4> devices_;
  std::unique_ptr<Members> members_;
  kernels::Buffer shown_;
};

constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
constexpr PeerId kAttention0{Role::kAttention, Rank{0}};

// Posts the headers of three contributions of one expert instance, without raising its flag, and of
// no contributions of the other one.
void PostContributions(Members& members, const RoundKey& key, int from) {
  for (int e = 0; e < 2; ++e) {
    const uint32_t count = e == from ? 3 : 0;
    Header header = MakeHeader(MessageKind::kContributions, key, static_cast<uint16_t>(e), count);
    header.bytes = ContributionRowsOffset(count);
    Transport& transport = members.transport(2 + e);
    auto* const refs = reinterpret_cast<ContributionRef*>(transport.Payload(0).data());
    for (uint8_t slot = 0; slot < count; ++slot) refs[slot] = {0, slot, 0};
    ASSERT_TRUE(transport.Post(0, header).ok());
  }
}

TEST(LettingGo, AttentionWaitsForNoContributionsAnyMore) {
  HeldMembers held(0, TestSeed());
  AttentionExchange& attention = (*held).attention(0);
  ASSERT_TRUE(attention.Post(KeyOf(0), 1, MonotonicTime()).ok());
  PostContributions(*held, KeyOf(0), 0);
  ASSERT_TRUE(*attention.Poll(KeyOf(0)));
  ASSERT_TRUE(attention.StreamWait(KeyOf(0)).ok());
  EXPECT_EQ(attention.Behind(), (std::vector<AttentionExchange::LateExpert>{{Rank{0}, KeyOf(0)}}));
  held.ExpectLetGo(attention, kExperts0);
}

TEST(LettingGo, ExpertsWaitForNoRowsAnyMore) {
  HeldMembers held(2, TestSeed());
  ExpertExchange& experts = (*held).experts(0);
  const Header header = MakeHeader(MessageKind::kRows, KeyOf(0), 0, 2);
  ASSERT_TRUE((*held).transport(0).Post(0, header).ok());
  ArrivedRows arrived;
  ASSERT_TRUE(*experts.Poll(KeyOf(0), Rank{0}, arrived));
  ASSERT_TRUE(arrived.on_device);
  ASSERT_TRUE(experts.StreamWait().ok());
  EXPECT_FALSE(experts.IsThere(KeyOf(0), Rank{0}, arrived));
  held.ExpectLetGo(experts, kAttention0);
}

// Its readers may still read them.
TEST(LettingGo, WhatIsPostedIsOnItsWayUntilTheStreamHasRaisedIt) {
  HeldMembers held(0, TestSeed());
  AttentionExchange& attention = (*held).attention(0);
  ASSERT_TRUE(attention.Post(KeyOf(0), 1, MonotonicTime()).ok());
  held.ExpectLetGo(attention, kExperts0);
}

// The next round's stream does not wait for flags of a round that is given up.
TEST(LettingGo, WhatWasNotFollowedIsForgotten) {
  HeldMembers held(2, TestSeed());
  ExpertExchange& experts = (*held).experts(0);
  held.Release();
  const Header header = MakeHeader(MessageKind::kRows, KeyOf(0), 0, 2);
  ASSERT_TRUE((*held).transport(0).Post(0, header).ok());
  ArrivedRows arrived;
  ASSERT_TRUE(*experts.Poll(KeyOf(0), Rank{0}, arrived));
  EXPECT_TRUE(experts.Abandon());
  ASSERT_TRUE(experts.StreamWait().ok());
  EXPECT_TRUE(experts.LetGo()) << "nothing was queued";
}

// An instance that contributes nothing to a round may lag behind in it.
TEST(Following, IsOfWhoContributesAlone) {
  HeldMembers held(0, TestSeed());
  held.Release();
  AttentionExchange& attention = (*held).attention(0);
  const std::unique_ptr<kernels::Event> end = *held.device().MakeEvent();
  RoundKey key = KeyOf(0);
  for (const int from : {0, 1}) {
    ASSERT_TRUE(attention.Post(key, 1, MonotonicTime()).ok());
    PostContributions(*held, key, from);
    ASSERT_TRUE(*attention.Poll(key));
    ASSERT_TRUE(attention.StreamWait(key).ok());
    ASSERT_TRUE(held.device().Record(*end).ok());
    EXPECT_EQ(*held.device().Query(*end), false);
    held.Set({Role::kExperts, Rank{from}}, (key.step << 16) + key.layer + 1);
    const MonotonicTime most = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    while (!*held.device().Query(*end)) {
      ASSERT_LT(MonotonicClock::now(), most) << "it waits for another than " << from;
      std::this_thread::yield();
    }
    ++key.layer;
  }
}

}  // namespace
}  // namespace janus::dataplane
