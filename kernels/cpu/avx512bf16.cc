#define JANUS_ISA avx512bf16
#define JANUS_TABLE kAvx512Bf16Table
#define JANUS_WIDE 1
#define JANUS_BF16 1
#include "kernels/cpu/kernels.inc"
