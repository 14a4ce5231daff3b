#define JANUS_ISA avx512
#define JANUS_TABLE kAvx512Table
#define JANUS_WIDE 1
#define JANUS_BF16 0
#include "kernels/cpu/kernels.inc"
