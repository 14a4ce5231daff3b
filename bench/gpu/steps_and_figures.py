"""What scripts/gpu runs, and the figures that it asks for. Only data."""

# These cases test what the host refuses; they need no device.
NOT_OURS = ("Linear.RefusesACpuStream*", "*.NamesTheFirstRow*", "*.RefusesAbsurdValues*")
# One or a few cases for each kernel and form, small enough for reference loops on the host.
FIRST = (
    "Embed.EqualsTheReferenceExactly", "FastEmbed.GivesThePlainFormsBits",
    "RmsNorm.NormsThePiecesOfARowByThemselves", "FastNorm.FollowsItsRule",
    "Rope.EqualsTheReference*", "FastRope.FollowsItsRule",
    "CombineSlots.GivesTheReferencesBits*", "FastCombine.GivesThePlainFormsBits",
    "PermuteRows.MovesEach*", "FastRows.*",
    "PackFp8.GivesTheReferencesBits*", "UnpackFp8.GivesTheReferencesBits*",
    "AddTerms.GivesTheReferencesBits*", "CombineSums.GivesTheReferencesBits*",
    "All/GateTopKTest.EqualsTheReference/Mixtral", "Shapes/FastGateTest.*/PastATile",
    "Both/ScheduleExpertsTest.GivesTheSpecificationsResultAtAModelsSize/*",
    "Ways/GateAndScheduleTest.*/Rows", "Shapes/RouteRoundTest.*/Rows",
    "All/GroupedExpertFfnTest.EqualsTheReference/Bf16",
    "Shapes/FastExpertsTest.*/NoWholeTiles",
    "Wgmma/FastExpertsTest.*/NoWholeTiles", "Wgmma/FastExpertsTest.*/Wide*",
    "WgmmaFp8/FastExpertsTest.*/NoWholeBlocks", "WgmmaFp8/FastExpertsTest.*/Wide*",
    "WgmmaMxfp4/FastExpertsTest.*/NoWholeSteps", "WgmmaMxfp4/FastExpertsTest.*/Wide*",
    "WgmmaExperts.HaveTheSameBits*",
    "All/LinearTest.EqualsTheReference/Bf16", "HeadLinear.EqualsTheReference*",
    "Shapes/FastLinearTest.FollowsItsRule/NoWholeTiles",
    "Shapes/FastHeadLinearTest.FollowsItsRule/NoWholeTiles",
    "KvWrite.Stores*", "All/PagedAttentionTest.EqualsTheReference/APrompt",
    "Shapes/FastAttentionTest.GivesWhatItsRulesSay/GroupOf8",
    "Shapes/FastAttentionTest.GivesWhatItsRulesSay/Fp8GroupOf4",
    "LatentWrite.Stores*", "FastLatentWrite.*", "All/LatentAttentionTest.BothForms*/OddSizes",
    "Shapes/FastAbsorbedTest.GivesWhatItsRulesSay/Heads16",
    "Shapes/FastAbsorbedTest.GivesWhatItsRulesSay/Fp8Heads16",
    "Shapes/WgmmaAbsorbedTest.GivesWhatItsRulesSay/Heads128",
    "Shapes/WgmmaAbsorbedTest.GivesWhatItsRulesSay/Fp8Heads128",
    "Shapes/FastExpandedTest.GivesWhatItsRulesSay/OneHead",
    "SampleOnEveryDevice.TopKBreaks*", "SampleOnCuda.*",
)

PARITY, DEVICE, GOLDEN = "kernels_gpu_test", "device_gpu_test", "golden_gpu_test"


def bench(name, seconds, quiet=20):
    return name, seconds, f"{name}_gpu_bench", quiet


# In order of value: time may be short at the end. Each has a name, a limit of seconds, and a program, or a script that compares
# the lines of benchmarks before it. Then, if they apply: after how many seconds without a line a case counts as hung; cases of
# GoogleTest; the tool of compute-sanitizer under which it runs.
STEPS = (
    bench("machine", 20),
    ("first cases", 60, PARITY, 20, FIRST), ("device", 30, DEVICE, 20), ("golden", 45, GOLDEN, 20),
    bench("gate", 25), bench("experts", 45), bench("attention", 50), ("attention table", 10, "attention_table.py"),
    bench("projections", 20), bench("layer", 25), bench("serve", 80, 40), bench("rows", 20),
    ("free choice", 60, "free_choice.py"), ("transformers", 90, "transformers_decode.py"),
    ("memcheck", 50, PARITY, 0, FIRST, "memcheck"), ("racecheck", 60, PARITY, 0, FIRST, "racecheck"),
    ("synccheck", 40, PARITY, 0, FIRST, "synccheck"), ("memcheck device", 45, DEVICE, 0, (), "memcheck"),
    ("every case", 240, PARITY, 40, ("*",)),
    bench("attention_split512", 25), bench("attention_split2048", 25), bench("processes", 60, 40), bench("premise", 20),
    ("initcheck", 40, PARITY, 0, FIRST, "initcheck"),
)

# Each is a row of the table: what, the bound on an H200, the cases, their field, and how many cases there are. Cases are a regular
# expression for the names of lines. On GPUs without wgmma, "wgmma" in it means "fast". A bound "of reads" is scaled by the read
# rate of other GPUs. A row without a bound is only shown. 0 cases: their number is not known.
FIGURES = (
    ("AEBS greedy, 1.5 times the slots", "<= 8 us", "AEBS of 512 rows of 8 in 256, greedy, (16|32) instances, slots 150 %", "us", 2),
    ("AEBS greedy, twice the slots", "<= 11 us", "AEBS of 512 rows of 8 in 256, greedy, (16|32) instances, slots 200 %", "us", 2),
    ("AEBS exact beyond greedy", "<= 3 us", "AEBS of 512 rows of 8 in 256, exact, (16|32) instances, slots .*", "beyond_greedy_us", 4),
    ("AEBS greedy, 8 instances", "", "AEBS of 512 rows of 8 in 256, greedy, 8 instances, slots .*", "us", 2),
    ("AEBS greedy, 64 instances", "", "AEBS of 512 rows of 8 in 256, greedy, 64 instances, slots .*", "us", 2),
    ("AEBS greedy, 64 rows", "", "AEBS of 64 rows of 8 in 256, greedy, .*", "us", 2),
    ("AEBS greedy, 1,024 rows", "", "AEBS of 1024 rows of 8 in 256, greedy, .*", "us", 2),
    ("AEBS greedy, 8,192 rows", "", "AEBS of 8192 rows of 8 in 256, greedy, .*", "us", 2),
    ("gate and AEBS over their sum", "<= 1", ".*: shares", "of_sum", 4),
    ("whole expert layer, 32 of 256 experts, 128 rows, over reads of its weights", "<= 1.25",
     r"DeepSeek-V3 \w+, whole expert layer of 32 of 256 experts, 128 rows", "over_read", 1),
    ("experts in fp8, a", "<= 8 us", r"DeepSeek-V3 fp8 wgmma, fit of experts of \d+", "a_us", 5),
    ("experts in fp8, b", "<= 10.8 us of reads", r"DeepSeek-V3 fp8 wgmma, fit of experts of \d+", "b_us", 5),
    ("experts in bf16, b", "<= 21.6 us of reads", r"DeepSeek-V3 bf16 wgmma, fit of experts of \d+", "b_us", 5),
    ("experts in fp8 and bf16 from 350 MB up, share of reads", ">= 0.85",
     "DeepSeek-V(3 fp8 wgmma, (8|16|32)|3 bf16 wgmma, (4|8|16|32)|2 fp8 wgmma, (16|32)|2 bf16 wgmma, (8|16|32)) "
     "experts of (1|8|16|32|64)", "share_of_read", 60),
    ("experts in mxfp4 from 350 MB up, 1 to 16 rows, share of reads", ">= 0.85",
     "DeepSeek-V(3 mxfp4 wgmma, (16|32)|2 mxfp4 wgmma, 32) experts of (1|8|16)", "share_of_read", 9),
    ("experts in mxfp4 from 350 MB up, 32 rows, share of reads", ">= 0.6", "DeepSeek-V(3 mxfp4 wgmma, (16|32)|2 mxfp4 wgmma, 32) experts of 32", "share_of_read", 3),
    ("experts in mxfp4 from 350 MB up, 64 rows, share of the tensor cores' rate", "",
     "DeepSeek-V(3 mxfp4 wgmma, (16|32)|2 mxfp4 wgmma, 32) experts of 64", "share_of_peak", 3),
    # A price of p means a rate of 1 / (1 + p) of theirs: here 85 %.
    ("experts of 4,096 rows and more, price beside cuBLASLt", "<= 0.176", r"DeepSeek-V\d bf16 wgmma, \d+ experts of \d+, torch",
     "price", 10),
    ("grouped-query decode, B over reads", ">= 0.95", "(Qwen3-235B|Mixtral) attention (bf16|fp8) fast, fit", "share_of_read", 4),
    ("grouped-query decode, a", "", "(Qwen3-235B|Mixtral) attention (bf16|fp8) fast, fit", "a_us", 4),
    ("grouped-query decode, batch 1, 1,024 keys", "<= 6 us", "(Qwen3-235B|Mixtral) attention bf16 fast, batch 1 context 1024", "us", 2),
    ("grouped-query decode, batch 1, fp8 cache, 4,096 keys", "<= 10 us",
     "(Qwen3-235B|Mixtral) attention fp8 fast, batch 1 context 4096", "us", 2),
    ("grouped-query decode, time over the published one", "", ".* attention (bf16|fp8) fast, .*, table", "ours_over", 0),
    ("MLA decode of 128 heads, goal", ">= 600 TFLOPS",
     r"DeepSeek, 128 heads, latent attention \w+ wgmma, batch (64|128|256) context (4096|16384|65536)", "tflops", 18),
    ("MLA decode of 128 heads, at least", ">= 480 TFLOPS",
     r"DeepSeek, 128 heads, latent attention \w+ wgmma, batch (64|128|256) context (4096|16384|65536)", "tflops", 18),
    ("MLA decode of 128 heads, price of one length of splits", "", r"DeepSeek, 128 heads, latent attention \w+ wgmma, .*",
     "split_price", 12),
    ("MLA decode of 16 heads, a", "<= 8 us", r"DeepSeek, 16 heads, latent attention \w+ fast, fit", "a_us", 2),
    ("MLA decode of 16 heads, B over reads", ">= 0.95", r"DeepSeek, 16 heads, latent attention \w+ fast, fit", "share_of_read", 2),
    ("norm from 64 MiB up, share of copies", ">= 0.9", r"norm of \d+ x \d+, (4096|32768) rows, share", "share_of_copy", 3),
    ("rope from 64 MiB up, share of copies", ">= 0.9", r"rope of \d+ x \d+, \w+, 4096 rows, share", "share_of_copy", 2),
    ("permute and combine from 64 MiB up, share of copies", ">= 0.9", "(permute, 8192|combine of 8, 4096) rows, share", "share_of_copy", 2),
    ("pack and unpack from 64 MiB up, share of copies", ">= 0.9", "(pack in|unpack from) fp8, 8192 rows, share", "share_of_copy", 2),
    ("price of identical bits, projections", "<= 0.03", r".* bf16 fast, \d+ rows, torch", "price", 15),
    ("price of identical bits, attention", "<= 0.03", ".* attention bf16 fast, .*, torch", "price", 27),
    ("price of identical bits, one length of splits", "<= 0.03", "Qwen3-235B attention (bf16|fp8) fast, .*", "split_price", 18),
    ("price of identical bits, norms", "<= 0.03", "norm .*, torch", "price", 3),
    ("a layer in a graph, share of its limits", "", ".* layer in a graph, .*", "share_of_limits", 8),
    ("a layer in a graph, gaps", "", ".* layer in a graph, .*", "gaps_us", 8),
    ("a service: TPOT of 1A1E over that of transformers", "", r".*, transformers, batch \d+", "ours_over", 6),
    ("a service: share of time outside kernels", "", ".*, prompt 64, answer 128", "outside_kernels_share", 48),
    ("a service: the same bits over topologies", ">= 1", ".*, prompt 64, answer 128", "same_bits", 48),
    ("a service: a request's bits over batches", ">= 1", ".*, request 0 over batches of .*", "same_bits", 2),
    ("a service of processes: the same bits", ">= 1", r"\S+ of \d+ layers, \dA\dE.*, prompt 64, answer 64", "same_bits", 10),
)
