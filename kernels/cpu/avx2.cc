#define JANUS_ISA avx2
#define JANUS_TABLE kAvx2Table
#define JANUS_WIDE 0
#define JANUS_BF16 0
#include "kernels/cpu/kernels.inc"
