# Races of the CUDA kernels: each thread of the host form is one to the thread sanitizer
# (kernels/cuda/host_threads.h).

# Planted races are reported.
add_executable(kernels_cuda_races_test cuda_races_test.cc)
target_link_libraries(kernels_cuda_races_test PRIVATE janus_settings janus_common GTest::gtest
                                                      GTest::gtest_main)
add_test(NAME kernels_cuda_races COMMAND kernels_cuda_races_test)

# Left out, too: races that results must show, and a kernel that ends before its copies.
set(cuda_filter "${cuda_filter}:HostBlock.AMissing*:HostBlock.Either*:HostWarp.AMissing*")
string(APPEND cuda_filter ":HostWarp.Either*:Wgmma.ReadsItsOperandsAtAnyTime*:CopyAsync.Is*")
# Short cases of every kernel and every form of a tile.
set(cuda_short
    HostBlock.One* HostBlock.Lagging* HostWarp.Lanes* LoadMatrices* LoadTransposed* LoadNeighbours* MultiplyAdd* CopyAsync*
    Wgmma.* WgmmaDeathTest*
    # what goes over rows once, the draw
    *Norm* *Rope* *Pointwise* ScaleByPosition* *Embed* *Combine* FastRows* *PermuteRows* *PackFp8* AddTerms* CombineSums* KvWrite* *LatentWrite*
    SampleOnCuda* SampleOnEveryDevice.TopK* SampleOnEveryDevice.Zero* SampleOnEveryDevice.DrawsDepend*
    # the gate, AEBS
    GateTopKOnEveryDevice* FastGate* Shapes/FastGateTest.ChoosesAndWeighs* *GateAndSchedule* RouteRound.*
    Shapes/RouteRoundTest*/O* Shapes/RouteRoundTest*/Plain
    Both/ScheduleExpertsTest.GivesTheSpecificationsResultInEveryOrderOfThreads*
    # projections
    HeadLinear* FastLinear* Shapes/FastLinearTest.FollowsItsRule* Shapes/FastHeadLinearTest.FollowsItsRule*
    # attention
    AttentionTasks* PagedAttention* FastAttention.ReadsPagesAt* FastAttention.TakesRowsAndPages*
    FastAttention.ANaN* LatentAttention.TheForms* FastAbsorbed.ReadsPagesAt*
    FastAbsorbed.TakesRowsAndPages* Formats/WgmmaAbsorbed.ReadsPagesAt*
    Shapes/WgmmaAbsorbedTest.GivesWhat*/RowsOf128 Shapes/WgmmaAbsorbedTest.GivesWhat*/*Blocks ExpandedRuns* FastExpanded.ComputesAPrompt* FastExpanded.AZero*
    FastExpanded.TakesRowsAndPages* FastExpanded.TakesMoreRowsThanFindRoom*
    # the experts
    GroupedExpertFfn.Clamps* GroupedExpertFfn.AWeighed* All/GroupedExpertFfnTest*/GptOss* All/GroupedExpertFfnTest*/Llama4* FastExperts.AScaleIsOf* FastExperts.TakeSubnormal* Weights/* Wgmma/*NoWholeTiles*
    WgmmaFp8/*NoWhole* WgmmaMxfp4/*NoWhole* Wgmma/*Again* WgmmaFp8/*Again* WgmmaMxfp4/*Again*)
list(JOIN cuda_short ":" cuda_short)
set(cuda_long ":*/LongInnerOfWideBlocks:*/MostOutputs:*/ManyOutputs:*/TooManyIds")
# Death tests start new processes: a process forked beside fibers goes on without the sanitizer.
set(cuda_command kernels_cuda_test --gtest_death_test_style=threadsafe)
add_test(NAME kernels_cuda COMMAND ${cuda_command} "--gtest_filter=${cuda_short}${cuda_filter}${cuda_long}")
# Every case: scripts/soak races.
add_test(NAME kernels_cuda_all CONFIGURATIONS soak
         COMMAND ${cuda_command} "--gtest_filter=${cuda_filter}")

# scripts/env.sh ignores uninstrumented modules, for gRPC's sake. memcpy and memset would be ignored too.
set_tests_properties(
  kernels_cuda_races kernels_cuda kernels_cuda_all
  PROPERTIES ENVIRONMENT_MODIFICATION
             "TSAN_OPTIONS=string_append: ignore_noninstrumented_modules=0")
set_tests_properties(kernels_cuda_races kernels_cuda PROPERTIES LABELS tsan)
add_dependencies(janus_tsan_tests kernels_cuda_races_test kernels_cuda_test)
