// SPDX-License-Identifier: Apache-2.0
// This file lets programs read NCCL's parameters. Rondo's parameters are the environment variables that this library
// reads. Each call reads the environment anew.
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/settings.h"

using namespace rondo::compat;

/// A variable: a text, or a number with its default.
struct ncclParamHandle {
  const char *key;
  bool is_text;
  int64_t otherwise;
};

namespace {

constexpr ncclParamHandle parameters[] = {{"NCCL_COMM_BLOCKING", false, 1}, {"NCCL_DEBUG", true, 0},
                                          {"NCCL_DEBUG_FILE", true, 0},     {"NCCL_MAX_CTAS", false, 0},
                                          {"NCCL_SOCKET_IFNAME", true, 0},  {"RONDO_NCCL_VERSION", true, 0}};

const ncclParamHandle *find(const char *key) {
  for (const ncclParamHandle &each : parameters)
    if (std::strcmp(each.key, key) == 0) return &each;
  return nullptr;
}

ncclResult_t unknown(const char *function, const char *key) {
  return refuse(function, std::string("Rondo has no parameter ") + key +
                              "; ncclParamGetAllParameterKeys lists the variables that it reads");
}

/// Checks that `handle` comes from ncclParamBind(), and that `value` is not null.
ncclResult_t check(const char *function, const ncclParamHandle *handle, const void *value) {
  bool known = false;
  for (const ncclParamHandle &each : parameters) known = known || &each == handle;
  if (!known) return refuse(function, "the handle is none that ncclParamBind gave");
  return value != nullptr ? ncclSuccess : refuse(function, "the pointer for the value is NULL");
}

int64_t number_of(const ncclParamHandle &of) { return number(of.key, of.otherwise); }

/// Returns the value as text. A text that is not set is empty.
std::string text_of(const ncclParamHandle &of) {
  if (!of.is_text) return std::to_string(number_of(of));
  const char *const text = variable(of.key);
  return text != nullptr ? text : "";
}

/// Writes the number, which must fit into the caller's type.
template <class Number>
ncclResult_t get_number(const char *function, const ncclParamHandle *handle, Number *value) {
  if (const ncclResult_t checked = check(function, handle, value); checked != ncclSuccess) return checked;
  if (handle->is_text) return refuse(function, std::string(handle->key) + " is a text; use ncclParamGetStr");
  const int64_t found = number_of(*handle);  // never negative
  if (static_cast<uint64_t>(found) > static_cast<uint64_t>(std::numeric_limits<Number>::max()))
    return refuse(function, std::string(handle->key) + " is " + std::to_string(found) +
                                ", which does not fit; use ncclParamGetI64");
  *value = static_cast<Number>(found);
  return ncclSuccess;
}

}  // namespace

bool rondo::compat::is_parameter(const char *name) { return find(name) != nullptr; }

NCCL_EXPORT ncclResult_t ncclParamBind(ncclParamHandle_t *handle, const char *key) {
  if (handle == nullptr || key == nullptr) return refuse("ncclParamBind", "the handle or the key is NULL");
  const ncclParamHandle *const found = find(key);
  if (found == nullptr) return unknown("ncclParamBind", key);
  *handle = const_cast<ncclParamHandle *>(found);  // callers cannot read or change the object
  return ncclSuccess;
}
NCCL_ALIAS(ParamBind)

/// Defines the function that reads a number of this type.
#define NCCL_NUMBER(name, type) \
  NCCL_EXPORT ncclResult_t nccl##name(ncclParamHandle_t handle, type *value) { \
    return get_number("nccl" #name, handle, value); \
  } \
  NCCL_ALIAS(name)

NCCL_NUMBER(ParamGetI8, int8_t)
NCCL_NUMBER(ParamGetI16, int16_t)
NCCL_NUMBER(ParamGetI32, int32_t)
NCCL_NUMBER(ParamGetI64, int64_t)
NCCL_NUMBER(ParamGetU8, uint8_t)
NCCL_NUMBER(ParamGetU16, uint16_t)
NCCL_NUMBER(ParamGetU32, uint32_t)
NCCL_NUMBER(ParamGetU64, uint64_t)

/// Writes a text that is valid until this thread's next call of this function.
NCCL_EXPORT ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char **value) {
  constexpr const char *function = "ncclParamGetStr";
  if (const ncclResult_t checked = check(function, handle, value); checked != ncclSuccess) return checked;
  if (!handle->is_text) return refuse(function, std::string(handle->key) + " is a number; use ncclParamGetI64");
  thread_local std::string text;
  text = text_of(*handle);
  *value = text.c_str();
  return ncclSuccess;
}
NCCL_ALIAS(ParamGetStr)

/// Copies the value: an int64_t, or a text with its final zero byte.
NCCL_EXPORT ncclResult_t ncclParamGet(ncclParamHandle_t handle, void *value, int bytes, int *length) {
  constexpr const char *function = "ncclParamGet";
  if (const ncclResult_t checked = check(function, handle, value); checked != ncclSuccess) return checked;
  if (length == nullptr || bytes <= 0) return refuse(function, "the length is NULL, or the size of the buffer is 0");
  const std::string text = text_of(*handle);
  const int64_t as_number = handle->is_text ? 0 : number_of(*handle);
  const size_t needed = handle->is_text ? text.size() + 1 : sizeof as_number;
  *length = 0;
  if (needed > static_cast<size_t>(bytes))
    return refuse(function, std::string(handle->key) + " needs a buffer of " + std::to_string(needed) + " bytes");
  std::memcpy(value, handle->is_text ? static_cast<const void *>(text.c_str()) : &as_number, needed);
  *length = static_cast<int>(needed);
  return ncclSuccess;
}
NCCL_ALIAS(ParamGet)

/// Writes a text that is valid until this thread's next call of this function.
NCCL_EXPORT ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *length) {
  constexpr const char *function = "ncclParamGetParameter";
  if (key == nullptr || value == nullptr || length == nullptr)
    return refuse(function, "the key, or a pointer for a result, is NULL");
  *value = nullptr;
  *length = 0;
  const ncclParamHandle *const found = find(key);
  if (found == nullptr) return unknown(function, key);
  thread_local std::string text;
  text = text_of(*found);
  *value = text.c_str();
  *length = static_cast<int>(text.size());
  return ncclSuccess;
}
NCCL_ALIAS(ParamGetParameter)

/// Writes a table that is valid until this thread's next call of this function.
NCCL_EXPORT ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *count) {
  if (keys == nullptr || count == nullptr)
    return refuse("ncclParamGetAllParameterKeys", "a pointer for a result is NULL");
  thread_local const char *table[std::size(parameters)];
  for (size_t i = 0; i < std::size(parameters); ++i) table[i] = parameters[i].key;
  *keys = table;
  *count = static_cast<int>(std::size(parameters));
  return ncclSuccess;
}
NCCL_ALIAS(ParamGetAllParameterKeys)

/// Prints all parameters to the standard output, as NCCL does.
NCCL_EXPORT void ncclParamDumpAll() {
  for (const ncclParamHandle &each : parameters) {
    const std::string otherwise = each.is_text ? "" : std::to_string(each.otherwise);
    std::printf("%s (%s): value=%s default=%s\n", each.key, each.is_text ? "text" : "int64_t", text_of(each).c_str(),
                otherwise.c_str());
  }
  std::fflush(stdout);
}
NCCL_ALIAS(ParamDumpAll)
