#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/error.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"

namespace janus::control {

// Errors of the store, with the API server's codes and reasons (Kubernetes API conventions,
// "Response Status Kind"). They are built by the same function that parses a server's errors.

ApiError NoSuchResource(const Resource& resource);                         // 404
ApiError NoSuchObject(const Resource& resource, const std::string& name);  // 404
ApiError NameIsTaken(const Resource& resource, const std::string& name);   // 409 AlreadyExists
ApiError VersionConflict(const Resource& resource, const std::string& name,
                         std::string_view why);         // 409 Conflict
ApiError FieldConflicts(std::vector<ApiCause> causes);  // 409 Conflict
ApiError IsForbidden(const Resource& resource, const std::string& name,
                     std::string_view why);  // 403
ApiError BadRequest(std::string message);    // 400
// The result of a patch cannot be read: 422, with the cause "patch".
ApiError UnreadablePatch(const std::string& why);
// A patch or an apply has a different uid: 422.
ApiError UidMayNotChange(const Resource& resource, const std::string& name, std::string_view uid);
// An applied object does not fit the schema: 500; the write was not done.
ApiError NotTyped(const Resource& resource, const std::string& name, const std::string& why);
// A resourceVersion that is not a number: 500; the write was not done.
ApiError NoVersion(std::string_view version);
// An update without resourceVersion of a kind that requires one: 422.
ApiError VersionIsMissing(const Resource& resource, const std::string& name);
ApiError HasVersionAlready();  // of an object to create: 500; the write was not done
// Apply to the scale of a custom resource: 500; the write was not done.
ApiError NoApplyOfScale(const Resource& resource);
ApiError InvalidObject(const Resource& resource, const std::string& name,
                       std::vector<ApiCause> causes);       // 422
ApiError VersionIsTooOld(int64_t version, int64_t oldest);  // 410 Expired
ApiError VersionIsAhead(int64_t version, int64_t newest);   // 504 Timeout
ApiError IsTooLarge(size_t bytes, size_t most);             // 413
ApiError StoreIsFull(size_t most);                          // 500; the write was not done
ApiError NoSuchSubresource(const Resource& resource, std::string_view subresource);  // 404

// The v1 Status that reports a deleted object.
Node DeletedStatus(const Resource& resource, const std::string& name, std::string_view uid);

}  // namespace janus::control
