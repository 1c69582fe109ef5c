// A stand-in for the driver's library, libcuda.so.1, for tests of what cuDNN compiles: a module is "loaded" and a
// kernel "found", which is all that an execution plan needs; everything else answers as the toolkit's stub does. These
// are the functions that cuDNN 9 looks for by name.
namespace {

constexpr int kSuccess = 0;
constexpr int kStubLibrary = 34;
char object = 0;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) int
// The signatures are not the driver's: only the first argument is used, where it is a place for an answer.
#define ANSWERS_HANDLE(name)   \
  EXPORT name(void** handle) { \
    *handle = &object;         \
    return kSuccess;           \
  }
#define ANSWERS_ZERO(name)   \
  EXPORT name(int* number) { \
    *number = 0;             \
    return kSuccess;         \
  }
#define DOES_NOTHING(name) \
  EXPORT name() { return kSuccess; }
#define REFUSES(name) \
  EXPORT name() { return kStubLibrary; }

ANSWERS_HANDLE(cuLibraryGetKernel)
ANSWERS_HANDLE(cuLibraryLoadData)
ANSWERS_HANDLE(cuModuleGetFunction)
ANSWERS_HANDLE(cuModuleLoadData)
ANSWERS_HANDLE(cuModuleLoadDataEx)

ANSWERS_ZERO(cuFuncGetAttribute)
ANSWERS_ZERO(cuKernelGetAttribute)

DOES_NOTHING(cuFuncSetAttribute)
DOES_NOTHING(cuKernelSetAttribute)
DOES_NOTHING(cuLibraryUnload)
DOES_NOTHING(cuModuleUnload)

REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetDevice)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetAttribute)
REFUSES(cuDeviceGetCount)
REFUSES(cuDevicePrimaryCtxRelease)
REFUSES(cuDevicePrimaryCtxReset)
REFUSES(cuDevicePrimaryCtxRetain)
REFUSES(cuDriverGetVersion)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuInit)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkAddData_v2)
REFUSES(cuLinkAddFile_v2)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkCreate_v2)
REFUSES(cuLinkDestroy)
REFUSES(cuMemcpyDtoH_v2)
REFUSES(cuModuleGetGlobal_v2)
REFUSES(cuModuleLoadFatBinary)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)
REFUSES(cuStreamSynchronize)
REFUSES(cuTensorMapEncodeTiled)
