#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void EmbedReference(const EmbedArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t h = 0; h < a.hidden; ++h) {
      a.y[t * a.hidden + h] = ReadElement(a.table, a.table_dtype, a.tokens[t] * a.hidden + h);
    }
  }
}

}  // namespace janus::kernels
