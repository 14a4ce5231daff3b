#pragma once

#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/field_filter.h"
#include "operator/api/tree.h"
#include "operator/kube/protobuf_tables.h"

namespace janus::control {

// The tree that ParseJson makes of the API server's JSON for the same message, read from protobuf:
// the same fields in the same order, times and quantities as texts, what JSON leaves out left out.
// `kept`: as FieldFilter::fields(); null: all; a kJson is kept whole. What it leaves out, and
// fields that `table` does not have (of a newer server), costs no more than to step over it.
//
// A field that may come once and comes twice counts as it came last. Bytes of a text that are no
// UTF-8 read as U+FFFD, as in JSON. InvalidArgument, with the field's name: bytes that are no
// message, or not this one; more than 4,000,000 values; a year beyond 9999. Pure.
Result<Node> ReadProtobuf(std::string_view message, const ProtobufMessage& table,
                          const std::vector<FieldFilter::Field>* kept);

}  // namespace janus::control
