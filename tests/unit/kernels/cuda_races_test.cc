// The thread sanitizer reports races of kernels on the host form (host_threads.h), whatever their
// results, and reports nothing for kernels without races. Only in a build with the sanitizer.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "kernels/cuda/start.h"
#include "kernels/cuda/warp.h"
#include "kernels/cuda/wgmma.h"

// The process ends with the first report.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options() {
  return "halt_on_error=1:exitcode=66";
}

namespace janus::kernels::cuda {
namespace {

constexpr int kSharedBytes = 64 << 10;
constexpr int kBAt = 32 << 10;  // of wgmma's b

struct StepsKernel {
  [[maybe_unused]] static constexpr int kThreads = 128;
  [[maybe_unused]] static constexpr int64_t kAskedSharedBytes = kSharedBytes;
  std::function<void(HostBlock&)> steps;
  template <class Block>
  void operator()(Block& block) const {
    steps(block);
  }
};

void Run(int64_t blocks, int threads, const std::function<void(HostBlock&)>& steps) {
  ++host_order_seed;
  ASSERT_TRUE(
      Start("Steps", Stream{}, StepsKernel{steps}, {blocks, threads, kSharedBytes, 0, 0}).ok());
}

int* Words(HostBlock& block) {
  return reinterpret_cast<int*>(block.shared());
}
// A read that the compiler leaves in.
void Read(const int& word) {
  asm volatile("" : : "r"(word));
}

// Runs a race, or the most similar code without one.
struct Case {
  std::string name;
  std::function<void(bool race)> run;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

// Threads a and b write to one word; without a race b to the next.
Case TwoThreadsWrite(const std::string& name, int threads, int a, int b) {
  return {name, [=](bool race) {
            Run(1, threads, [&](HostBlock& block) {
              block.Phase([&](int thread) {
                if (thread == a) Words(block)[0] = 7;
                if (thread == b) Words(block)[race ? 0 : 1] = 7;  // the same: no result tells
              });
            });
          }};
}

const Case kOfBlocksThreads[] = {
    TwoThreadsWrite("NeighboursWrite", 64, 1, 2),
    TwoThreadsWrite("ThreadsOfTwoWarpsWrite", 128, 0, 127),
    TwoThreadsWrite("ThreadsOfABlockOf256Write", 256, 3, 4),
    TwoThreadsWrite("ThreadsOfABlockOf1024Write", 1024, 0, 1023),
    {"AThreadReadsWhatAnotherWrites",
     [](bool race) {
       Run(1, 64, [&](HostBlock& block) {
         block.Phase([&](int thread) {
           if (thread == 5) Words(block)[0] = 7;
           if (race && thread == 60) Read(Words(block)[0]);
         });
         block.Phase([&](int thread) {
           if (thread == 60) Read(Words(block)[0]);
         });
       });
     }},
    {"AThreadReadsWhatAnotherAdds",
     [](bool race) {
       Run(1, 64, [&](HostBlock& block) {
         auto* const word = reinterpret_cast<uint32_t*>(block.shared());
         block.Phase([&](int thread) {
           if (thread == 0) *word = 0;
         });
         block.Phase([&](int thread) {
           HostBlock::Add(*word, 1u);
           HostBlock::Or(word[0], 1u);
           if (race && thread == 3) Read(Words(block)[0]);
         });
         block.Phase([&](int thread) {
           if (thread == 3) Read(Words(block)[0]);
         });
       });
     }},
    {"AWarpReadsWhatAnotherWrites",
     [](bool race) {
       Run(1, 64, [&](HostBlock& block) {
         const auto read = [&](HostWarp& warp) {
           if (warp.index() == 1) Read(warp.Uniform(Words(block)[9]));
         };
         block.Warps([&](HostWarp& warp) {
           warp.Lanes([&](int lane) {
             if (warp.index() == 0) Words(block)[lane] = lane;
           });
           if (race) read(warp);
         });
         block.Warps(read);
       });
     }},
    {"ALaneReadsWhatAnotherWrites",
     [](bool race) {
       Run(1, 64, [&](HostBlock& block) {
         block.Warps([&](HostWarp& warp) {
           int* const words = Words(block) + warp.index() * kLanes;
           const auto read = [&](int lane) { Read(words[31 - lane]); };
           warp.Lanes([&](int lane) {
             words[lane] = lane;
             if (race) read(lane);
           });
           warp.Lanes(read);
         });
       });
     }},
};

int global_words[64];

const Case kOfBlocks[] = {
    {"TwoBlocksWrite",
     [](bool race) {
       Run(2, 128, [&](HostBlock& block) {
         for (int i = 0; i < 3; ++i) block.Phase([](int) {});
         block.Phase([&](int thread) {
           if (thread == 77) global_words[race ? 0 : block.index()] = 7;
         });
       });
     }},
    {"ABlockReadsWhatOneFarOffWrites",
     [](bool race) {
       Run(20, 256, [&](HostBlock& block) {
         block.Phase([&](int thread) {
           if (thread == 0) global_words[block.index()] = 7;
         });
         block.Phase([&](int thread) {
           if (thread == 0 && race && block.index() == 9) Read(global_words[16]);
         });
       });
     }},
    {"ABlockThatIsNotTheLastReadsWhatOthersWrote",
     [](bool race) {
       uint32_t arrived = 0;
       Run(7, 128, [&](HostBlock& block) {
         block.Phase([&](int thread) {
           if (thread == 3) global_words[block.index()] = 7;
         });
         if (!block.IsLast(&arrived) && !race) return;
         block.Phase([&](int thread) {
           if (thread == 4) {
             for (int i = 0; i < 7; ++i) Read(global_words[i]);
           }
         });
       });
     }},
};

alignas(kCopyBytes) int source[4];

// A copy that one phase starts and the next but one has: when is what done?
Case OfACopy(const std::string& name, const std::function<void(HostBlock&)>& touch) {
  return {name, [=](bool race) {
            Run(1, 128, [&](HostBlock& block) {
              block.CopyingWarps<1>([&](HostWarp& warp) {
                warp.Lanes([&](int lane) {
                  if (warp.index() == 1 && lane == 3) block.CopyAsync(block.shared(), source, true);
                });
              });
              block.CopyingWarps<1>([&](HostWarp& warp) {
                if (race && warp.index() == 2) touch(block);
              });
              block.Phase([&](int thread) {
                if (thread == 100) touch(block);
              });
            });
          }};
}
const Case kOfCopies[] = {
    OfACopy("IsReadBeforeItsWait", [](HostBlock& block) { Read(Words(block)[2]); }),
    OfACopy("IsWrittenOverBeforeItsWait", [](HostBlock& block) { Words(block)[3] = 1; }),
    OfACopy("SourceIsWrittenBeforeItsWait", [](HostBlock&) { source[1] = 1; }),
    {"TwoGoToOnePlace",
     [](bool race) {
       Run(1, 64, [&](HostBlock& block) {
         block.CopyingWarps<0>([&](HostWarp& warp) {
           warp.Lanes([&](int lane) {
             block.CopyAsync(block.shared() + kCopyBytes * (race ? lane : 32 * warp.index() + lane),
                             source, lane % 2 == 0);
           });
         });
       });
     }},
};

// What a warpgroup does while one of its products runs. `after` runs in the CopyingGroups of the
// product's wait, `later` in the next.
void BesideAProduct(const std::function<void(HostBlock&, HostGroup&)>& before,
                    const std::function<void(HostBlock&, HostGroup&)>& after,
                    const std::function<void(HostBlock&, HostGroup&)>& later) {
  Run(1, kGroupThreads, [&](HostBlock& block) {
    struct Sums {
      float of[4];
    };
    PerThread<Sums, kGroupThreads> sums;
    block.CopyingGroups<0>([&](HostGroup& group) {
      group.Threads([&](int thread) {
        for (int i = thread; i < kSharedBytes / 4; i += kGroupThreads) Words(block)[i] = 0;
      });
    });
    block.CopyingGroups<0>([&](HostGroup& group) {
      before(block, group);
      Fence(group);
      MultiplyAsync<8>(
          group, [&](int thread) -> float(&)[4] { return sums[thread].of; },
          Matrix(group, block.shared()).At(0), Matrix(group, block.shared() + kBAt).At(0), false);
      Commit(group);
      Wait<0>(group);
      after(block, group);
    });
    block.CopyingGroups<0>([&](HostGroup& group) {
      group.Threads([&](int thread) { EXPECT_EQ(sums[thread].of[3], 0.0f); });
      later(block, group);
    });
  });
}
// By a thread of the last warp.
void WriteTo(HostGroup& group, int& word) {
  group.Threads([&](int thread) {
    if (thread == 120) word = 0;
  });
}
void Nothing(HostBlock&, HostGroup&) {}

const Case kOfWarpgroups[] = {
    {"AnOperandIsWrittenWithoutABarrierBefore",
     [](bool race) {
       BesideAProduct(
           [&](HostBlock& block, HostGroup& group) { WriteTo(group, Words(block)[race ? 0 : 8]); },
           Nothing, Nothing);
     }},
    {"AnOperandIsWrittenWithoutABarrierBehindTheWait",
     [](bool race) {
       const auto write = [](HostBlock& block, HostGroup& group) {
         WriteTo(group, Words(block)[kBAt / 4]);
       };
       BesideAProduct(Nothing, race ? write : Nothing, write);
     }},
    {"AnOperandIsWrittenWhileItIsMultiplied",
     [](bool race) {
       Run(1, kGroupThreads, [&](HostBlock& block) {
         struct Sums {
           float of[4];
         };
         PerThread<Sums, kGroupThreads> sums;
         // Two stages, one is written while the other is multiplied.
         for (int stage = 0; stage < 4; ++stage) {
           block.CopyingGroups<0>([&](HostGroup& group) {
             if (stage > 0) {
               const unsigned char* const a = block.shared() + stage % 2 * (16 << 10);
               Fence(group);
               MultiplyAsync<8>(
                   group, [&](int thread) -> float(&)[4] { return sums[thread].of; },
                   Matrix(group, a).At(0), Matrix(group, a + (8 << 10)).At(0), false);
               Commit(group);
             }
             group.Threads([&](int thread) {
               const int written = race ? stage % 2 : (stage + 1) % 2;
               for (int i = thread; i < 4 << 10; i += kGroupThreads) {
                 Words(block)[(written << 12) + i] = 0;
               }
             });
             if (stage > 0) Wait<0>(group);
           });
         }
       });
     }},
    {"AWarpReadsWhatAnotherOfItsGroupWrites",
     [](bool race) {
       Run(1, kGroupThreads, [&](HostBlock& block) {
         const auto read = [&](int thread) { Read(Words(block)[127 - thread]); };
         block.CopyingGroups<0>([&](HostGroup& group) {
           group.Threads([&](int thread) {
             Words(block)[thread] = thread;
             if (race) read(thread);
           });
         });
         block.CopyingGroups<0>([&](HostGroup& group) { group.Threads(read); });
       });
     }},
};

class Races : public testing::TestWithParam<Case> {};

TEST_P(Races, AreReportedAndTheirTwinsAreNot) {
  // Each in a new process, not in a fork: the fibers of this one would not survive it.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        for (int i = 0; i < 4; ++i) GetParam().run(true);
        std::_Exit(0);
      },
      testing::ExitedWithCode(66), "data race");
  for (int i = 0; i < 20; ++i) GetParam().run(false);
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(OfThreads, Races, testing::ValuesIn(kOfBlocksThreads), NameOf);
INSTANTIATE_TEST_SUITE_P(OfBlocks, Races, testing::ValuesIn(kOfBlocks), NameOf);
INSTANTIATE_TEST_SUITE_P(OfACopy, Races, testing::ValuesIn(kOfCopies), NameOf);
INSTANTIATE_TEST_SUITE_P(OfWarpgroups, Races, testing::ValuesIn(kOfWarpgroups), NameOf);

}  // namespace
}  // namespace janus::kernels::cuda
