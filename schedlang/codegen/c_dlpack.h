/* DLTensor, by the header of DLPack where the compiler finds it. Include another copy of that header,
   such as PyTorch's, before this one. */

#if defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define SCHEDLANG_DLPACK
#endif
#endif
#if !defined(SCHEDLANG_DLPACK) && !defined(DLPACK_DLPACK_H_)
#define SCHEDLANG_DLPACK
typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
#endif
