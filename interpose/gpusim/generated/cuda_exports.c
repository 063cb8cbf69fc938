/* Written by gpusim/gen_stubs.py. Do not edit. */
/* clang-format off */
#include "cuda_export.h"

SIM_EXPORT CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray) {
    SIM_FAULTS(0xf75b3c9d81115a61ull, 0xf75b3c9d81115a61ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArray3DCreate(pHandle, pAllocateArray));
}

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    SIM_FAULTS(0xc0e72755d38e4f02ull, 0xf75b3c9d81115a61ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArray3DCreate_v2(pHandle, pAllocateArray));
}

SIM_EXPORT CUresult cuArray3DGetDescriptor(void) {
    SIM_FAULTS(0xb33fab2e3a891bc2ull, 0xb33fab2e3a891bc2ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    SIM_FAULTS(0x199f051b81670083ull, 0xb33fab2e3a891bc2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArray3DGetDescriptor_v2(pArrayDescriptor, hArray));
}

SIM_EXPORT CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray) {
    SIM_FAULTS(0xabf17263264b4502ull, 0xabf17263264b4502ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArrayCreate(pHandle, pAllocateArray));
}

SIM_EXPORT CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    SIM_FAULTS(0x0bf79c3a4f36f843ull, 0xabf17263264b4502ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArrayCreate_v2(pHandle, pAllocateArray));
}

SIM_EXPORT CUresult cuArrayDestroy(CUarray hArray) {
    SIM_FAULTS(0xd9c6b797215c8578ull, 0xd9c6b797215c8578ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArrayDestroy(hArray));
}

SIM_EXPORT CUresult cuArrayGetDescriptor(void) {
    SIM_FAULTS(0x1471d2e87c125d27ull, 0x1471d2e87c125d27ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    SIM_FAULTS(0xcf27c46d4f738058ull, 0x1471d2e87c125d27ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuArrayGetDescriptor_v2(pArrayDescriptor, hArray));
}

SIM_EXPORT CUresult cuArrayGetMemoryRequirements(void) {
    SIM_FAULTS(0x5cd311f664eac1f9ull, 0x5cd311f664eac1f9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuArrayGetPlane(void) {
    SIM_FAULTS(0xd60125ae8a064dc4ull, 0xd60125ae8a064dc4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuArrayGetSparseProperties(void) {
    SIM_FAULTS(0x9d25824232882383ull, 0x9d25824232882383ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCheckpointOperationComplete(void) {
    SIM_FAULTS(0x12112a0ac9569dd3ull, 0x12112a0ac9569dd3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
    SIM_FAULTS(0x80c86f4a51f200daull, 0x80c86f4a51f200daull, SIM_CALLER_DEVICE);
    return sim_cuCheckpointProcessCheckpoint(pid, args);
}

SIM_EXPORT CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
    SIM_FAULTS(0xde72cc26a57c9703ull, 0xde72cc26a57c9703ull, SIM_CALLER_DEVICE);
    return sim_cuCheckpointProcessGetRestoreThreadId(pid, tid);
}

SIM_EXPORT CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state) {
    SIM_FAULTS(0x52e76231c19df4bdull, 0x52e76231c19df4bdull, SIM_CALLER_DEVICE);
    return sim_cuCheckpointProcessGetState(pid, state);
}

SIM_EXPORT CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
    SIM_FAULTS(0xfc6e6e8630582463ull, 0xfc6e6e8630582463ull, SIM_CALLER_DEVICE);
    return sim_cuCheckpointProcessLock(pid, args);
}

SIM_EXPORT CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
    SIM_FAULTS(0x1f4722536d84ae36ull, 0x1f4722536d84ae36ull, SIM_CALLER_DEVICE);
    return sim_cuCheckpointProcessRestore(pid, args);
}

SIM_EXPORT CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args) {
    SIM_FAULTS(0xd3db1eff5175e548ull, 0xd3db1eff5175e548ull, SIM_CALLER_DEVICE);
    return sim_cuCheckpointProcessUnlock(pid, args);
}

SIM_EXPORT CUresult cuCoredumpDeregisterCompleteCallback(void) {
    SIM_FAULTS(0xf065daceb1e1aa72ull, 0xf065daceb1e1aa72ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpDeregisterStartCallback(void) {
    SIM_FAULTS(0xd4eedd39916c3835ull, 0xd4eedd39916c3835ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpGetAttribute(void) {
    SIM_FAULTS(0xaf3a036137824e68ull, 0xaf3a036137824e68ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpGetAttributeGlobal(void) {
    SIM_FAULTS(0x72d0cec1672818ffull, 0x72d0cec1672818ffull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpRegisterCompleteCallback(void) {
    SIM_FAULTS(0x03d4d0a6f2e35b45ull, 0x03d4d0a6f2e35b45ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpRegisterStartCallback(void) {
    SIM_FAULTS(0x76ebe90b26c91d18ull, 0x76ebe90b26c91d18ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpSetAttribute(void) {
    SIM_FAULTS(0x680e177180b4b934ull, 0x680e177180b4b934ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCoredumpSetAttributeGlobal(void) {
    SIM_FAULTS(0x447cebe3ce129f7bull, 0x447cebe3ce129f7bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCtxAttach(CUcontext *pctx, unsigned flags) {
    SIM_FAULTS(0x4266731ff1f2cf47ull, 0x4266731ff1f2cf47ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxAttach(pctx, flags));
}

SIM_EXPORT CUresult cuCtxCreate(CUcontext *pctx, unsigned flags, CUdevice dev) {
    SIM_FAULTS(0x1134e3c0e9a4d3daull, 0x1134e3c0e9a4d3daull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuCtxCreate_v2(pctx, flags, dev));
}

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev) {
    SIM_FAULTS(0x79e401b68aa5d91bull, 0x1134e3c0e9a4d3daull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuCtxCreate_v2(pctx, flags, dev));
}

SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, void *paramsArray, int numParams, unsigned flags, CUdevice dev) {
    SIM_FAULTS(0x79e400b68aa5d768ull, 0x1134e3c0e9a4d3daull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev));
}

SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned flags, CUdevice dev) {
    SIM_FAULTS(0x79e407b68aa5e34dull, 0x1134e3c0e9a4d3daull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev));
}

SIM_EXPORT CUresult cuCtxDestroy(CUcontext ctx) {
    SIM_FAULTS(0x42fc011dc84828a0ull, 0x42fc011dc84828a0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxDestroy_v2(ctx));
}

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx) {
    SIM_FAULTS(0xf43db05d5ac5c069ull, 0x42fc011dc84828a0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxDestroy_v2(ctx));
}

SIM_EXPORT CUresult cuCtxDetach(CUcontext ctx) {
    SIM_FAULTS(0xe23c827664f0a449ull, 0xe23c827664f0a449ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxDetach(ctx));
}

SIM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    SIM_FAULTS(0xe8d39ad0795fc6c0ull, 0xe8d39ad0795fc6c0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxDisablePeerAccess(peerContext));
}

SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned Flags) {
    SIM_FAULTS(0x1faa6a7d2d7f8dcfull, 0x1faa6a7d2d7f8dcfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxEnablePeerAccess(peerContext, Flags));
}

SIM_EXPORT CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx) {
    SIM_FAULTS(0xf74fada91146a136ull, 0xf74fada91146a136ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxFromGreenCtx(pContext, hCtx));
}

SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version) {
    SIM_FAULTS(0xdfce5c818e579252ull, 0xdfce5c818e579252ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetApiVersion(ctx, version));
}

SIM_EXPORT CUresult cuCtxGetCacheConfig(int *pconfig) {
    SIM_FAULTS(0x6d0ae6107bebe426ull, 0x6d0ae6107bebe426ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetCacheConfig(pconfig));
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx) {
    SIM_FAULTS(0x3f93933de3ba0e4bull, 0x3f93933de3ba0e4bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetCurrent(pctx));
}

SIM_EXPORT CUresult cuCtxGetDevResource(void) {
    SIM_FAULTS(0xf5b09e1e35685dd1ull, 0xf5b09e1e35685dd1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    SIM_FAULTS(0x51dbcd039642913cull, 0x51dbcd039642913cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetDevice(device));
}

SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
    SIM_FAULTS(0xde5147d2274b8e7dull, 0x51dbcd039642913cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetDevice_v2(device, ctx));
}

SIM_EXPORT CUresult cuCtxGetExecAffinity(void) {
    SIM_FAULTS(0xed4ff26fd32bc467ull, 0xed4ff26fd32bc467ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
    SIM_FAULTS(0x387cd061770ea5a5ull, 0x387cd061770ea5a5ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetFlags(flags));
}

SIM_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
    SIM_FAULTS(0x6fdffdd9c1c485e7ull, 0x6fdffdd9c1c485e7ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetId(ctx, ctxId));
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t *pvalue, int limit) {
    SIM_FAULTS(0x352054b6478b3cf9ull, 0x352054b6478b3cf9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetLimit(pvalue, limit));
}

SIM_EXPORT CUresult cuCtxGetSharedMemConfig(int *pConfig) {
    SIM_FAULTS(0xe9e426f22e1f4c9aull, 0xe9e426f22e1f4c9aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetSharedMemConfig(pConfig));
}

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    SIM_FAULTS(0x0a41f55b9bc965b3ull, 0x0a41f55b9bc965b3ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

SIM_EXPORT CUresult cuCtxPopCurrent(CUcontext *pctx) {
    SIM_FAULTS(0x34445b1a2e43a4d2ull, 0x34445b1a2e43a4d2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxPopCurrent_v2(pctx));
}

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx) {
    SIM_FAULTS(0xe385eaffb48391d3ull, 0x34445b1a2e43a4d2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxPopCurrent_v2(pctx));
}

SIM_EXPORT CUresult cuCtxPushCurrent(CUcontext ctx) {
    SIM_FAULTS(0x9fbd5cf9972d154full, 0x9fbd5cf9972d154full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxPushCurrent_v2(ctx));
}

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    SIM_FAULTS(0x724a1eb8f7b22240ull, 0x9fbd5cf9972d154full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxPushCurrent_v2(ctx));
}

SIM_EXPORT CUresult cuCtxRecordEvent(void) {
    SIM_FAULTS(0x1b8a7ffcfcfb8bb9ull, 0x1b8a7ffcfcfb8bb9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void) {
    SIM_FAULTS(0xfc3ef0d2ba1bb313ull, 0xfc3ef0d2ba1bb313ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxResetPersistingL2Cache());
}

SIM_EXPORT CUresult cuCtxSetCacheConfig(int config) {
    SIM_FAULTS(0xbcfc26872f7e4a42ull, 0xbcfc26872f7e4a42ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSetCacheConfig(config));
}

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx) {
    SIM_FAULTS(0x2862b1cc4e9686dfull, 0x2862b1cc4e9686dfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSetCurrent(ctx));
}

SIM_EXPORT CUresult cuCtxSetFlags(unsigned flags) {
    SIM_FAULTS(0xc2560f969c62c481ull, 0xc2560f969c62c481ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSetFlags(flags));
}

SIM_EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
    SIM_FAULTS(0x726703b6b376cb45ull, 0x726703b6b376cb45ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSetLimit(limit, value));
}

SIM_EXPORT CUresult cuCtxSetSharedMemConfig(int config) {
    SIM_FAULTS(0x105d28a980696106ull, 0x105d28a980696106ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSetSharedMemConfig(config));
}

SIM_EXPORT CUresult cuCtxSynchronize(void) {
    SIM_FAULTS(0x5a5b037fc3136e9cull, 0x5a5b037fc3136e9cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSynchronize());
}

SIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    SIM_FAULTS(0x5bfd7528935c501dull, 0x5a5b037fc3136e9cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuCtxSynchronize_v2(ctx));
}

SIM_EXPORT CUresult cuCtxWaitEvent(void) {
    SIM_FAULTS(0x1cef025dec72f7c1ull, 0x1cef025dec72f7c1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory extMem) {
    SIM_FAULTS(0xf316ecf3a751d115ull, 0xf316ecf3a751d115ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuDestroyExternalMemory(extMem));
}

SIM_EXPORT CUresult cuDestroyExternalSemaphore(void) {
    SIM_FAULTS(0x7be67f7c8fe8ebb4ull, 0x7be67f7c8fe8ebb4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDevResourceGenerateDesc(void) {
    SIM_FAULTS(0x261bd481a3eea3caull, 0x261bd481a3eea3caull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDevSmResourceSplit(void) {
    SIM_FAULTS(0xec81a47fc6dac75cull, 0xec81a47fc6dac75cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDevSmResourceSplitByCount(void) {
    SIM_FAULTS(0x107f6d7e0d5e9fa0ull, 0x107f6d7e0d5e9fa0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    SIM_FAULTS(0x85061f1e72635149ull, 0x85061f1e72635149ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceCanAccessPeer(canAccessPeer, dev, peerDev));
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    SIM_FAULTS(0xd9699d0895fa1f8aull, 0xd9699d0895fa1f8aull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceComputeCapability(major, minor, dev));
}

SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    SIM_FAULTS(0xbd630f5fa6568c3dull, 0xbd630f5fa6568c3dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuDeviceGet(device, ordinal));
}

SIM_EXPORT CUresult cuDeviceGetAttribute(int *pi, int attrib, CUdevice dev) {
    SIM_FAULTS(0xf187993a83f22b47ull, 0xf187993a83f22b47ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetAttribute(pi, attrib, dev));
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    SIM_FAULTS(0x240a3704dba4c72full, 0x240a3704dba4c72full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuDeviceGetByPCIBusId(dev, pciBusId));
}

SIM_EXPORT CUresult cuDeviceGetCliqueCount(void) {
    SIM_FAULTS(0x17e14b7f669fc7bdull, 0x17e14b7f669fc7bdull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetCliqueInfo(void) {
    SIM_FAULTS(0xeac75d10f7612cbeull, 0xeac75d10f7612cbeull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetCount(int *count) {
    SIM_FAULTS(0x4c1edace4985bfbcull, 0x4c1edace4985bfbcull, SIM_CALLER_DEVICE);
    return sim_cuDeviceGetCount(count);
}

SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    SIM_FAULTS(0x8509bc66637089e1ull, 0x8509bc66637089e1ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetDefaultMemPool(pool_out, dev));
}

SIM_EXPORT CUresult cuDeviceGetDevResource(void) {
    SIM_FAULTS(0x79ff49e636874438ull, 0x79ff49e636874438ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetExecAffinitySupport(int *pi, int type, CUdevice dev) {
    SIM_FAULTS(0x2e11bfbc5ce25affull, 0x2e11bfbc5ce25affull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetExecAffinitySupport(pi, type, dev));
}

SIM_EXPORT CUresult cuDeviceGetFabricClusterUuid(void) {
    SIM_FAULTS(0xb890630d8edda861ull, 0xb890630d8edda861ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attr, void *value) {
    SIM_FAULTS(0xf93c3d6874e080acull, 0xf93c3d6874e080acull, SIM_DEVICE(device));
    return SIM_GATED(sim_cuDeviceGetGraphMemAttribute(device, attr, value));
}

SIM_EXPORT CUresult cuDeviceGetHostAtomicCapabilities(void) {
    SIM_FAULTS(0x0e2f6fe3b4faaa4cull, 0x0e2f6fe3b4faaa4cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetLuid(void) {
    SIM_FAULTS(0xe905c0f804f3eb0full, 0xe905c0f804f3eb0full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
    SIM_FAULTS(0xed0ee06ec736fb8cull, 0xed0ee06ec736fb8cull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetMemPool(pool, dev));
}

SIM_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
    SIM_FAULTS(0xfc786c04a11dc95eull, 0xfc786c04a11dc95eull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetName(name, len, dev));
}

SIM_EXPORT CUresult cuDeviceGetNvSciSyncAttributes(void) {
    SIM_FAULTS(0x7a19f016f77783a4ull, 0x7a19f016f77783a4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(void) {
    SIM_FAULTS(0x27b00e38cfc767eeull, 0x27b00e38cfc767eeull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attrib, CUdevice srcDevice, CUdevice dstDevice) {
    SIM_FAULTS(0x73c37a949acad9a7ull, 0x73c37a949acad9a7ull, SIM_DEVICE(srcDevice));
    return SIM_GATED(sim_cuDeviceGetP2PAttribute(value, attrib, srcDevice, dstDevice));
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    SIM_FAULTS(0x2e3f6a0f09ff6b42ull, 0x2e3f6a0f09ff6b42ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetPCIBusId(pciBusId, len, dev));
}

SIM_EXPORT CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
    SIM_FAULTS(0x8b9e2b2df52bd174ull, 0x8b9e2b2df52bd174ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetProperties(prop, dev));
}

SIM_EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidth, int format, unsigned numChannels, CUdevice dev) {
    SIM_FAULTS(0xb0e5632a11191ac6ull, 0xb0e5632a11191ac6ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetTexture1DLinearMaxWidth(maxWidth, format, numChannels, dev));
}

SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    SIM_FAULTS(0x1940beab2e696c5aull, 0x1940beab2e696c5aull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetUuid(uuid, dev));
}

SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    SIM_FAULTS(0xf1404c3524c6b69bull, 0x1940beab2e696c5aull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceGetUuid_v2(uuid, dev));
}

SIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
    SIM_FAULTS(0xf81573796722fedaull, 0xf81573796722fedaull, SIM_DEVICE(device));
    return SIM_GATED(sim_cuDeviceGraphMemTrim(device));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active) {
    SIM_FAULTS(0x5e4845ab90c27eadull, 0x5e4845ab90c27eadull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxGetState(dev, flags, active));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    SIM_FAULTS(0x0225fcc8500a2d31ull, 0x0225fcc8500a2d31ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxRelease_v2(dev));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    SIM_FAULTS(0xaa97d31c45406492ull, 0x0225fcc8500a2d31ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxRelease_v2(dev));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    SIM_FAULTS(0xf0b5c229cef22c4bull, 0xf0b5c229cef22c4bull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxReset_v2(dev));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    SIM_FAULTS(0x0de1b0779841cc24ull, 0xf0b5c229cef22c4bull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxReset_v2(dev));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    SIM_FAULTS(0xa3538de0d92ad301ull, 0xa3538de0d92ad301ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxRetain(pctx, dev));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) {
    SIM_FAULTS(0x82a880d2d44ef187ull, 0x82a880d2d44ef187ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags) {
    SIM_FAULTS(0x5749e47dbfeca7f8ull, 0x82a880d2d44ef187ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags));
}

SIM_EXPORT CUresult cuDeviceRegisterAsyncNotification(void) {
    SIM_FAULTS(0x360a27228d7e8149ull, 0x360a27228d7e8149ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceSetGraphMemAttribute(void) {
    SIM_FAULTS(0x6b9e70a4f669b560ull, 0x6b9e70a4f669b560ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    SIM_FAULTS(0x85e5bf4095952b88ull, 0x85e5bf4095952b88ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceSetMemPool(dev, pool));
}

SIM_EXPORT CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice dev) {
    SIM_FAULTS(0x4d59ab4b03f23760ull, 0x4d59ab4b03f23760ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceTotalMem(bytes, dev));
}

SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    SIM_FAULTS(0x32327c72ccb259a9ull, 0x4d59ab4b03f23760ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuDeviceTotalMem_v2(bytes, dev));
}

SIM_EXPORT CUresult cuDeviceUnregisterAsyncNotification(void) {
    SIM_FAULTS(0xbe6f36d3b48ac408ull, 0xbe6f36d3b48ac408ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuDriverGetVersion(int *driverVersion) {
    SIM_FAULTS(0x7c7ec0021b5d2443ull, 0x7c7ec0021b5d2443ull, SIM_CALLER_DEVICE);
    return sim_cuDriverGetVersion(driverVersion);
}

SIM_EXPORT CUresult cuEGLStreamConsumerAcquireFrame(void) {
    SIM_FAULTS(0xea533e534085bebeull, 0xea533e534085bebeull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamConsumerConnect(void) {
    SIM_FAULTS(0x541c316367025f47ull, 0x541c316367025f47ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamConsumerConnectWithFlags(void) {
    SIM_FAULTS(0x69098de29303b7c6ull, 0x69098de29303b7c6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamConsumerDisconnect(void) {
    SIM_FAULTS(0x994dc30fb5fe8859ull, 0x994dc30fb5fe8859ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamConsumerReleaseFrame(void) {
    SIM_FAULTS(0x0ff1605855d6caadull, 0x0ff1605855d6caadull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamProducerConnect(void) {
    SIM_FAULTS(0x5c1414b1a6a779b1ull, 0x5c1414b1a6a779b1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamProducerDisconnect(void) {
    SIM_FAULTS(0x49f0ecb41192fba3ull, 0x49f0ecb41192fba3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamProducerPresentFrame(void) {
    SIM_FAULTS(0x069940b848e46221ull, 0x069940b848e46221ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEGLStreamProducerReturnFrame(void) {
    SIM_FAULTS(0xdbe234ad92c15fccull, 0xdbe234ad92c15fccull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned Flags) {
    SIM_FAULTS(0x3330e3ffcc323e87ull, 0x3330e3ffcc323e87ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventCreate(phEvent, Flags));
}

SIM_EXPORT CUresult cuEventCreateFromEGLSync(void) {
    SIM_FAULTS(0xf60a1805333b0e8eull, 0xf60a1805333b0e8eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuEventDestroy(CUevent hEvent) {
    SIM_FAULTS(0xeed9e8e36f15482full, 0xeed9e8e36f15482full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventDestroy_v2(hEvent));
}

SIM_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent) {
    SIM_FAULTS(0xfec4eb786dad55e0ull, 0xeed9e8e36f15482full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventDestroy_v2(hEvent));
}

SIM_EXPORT CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    SIM_FAULTS(0x4268599350f9fd64ull, 0x4268599350f9fd64ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventElapsedTime(pMilliseconds, hStart, hEnd));
}

SIM_EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    SIM_FAULTS(0x264228478c5c82a5ull, 0x4268599350f9fd64ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd));
}

SIM_EXPORT CUresult cuEventQuery(CUevent hEvent) {
    SIM_FAULTS(0x8beb844fcebcb245ull, 0x8beb844fcebcb245ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventQuery(hEvent));
}

SIM_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
    SIM_FAULTS(0x7db49c6586039bf6ull, 0x7db49c6586039bf6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventRecord(hEvent, hStream));
}

SIM_EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned flags) {
    SIM_FAULTS(0xdd38987ad3e24f4dull, 0xdd38987ad3e24f4dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventRecordWithFlags(hEvent, hStream, flags));
}

SIM_EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned flags) {
    SIM_FAULTS(0x8b1d943bef9f022bull, 0xdd38987ad3e24f4dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventRecordWithFlags(hEvent, SIM_PER_THREAD(hStream), flags));
}

SIM_EXPORT CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
    SIM_FAULTS(0xe42e8d2a084434eaull, 0x7db49c6586039bf6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventRecord(hEvent, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent hEvent) {
    SIM_FAULTS(0x67b362955e49bc97ull, 0x67b362955e49bc97ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuEventSynchronize(hEvent));
}

SIM_EXPORT CUresult cuExternalMemoryGetMappedBuffer(void) {
    SIM_FAULTS(0xc8ff4f7bd8f6f196ull, 0xc8ff4f7bd8f6f196ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuExternalMemoryGetMappedMipmappedArray(void) {
    SIM_FAULTS(0xc267910cc28bdf9eull, 0xc267910cc28bdf9eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFabricCpyBatchAsync(void) {
    SIM_FAULTS(0xe48c40d6e2b5959aull, 0xe48c40d6e2b5959aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFabricCpyBatchAsync_ptsz(void) {
    SIM_FAULTS(0x0aa58afae47d5c96ull, 0xe48c40d6e2b5959aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFlushGPUDirectRDMAWrites(void) {
    SIM_FAULTS(0x9593fe60d50bea80ull, 0x9593fe60d50bea80ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFuncGetAttribute(int *pi, int attrib, CUfunction hfunc) {
    SIM_FAULTS(0xf5bf3e61d4a5c12bull, 0xf5bf3e61d4a5c12bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncGetAttribute(pi, attrib, hfunc));
}

SIM_EXPORT CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
    SIM_FAULTS(0x53eff2f73ca92009ull, 0x53eff2f73ca92009ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncGetModule(hmod, hfunc));
}

SIM_EXPORT CUresult cuFuncGetName(const char **name, CUfunction hfunc) {
    SIM_FAULTS(0xc868214a9370b9eaull, 0xc868214a9370b9eaull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncGetName(name, hfunc));
}

SIM_EXPORT CUresult cuFuncGetParamCount(void) {
    SIM_FAULTS(0xab948c1deea3e12dull, 0xab948c1deea3e12dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFuncGetParamInfo(void) {
    SIM_FAULTS(0x0b27d4c97ab2bbceull, 0x0b27d4c97ab2bbceull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFuncIsLoaded(int *state, CUfunction function) {
    SIM_FAULTS(0xe52f34d93339f7daull, 0xe52f34d93339f7daull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncIsLoaded(state, function));
}

SIM_EXPORT CUresult cuFuncLoad(CUfunction function) {
    SIM_FAULTS(0xa53bfaf4cf1cb53full, 0xa53bfaf4cf1cb53full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncLoad(function));
}

SIM_EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, int attrib, int value) {
    SIM_FAULTS(0x042f9eba61ce5d87ull, 0x042f9eba61ce5d87ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncSetAttribute(hfunc, attrib, value));
}

SIM_EXPORT CUresult cuFuncSetBlockShape(void) {
    SIM_FAULTS(0xf9dbb76c5ef35617ull, 0xf9dbb76c5ef35617ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction hfunc, int config) {
    SIM_FAULTS(0xa6c342f0cb5a78cfull, 0xa6c342f0cb5a78cfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncSetCacheConfig(hfunc, config));
}

SIM_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, int config) {
    SIM_FAULTS(0x8d84af7fc848ea7full, 0x8d84af7fc848ea7full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuFuncSetSharedMemConfig(hfunc, config));
}

SIM_EXPORT CUresult cuFuncSetSharedSize(void) {
    SIM_FAULTS(0xa8cf2ad74324bc95ull, 0xa8cf2ad74324bc95ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLCtxCreate(void) {
    SIM_FAULTS(0xefebbc2c15b8eab3ull, 0xefebbc2c15b8eab3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLCtxCreate_v2(void) {
    SIM_FAULTS(0xf369f287a7cc5a4cull, 0xefebbc2c15b8eab3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLGetDevices(void) {
    SIM_FAULTS(0x5fd80146b457ed5dull, 0x5fd80146b457ed5dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLGetDevices_v2(void) {
    SIM_FAULTS(0x5c38a03497b8ae66ull, 0x5fd80146b457ed5dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLInit(void) {
    SIM_FAULTS(0x0dff6ff1150e9784ull, 0x0dff6ff1150e9784ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLMapBufferObject(void) {
    SIM_FAULTS(0xa50b865e6ec96289ull, 0xa50b865e6ec96289ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLMapBufferObjectAsync(void) {
    SIM_FAULTS(0x42d4c51fe23c3d73ull, 0x42d4c51fe23c3d73ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLMapBufferObjectAsync_v2(void) {
    SIM_FAULTS(0xd2362a13c56e368cull, 0x42d4c51fe23c3d73ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLMapBufferObjectAsync_v2_ptsz(void) {
    SIM_FAULTS(0x7855d67242fae830ull, 0x42d4c51fe23c3d73ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLMapBufferObject_v2(void) {
    SIM_FAULTS(0x19622043583f68caull, 0xa50b865e6ec96289ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLMapBufferObject_v2_ptds(void) {
    SIM_FAULTS(0x34c24437f5b89f3aull, 0xa50b865e6ec96289ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLRegisterBufferObject(void) {
    SIM_FAULTS(0x56640bd87180f342ull, 0x56640bd87180f342ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLSetBufferObjectMapFlags(void) {
    SIM_FAULTS(0x00dae6fe857c3d3eull, 0x00dae6fe857c3d3eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLUnmapBufferObject(void) {
    SIM_FAULTS(0x1e55198dca55faccull, 0x1e55198dca55faccull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLUnmapBufferObjectAsync(void) {
    SIM_FAULTS(0x9a30e01e4706c2b0ull, 0x9a30e01e4706c2b0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGLUnregisterBufferObject(void) {
    SIM_FAULTS(0x75b4c09d86c9bec9ull, 0x75b4c09d86c9bec9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr) {
    SIM_FAULTS(0x21608eb0cf6b3ea4ull, 0x21608eb0cf6b3ea4ull, SIM_CALLER_DEVICE);
    return sim_cuGetErrorName(error, pStr);
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr) {
    SIM_FAULTS(0xdaaa7b90883f3c72ull, 0xdaaa7b90883f3c72ull, SIM_CALLER_DEVICE);
    return sim_cuGetErrorString(error, pStr);
}

SIM_EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    SIM_FAULTS(0x3af36090a3b056dfull, 0x3af36090a3b056dfull, SIM_CALLER_DEVICE);
    return sim_cuGetExportTable(ppExportTable, pExportTableId);
}

SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
    SIM_FAULTS(0x6ca4cf43eecf1e65ull, 0x6ca4cf43eecf1e65ull, SIM_CALLER_DEVICE);
    return sim_cuGetProcAddress(symbol, pfn, cudaVersion, flags);
}

SIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, int *symbolStatus) {
    SIM_FAULTS(0x76fb9eaf33deb3eeull, 0x6ca4cf43eecf1e65ull, SIM_CALLER_DEVICE);
    return sim_cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
}

SIM_EXPORT CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, int *symbolStatus) {
    SIM_FAULTS(0xe5ca0a37c324ef52ull, 0x6ca4cf43eecf1e65ull, SIM_CALLER_DEVICE);
    return sim_cuGetProcAddress_v2_ptsz(symbol, pfn, cudaVersion, flags, symbolStatus);
}

SIM_EXPORT CUresult cuGraphAddBatchMemOpNode(void) {
    SIM_FAULTS(0xcd278f554d4a3950ull, 0xcd278f554d4a3950ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph) {
    SIM_FAULTS(0xaaaed9121518cfd8ull, 0xaaaed9121518cfd8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies, childGraph));
}

SIM_EXPORT CUresult cuGraphAddDependencies(void) {
    SIM_FAULTS(0x92cb0f264c6cde3full, 0x92cb0f264c6cde3full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddDependencies_v2(void) {
    SIM_FAULTS(0xe85b5a1f3a979630ull, 0x92cb0f264c6cde3full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies) {
    SIM_FAULTS(0xafd9283940076a77ull, 0xafd9283940076a77ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddEmptyNode(phGraphNode, hGraph, dependencies, numDependencies));
}

SIM_EXPORT CUresult cuGraphAddEventRecordNode(void) {
    SIM_FAULTS(0xca52d66751bf0d6bull, 0xca52d66751bf0d6bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddEventWaitNode(void) {
    SIM_FAULTS(0xc70b7c6cb2e23513ull, 0xc70b7c6cb2e23513ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddExternalSemaphoresSignalNode(void) {
    SIM_FAULTS(0x7cffd0573e9cf452ull, 0x7cffd0573e9cf452ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddExternalSemaphoresWaitNode(void) {
    SIM_FAULTS(0x6c9251a0ae624cf3ull, 0x6c9251a0ae624cf3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams) {
    SIM_FAULTS(0xad8d0394dc23e2f8ull, 0xad8d0394dc23e2f8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddHostNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

SIM_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    SIM_FAULTS(0xc2cb08029351b1dbull, 0xc2cb08029351b1dbull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddKernelNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

SIM_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    SIM_FAULTS(0x64628b60b39ae074ull, 0xc2cb08029351b1dbull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

SIM_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    SIM_FAULTS(0xb6cdb6dde9c07080ull, 0xb6cdb6dde9c07080ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

SIM_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr) {
    SIM_FAULTS(0x411fc79bc79c6835ull, 0x411fc79bc79c6835ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies, dptr));
}

SIM_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    SIM_FAULTS(0x46e978e4bf4cd51full, 0x46e978e4bf4cd51full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddMemcpyNode(phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx));
}

SIM_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
    SIM_FAULTS(0x03ebe35ed09389fdull, 0x03ebe35ed09389fdull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddMemsetNode(phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx));
}

SIM_EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *nodeParams) {
    SIM_FAULTS(0x27b02298a7806d0eull, 0x27b02298a7806d0eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

SIM_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const void *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams) {
    SIM_FAULTS(0x47007dc137e6a287ull, 0x27b02298a7806d0eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams));
}

SIM_EXPORT CUresult cuGraphAddNode_v3(void) {
    SIM_FAULTS(0x47007cc137e6a0d4ull, 0x27b02298a7806d0eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphBatchMemOpNodeGetParams(void) {
    SIM_FAULTS(0xc6138d4a55b1eeddull, 0xc6138d4a55b1eeddull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphBatchMemOpNodeSetParams(void) {
    SIM_FAULTS(0x897373d0bc50a651ull, 0x897373d0bc50a651ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
    SIM_FAULTS(0x438c27b4c3b8b15dull, 0x438c27b4c3b8b15dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphChildGraphNodeGetGraph(hNode, phGraph));
}

SIM_EXPORT CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
    SIM_FAULTS(0x9f7985fe7900b664ull, 0x9f7985fe7900b664ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphClone(phGraphClone, originalGraph));
}

SIM_EXPORT CUresult cuGraphConditionalHandleCreate(void) {
    SIM_FAULTS(0xd248822793b77c5bull, 0xd248822793b77c5bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphCreate(CUgraph *phGraph, unsigned flags) {
    SIM_FAULTS(0x624fc1cd38d0d8afull, 0x624fc1cd38d0d8afull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphCreate(phGraph, flags));
}

SIM_EXPORT CUresult cuGraphDebugDotPrint(void) {
    SIM_FAULTS(0xe613fdf515cf91d0ull, 0xe613fdf515cf91d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph hGraph) {
    SIM_FAULTS(0xc7c690a068ea0827ull, 0xc7c690a068ea0827ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphDestroy(hGraph));
}

SIM_EXPORT CUresult cuGraphDestroyNode(void) {
    SIM_FAULTS(0x43f7ae7454b8dc47ull, 0x43f7ae7454b8dc47ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphEventRecordNodeGetEvent(void) {
    SIM_FAULTS(0x3dfcf49342edb0ecull, 0x3dfcf49342edb0ecull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphEventRecordNodeSetEvent(void) {
    SIM_FAULTS(0x7b4e204369863ff0ull, 0x7b4e204369863ff0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphEventWaitNodeGetEvent(void) {
    SIM_FAULTS(0x32302a6a3137fd00ull, 0x32302a6a3137fd00ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphEventWaitNodeSetEvent(void) {
    SIM_FAULTS(0xa3da2235e590d95cull, 0xa3da2235e590d95cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(void) {
    SIM_FAULTS(0xbbc70c04dfea723eull, 0xbbc70c04dfea723eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(void) {
    SIM_FAULTS(0x326d3c7e49744e66ull, 0x326d3c7e49744e66ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraph hGraphExec) {
    SIM_FAULTS(0x968e6ec634e86d04ull, 0x968e6ec634e86d04ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphExecDestroy(hGraphExec));
}

SIM_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(void) {
    SIM_FAULTS(0x7689d9bb1d05012bull, 0x7689d9bb1d05012bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(void) {
    SIM_FAULTS(0x4c25aff225c0fc63ull, 0x4c25aff225c0fc63ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecExternalSemaphoresSignalNodeSetParams(void) {
    SIM_FAULTS(0x50f3cbf0006b3a48ull, 0x50f3cbf0006b3a48ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecExternalSemaphoresWaitNodeSetParams(void) {
    SIM_FAULTS(0x8a5e9b8729f826efull, 0x8a5e9b8729f826efull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecGetFlags(void) {
    SIM_FAULTS(0xd5b2ebc9f35e5be1ull, 0xd5b2ebc9f35e5be1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecGetId(void) {
    SIM_FAULTS(0x3cefc39d75bd31fbull, 0x3cefc39d75bd31fbull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecHostNodeSetParams(void) {
    SIM_FAULTS(0x057c3dcd5133fbc6ull, 0x057c3dcd5133fbc6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams(void) {
    SIM_FAULTS(0xdd8be77a92c52557ull, 0xdd8be77a92c52557ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(void) {
    SIM_FAULTS(0x023bcaf82f9ddd88ull, 0xdd8be77a92c52557ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(void) {
    SIM_FAULTS(0xb542d1ed64affb9bull, 0xb542d1ed64affb9bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecMemsetNodeSetParams(void) {
    SIM_FAULTS(0x00c449599d1a1ef9ull, 0x00c449599d1a1ef9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecNodeSetParams(void) {
    SIM_FAULTS(0x7154bb8473128344ull, 0x7154bb8473128344ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecUpdate(void) {
    SIM_FAULTS(0x68b9049c1d9673c3ull, 0x68b9049c1d9673c3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExecUpdate_v2(void) {
    SIM_FAULTS(0x9c0f3c33ccd985dcull, 0x68b9049c1d9673c3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExternalSemaphoresSignalNodeGetParams(void) {
    SIM_FAULTS(0x947f3c66ece7910full, 0x947f3c66ece7910full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExternalSemaphoresSignalNodeSetParams(void) {
    SIM_FAULTS(0x6cafefbf58525163ull, 0x6cafefbf58525163ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExternalSemaphoresWaitNodeGetParams(void) {
    SIM_FAULTS(0x8ace0733a6e223bcull, 0x8ace0733a6e223bcull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphExternalSemaphoresWaitNodeSetParams(void) {
    SIM_FAULTS(0x2a3c7ea98d7ccd98ull, 0x2a3c7ea98d7ccd98ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphGetEdges(void) {
    SIM_FAULTS(0x7d7e277fd26e1481ull, 0x7d7e277fd26e1481ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphGetEdges_v2(void) {
    SIM_FAULTS(0x3ce796d314c21562ull, 0x7d7e277fd26e1481ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphGetId(void) {
    SIM_FAULTS(0xae49600b70df5624ull, 0xae49600b70df5624ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
    SIM_FAULTS(0x72739b44f9036abeull, 0x72739b44f9036abeull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphGetNodes(hGraph, nodes, numNodes));
}

SIM_EXPORT CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
    SIM_FAULTS(0xdc5ed25a8e31f316ull, 0xdc5ed25a8e31f316ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphGetRootNodes(hGraph, rootNodes, numRootNodes));
}

SIM_EXPORT CUresult cuGraphHostNodeGetParams(void) {
    SIM_FAULTS(0xa1b245f3cf67add1ull, 0xa1b245f3cf67add1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphHostNodeSetParams(void) {
    SIM_FAULTS(0xde525f6d68c8f65dull, 0xde525f6d68c8f65dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphInstantiate(void) {
    SIM_FAULTS(0xe140d6fd27b8bbcdull, 0xe140d6fd27b8bbcdull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraph *phGraphExec, CUgraph hGraph, unsigned long long flags) {
    SIM_FAULTS(0x586bd0796e46ad68ull, 0x586bd0796e46ad68ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags));
}

SIM_EXPORT CUresult cuGraphInstantiateWithParams(CUgraph *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    SIM_FAULTS(0x8fc0669e303a8747ull, 0x8fc0669e303a8747ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams));
}

SIM_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraph *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    SIM_FAULTS(0xae205e96e63c278dull, 0x8fc0669e303a8747ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams));
}

SIM_EXPORT CUresult cuGraphInstantiate_v2(CUgraph *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) {
    SIM_FAULTS(0xe52917225c13b896ull, 0xe140d6fd27b8bbcdull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

SIM_EXPORT CUresult cuGraphKernelNodeCopyAttributes(void) {
    SIM_FAULTS(0x6ce07cb52133867aull, 0x6ce07cb52133867aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetAttribute(void) {
    SIM_FAULTS(0xfefa3f1e6eabdff2ull, 0xfefa3f1e6eabdff2ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetParams(void) {
    SIM_FAULTS(0xa831e92f3326da5cull, 0xa831e92f3326da5cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    SIM_FAULTS(0xb4f621be7cf0085dull, 0xa831e92f3326da5cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphKernelNodeGetParams_v2(hNode, nodeParams));
}

SIM_EXPORT CUresult cuGraphKernelNodeSetAttribute(void) {
    SIM_FAULTS(0x90fbdd760bccc096ull, 0x90fbdd760bccc096ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams(void) {
    SIM_FAULTS(0xe8b5046de95c57b8ull, 0xe8b5046de95c57b8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    SIM_FAULTS(0x6152c9a76e946d21ull, 0xe8b5046de95c57b8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphKernelNodeSetParams_v2(hNode, nodeParams));
}

SIM_EXPORT CUresult cuGraphLaunch(CUgraph hGraphExec, CUstream hStream) {
    SIM_FAULTS(0x5beb3d66011ab0d8ull, 0x5beb3d66011ab0d8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphLaunch(hGraphExec, hStream));
}

SIM_EXPORT CUresult cuGraphLaunch_ptsz(CUgraph hGraphExec, CUstream hStream) {
    SIM_FAULTS(0x5c85c2e1c6b535c4ull, 0x5beb3d66011ab0d8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphLaunch(hGraphExec, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
    SIM_FAULTS(0x881230014b551fc9ull, 0x881230014b551fc9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphMemAllocNodeGetParams(hNode, params_out));
}

SIM_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
    SIM_FAULTS(0x7e43ded0f4425310ull, 0x7e43ded0f4425310ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphMemFreeNodeGetParams(hNode, dptr_out));
}

SIM_EXPORT CUresult cuGraphMemcpyNodeGetParams(void) {
    SIM_FAULTS(0x8c7683342e123e18ull, 0x8c7683342e123e18ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphMemcpyNodeSetParams(void) {
    SIM_FAULTS(0xed080bbe4777943cull, 0xed080bbe4777943cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphMemsetNodeGetParams(void) {
    SIM_FAULTS(0x93362d10f12eda92ull, 0x93362d10f12eda92ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphMemsetNodeSetParams(void) {
    SIM_FAULTS(0x3725321c941e549eull, 0x3725321c941e549eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(void) {
    SIM_FAULTS(0xca67543fc4ba13b8ull, 0xca67543fc4ba13b8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetContainingGraph(void) {
    SIM_FAULTS(0x0a6a26aa3c46663bull, 0x0a6a26aa3c46663bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies(void) {
    SIM_FAULTS(0x1f86ecd80df0162cull, 0x1f86ecd80df0162cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies_v2(void) {
    SIM_FAULTS(0xc9039d239294572dull, 0x1f86ecd80df0162cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetDependentNodes(void) {
    SIM_FAULTS(0xae93e253e0e94219ull, 0xae93e253e0e94219ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(void) {
    SIM_FAULTS(0xe222feb28f7d721aull, 0xae93e253e0e94219ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetEnabled(void) {
    SIM_FAULTS(0x0354973d6152835aull, 0x0354973d6152835aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetLocalId(void) {
    SIM_FAULTS(0xe79b9c3b758f4ba9ull, 0xe79b9c3b758f4ba9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetParams(void) {
    SIM_FAULTS(0xe3d218f9685d7be7ull, 0xe3d218f9685d7be7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetToolsId(void) {
    SIM_FAULTS(0x5027f1386dbba0ddull, 0x5027f1386dbba0ddull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeGetType(CUgraphNode hNode, int *type) {
    SIM_FAULTS(0x79afb4574b124ed9ull, 0x79afb4574b124ed9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphNodeGetType(hNode, type));
}

SIM_EXPORT CUresult cuGraphNodeSetEnabled(void) {
    SIM_FAULTS(0x9d79c8b299ca6066ull, 0x9d79c8b299ca6066ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeSetParams(void) {
    SIM_FAULTS(0x0b1a13843baa5e1bull, 0x0b1a13843baa5e1bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphNodeSetParams_v2(void) {
    SIM_FAULTS(0x2ead6abb04ee5934ull, 0x0b1a13843baa5e1bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphReleaseUserObject(void) {
    SIM_FAULTS(0xda3188db8ba43ffcull, 0xda3188db8ba43ffcull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphRemoveDependencies(void) {
    SIM_FAULTS(0x10f8f93f1d6ba986ull, 0x10f8f93f1d6ba986ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphRemoveDependencies_v2(void) {
    SIM_FAULTS(0xe51dd4272072d29full, 0x10f8f93f1d6ba986ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphRetainUserObject(void) {
    SIM_FAULTS(0x3d615d87f891fd36ull, 0x3d615d87f891fd36ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphUpload(CUgraph hGraphExec, CUstream hStream) {
    SIM_FAULTS(0x030c7f6812e7536aull, 0x030c7f6812e7536aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphUpload(hGraphExec, hStream));
}

SIM_EXPORT CUresult cuGraphUpload_ptsz(CUgraph hGraphExec, CUstream hStream) {
    SIM_FAULTS(0x0f70ab6dfb12afe6ull, 0x030c7f6812e7536aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGraphUpload(hGraphExec, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuGraphicsEGLRegisterImage(void) {
    SIM_FAULTS(0x776f1985e438bb02ull, 0x776f1985e438bb02ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsGLRegisterBuffer(void) {
    SIM_FAULTS(0x45fbb146018238e0ull, 0x45fbb146018238e0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsGLRegisterImage(void) {
    SIM_FAULTS(0x5f530781932c5f3bull, 0x5f530781932c5f3bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsMapResources(void) {
    SIM_FAULTS(0x3fd6156ece5a486full, 0x3fd6156ece5a486full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsMapResources_ptsz(void) {
    SIM_FAULTS(0x0713b0e2d5bf5fa5ull, 0x3fd6156ece5a486full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsResourceGetMappedEglFrame(void) {
    SIM_FAULTS(0x53c732dc780682d2ull, 0x53c732dc780682d2ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsResourceGetMappedMipmappedArray(void) {
    SIM_FAULTS(0xd74db9334621d08dull, 0xd74db9334621d08dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsResourceGetMappedPointer(void) {
    SIM_FAULTS(0x10939bb1fb306070ull, 0x10939bb1fb306070ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsResourceGetMappedPointer_v2(void) {
    SIM_FAULTS(0x012dbc444e97a1f9ull, 0x10939bb1fb306070ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsResourceSetMapFlags(void) {
    SIM_FAULTS(0xefa1734c7aebf4c5ull, 0xefa1734c7aebf4c5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsResourceSetMapFlags_v2(void) {
    SIM_FAULTS(0x25eb6cc857bcc88eull, 0xefa1734c7aebf4c5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsSubResourceGetMappedArray(void) {
    SIM_FAULTS(0xaafb4a300cfd0462ull, 0xaafb4a300cfd0462ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsUnmapResources(void) {
    SIM_FAULTS(0x3f6304c2a6626eecull, 0x3f6304c2a6626eecull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsUnmapResources_ptsz(void) {
    SIM_FAULTS(0xe903c4873688f0d0ull, 0x3f6304c2a6626eecull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsUnregisterResource(void) {
    SIM_FAULTS(0x5ee067a1251766b6ull, 0x5ee067a1251766b6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsVDPAURegisterOutputSurface(void) {
    SIM_FAULTS(0x2043907da4f90e43ull, 0x2043907da4f90e43ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGraphicsVDPAURegisterVideoSurface(void) {
    SIM_FAULTS(0x612a8952b3a08bebull, 0x612a8952b3a08bebull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, void *desc, CUdevice dev, unsigned flags) {
    SIM_FAULTS(0xb505b49db7a86849ull, 0xb505b49db7a86849ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuGreenCtxCreate(phCtx, desc, dev, flags));
}

SIM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    SIM_FAULTS(0x96625bb1bfdf36f1ull, 0x96625bb1bfdf36f1ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuGreenCtxDestroy(hCtx));
}

SIM_EXPORT CUresult cuGreenCtxGetDevResource(void) {
    SIM_FAULTS(0x0472211373825222ull, 0x0472211373825222ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGreenCtxGetId(void) {
    SIM_FAULTS(0xd29e20ceb6d456d6ull, 0xd29e20ceb6d456d6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGreenCtxRecordEvent(void) {
    SIM_FAULTS(0x01c8d51b3492b710ull, 0x01c8d51b3492b710ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGreenCtxStreamCreate(void) {
    SIM_FAULTS(0xa8857495b4af8131ull, 0xa8857495b4af8131ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuGreenCtxWaitEvent(void) {
    SIM_FAULTS(0xda322f5ac8ce170cull, 0xda322f5ac8ce170cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handleDesc) {
    SIM_FAULTS(0x8c592ba2f327670cull, 0x8c592ba2f327670cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuImportExternalMemory(extMem_out, handleDesc));
}

SIM_EXPORT CUresult cuImportExternalSemaphore(void) {
    SIM_FAULTS(0x2a596276df7b9323ull, 0x2a596276df7b9323ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuInit(unsigned Flags) {
    SIM_FAULTS(0x79a32aecc39e4d33ull, 0x79a32aecc39e4d33ull, SIM_CALLER_DEVICE);
    return sim_cuInit(Flags);
}

SIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
    SIM_FAULTS(0xc8890a8c567cf10eull, 0xc8890a8c567cf10eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuIpcCloseMemHandle(dptr));
}

SIM_EXPORT CUresult cuIpcGetEventHandle(void) {
    SIM_FAULTS(0xe8be8c20e5545eebull, 0xe8be8c20e5545eebull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    SIM_FAULTS(0x1c024e36eade73d2ull, 0x1c024e36eade73d2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuIpcGetMemHandle(pHandle, dptr));
}

SIM_EXPORT CUresult cuIpcOpenEventHandle(void) {
    SIM_FAULTS(0x10ce4a7092095f3dull, 0x10ce4a7092095f3dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags) {
    SIM_FAULTS(0x26aaaf24ce436234ull, 0x26aaaf24ce436234ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuIpcOpenMemHandle_v2(pdptr, handle, Flags));
}

SIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags) {
    SIM_FAULTS(0x7b968d941cbcf7b5ull, 0x26aaaf24ce436234ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuIpcOpenMemHandle_v2(pdptr, handle, Flags));
}

SIM_EXPORT CUresult cuKernelGetAttribute(int *pi, int attrib, CUkernel kernel, CUdevice dev) {
    SIM_FAULTS(0x92ae47b51ee4a4c4ull, 0x92ae47b51ee4a4c4ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuKernelGetAttribute(pi, attrib, kernel, dev));
}

SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    SIM_FAULTS(0xa94a1eaf23f1f8ecull, 0xa94a1eaf23f1f8ecull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuKernelGetFunction(pFunc, kernel));
}

SIM_EXPORT CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
    SIM_FAULTS(0xaef4279fa23d912full, 0xaef4279fa23d912full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuKernelGetLibrary(pLib, kernel));
}

SIM_EXPORT CUresult cuKernelGetName(const char **name, CUkernel hfunc) {
    SIM_FAULTS(0x5427a266bb2af03full, 0x5427a266bb2af03full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuKernelGetName(name, hfunc));
}

SIM_EXPORT CUresult cuKernelGetParamCount(void) {
    SIM_FAULTS(0x0964a93242223fb4ull, 0x0964a93242223fb4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuKernelGetParamInfo(void) {
    SIM_FAULTS(0xa16900746edf9545ull, 0xa16900746edf9545ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuKernelSetAttribute(int attrib, int val, CUkernel kernel, CUdevice dev) {
    SIM_FAULTS(0x6d865362513e9598ull, 0x6d865362513e9598ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuKernelSetAttribute(attrib, val, kernel, dev));
}

SIM_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice dev) {
    SIM_FAULTS(0x36b86e28965c8f9cull, 0x36b86e28965c8f9cull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuKernelSetCacheConfig(kernel, config, dev));
}

SIM_EXPORT CUresult cuLaunch(CUfunction f) {
    SIM_FAULTS(0x5d71d82c9427f186ull, 0x5d71d82c9427f186ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunch(f));
}

SIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams) {
    SIM_FAULTS(0xb3660809f8a9c2b8ull, 0xb3660809f8a9c2b8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams));
}

SIM_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned numDevices, unsigned flags) {
    SIM_FAULTS(0x73d7c43ed5ab07cbull, 0x73d7c43ed5ab07cbull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags));
}

SIM_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams) {
    SIM_FAULTS(0xea30efeab9d99be4ull, 0xb3660809f8a9c2b8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, SIM_PER_THREAD(hStream), kernelParams));
}

SIM_EXPORT CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
    SIM_FAULTS(0xd56edf8ef43f337eull, 0xd56edf8ef43f337eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchGrid(f, grid_width, grid_height));
}

SIM_EXPORT CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    SIM_FAULTS(0x38d2fdf6a7502c42ull, 0x38d2fdf6a7502c42ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchGridAsync(f, grid_width, grid_height, hStream));
}

SIM_EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
    SIM_FAULTS(0x1d5b2911fee5fe86ull, 0x1d5b2911fee5fe86ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchHostFunc(hStream, fn, userData));
}

SIM_EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData) {
    SIM_FAULTS(0x0c1e4b07b89e3e7aull, 0x1d5b2911fee5fe86ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchHostFunc(SIM_PER_THREAD(hStream), fn, userData));
}

SIM_EXPORT CUresult cuLaunchHostFunc_v2(void) {
    SIM_FAULTS(0xeccd6071d07f999full, 0x1d5b2911fee5fe86ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLaunchHostFunc_v2_ptsz(void) {
    SIM_FAULTS(0xa4f9a2c7e127b055ull, 0x1d5b2911fee5fe86ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) {
    SIM_FAULTS(0x87de6a27fe088b2full, 0x87de6a27fe088b2full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra));
}

SIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
    SIM_FAULTS(0xd8daf6ba59d1cc52ull, 0xd8daf6ba59d1cc52ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchKernelEx(config, f, kernelParams, extra));
}

SIM_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
    SIM_FAULTS(0x60acab60ef87205eull, 0xd8daf6ba59d1cc52ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchKernelEx_ptsz(config, f, kernelParams, extra));
}

SIM_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) {
    SIM_FAULTS(0xa0c0b42dde6bd565ull, 0x87de6a27fe088b2full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, SIM_PER_THREAD(hStream), kernelParams, extra));
}

SIM_EXPORT CUresult cuLibraryEnumerateKernels(void) {
    SIM_FAULTS(0x74df82e5572922d0ull, 0x74df82e5572922d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    SIM_FAULTS(0x07973136b3ce7463ull, 0x07973136b3ce7463ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryGetGlobal(dptr, bytes, library, name));
}

SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
    SIM_FAULTS(0x086f09e7bdd47f21ull, 0x086f09e7bdd47f21ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryGetKernel(pKernel, library, name));
}

SIM_EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary lib) {
    SIM_FAULTS(0x73475c4a6b02e218ull, 0x73475c4a6b02e218ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryGetKernelCount(count, lib));
}

SIM_EXPORT CUresult cuLibraryGetManaged(void) {
    SIM_FAULTS(0x628af4dd6fea1ef5ull, 0x628af4dd6fea1ef5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
    SIM_FAULTS(0xe2931f6622c02ae4ull, 0xe2931f6622c02ae4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryGetModule(pMod, library));
}

SIM_EXPORT CUresult cuLibraryGetUnifiedFunction(void) {
    SIM_FAULTS(0x89190b34d30e6302ull, 0x89190b34d30e6302ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions, int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    SIM_FAULTS(0x1b1eb88096a16954ull, 0x1b1eb88096a16954ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions));
}

SIM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions, int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    SIM_FAULTS(0x2fb223fd260d9d62ull, 0x2fb223fd260d9d62ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions));
}

SIM_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
    SIM_FAULTS(0x1576094e176b6943ull, 0x1576094e176b6943ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLibraryUnload(library));
}

SIM_EXPORT CUresult cuLinkAddData(CUlinkState state, int type, void *data, size_t size, const char *name, unsigned numOptions, int *options, void **optionValues) {
    SIM_FAULTS(0xd6761116fa039f18ull, 0xd6761116fa039f18ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues));
}

SIM_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t size, const char *name, unsigned numOptions, int *options, void **optionValues) {
    SIM_FAULTS(0x4978812a6e09fcc1ull, 0xd6761116fa039f18ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues));
}

SIM_EXPORT CUresult cuLinkAddFile(CUlinkState state, int type, const char *path, unsigned numOptions, int *options, void **optionValues) {
    SIM_FAULTS(0x592afd27cb8514c6ull, 0x592afd27cb8514c6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues));
}

SIM_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, int type, const char *path, unsigned numOptions, int *options, void **optionValues) {
    SIM_FAULTS(0x956c0beaf5260c5full, 0x592afd27cb8514c6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues));
}

SIM_EXPORT CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
    SIM_FAULTS(0xfdeb09f684540a96ull, 0xfdeb09f684540a96ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkComplete(state, cubinOut, sizeOut));
}

SIM_EXPORT CUresult cuLinkCreate(unsigned numOptions, int *options, void **optionValues, CUlinkState *stateOut) {
    SIM_FAULTS(0x8301e9826f2e5e99ull, 0x8301e9826f2e5e99ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkCreate_v2(numOptions, options, optionValues, stateOut));
}

SIM_EXPORT CUresult cuLinkCreate_v2(unsigned numOptions, int *options, void **optionValues, CUlinkState *stateOut) {
    SIM_FAULTS(0x2d2ef0c2e16e7b9aull, 0x8301e9826f2e5e99ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkCreate_v2(numOptions, options, optionValues, stateOut));
}

SIM_EXPORT CUresult cuLinkDestroy(CUlinkState state) {
    SIM_FAULTS(0xf4cb72f05ef2a521ull, 0xf4cb72f05ef2a521ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuLinkDestroy(state));
}

SIM_EXPORT CUresult cuLogicalEndpointAddDevice(void) {
    SIM_FAULTS(0xee74e8db331e1f3eull, 0xee74e8db331e1f3eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointBindAddr(void) {
    SIM_FAULTS(0x3861af740b9fd52dull, 0x3861af740b9fd52dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointBindMem(void) {
    SIM_FAULTS(0x7b1ccf20fd9741fbull, 0x7b1ccf20fd9741fbull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointCreate(void) {
    SIM_FAULTS(0x78ee8f27d9da759dull, 0x78ee8f27d9da759dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointDestroy(void) {
    SIM_FAULTS(0x4c29083de82ba2a5ull, 0x4c29083de82ba2a5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointExport(void) {
    SIM_FAULTS(0xc06ed85700dd0b13ull, 0xc06ed85700dd0b13ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointGetLimits(void) {
    SIM_FAULTS(0xd163f406e9e6bcd3ull, 0xd163f406e9e6bcd3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointIdRelease(void) {
    SIM_FAULTS(0xb9841d691561e9fdull, 0xb9841d691561e9fdull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointIdReserve(void) {
    SIM_FAULTS(0x2800db1e647c2448ull, 0x2800db1e647c2448ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointImport(void) {
    SIM_FAULTS(0xcaf5054801f42f94ull, 0xcaf5054801f42f94ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointQuery(void) {
    SIM_FAULTS(0x541e85bf8aa015e3ull, 0x541e85bf8aa015e3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogicalEndpointUnbind(void) {
    SIM_FAULTS(0xc30f854d7000a539ull, 0xc30f854d7000a539ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogsCurrent(void) {
    SIM_FAULTS(0x2433e5c1215c80bfull, 0x2433e5c1215c80bfull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogsDumpToFile(void) {
    SIM_FAULTS(0xb2789ce5c4775edbull, 0xb2789ce5c4775edbull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogsDumpToMemory(void) {
    SIM_FAULTS(0x41fbb1f910721186ull, 0x41fbb1f910721186ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogsRegisterCallback(void) {
    SIM_FAULTS(0xc5762809f08879b8ull, 0xc5762809f08879b8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuLogsUnregisterCallback(void) {
    SIM_FAULTS(0xd7030645ce80233bull, 0xd7030645ce80233bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    SIM_FAULTS(0xdca830dad5ce42b4ull, 0xdca830dad5ce42b4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAddressFree(ptr, size));
}

SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags) {
    SIM_FAULTS(0x6467adea860afbaaull, 0x6467adea860afbaaull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAddressReserve(ptr, size, alignment, addr, flags));
}

SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, int advice, CUdevice device) {
    SIM_FAULTS(0x9a2cb103abd75f5aull, 0x9a2cb103abd75f5aull, SIM_DEVICE(device));
    return SIM_GATED(sim_cuMemAdvise(devPtr, count, advice, device));
}

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, int advice, CUmemLocation location) {
    SIM_FAULTS(0x77dedfc64952079bull, 0x9a2cb103abd75f5aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAdvise_v2(devPtr, count, advice, location));
}

SIM_EXPORT CUresult cuMemAlloc(void) {
    SIM_FAULTS(0xffc4943b959742bfull, 0xffc4943b959742bfull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    SIM_FAULTS(0x9d6c3e9c14a61331ull, 0x9d6c3e9c14a61331ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocAsync(dptr, bytesize, hStream));
}

SIM_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    SIM_FAULTS(0xbbfe19175b61f6a7ull, 0x9d6c3e9c14a61331ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocAsync(dptr, bytesize, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    SIM_FAULTS(0xbfb152726c00c51bull, 0xbfb152726c00c51bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream));
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    SIM_FAULTS(0xee76a4551c339f09ull, 0xbfb152726c00c51bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocFromPoolAsync(dptr, bytesize, pool, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemAllocHost(void) {
    SIM_FAULTS(0x4b23f9235b9b1ea9ull, 0x4b23f9235b9b1ea9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) {
    SIM_FAULTS(0xe85844f6e299092aull, 0x4b23f9235b9b1ea9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocHost_v2(pp, bytesize));
}

SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags) {
    SIM_FAULTS(0x947a4228ec28baecull, 0x947a4228ec28baecull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocManaged(dptr, bytesize, flags));
}

SIM_EXPORT CUresult cuMemAllocPitch(void) {
    SIM_FAULTS(0x73690164977edb0bull, 0x73690164977edb0bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes) {
    SIM_FAULTS(0x78ad2966484df064ull, 0x73690164977edb0bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    SIM_FAULTS(0x67358cc1d91fb7b0ull, 0xffc4943b959742bfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemAlloc_v2(dptr, bytesize));
}

SIM_EXPORT CUresult cuMemBatchDecompressAsync(void) {
    SIM_FAULTS(0x34e06e4598124defull, 0x34e06e4598124defull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemBatchDecompressAsync_ptsz(void) {
    SIM_FAULTS(0x5fb57cf23cb08025ull, 0x34e06e4598124defull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    SIM_FAULTS(0x8526ce3f1d6122daull, 0x8526ce3f1d6122daull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemCreate(handle, size, prop, flags));
}

SIM_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(void) {
    SIM_FAULTS(0x07fdd8c662d57486ull, 0x07fdd8c662d57486ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(void) {
    SIM_FAULTS(0x622b0eaeef14e07aull, 0x07fdd8c662d57486ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemDiscardBatchAsync(void) {
    SIM_FAULTS(0xa91730ba0e5f9b54ull, 0xa91730ba0e5f9b54ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemDiscardBatchAsync_ptsz(void) {
    SIM_FAULTS(0x3f56496dad2844c8ull, 0xa91730ba0e5f9b54ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, int handleType, unsigned long long flags) {
    SIM_FAULTS(0x09308c46b4e9f09eull, 0x09308c46b4e9f09eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags));
}

SIM_EXPORT CUresult cuMemFree(void) {
    SIM_FAULTS(0xdf67b55a9dc6fc5cull, 0xdf67b55a9dc6fc5cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    SIM_FAULTS(0xdb7bec03e9f0bee0ull, 0xdb7bec03e9f0bee0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemFreeAsync(dptr, hStream));
}

SIM_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
    SIM_FAULTS(0x89669ec9623e271cull, 0xdb7bec03e9f0bee0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemFreeAsync(dptr, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemFreeHost(void *p) {
    SIM_FAULTS(0x591716b063a56b4eull, 0x591716b063a56b4eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemFreeHost(p));
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr) {
    SIM_FAULTS(0x41a64d9045a2be5dull, 0xdf67b55a9dc6fc5cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemFree_v2(dptr));
}

SIM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    SIM_FAULTS(0x99f772b659d7028cull, 0x99f772b659d7028cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetAccess(flags, location, ptr));
}

SIM_EXPORT CUresult cuMemGetAddressRange(void) {
    SIM_FAULTS(0x732024ec23a83fafull, 0x732024ec23a83fafull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    SIM_FAULTS(0x585764ee31e9a860ull, 0x732024ec23a83fafull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetAddressRange_v2(pbase, psize, dptr));
}

SIM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, int option) {
    SIM_FAULTS(0x2c6b6da786d43444ull, 0x2c6b6da786d43444ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetAllocationGranularity(granularity, prop, option));
}

SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    SIM_FAULTS(0x8e0fb81116b419d3ull, 0x8e0fb81116b419d3ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetAllocationPropertiesFromHandle(prop, handle));
}

SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, int type) {
    SIM_FAULTS(0x3e4ce2882466f92aull, 0x3e4ce2882466f92aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetDefaultMemPool(pool_out, location, type));
}

SIM_EXPORT CUresult cuMemGetHandleForAddressRange(void) {
    SIM_FAULTS(0x24fdc93ea5c64d56ull, 0x24fdc93ea5c64d56ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemGetInfo(unsigned *free, unsigned *total) {
    SIM_FAULTS(0xf0882fac22e4c8d2ull, 0xf0882fac22e4c8d2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetInfo(free, total));
}

SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    SIM_FAULTS(0x398ffb2d79de9dd3ull, 0xf0882fac22e4c8d2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetInfo_v2(free, total));
}

SIM_EXPORT CUresult cuMemGetLocationInfo(void) {
    SIM_FAULTS(0x87c4adf556a83141ull, 0x87c4adf556a83141ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type) {
    SIM_FAULTS(0xd3de1534483d549dull, 0xd3de1534483d549dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemGetMemPool(pool, location, type));
}

SIM_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags) {
    SIM_FAULTS(0xaecf2aa347e2ba1dull, 0xaecf2aa347e2ba1dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemHostAlloc(pp, bytesize, Flags));
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer(void) {
    SIM_FAULTS(0xdd9cda141a8e1847ull, 0xdd9cda141a8e1847ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned Flags) {
    SIM_FAULTS(0xadfd665ed65d2038ull, 0xdd9cda141a8e1847ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemHostGetDevicePointer_v2(pdptr, p, Flags));
}

SIM_EXPORT CUresult cuMemHostGetFlags(unsigned *pFlags, void *p) {
    SIM_FAULTS(0xb51560d67c1e32c7ull, 0xb51560d67c1e32c7ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemHostGetFlags(pFlags, p));
}

SIM_EXPORT CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned Flags) {
    SIM_FAULTS(0x9d27a7d0b6f8df21ull, 0x9d27a7d0b6f8df21ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemHostRegister_v2(p, bytesize, Flags));
}

SIM_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned Flags) {
    SIM_FAULTS(0x10d59404c99b6542ull, 0x9d27a7d0b6f8df21ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemHostRegister_v2(p, bytesize, Flags));
}

SIM_EXPORT CUresult cuMemHostUnregister(void *p) {
    SIM_FAULTS(0xaee9e7b5f385860eull, 0xaee9e7b5f385860eull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemHostUnregister(p));
}

SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, int shHandleType) {
    SIM_FAULTS(0x6286f0a496afd0b4ull, 0x6286f0a496afd0b4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemImportFromShareableHandle(handle, osHandle, shHandleType));
}

SIM_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    SIM_FAULTS(0x7224415beb249a98ull, 0x7224415beb249a98ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemMap(ptr, size, offset, handle, flags));
}

SIM_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned count, CUstream hStream) {
    SIM_FAULTS(0xf514762918fa96bfull, 0xf514762918fa96bfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemMapArrayAsync(mapInfoList, count, hStream));
}

SIM_EXPORT CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned count, CUstream hStream) {
    SIM_FAULTS(0x7831c18a72902eb5ull, 0xf514762918fa96bfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemMapArrayAsync(mapInfoList, count, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    SIM_FAULTS(0xf2c304dbb1edbfa0ull, 0xf2c304dbb1edbfa0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolCreate(pool, poolProps));
}

SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    SIM_FAULTS(0xdf3cad9402453066ull, 0xdf3cad9402453066ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolDestroy(pool));
}

SIM_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
    SIM_FAULTS(0x3a926e741b9ed463ull, 0x3a926e741b9ed463ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolExportPointer(shareData_out, ptr));
}

SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, int handleType, unsigned long long flags) {
    SIM_FAULTS(0x9f15b9174a275dbcull, 0x9f15b9174a275dbcull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolExportToShareableHandle(handle_out, pool, handleType, flags));
}

SIM_EXPORT CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool memPool, CUmemLocation *location) {
    SIM_FAULTS(0x17b46c38d37b1162ull, 0x17b46c38d37b1162ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolGetAccess(flags, memPool, location));
}

SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value) {
    SIM_FAULTS(0x8440c785a9ecda50ull, 0x8440c785a9ecda50ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolGetAttribute(pool, attr, value));
}

SIM_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, int handleType, unsigned long long flags) {
    SIM_FAULTS(0x0c39530308c70742ull, 0x0c39530308c70742ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags));
}

SIM_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData) {
    SIM_FAULTS(0xe0a91feda9fca2c6ull, 0xe0a91feda9fca2c6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolImportPointer(ptr_out, pool, shareData));
}

SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    SIM_FAULTS(0x81c821dd824cc3d6ull, 0x81c821dd824cc3d6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolSetAccess(pool, map, count));
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value) {
    SIM_FAULTS(0x56f0a847a980c93cull, 0x56f0a847a980c93cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolSetAttribute(pool, attr, value));
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    SIM_FAULTS(0x539f91f953f2c9e9ull, 0x539f91f953f2c9e9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPoolTrimTo(pool, minBytesToKeep));
}

SIM_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    SIM_FAULTS(0x3575515909b1f16bull, 0x3575515909b1f16bull, SIM_DEVICE(dstDevice));
    return SIM_GATED(sim_cuMemPrefetchAsync(devPtr, count, dstDevice, hStream));
}

SIM_EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    SIM_FAULTS(0xea8a2119b57845d9ull, 0x3575515909b1f16bull, SIM_DEVICE(dstDevice));
    return SIM_GATED(sim_cuMemPrefetchAsync(devPtr, count, dstDevice, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned flags, CUstream hStream) {
    SIM_FAULTS(0x4120536d7c896f84ull, 0x3575515909b1f16bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPrefetchAsync_v2(devPtr, count, location, flags, hStream));
}

SIM_EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned flags, CUstream hStream) {
    SIM_FAULTS(0x1f07876eadb7e338ull, 0x3575515909b1f16bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemPrefetchAsync_v2(devPtr, count, location, flags, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemPrefetchBatchAsync(void) {
    SIM_FAULTS(0xb84c7d49d36239f9ull, 0xb84c7d49d36239f9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemPrefetchBatchAsync_ptsz(void) {
    SIM_FAULTS(0x0b8c846245eabe3full, 0xb84c7d49d36239f9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, int attribute, CUdeviceptr devPtr, size_t count) {
    SIM_FAULTS(0x1b9ba23692e3ca2full, 0x1b9ba23692e3ca2full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemRangeGetAttribute(data, dataSize, attribute, devPtr, count));
}

SIM_EXPORT CUresult cuMemRangeGetAttributes(void) {
    SIM_FAULTS(0xcd3efebb9910da54ull, 0xcd3efebb9910da54ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    SIM_FAULTS(0xa2e43bb4c392d187ull, 0xa2e43bb4c392d187ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemRelease(handle));
}

SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    SIM_FAULTS(0xd2acfab76b0c7863ull, 0xd2acfab76b0c7863ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemRetainAllocationHandle(handle, addr));
}

SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    SIM_FAULTS(0xdb5d65bd99d98060ull, 0xdb5d65bd99d98060ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemSetAccess(ptr, size, desc, count));
}

SIM_EXPORT CUresult cuMemSetMemPool(void) {
    SIM_FAULTS(0xe4a90bfb1e45e6b1ull, 0xe4a90bfb1e45e6b1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    SIM_FAULTS(0x6a0543c2130b24f9ull, 0x6a0543c2130b24f9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemUnmap(ptr, size));
}

SIM_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    SIM_FAULTS(0xdf05fc5cba1ebb44ull, 0xdf05fc5cba1ebb44ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy(dst, src, ByteCount));
}

SIM_EXPORT CUresult cuMemcpy2D(void) {
    SIM_FAULTS(0x7088602086121b72ull, 0x7088602086121b72ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy2DAsync(void) {
    SIM_FAULTS(0x2488afea7a995586ull, 0x2488afea7a995586ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
    SIM_FAULTS(0x8d14a9f7e29cb69full, 0x2488afea7a995586ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy2DAsync_v2(pCopy, hStream));
}

SIM_EXPORT CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
    SIM_FAULTS(0xcbb22545e36be755ull, 0x2488afea7a995586ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy2DAsync_v2(pCopy, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpy2DUnaligned(void) {
    SIM_FAULTS(0xc56e6ab89a85125bull, 0xc56e6ab89a85125bull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) {
    SIM_FAULTS(0x91b0e2fa902b55f4ull, 0xc56e6ab89a85125bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy2DUnaligned_v2(pCopy));
}

SIM_EXPORT CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *pCopy) {
    SIM_FAULTS(0xcc226f73b983a820ull, 0xc56e6ab89a85125bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy2DUnaligned_v2(pCopy));
}

SIM_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) {
    SIM_FAULTS(0xc41c2682bd54c333ull, 0x7088602086121b72ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy2D_v2(pCopy));
}

SIM_EXPORT CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *pCopy) {
    SIM_FAULTS(0xe4ae9de787d00a45ull, 0x7088602086121b72ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy2D_v2(pCopy));
}

SIM_EXPORT CUresult cuMemcpy3D(void) {
    SIM_FAULTS(0x708bbe208614f103ull, 0x708bbe208614f103ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DAsync(void) {
    SIM_FAULTS(0xef73e4b65199c7e5ull, 0xef73e4b65199c7e5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
    SIM_FAULTS(0xb7493fa137eaec6eull, 0xef73e4b65199c7e5ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy3DAsync_v2(pCopy, hStream));
}

SIM_EXPORT CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
    SIM_FAULTS(0xa63779d852c3c8d2ull, 0xef73e4b65199c7e5ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy3DAsync_v2(pCopy, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpy3DBatchAsync(void) {
    SIM_FAULTS(0x597c9211e979d3ffull, 0x597c9211e979d3ffull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DBatchAsync_ptsz(void) {
    SIM_FAULTS(0x5e019e2c9cbdf4f5ull, 0x597c9211e979d3ffull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DBatchAsync_v2(void) {
    SIM_FAULTS(0xb1453dda48e35370ull, 0x597c9211e979d3ffull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DBatchAsync_v2_ptsz(void) {
    SIM_FAULTS(0x409eac808c93376cull, 0x597c9211e979d3ffull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DPeer(void) {
    SIM_FAULTS(0x7e2d19e512085113ull, 0x7e2d19e512085113ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DPeerAsync(void) {
    SIM_FAULTS(0x378e992df672e555ull, 0x378e992df672e555ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DPeerAsync_ptsz(void) {
    SIM_FAULTS(0x4c91761a7e6b0d23ull, 0x378e992df672e555ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DPeer_ptds(void) {
    SIM_FAULTS(0xdd56a85901f6a1e5ull, 0x7e2d19e512085113ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DWithAttributesAsync(void) {
    SIM_FAULTS(0x3c18c0e2f71536baull, 0x3c18c0e2f71536baull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3DWithAttributesAsync_ptsz(void) {
    SIM_FAULTS(0xca7a5c9c7c54c8f6ull, 0x3c18c0e2f71536baull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) {
    SIM_FAULTS(0x2a770b6d90ea709cull, 0x708bbe208614f103ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy3D_v2(pCopy));
}

SIM_EXPORT CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *pCopy) {
    SIM_FAULTS(0xf06d3336f472dca8ull, 0x708bbe208614f103ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy3D_v2(pCopy));
}

SIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0xbe914fcbc40ba0d8ull, 0xbe914fcbc40ba0d8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyAsync(dst, src, ByteCount, hStream));
}

SIM_EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x644b307dfd4205c4ull, 0xbe914fcbc40ba0d8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyAsync(dst, src, ByteCount, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpyAtoA(void) {
    SIM_FAULTS(0x65bd8b8a2a2b9101ull, 0x65bd8b8a2a2b9101ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoA_v2(void) {
    SIM_FAULTS(0xee874eb7095b3ee2ull, 0x65bd8b8a2a2b9101ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoA_v2_ptds(void) {
    SIM_FAULTS(0x1eefbc0437aafe72ull, 0x65bd8b8a2a2b9101ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoD(void) {
    SIM_FAULTS(0x65bd8e8a2a2b961aull, 0x65bd8e8a2a2b961aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    SIM_FAULTS(0x1d4258cf169603dbull, 0x65bd8e8a2a2b961aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    SIM_FAULTS(0xb1acfd92c7d90eadull, 0x65bd8e8a2a2b961aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyAtoH(void) {
    SIM_FAULTS(0x65bd828a2a2b81b6ull, 0x65bd828a2a2b81b6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoHAsync(void) {
    SIM_FAULTS(0x1ce52ed8c99ac74aull, 0x1ce52ed8c99ac74aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoHAsync_v2(void) {
    SIM_FAULTS(0xcd68599c3455c0cbull, 0x1ce52ed8c99ac74aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoHAsync_v2_ptsz(void) {
    SIM_FAULTS(0x309ceb331d2731f9ull, 0x1ce52ed8c99ac74aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    SIM_FAULTS(0xe1a3106b32530c4full, 0x65bd828a2a2b81b6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyAtoH_v2_ptds(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    SIM_FAULTS(0x9ef3d2f48a208821ull, 0x65bd828a2a2b81b6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyBatchAsync(void) {
    SIM_FAULTS(0x1cc2ca7829b7c3d0ull, 0x1cc2ca7829b7c3d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyBatchAsync_ptsz(void) {
    SIM_FAULTS(0xed3c96c222b9118cull, 0x1cc2ca7829b7c3d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyBatchAsync_v2(void) {
    SIM_FAULTS(0xe8ee1687e2870c19ull, 0x1cc2ca7829b7c3d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyBatchAsync_v2_ptsz(void) {
    SIM_FAULTS(0xac5508d82a2b3c1full, 0x1cc2ca7829b7c3d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyDtoA(void) {
    SIM_FAULTS(0x1ffde164edd614f8ull, 0x1ffde164edd614f8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_FAULTS(0xefefa9e484fa6ce1ull, 0x1ffde164edd614f8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyDtoA_v2_ptds(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_FAULTS(0xf739cd6a48e66e67ull, 0x1ffde164edd614f8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyDtoD(void) {
    SIM_FAULTS(0x1ffde664edd61d77ull, 0x1ffde664edd61d77ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyDtoDAsync(void) {
    SIM_FAULTS(0x391491271ec32cd9ull, 0x391491271ec32cd9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x7aa1547677a9ff5aull, 0x391491271ec32cd9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream));
}

SIM_EXPORT CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x280d8481dd083756ull, 0x391491271ec32cd9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_FAULTS(0x1ffd280e3cd968e8ull, 0x1ffde664edd61d77ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_FAULTS(0x1b81ca4a48adc494ull, 0x1ffde664edd61d77ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyDtoH(void) {
    SIM_FAULTS(0x1ffdda64edd60913ull, 0x1ffdda64edd60913ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyDtoHAsync(void) {
    SIM_FAULTS(0x9aae72f6ed310d55ull, 0x9aae72f6ed310d55ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x7c6971be05650b5eull, 0x9aae72f6ed310d55ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream));
}

SIM_EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x2b2c10f459207e42ull, 0x9aae72f6ed310d55ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_FAULTS(0x3c4adfaccf4a86ecull, 0x1ffdda64edd60913ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_FAULTS(0x6f0f4e5c8a596458ull, 0x1ffdda64edd60913ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyHtoA(void) {
    SIM_FAULTS(0xdacde9c522a877c4ull, 0xdacde9c522a877c4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyHtoAAsync(void) {
    SIM_FAULTS(0x8b314b00e4dc8658ull, 0x8b314b00e4dc8658ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyHtoAAsync_v2(void) {
    SIM_FAULTS(0x39a7d4c0b7ad0a81ull, 0x8b314b00e4dc8658ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyHtoAAsync_v2_ptsz(void) {
    SIM_FAULTS(0x50e1363b0d53e0f7ull, 0x8b314b00e4dc8658ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount) {
    SIM_FAULTS(0x38b8b5f3a53b2345ull, 0xdacde9c522a877c4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyHtoA_v2_ptds(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount) {
    SIM_FAULTS(0xd5b451db76c0c9fbull, 0xdacde9c522a877c4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyHtoD(void) {
    SIM_FAULTS(0xdacde6c522a872abull, 0xdacde6c522a872abull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyHtoDAsync(void) {
    SIM_FAULTS(0x9f4acba4eb5fa4fdull, 0x9f4acba4eb5fa4fdull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0xa542ae92342a4d46ull, 0x9f4acba4eb5fa4fdull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream));
}

SIM_EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x1bb35e4b5ac27c3aull, 0x9f4acba4eb5fa4fdull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    SIM_FAULTS(0x364603dcd3a02f44ull, 0xdacde6c522a872abull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    SIM_FAULTS(0x7a20ed467e283950ull, 0xdacde6c522a872abull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount) {
    SIM_FAULTS(0x56d91c078929e298ull, 0x56d91c078929e298ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyPeer(dstDevice, dstContext, srcDevice, srcContext, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0x151a886bad2bd74cull, 0x151a886bad2bd74cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream));
}

SIM_EXPORT CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    SIM_FAULTS(0xb0edd97b891c07f0ull, 0x151a886bad2bd74cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount) {
    SIM_FAULTS(0x12403192166b7de4ull, 0x56d91c078929e298ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpyPeer(dstDevice, dstContext, srcDevice, srcContext, ByteCount));
}

SIM_EXPORT CUresult cuMemcpyWithAttributesAsync(void) {
    SIM_FAULTS(0xa6b8167cefdab8f7ull, 0xa6b8167cefdab8f7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpyWithAttributesAsync_ptsz(void) {
    SIM_FAULTS(0x2d7386363bcc413dull, 0xa6b8167cefdab8f7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    SIM_FAULTS(0x8b2ddf963b105d50ull, 0xdf05fc5cba1ebb44ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemcpy(dst, src, ByteCount));
}

SIM_EXPORT CUresult cuMemsetD16(void) {
    SIM_FAULTS(0x91bbb829991ee5f9ull, 0x91bbb829991ee5f9ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
    SIM_FAULTS(0x3ee0a60af9747ec3ull, 0x3ee0a60af9747ec3ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD16Async(dstDevice, us, N, hStream));
}

SIM_EXPORT CUresult cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
    SIM_FAULTS(0xacc7ea7f47235841ull, 0x3ee0a60af9747ec3ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD16Async(dstDevice, us, N, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
    SIM_FAULTS(0x110e502dc134c53aull, 0x91bbb829991ee5f9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD16_v2(dstDevice, us, N));
}

SIM_EXPORT CUresult cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N) {
    SIM_FAULTS(0x8ef5788b30ef50caull, 0x91bbb829991ee5f9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD16_v2(dstDevice, us, N));
}

SIM_EXPORT CUresult cuMemsetD2D16(void) {
    SIM_FAULTS(0x96d0379322b439d7ull, 0x96d0379322b439d7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream) {
    SIM_FAULTS(0x1e1021f861dfdff9ull, 0x1e1021f861dfdff9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, hStream));
}

SIM_EXPORT CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream) {
    SIM_FAULTS(0x14a609b7a13df03full, 0x1e1021f861dfdff9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
    SIM_FAULTS(0x9a18c73d0a278f08ull, 0x96d0379322b439d7ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height));
}

SIM_EXPORT CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
    SIM_FAULTS(0xa37ff6b6dd6cfa74ull, 0x96d0379322b439d7ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height));
}

SIM_EXPORT CUresult cuMemsetD2D32(void) {
    SIM_FAULTS(0x96d7239322ba3689ull, 0x96d7239322ba3689ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height, CUstream hStream) {
    SIM_FAULTS(0x7c4949d89c263973ull, 0x7c4949d89c263973ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, hStream));
}

SIM_EXPORT CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height, CUstream hStream) {
    SIM_FAULTS(0xa2576dd3f35243f1ull, 0x7c4949d89c263973ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height) {
    SIM_FAULTS(0xf9988e9fc87504caull, 0x96d7239322ba3689ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height));
}

SIM_EXPORT CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height) {
    SIM_FAULTS(0x9ef19e24b10bf33aull, 0x96d7239322ba3689ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height));
}

SIM_EXPORT CUresult cuMemsetD2D8(void) {
    SIM_FAULTS(0xa5ccb2af1fdbde30ull, 0xa5ccb2af1fdbde30ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream) {
    SIM_FAULTS(0x001f7a7723d590d4ull, 0x001f7a7723d590d4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, hStream));
}

SIM_EXPORT CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream) {
    SIM_FAULTS(0x65f217b613ed3548ull, 0x001f7a7723d590d4ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
    SIM_FAULTS(0xc5b9c675e19a0b39ull, 0xa5ccb2af1fdbde30ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height));
}

SIM_EXPORT CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
    SIM_FAULTS(0xa5b14f45cc712e1full, 0xa5ccb2af1fdbde30ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height));
}

SIM_EXPORT CUresult cuMemsetD32(void) {
    SIM_FAULTS(0x91b4cc299918e947ull, 0x91b4cc299918e947ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned ui, size_t N, CUstream hStream) {
    SIM_FAULTS(0x358d136964b9d189ull, 0x358d136964b9d189ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD32Async(dstDevice, ui, N, hStream));
}

SIM_EXPORT CUresult cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned ui, size_t N, CUstream hStream) {
    SIM_FAULTS(0xc2a80aef4e8bf9cfull, 0x358d136964b9d189ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD32Async(dstDevice, ui, N, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned ui, size_t N) {
    SIM_FAULTS(0x2ef7c8ceaf74bb38ull, 0x91b4cc299918e947ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD32_v2(dstDevice, ui, N));
}

SIM_EXPORT CUresult cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned ui, size_t N) {
    SIM_FAULTS(0x75cfc1a6a49789c4ull, 0x91b4cc299918e947ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD32_v2(dstDevice, ui, N));
}

SIM_EXPORT CUresult cuMemsetD8(void) {
    SIM_FAULTS(0x7e4af3a0c1f8777aull, 0x7e4af3a0c1f8777aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    SIM_FAULTS(0xa27ce98f76f9c2deull, 0xa27ce98f76f9c2deull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD8Async(dstDevice, uc, N, hStream));
}

SIM_EXPORT CUresult cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    SIM_FAULTS(0x6c846578fa1e74c2ull, 0xa27ce98f76f9c2deull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD8Async(dstDevice, uc, N, SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    SIM_FAULTS(0x42d556e62cf5427bull, 0x7e4af3a0c1f8777aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD8_v2(dstDevice, uc, N));
}

SIM_EXPORT CUresult cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    SIM_FAULTS(0x1d2ce1131741638dull, 0x7e4af3a0c1f8777aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMemsetD8_v2(dstDevice, uc, N));
}

SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned numMipmapLevels) {
    SIM_FAULTS(0xc95e29ad1e31693full, 0xc95e29ad1e31693full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels));
}

SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    SIM_FAULTS(0x57bc6ac20718ead7ull, 0x57bc6ac20718ead7ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMipmappedArrayDestroy(hMipmappedArray));
}

SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level) {
    SIM_FAULTS(0xae315f76165d83e9ull, 0xae315f76165d83e9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMipmappedArrayGetLevel(pLevelArray, hMipmappedArray, level));
}

SIM_EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(void) {
    SIM_FAULTS(0xb32ab25b55b321aaull, 0xb32ab25b55b321aaull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMipmappedArrayGetSparseProperties(void) {
    SIM_FAULTS(0x4056ec83913a4730ull, 0x4056ec83913a4730ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuModuleEnumerateFunctions(void) {
    SIM_FAULTS(0x28b49307faa202e6ull, 0x28b49307faa202e6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
    SIM_FAULTS(0x298821bb2202467full, 0x298821bb2202467full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleGetFunction(hfunc, hmod, name));
}

SIM_EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule mod) {
    SIM_FAULTS(0x20de1e629cd24b86ull, 0x20de1e629cd24b86ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleGetFunctionCount(count, mod));
}

SIM_EXPORT CUresult cuModuleGetGlobal(void) {
    SIM_FAULTS(0xae7d16f58acd4c64ull, 0xae7d16f58acd4c64ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
    SIM_FAULTS(0x0682992c1de447a5ull, 0xae7d16f58acd4c64ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleGetGlobal_v2(dptr, bytes, hmod, name));
}

SIM_EXPORT CUresult cuModuleGetLoadingMode(int *mode) {
    SIM_FAULTS(0x93d123d3f597c7beull, 0x93d123d3f597c7beull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleGetLoadingMode(mode));
}

SIM_EXPORT CUresult cuModuleGetSurfRef(void) {
    SIM_FAULTS(0xb15011e171ed84d0ull, 0xb15011e171ed84d0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuModuleGetTexRef(void) {
    SIM_FAULTS(0x6abe92ad4fb020b1ull, 0x6abe92ad4fb020b1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *fname) {
    SIM_FAULTS(0xe7626dced9f23fc1ull, 0xe7626dced9f23fc1ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleLoad(module, fname));
}

SIM_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    SIM_FAULTS(0x7be930db50451d91ull, 0x7be930db50451d91ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleLoadData(module, image));
}

SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, int *options, void **optionValues) {
    SIM_FAULTS(0xe3c06bd7602cd08cull, 0xe3c06bd7602cd08cull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleLoadDataEx(module, image, numOptions, options, optionValues));
}

SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    SIM_FAULTS(0xc0e82c30fcdeb17dull, 0xc0e82c30fcdeb17dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleLoadFatBinary(module, fatCubin));
}

SIM_EXPORT CUresult cuModuleUnload(CUmodule hmod) {
    SIM_FAULTS(0xd5e42d5043aab55aull, 0xd5e42d5043aab55aull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuModuleUnload(hmod));
}

SIM_EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
    SIM_FAULTS(0xc1be4d06451ced12ull, 0xc1be4d06451ced12ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuMulticastAddDevice(mcHandle, dev));
}

SIM_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size, unsigned long long flags) {
    SIM_FAULTS(0x2acc06c16c36b0c9ull, 0x2acc06c16c36b0c9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMulticastBindAddr(mcHandle, mcOffset, memptr, size, flags));
}

SIM_EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, CUdeviceptr memptr, size_t size, unsigned long long flags) {
    SIM_FAULTS(0xac0abcad3a35438aull, 0x2acc06c16c36b0c9ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuMulticastBindAddr_v2(mcHandle, dev, mcOffset, memptr, size, flags));
}

SIM_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, unsigned long long flags) {
    SIM_FAULTS(0x183065a109c2df27ull, 0x183065a109c2df27ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMulticastBindMem(mcHandle, mcOffset, memHandle, memOffset, size, flags));
}

SIM_EXPORT CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, unsigned long long flags) {
    SIM_FAULTS(0x4c3b7e9663565658ull, 0x183065a109c2df27ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuMulticastBindMem_v2(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags));
}

SIM_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop) {
    SIM_FAULTS(0xb412b838f554d731ull, 0xb412b838f554d731ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMulticastCreate(mcHandle, prop));
}

SIM_EXPORT CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop, int option) {
    SIM_FAULTS(0x419dd5dbdfd8cf61ull, 0x419dd5dbdfd8cf61ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuMulticastGetGranularity(granularity, prop, option));
}

SIM_EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size) {
    SIM_FAULTS(0xec2e731e7ef27535ull, 0xec2e731e7ef27535ull, SIM_DEVICE(dev));
    return SIM_GATED(sim_cuMulticastUnbind(mcHandle, dev, mcOffset, size));
}

SIM_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
    SIM_FAULTS(0xb2b0b5e7208d4bdcull, 0xb2b0b5e7208d4bdcull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, func, numBlocks, blockSize));
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
    SIM_FAULTS(0xd89006c271aeebf0ull, 0xd89006c271aeebf0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, dynamicSMemSize));
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned flags) {
    SIM_FAULTS(0x6185ab1540af26bbull, 0x6185ab1540af26bbull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, flags));
}

SIM_EXPORT CUresult cuOccupancyMaxActiveClusters(void) {
    SIM_FAULTS(0xac4ce089f7182665ull, 0xac4ce089f7182665ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, void *blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit) {
    SIM_FAULTS(0xe8867cedd09febe2ull, 0xe8867cedd09febe2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit));
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func, void *blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned flags) {
    SIM_FAULTS(0x144450b97aba70e9ull, 0x144450b97aba70e9ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, flags));
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(void) {
    SIM_FAULTS(0x23d18227370aaf11ull, 0x23d18227370aaf11ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuParamSetSize(void) {
    SIM_FAULTS(0x80150ac69b3ebdebull, 0x80150ac69b3ebdebull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuParamSetTexRef(void) {
    SIM_FAULTS(0x6c289d3f322671c8ull, 0x6c289d3f322671c8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuParamSetf(void) {
    SIM_FAULTS(0xc71b79906a91aeecull, 0xc71b79906a91aeecull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuParamSeti(void) {
    SIM_FAULTS(0xc71b80906a91bad1ull, 0xc71b80906a91bad1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuParamSetv(void) {
    SIM_FAULTS(0xc71b89906a91ca1cull, 0xc71b89906a91ca1cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *data, int attribute_, CUdeviceptr ptr) {
    SIM_FAULTS(0x5cc27a2c24b2f892ull, 0x5cc27a2c24b2f892ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuPointerGetAttribute(data, attribute_, ptr));
}

SIM_EXPORT CUresult cuPointerGetAttributes(unsigned numAttributes, int *attributes, void **data, CUdeviceptr ptr) {
    SIM_FAULTS(0x516e7a025c1ce653ull, 0x516e7a025c1ce653ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuPointerGetAttributes(numAttributes, attributes, data, ptr));
}

SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute_, CUdeviceptr ptr) {
    SIM_FAULTS(0x46e99754c08a51b6ull, 0x46e99754c08a51b6ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuPointerSetAttribute(value, attribute_, ptr));
}

SIM_EXPORT CUresult cuProfilerInitialize(void) {
    SIM_FAULTS(0xb3228999fdb9533aull, 0xb3228999fdb9533aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuProfilerStart(void) {
    SIM_FAULTS(0x6ce15a3213d2b498ull, 0x6ce15a3213d2b498ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuProfilerStop(void) {
    SIM_FAULTS(0x17ae6f2e9b86207cull, 0x17ae6f2e9b86207cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSignalExternalSemaphoresAsync(void) {
    SIM_FAULTS(0x4414d0f589bb60abull, 0x4414d0f589bb60abull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSignalExternalSemaphoresAsync_ptsz(void) {
    SIM_FAULTS(0x0d62ffcaeb0f2d19ull, 0x4414d0f589bb60abull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags) {
    SIM_FAULTS(0x7a2f40d66459aaffull, 0x7a2f40d66459aaffull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamAddCallback(hStream, callback, userData, flags));
}

SIM_EXPORT CUresult cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags) {
    SIM_FAULTS(0xa4780c17295419f5ull, 0x7a2f40d66459aaffull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamAddCallback(SIM_PER_THREAD(hStream), callback, userData, flags));
}

SIM_EXPORT CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned flags) {
    SIM_FAULTS(0x27edd5cab558af6full, 0x27edd5cab558af6full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamAttachMemAsync(hStream, dptr, length, flags));
}

SIM_EXPORT CUresult cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned flags) {
    SIM_FAULTS(0x572188df49c734a5ull, 0x27edd5cab558af6full, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamAttachMemAsync(SIM_PER_THREAD(hStream), dptr, length, flags));
}

SIM_EXPORT CUresult cuStreamBatchMemOp(void) {
    SIM_FAULTS(0x35495904b3b8d11full, 0x35495904b3b8d11full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBatchMemOp_ptsz(void) {
    SIM_FAULTS(0x2cb83f6d11c326d5ull, 0x35495904b3b8d11full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBatchMemOp_v2(void) {
    SIM_FAULTS(0xb406217f3cb4b450ull, 0x35495904b3b8d11full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBatchMemOp_v2_ptsz(void) {
    SIM_FAULTS(0x7b857ed7ed9f130cull, 0x35495904b3b8d11full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBeginCapture(CUstream hStream, int mode) {
    SIM_FAULTS(0xf6921cc9255ee8bcull, 0xf6921cc9255ee8bcull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamBeginCapture_v2(hStream, mode));
}

SIM_EXPORT CUresult cuStreamBeginCaptureToCig(void) {
    SIM_FAULTS(0xa8044457222b5722ull, 0xa8044457222b5722ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBeginCaptureToCig_ptsz(void) {
    SIM_FAULTS(0x507891d8b5108caeull, 0xa8044457222b5722ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBeginCaptureToGraph(void) {
    SIM_FAULTS(0xf796364aaa2557b7ull, 0xf796364aaa2557b7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(void) {
    SIM_FAULTS(0x50d0d35a36c4dbfdull, 0xf796364aaa2557b7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream hStream, int mode) {
    SIM_FAULTS(0x185f1209117e8a60ull, 0xf6921cc9255ee8bcull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamBeginCapture_v2(SIM_PER_THREAD(hStream), mode));
}

SIM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream hStream, int mode) {
    SIM_FAULTS(0x3a49a8b7d28b00fdull, 0xf6921cc9255ee8bcull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamBeginCapture_v2(hStream, mode));
}

SIM_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, int mode) {
    SIM_FAULTS(0x4783a086a79572dbull, 0xf6921cc9255ee8bcull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamBeginCapture_v2(SIM_PER_THREAD(hStream), mode));
}

SIM_EXPORT CUresult cuStreamBeginRecaptureToGraph(void) {
    SIM_FAULTS(0x4063fb2642411f0eull, 0x4063fb2642411f0eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamBeginRecaptureToGraph_ptsz(void) {
    SIM_FAULTS(0x1903a17a2f67f832ull, 0x4063fb2642411f0eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamCopyAttributes(void) {
    SIM_FAULTS(0xc415b683a10d2715ull, 0xc415b683a10d2715ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamCopyAttributes_ptsz(void) {
    SIM_FAULTS(0x9a07e180998f84e3ull, 0xc415b683a10d2715ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned Flags) {
    SIM_FAULTS(0x6d3f3a466e6e435dull, 0x6d3f3a466e6e435dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamCreate(phStream, Flags));
}

SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority) {
    SIM_FAULTS(0x1b51b95bfa71c465ull, 0x1b51b95bfa71c465ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamCreateWithPriority(phStream, flags, priority));
}

SIM_EXPORT CUresult cuStreamDestroy(CUstream hStream) {
    SIM_FAULTS(0x05090d345f516665ull, 0x05090d345f516665ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamDestroy_v2(hStream));
}

SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) {
    SIM_FAULTS(0x7db51c9a9654cbeeull, 0x05090d345f516665ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamDestroy_v2(hStream));
}

SIM_EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
    SIM_FAULTS(0xdf36c8f9b05774e8ull, 0xdf36c8f9b05774e8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamEndCapture(hStream, phGraph));
}

SIM_EXPORT CUresult cuStreamEndCaptureToCig(void) {
    SIM_FAULTS(0xd409b4810c231e0eull, 0xd409b4810c231e0eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamEndCaptureToCig_ptsz(void) {
    SIM_FAULTS(0x2ea2636e86639532ull, 0xd409b4810c231e0eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph) {
    SIM_FAULTS(0x6a8ba1ebd72e7554ull, 0xdf36c8f9b05774e8ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamEndCapture(SIM_PER_THREAD(hStream), phGraph));
}

SIM_EXPORT CUresult cuStreamGetAttribute(void) {
    SIM_FAULTS(0xb2500cde082b9ccdull, 0xb2500cde082b9ccdull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetAttribute_ptsz(void) {
    SIM_FAULTS(0x4544ceb5ec8efaabull, 0xb2500cde082b9ccdull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out) {
    SIM_FAULTS(0xfdb293c32b30578bull, 0xfdb293c32b30578bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCaptureInfo(hStream, captureStatus_out, id_out));
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out) {
    SIM_FAULTS(0x03d00877907d12b9ull, 0xfdb293c32b30578bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCaptureInfo(SIM_PER_THREAD(hStream), captureStatus_out, id_out));
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out) {
    SIM_FAULTS(0xdc03503660e319e4ull, 0xfdb293c32b30578bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out));
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out) {
    SIM_FAULTS(0xdfacb3f320b34ed8ull, 0xfdb293c32b30578bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCaptureInfo_v2(SIM_PER_THREAD(hStream), captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out));
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, void *edgeData_out, size_t *numDependencies_out) {
    SIM_FAULTS(0xdc03513660e31b97ull, 0xfdb293c32b30578bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out));
}

SIM_EXPORT CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, void *edgeData_out, size_t *numDependencies_out) {
    SIM_FAULTS(0xf34f24097f3c089dull, 0xfdb293c32b30578bull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCaptureInfo_v3(SIM_PER_THREAD(hStream), captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out));
}

SIM_EXPORT CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    SIM_FAULTS(0x7208c2d4aa69c1a0ull, 0x7208c2d4aa69c1a0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCtx(hStream, pctx));
}

SIM_EXPORT CUresult cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx) {
    SIM_FAULTS(0xbb8ce17b87b4b0dcull, 0x7208c2d4aa69c1a0ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetCtx(SIM_PER_THREAD(hStream), pctx));
}

SIM_EXPORT CUresult cuStreamGetCtx_v2(void) {
    SIM_FAULTS(0xd7081c98cc04f369ull, 0x7208c2d4aa69c1a0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetCtx_v2_ptsz(void) {
    SIM_FAULTS(0xb862e02dc0e39befull, 0x7208c2d4aa69c1a0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetDevResource(void) {
    SIM_FAULTS(0xde05a38320964e6eull, 0xde05a38320964e6eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetDevResource_ptsz(void) {
    SIM_FAULTS(0x83c43449819eaed2ull, 0xde05a38320964e6eull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device) {
    SIM_FAULTS(0xe3f083e4a8d0941dull, 0xe3f083e4a8d0941dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetDevice(hStream, device));
}

SIM_EXPORT CUresult cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device) {
    SIM_FAULTS(0x5b35a67aca25cfbbull, 0xe3f083e4a8d0941dull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetDevice(SIM_PER_THREAD(hStream), device));
}

SIM_EXPORT CUresult cuStreamGetFlags(CUstream hStream, unsigned *flags) {
    SIM_FAULTS(0x18820b86a794dcaeull, 0x18820b86a794dcaeull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetFlags(hStream, flags));
}

SIM_EXPORT CUresult cuStreamGetFlags_ptsz(CUstream hStream, unsigned *flags) {
    SIM_FAULTS(0x02af87768fd7e812ull, 0x18820b86a794dcaeull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetFlags(SIM_PER_THREAD(hStream), flags));
}

SIM_EXPORT CUresult cuStreamGetGreenCtx(void) {
    SIM_FAULTS(0xbb9c9d32f74fa613ull, 0xbb9c9d32f74fa613ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
    SIM_FAULTS(0xa6ca51b9de5f2ffaull, 0xa6ca51b9de5f2ffaull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetId(hStream, streamId));
}

SIM_EXPORT CUresult cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId) {
    SIM_FAULTS(0x8033e51884c44b36ull, 0xa6ca51b9de5f2ffaull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetId(SIM_PER_THREAD(hStream), streamId));
}

SIM_EXPORT CUresult cuStreamGetPriority(CUstream hStream, int *priority) {
    SIM_FAULTS(0x154c6594920973bfull, 0x154c6594920973bfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetPriority(hStream, priority));
}

SIM_EXPORT CUresult cuStreamGetPriority_ptsz(CUstream hStream, int *priority) {
    SIM_FAULTS(0xb3a3b7b99dd1a5b5ull, 0x154c6594920973bfull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamGetPriority(SIM_PER_THREAD(hStream), priority));
}

SIM_EXPORT CUresult cuStreamIsCapturing(CUstream hStream, int *captureStatus) {
    SIM_FAULTS(0xaf1321adf1eb36a2ull, 0xaf1321adf1eb36a2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamIsCapturing(hStream, captureStatus));
}

SIM_EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream hStream, int *captureStatus) {
    SIM_FAULTS(0x05c213c7f74efb2eull, 0xaf1321adf1eb36a2ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamIsCapturing(SIM_PER_THREAD(hStream), captureStatus));
}

SIM_EXPORT CUresult cuStreamQuery(CUstream hStream) {
    SIM_FAULTS(0xb9214e2f20a2f5a3ull, 0xb9214e2f20a2f5a3ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamQuery(hStream));
}

SIM_EXPORT CUresult cuStreamQuery_ptsz(CUstream hStream) {
    SIM_FAULTS(0x0802e40281ffe761ull, 0xb9214e2f20a2f5a3ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamQuery(SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuStreamSetAttribute(void) {
    SIM_FAULTS(0x7bf44fe41fa62529ull, 0x7bf44fe41fa62529ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamSetAttribute_ptsz(void) {
    SIM_FAULTS(0x0c536de52916e3afull, 0x7bf44fe41fa62529ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamSynchronize(CUstream hStream) {
    SIM_FAULTS(0x2cd466cb45c8d8ddull, 0x2cd466cb45c8d8ddull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamSynchronize(hStream));
}

SIM_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream hStream) {
    SIM_FAULTS(0x7c127aeb09daa87bull, 0x2cd466cb45c8d8ddull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamSynchronize(SIM_PER_THREAD(hStream)));
}

SIM_EXPORT CUresult cuStreamUpdateCaptureDependencies(void) {
    SIM_FAULTS(0xbc205253ab4ff1a3ull, 0xbc205253ab4ff1a3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamUpdateCaptureDependencies_ptsz(void) {
    SIM_FAULTS(0x532b39fd873d5b61ull, 0xbc205253ab4ff1a3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(void) {
    SIM_FAULTS(0x5c426cc80b0af8fcull, 0xbc205253ab4ff1a3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(void) {
    SIM_FAULTS(0x36cd41d13062f1a0ull, 0xbc205253ab4ff1a3ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned Flags) {
    SIM_FAULTS(0x6fd294f358292428ull, 0x6fd294f358292428ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamWaitEvent(hStream, hEvent, Flags));
}

SIM_EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned Flags) {
    SIM_FAULTS(0xee5b292819b61c94ull, 0x6fd294f358292428ull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuStreamWaitEvent(SIM_PER_THREAD(hStream), hEvent, Flags));
}

SIM_EXPORT CUresult cuStreamWaitValue32(void) {
    SIM_FAULTS(0xf349dda0b557621cull, 0xf349dda0b557621cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue32_ptsz(void) {
    SIM_FAULTS(0x74da2f9d2d4f3480ull, 0xf349dda0b557621cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue32_v2(void) {
    SIM_FAULTS(0x3cf804a88ad8f69dull, 0xf349dda0b557621cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue32_v2_ptsz(void) {
    SIM_FAULTS(0xbdf60f8191ace73bull, 0xf349dda0b557621cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue64(void) {
    SIM_FAULTS(0xf35ad9a0b565ce83ull, 0xf35ad9a0b565ce83ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue64_ptsz(void) {
    SIM_FAULTS(0xcdba97373f035c01ull, 0xf35ad9a0b565ce83ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue64_v2(void) {
    SIM_FAULTS(0xed6c0e6d4633651cull, 0xf35ad9a0b565ce83ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWaitValue64_v2_ptsz(void) {
    SIM_FAULTS(0x2ee5621038a25d80ull, 0xf35ad9a0b565ce83ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue32(void) {
    SIM_FAULTS(0x630456a0f9288520ull, 0x630456a0f9288520ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue32_ptsz(void) {
    SIM_FAULTS(0x6a2fa76ccced4b5cull, 0x630456a0f9288520ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue32_v2(void) {
    SIM_FAULTS(0xb1bd156313ea89e9ull, 0x630456a0f9288520ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue32_v2_ptsz(void) {
    SIM_FAULTS(0x72085382907dcf6full, 0x630456a0f9288520ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue64(void) {
    SIM_FAULTS(0x62f9eaa0f91f7917ull, 0x62f9eaa0f91f7917ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue64_ptsz(void) {
    SIM_FAULTS(0xb23ce693b7cb311dull, 0x62f9eaa0f91f7917ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue64_v2(void) {
    SIM_FAULTS(0xbe1f83ff31da0fc8ull, 0x62f9eaa0f91f7917ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuStreamWriteValue64_v2_ptsz(void) {
    SIM_FAULTS(0xb031889e81844ff4ull, 0x62f9eaa0f91f7917ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSurfObjectCreate(void) {
    SIM_FAULTS(0x76762ea08c1737b2ull, 0x76762ea08c1737b2ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSurfObjectDestroy(void) {
    SIM_FAULTS(0x558f6c7e8cba5348ull, 0x558f6c7e8cba5348ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSurfObjectGetResourceDesc(void) {
    SIM_FAULTS(0x9937813f5a779ddbull, 0x9937813f5a779ddbull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSurfRefGetArray(void) {
    SIM_FAULTS(0x552fc30c5c1d58fbull, 0x552fc30c5c1d58fbull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuSurfRefSetArray(void) {
    SIM_FAULTS(0xe1d4ab6529e4747full, 0xe1d4ab6529e4747full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTensorMapEncodeIm2col(void) {
    SIM_FAULTS(0x16b4b5174c104b4aull, 0x16b4b5174c104b4aull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTensorMapEncodeIm2colWide(void) {
    SIM_FAULTS(0xbaf17590dd25961dull, 0xbaf17590dd25961dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTensorMapEncodeTiled(void) {
    SIM_FAULTS(0x787c0c6cb179b690ull, 0x787c0c6cb179b690ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTensorMapReplaceAddress(void) {
    SIM_FAULTS(0x953fc0f073d11eaeull, 0x953fc0f073d11eaeull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTensorMapSetAllocationClass(void) {
    SIM_FAULTS(0x68dd358f925432c8ull, 0x68dd358f925432c8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexObjectCreate(void) {
    SIM_FAULTS(0x82bd87edc34206f5ull, 0x82bd87edc34206f5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexObjectDestroy(void) {
    SIM_FAULTS(0x601ea336c97ed76dull, 0x601ea336c97ed76dull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexObjectGetResourceDesc(void) {
    SIM_FAULTS(0x68362285f1fd6d76ull, 0x68362285f1fd6d76ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexObjectGetResourceViewDesc(void) {
    SIM_FAULTS(0xa67059107d15014full, 0xa67059107d15014full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexObjectGetTextureDesc(void) {
    SIM_FAULTS(0x12697893a169a93full, 0x12697893a169a93full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefCreate(void) {
    SIM_FAULTS(0xca5f207021548577ull, 0xca5f207021548577ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefDestroy(void) {
    SIM_FAULTS(0x84e80188ecfccf3full, 0x84e80188ecfccf3full, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetAddress(void) {
    SIM_FAULTS(0xce493e4b9c8bfd97ull, 0xce493e4b9c8bfd97ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetAddressMode(void) {
    SIM_FAULTS(0x7d9d7adb2d792490ull, 0x7d9d7adb2d792490ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetAddress_v2(void) {
    SIM_FAULTS(0xe6d05e1d964d9148ull, 0xce493e4b9c8bfd97ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetArray(void) {
    SIM_FAULTS(0x543531694df671b2ull, 0x543531694df671b2ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetBorderColor(void) {
    SIM_FAULTS(0xb7c93be28514e282ull, 0xb7c93be28514e282ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetFilterMode(void) {
    SIM_FAULTS(0x1e42086ad186d3e4ull, 0x1e42086ad186d3e4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetFlags(void) {
    SIM_FAULTS(0xaa038eba830d53a0ull, 0xaa038eba830d53a0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetFormat(void) {
    SIM_FAULTS(0x2c01f173c8b7eea6ull, 0x2c01f173c8b7eea6ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetMaxAnisotropy(void) {
    SIM_FAULTS(0x4a552af5d3b45745ull, 0x4a552af5d3b45745ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetMipmapFilterMode(void) {
    SIM_FAULTS(0x2633a010011b4cc4ull, 0x2633a010011b4cc4ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetMipmapLevelBias(void) {
    SIM_FAULTS(0xabcbcfaa785d12b0ull, 0xabcbcfaa785d12b0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetMipmapLevelClamp(void) {
    SIM_FAULTS(0xd9b87e05a56d3eb0ull, 0xd9b87e05a56d3eb0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefGetMipmappedArray(void) {
    SIM_FAULTS(0x371f9ddc3ddb55fbull, 0x371f9ddc3ddb55fbull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetAddress(void) {
    SIM_FAULTS(0xc83bf93397e40d43ull, 0xc83bf93397e40d43ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetAddress2D(void) {
    SIM_FAULTS(0x37a922baa653cda5ull, 0x37a922baa653cda5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetAddress2D_v2(void) {
    SIM_FAULTS(0x4d2b148b04af04aeull, 0x37a922baa653cda5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetAddress2D_v3(void) {
    SIM_FAULTS(0x4d2b158b04af0661ull, 0x37a922baa653cda5ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetAddressMode(void) {
    SIM_FAULTS(0x8a47accd33b7bb2cull, 0x8a47accd33b7bb2cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetAddress_v2(void) {
    SIM_FAULTS(0x080ffb26ff7c0e5cull, 0xc83bf93397e40d43ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetArray(void) {
    SIM_FAULTS(0x9594f6a96598da36ull, 0x9594f6a96598da36ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetBorderColor(void) {
    SIM_FAULTS(0x4ddc7a6c5dfd7c76ull, 0x4ddc7a6c5dfd7c76ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetFilterMode(void) {
    SIM_FAULTS(0x21a74b147daf9b00ull, 0x21a74b147daf9b00ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetFlags(void) {
    SIM_FAULTS(0x449aaae789869f3cull, 0x449aaae789869f3cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetFormat(void) {
    SIM_FAULTS(0x03c38c37f88b12c2ull, 0x03c38c37f88b12c2ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetMaxAnisotropy(void) {
    SIM_FAULTS(0xd74532ed3599e7e1ull, 0xd74532ed3599e7e1ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetMipmapFilterMode(void) {
    SIM_FAULTS(0xb8023a973abcf860ull, 0xb8023a973abcf860ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetMipmapLevelBias(void) {
    SIM_FAULTS(0x0f3901f3ac2f349cull, 0x0f3901f3ac2f349cull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetMipmapLevelClamp(void) {
    SIM_FAULTS(0xf37f6c2118771e34ull, 0xf37f6c2118771e34ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuTexRefSetMipmappedArray(void) {
    SIM_FAULTS(0x42d9ec273c308ce7ull, 0x42d9ec273c308ce7ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    SIM_FAULTS(0x97083bf8cb7986cdull, 0x97083bf8cb7986cdull, SIM_CALLER_DEVICE);
    return SIM_GATED(sim_cuThreadExchangeStreamCaptureMode(mode));
}

SIM_EXPORT CUresult cuUserObjectCreate(void) {
    SIM_FAULTS(0x7b6839525293ac39ull, 0x7b6839525293ac39ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuUserObjectRelease(void) {
    SIM_FAULTS(0x688b96bc735c24eaull, 0x688b96bc735c24eaull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuUserObjectRetain(void) {
    SIM_FAULTS(0x99dd76c30a381b78ull, 0x99dd76c30a381b78ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuVDPAUCtxCreate(void) {
    SIM_FAULTS(0x063e964c00ccfcf0ull, 0x063e964c00ccfcf0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuVDPAUCtxCreate_v2(void) {
    SIM_FAULTS(0xd7caf57aa8fb2b79ull, 0x063e964c00ccfcf0ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuVDPAUGetDevice(void) {
    SIM_FAULTS(0xf96b693731c1c923ull, 0xf96b693731c1c923ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuWaitExternalSemaphoresAsync(void) {
    SIM_FAULTS(0x3d0eda2600e86ae8ull, 0x3d0eda2600e86ae8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuWaitExternalSemaphoresAsync_ptsz(void) {
    SIM_FAULTS(0x1224a044ef199754ull, 0x3d0eda2600e86ae8ull, SIM_CALLER_DEVICE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

const struct sim_entry sim_entries[] = {
    {"cuArray3DCreate", (void *)cuArray3DCreate, 2000, 0},
    {"cuArray3DCreate", (void *)cuArray3DCreate_v2, 3020, 0},
    {"cuArray3DGetDescriptor", (void *)cuArray3DGetDescriptor, 2000, 0},
    {"cuArray3DGetDescriptor", (void *)cuArray3DGetDescriptor_v2, 3020, 0},
    {"cuArrayCreate", (void *)cuArrayCreate, 2000, 0},
    {"cuArrayCreate", (void *)cuArrayCreate_v2, 3020, 0},
    {"cuArrayDestroy", (void *)cuArrayDestroy, 2000, 0},
    {"cuArrayGetDescriptor", (void *)cuArrayGetDescriptor, 2000, 0},
    {"cuArrayGetDescriptor", (void *)cuArrayGetDescriptor_v2, 3020, 0},
    {"cuArrayGetMemoryRequirements", (void *)cuArrayGetMemoryRequirements, 11060, 0},
    {"cuArrayGetPlane", (void *)cuArrayGetPlane, 11020, 0},
    {"cuArrayGetSparseProperties", (void *)cuArrayGetSparseProperties, 11010, 0},
    {"cuCheckpointOperationComplete", (void *)cuCheckpointOperationComplete, 13040, 0},
    {"cuCheckpointProcessCheckpoint", (void *)cuCheckpointProcessCheckpoint, 12080, 0},
    {"cuCheckpointProcessGetRestoreThreadId", (void *)cuCheckpointProcessGetRestoreThreadId, 12080, 0},
    {"cuCheckpointProcessGetState", (void *)cuCheckpointProcessGetState, 12080, 0},
    {"cuCheckpointProcessLock", (void *)cuCheckpointProcessLock, 12080, 0},
    {"cuCheckpointProcessRestore", (void *)cuCheckpointProcessRestore, 12080, 0},
    {"cuCheckpointProcessUnlock", (void *)cuCheckpointProcessUnlock, 12080, 0},
    {"cuCoredumpDeregisterCompleteCallback", (void *)cuCoredumpDeregisterCompleteCallback, 13020, 0},
    {"cuCoredumpDeregisterStartCallback", (void *)cuCoredumpDeregisterStartCallback, 13020, 0},
    {"cuCoredumpGetAttribute", (void *)cuCoredumpGetAttribute, 12010, 0},
    {"cuCoredumpGetAttributeGlobal", (void *)cuCoredumpGetAttributeGlobal, 12010, 0},
    {"cuCoredumpRegisterCompleteCallback", (void *)cuCoredumpRegisterCompleteCallback, 13020, 0},
    {"cuCoredumpRegisterStartCallback", (void *)cuCoredumpRegisterStartCallback, 13020, 0},
    {"cuCoredumpSetAttribute", (void *)cuCoredumpSetAttribute, 12010, 0},
    {"cuCoredumpSetAttributeGlobal", (void *)cuCoredumpSetAttributeGlobal, 12010, 0},
    {"cuCtxAttach", (void *)cuCtxAttach, 2000, 0},
    {"cuCtxCreate", (void *)cuCtxCreate, 2000, 0},
    {"cuCtxCreate", (void *)cuCtxCreate_v2, 3020, 0},
    {"cuCtxCreate", (void *)cuCtxCreate_v3, 11040, 0},
    {"cuCtxCreate", (void *)cuCtxCreate_v4, 12050, 0},
    {"cuCtxDestroy", (void *)cuCtxDestroy, 2000, 0},
    {"cuCtxDestroy", (void *)cuCtxDestroy_v2, 4000, 0},
    {"cuCtxDetach", (void *)cuCtxDetach, 2000, 0},
    {"cuCtxDisablePeerAccess", (void *)cuCtxDisablePeerAccess, 4000, 0},
    {"cuCtxEnablePeerAccess", (void *)cuCtxEnablePeerAccess, 4000, 0},
    {"cuCtxFromGreenCtx", (void *)cuCtxFromGreenCtx, 12040, 0},
    {"cuCtxGetApiVersion", (void *)cuCtxGetApiVersion, 3020, 0},
    {"cuCtxGetCacheConfig", (void *)cuCtxGetCacheConfig, 3020, 0},
    {"cuCtxGetCurrent", (void *)cuCtxGetCurrent, 4000, 0},
    {"cuCtxGetDevResource", (void *)cuCtxGetDevResource, 12040, 0},
    {"cuCtxGetDevice", (void *)cuCtxGetDevice, 2000, 0},
    {"cuCtxGetDevice", (void *)cuCtxGetDevice_v2, 13000, 0},
    {"cuCtxGetExecAffinity", (void *)cuCtxGetExecAffinity, 11040, 0},
    {"cuCtxGetFlags", (void *)cuCtxGetFlags, 7000, 0},
    {"cuCtxGetId", (void *)cuCtxGetId, 12000, 0},
    {"cuCtxGetLimit", (void *)cuCtxGetLimit, 3010, 0},
    {"cuCtxGetSharedMemConfig", (void *)cuCtxGetSharedMemConfig, 4020, 0},
    {"cuCtxGetStreamPriorityRange", (void *)cuCtxGetStreamPriorityRange, 5050, 0},
    {"cuCtxPopCurrent", (void *)cuCtxPopCurrent, 2000, 0},
    {"cuCtxPopCurrent", (void *)cuCtxPopCurrent_v2, 4000, 0},
    {"cuCtxPushCurrent", (void *)cuCtxPushCurrent, 2000, 0},
    {"cuCtxPushCurrent", (void *)cuCtxPushCurrent_v2, 4000, 0},
    {"cuCtxRecordEvent", (void *)cuCtxRecordEvent, 12050, 0},
    {"cuCtxResetPersistingL2Cache", (void *)cuCtxResetPersistingL2Cache, 11000, 0},
    {"cuCtxSetCacheConfig", (void *)cuCtxSetCacheConfig, 3020, 0},
    {"cuCtxSetCurrent", (void *)cuCtxSetCurrent, 4000, 0},
    {"cuCtxSetFlags", (void *)cuCtxSetFlags, 12010, 0},
    {"cuCtxSetLimit", (void *)cuCtxSetLimit, 3010, 0},
    {"cuCtxSetSharedMemConfig", (void *)cuCtxSetSharedMemConfig, 4020, 0},
    {"cuCtxSynchronize", (void *)cuCtxSynchronize, 2000, 0},
    {"cuCtxSynchronize", (void *)cuCtxSynchronize_v2, 13000, 0},
    {"cuCtxWaitEvent", (void *)cuCtxWaitEvent, 12050, 0},
    {"cuDestroyExternalMemory", (void *)cuDestroyExternalMemory, 10000, 0},
    {"cuDestroyExternalSemaphore", (void *)cuDestroyExternalSemaphore, 10000, 0},
    {"cuDevResourceGenerateDesc", (void *)cuDevResourceGenerateDesc, 12040, 0},
    {"cuDevSmResourceSplit", (void *)cuDevSmResourceSplit, 13010, 0},
    {"cuDevSmResourceSplitByCount", (void *)cuDevSmResourceSplitByCount, 12040, 0},
    {"cuDeviceCanAccessPeer", (void *)cuDeviceCanAccessPeer, 4000, 0},
    {"cuDeviceComputeCapability", (void *)cuDeviceComputeCapability, 2000, 0},
    {"cuDeviceGet", (void *)cuDeviceGet, 2000, 0},
    {"cuDeviceGetAttribute", (void *)cuDeviceGetAttribute, 2000, 0},
    {"cuDeviceGetByPCIBusId", (void *)cuDeviceGetByPCIBusId, 4010, 0},
    {"cuDeviceGetCliqueCount", (void *)cuDeviceGetCliqueCount, 13040, 0},
    {"cuDeviceGetCliqueInfo", (void *)cuDeviceGetCliqueInfo, 13040, 0},
    {"cuDeviceGetCount", (void *)cuDeviceGetCount, 2000, 0},
    {"cuDeviceGetDefaultMemPool", (void *)cuDeviceGetDefaultMemPool, 11020, 0},
    {"cuDeviceGetDevResource", (void *)cuDeviceGetDevResource, 12040, 0},
    {"cuDeviceGetExecAffinitySupport", (void *)cuDeviceGetExecAffinitySupport, 11040, 0},
    {"cuDeviceGetFabricClusterUuid", (void *)cuDeviceGetFabricClusterUuid, 13040, 0},
    {"cuDeviceGetGraphMemAttribute", (void *)cuDeviceGetGraphMemAttribute, 11040, 0},
    {"cuDeviceGetHostAtomicCapabilities", (void *)cuDeviceGetHostAtomicCapabilities, 13000, 0},
    {"cuDeviceGetLuid", (void *)cuDeviceGetLuid, 10000, 0},
    {"cuDeviceGetMemPool", (void *)cuDeviceGetMemPool, 11020, 0},
    {"cuDeviceGetName", (void *)cuDeviceGetName, 2000, 0},
    {"cuDeviceGetNvSciSyncAttributes", (void *)cuDeviceGetNvSciSyncAttributes, 10020, 0},
    {"cuDeviceGetP2PAtomicCapabilities", (void *)cuDeviceGetP2PAtomicCapabilities, 13000, 0},
    {"cuDeviceGetP2PAttribute", (void *)cuDeviceGetP2PAttribute, 8000, 0},
    {"cuDeviceGetPCIBusId", (void *)cuDeviceGetPCIBusId, 4010, 0},
    {"cuDeviceGetProperties", (void *)cuDeviceGetProperties, 2000, 0},
    {"cuDeviceGetTexture1DLinearMaxWidth", (void *)cuDeviceGetTexture1DLinearMaxWidth, 11010, 0},
    {"cuDeviceGetUuid", (void *)cuDeviceGetUuid, 9020, 0},
    {"cuDeviceGetUuid", (void *)cuDeviceGetUuid_v2, 11040, 0},
    {"cuDeviceGraphMemTrim", (void *)cuDeviceGraphMemTrim, 11040, 0},
    {"cuDevicePrimaryCtxGetState", (void *)cuDevicePrimaryCtxGetState, 7000, 0},
    {"cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease, 7000, 0},
    {"cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease_v2, 11000, 0},
    {"cuDevicePrimaryCtxReset", (void *)cuDevicePrimaryCtxReset, 7000, 0},
    {"cuDevicePrimaryCtxReset", (void *)cuDevicePrimaryCtxReset_v2, 11000, 0},
    {"cuDevicePrimaryCtxRetain", (void *)cuDevicePrimaryCtxRetain, 7000, 0},
    {"cuDevicePrimaryCtxSetFlags", (void *)cuDevicePrimaryCtxSetFlags, 7000, 0},
    {"cuDevicePrimaryCtxSetFlags", (void *)cuDevicePrimaryCtxSetFlags_v2, 11000, 0},
    {"cuDeviceRegisterAsyncNotification", (void *)cuDeviceRegisterAsyncNotification, 12040, 0},
    {"cuDeviceSetGraphMemAttribute", (void *)cuDeviceSetGraphMemAttribute, 11040, 0},
    {"cuDeviceSetMemPool", (void *)cuDeviceSetMemPool, 11020, 0},
    {"cuDeviceTotalMem", (void *)cuDeviceTotalMem, 2000, 0},
    {"cuDeviceTotalMem", (void *)cuDeviceTotalMem_v2, 3020, 0},
    {"cuDeviceUnregisterAsyncNotification", (void *)cuDeviceUnregisterAsyncNotification, 12040, 0},
    {"cuDriverGetVersion", (void *)cuDriverGetVersion, 2020, 0},
    {"cuEGLStreamConsumerAcquireFrame", (void *)cuEGLStreamConsumerAcquireFrame, 7000, 0},
    {"cuEGLStreamConsumerConnect", (void *)cuEGLStreamConsumerConnect, 7000, 0},
    {"cuEGLStreamConsumerConnectWithFlags", (void *)cuEGLStreamConsumerConnectWithFlags, 8000, 0},
    {"cuEGLStreamConsumerDisconnect", (void *)cuEGLStreamConsumerDisconnect, 7000, 0},
    {"cuEGLStreamConsumerReleaseFrame", (void *)cuEGLStreamConsumerReleaseFrame, 7000, 0},
    {"cuEGLStreamProducerConnect", (void *)cuEGLStreamProducerConnect, 7000, 0},
    {"cuEGLStreamProducerDisconnect", (void *)cuEGLStreamProducerDisconnect, 7000, 0},
    {"cuEGLStreamProducerPresentFrame", (void *)cuEGLStreamProducerPresentFrame, 7000, 0},
    {"cuEGLStreamProducerReturnFrame", (void *)cuEGLStreamProducerReturnFrame, 7000, 0},
    {"cuEventCreate", (void *)cuEventCreate, 2000, 0},
    {"cuEventCreateFromEGLSync", (void *)cuEventCreateFromEGLSync, 9000, 0},
    {"cuEventDestroy", (void *)cuEventDestroy, 2000, 0},
    {"cuEventDestroy", (void *)cuEventDestroy_v2, 4000, 0},
    {"cuEventElapsedTime", (void *)cuEventElapsedTime, 2000, 0},
    {"cuEventElapsedTime", (void *)cuEventElapsedTime_v2, 12080, 0},
    {"cuEventQuery", (void *)cuEventQuery, 2000, 0},
    {"cuEventRecord", (void *)cuEventRecord, 2000, 0},
    {"cuEventRecord", (void *)cuEventRecord_ptsz, 7000, 1},
    {"cuEventRecordWithFlags", (void *)cuEventRecordWithFlags, 11010, 0},
    {"cuEventRecordWithFlags", (void *)cuEventRecordWithFlags_ptsz, 11010, 1},
    {"cuEventSynchronize", (void *)cuEventSynchronize, 2000, 0},
    {"cuExternalMemoryGetMappedBuffer", (void *)cuExternalMemoryGetMappedBuffer, 10000, 0},
    {"cuExternalMemoryGetMappedMipmappedArray", (void *)cuExternalMemoryGetMappedMipmappedArray, 10000, 0},
    {"cuFabricCpyBatchAsync", (void *)cuFabricCpyBatchAsync, 13050, 0},
    {"cuFabricCpyBatchAsync", (void *)cuFabricCpyBatchAsync_ptsz, 13050, 1},
    {"cuFlushGPUDirectRDMAWrites", (void *)cuFlushGPUDirectRDMAWrites, 11030, 0},
    {"cuFuncGetAttribute", (void *)cuFuncGetAttribute, 2020, 0},
    {"cuFuncGetModule", (void *)cuFuncGetModule, 11000, 0},
    {"cuFuncGetName", (void *)cuFuncGetName, 12030, 0},
    {"cuFuncGetParamCount", (void *)cuFuncGetParamCount, 13020, 0},
    {"cuFuncGetParamInfo", (void *)cuFuncGetParamInfo, 12040, 0},
    {"cuFuncIsLoaded", (void *)cuFuncIsLoaded, 12040, 0},
    {"cuFuncLoad", (void *)cuFuncLoad, 12040, 0},
    {"cuFuncSetAttribute", (void *)cuFuncSetAttribute, 9000, 0},
    {"cuFuncSetBlockShape", (void *)cuFuncSetBlockShape, 2000, 0},
    {"cuFuncSetCacheConfig", (void *)cuFuncSetCacheConfig, 3000, 0},
    {"cuFuncSetSharedMemConfig", (void *)cuFuncSetSharedMemConfig, 4020, 0},
    {"cuFuncSetSharedSize", (void *)cuFuncSetSharedSize, 2000, 0},
    {"cuGLCtxCreate", (void *)cuGLCtxCreate, 2000, 0},
    {"cuGLCtxCreate", (void *)cuGLCtxCreate_v2, 3020, 0},
    {"cuGLGetDevices", (void *)cuGLGetDevices, 4010, 0},
    {"cuGLGetDevices", (void *)cuGLGetDevices_v2, 6050, 0},
    {"cuGLInit", (void *)cuGLInit, 2000, 0},
    {"cuGLMapBufferObject", (void *)cuGLMapBufferObject, 2000, 0},
    {"cuGLMapBufferObject", (void *)cuGLMapBufferObject_v2, 3020, 0},
    {"cuGLMapBufferObject", (void *)cuGLMapBufferObject_v2_ptds, 7000, 1},
    {"cuGLMapBufferObjectAsync", (void *)cuGLMapBufferObjectAsync, 2030, 0},
    {"cuGLMapBufferObjectAsync", (void *)cuGLMapBufferObjectAsync_v2, 3020, 0},
    {"cuGLMapBufferObjectAsync", (void *)cuGLMapBufferObjectAsync_v2_ptsz, 7000, 1},
    {"cuGLRegisterBufferObject", (void *)cuGLRegisterBufferObject, 2000, 0},
    {"cuGLSetBufferObjectMapFlags", (void *)cuGLSetBufferObjectMapFlags, 2030, 0},
    {"cuGLUnmapBufferObject", (void *)cuGLUnmapBufferObject, 2000, 0},
    {"cuGLUnmapBufferObjectAsync", (void *)cuGLUnmapBufferObjectAsync, 2030, 0},
    {"cuGLUnregisterBufferObject", (void *)cuGLUnregisterBufferObject, 2000, 0},
    {"cuGetErrorName", (void *)cuGetErrorName, 6000, 0},
    {"cuGetErrorString", (void *)cuGetErrorString, 6000, 0},
    {"cuGetExportTable", (void *)cuGetExportTable, 3000, 0},
    {"cuGetProcAddress", (void *)cuGetProcAddress, 11030, 0},
    {"cuGetProcAddress", (void *)cuGetProcAddress_v2, 12000, 0},
    {"cuGraphAddBatchMemOpNode", (void *)cuGraphAddBatchMemOpNode, 11070, 0},
    {"cuGraphAddChildGraphNode", (void *)cuGraphAddChildGraphNode, 10000, 0},
    {"cuGraphAddDependencies", (void *)cuGraphAddDependencies, 10000, 0},
    {"cuGraphAddDependencies", (void *)cuGraphAddDependencies_v2, 12030, 0},
    {"cuGraphAddEmptyNode", (void *)cuGraphAddEmptyNode, 10000, 0},
    {"cuGraphAddEventRecordNode", (void *)cuGraphAddEventRecordNode, 11010, 0},
    {"cuGraphAddEventWaitNode", (void *)cuGraphAddEventWaitNode, 11010, 0},
    {"cuGraphAddExternalSemaphoresSignalNode", (void *)cuGraphAddExternalSemaphoresSignalNode, 11020, 0},
    {"cuGraphAddExternalSemaphoresWaitNode", (void *)cuGraphAddExternalSemaphoresWaitNode, 11020, 0},
    {"cuGraphAddHostNode", (void *)cuGraphAddHostNode, 10000, 0},
    {"cuGraphAddKernelNode", (void *)cuGraphAddKernelNode, 10000, 0},
    {"cuGraphAddKernelNode", (void *)cuGraphAddKernelNode_v2, 12000, 0},
    {"cuGraphAddMemAllocNode", (void *)cuGraphAddMemAllocNode, 11040, 0},
    {"cuGraphAddMemFreeNode", (void *)cuGraphAddMemFreeNode, 11040, 0},
    {"cuGraphAddMemcpyNode", (void *)cuGraphAddMemcpyNode, 10000, 0},
    {"cuGraphAddMemsetNode", (void *)cuGraphAddMemsetNode, 10000, 0},
    {"cuGraphAddNode", (void *)cuGraphAddNode, 12020, 0},
    {"cuGraphAddNode", (void *)cuGraphAddNode_v2, 12030, 0},
    {"cuGraphAddNode", (void *)cuGraphAddNode_v3, 13040, 0},
    {"cuGraphBatchMemOpNodeGetParams", (void *)cuGraphBatchMemOpNodeGetParams, 11070, 0},
    {"cuGraphBatchMemOpNodeSetParams", (void *)cuGraphBatchMemOpNodeSetParams, 11070, 0},
    {"cuGraphChildGraphNodeGetGraph", (void *)cuGraphChildGraphNodeGetGraph, 10000, 0},
    {"cuGraphClone", (void *)cuGraphClone, 10000, 0},
    {"cuGraphConditionalHandleCreate", (void *)cuGraphConditionalHandleCreate, 12030, 0},
    {"cuGraphCreate", (void *)cuGraphCreate, 10000, 0},
    {"cuGraphDebugDotPrint", (void *)cuGraphDebugDotPrint, 11030, 0},
    {"cuGraphDestroy", (void *)cuGraphDestroy, 10000, 0},
    {"cuGraphDestroyNode", (void *)cuGraphDestroyNode, 10000, 0},
    {"cuGraphEventRecordNodeGetEvent", (void *)cuGraphEventRecordNodeGetEvent, 11010, 0},
    {"cuGraphEventRecordNodeSetEvent", (void *)cuGraphEventRecordNodeSetEvent, 11010, 0},
    {"cuGraphEventWaitNodeGetEvent", (void *)cuGraphEventWaitNodeGetEvent, 11010, 0},
    {"cuGraphEventWaitNodeSetEvent", (void *)cuGraphEventWaitNodeSetEvent, 11010, 0},
    {"cuGraphExecBatchMemOpNodeSetParams", (void *)cuGraphExecBatchMemOpNodeSetParams, 11070, 0},
    {"cuGraphExecChildGraphNodeSetParams", (void *)cuGraphExecChildGraphNodeSetParams, 11010, 0},
    {"cuGraphExecDestroy", (void *)cuGraphExecDestroy, 10000, 0},
    {"cuGraphExecEventRecordNodeSetEvent", (void *)cuGraphExecEventRecordNodeSetEvent, 11010, 0},
    {"cuGraphExecEventWaitNodeSetEvent", (void *)cuGraphExecEventWaitNodeSetEvent, 11010, 0},
    {"cuGraphExecExternalSemaphoresSignalNodeSetParams", (void *)cuGraphExecExternalSemaphoresSignalNodeSetParams, 11020, 0},
    {"cuGraphExecExternalSemaphoresWaitNodeSetParams", (void *)cuGraphExecExternalSemaphoresWaitNodeSetParams, 11020, 0},
    {"cuGraphExecGetFlags", (void *)cuGraphExecGetFlags, 12000, 0},
    {"cuGraphExecGetId", (void *)cuGraphExecGetId, 13010, 0},
    {"cuGraphExecHostNodeSetParams", (void *)cuGraphExecHostNodeSetParams, 10020, 0},
    {"cuGraphExecKernelNodeSetParams", (void *)cuGraphExecKernelNodeSetParams, 10010, 0},
    {"cuGraphExecKernelNodeSetParams", (void *)cuGraphExecKernelNodeSetParams_v2, 12000, 0},
    {"cuGraphExecMemcpyNodeSetParams", (void *)cuGraphExecMemcpyNodeSetParams, 10020, 0},
    {"cuGraphExecMemsetNodeSetParams", (void *)cuGraphExecMemsetNodeSetParams, 10020, 0},
    {"cuGraphExecNodeSetParams", (void *)cuGraphExecNodeSetParams, 12020, 0},
    {"cuGraphExecUpdate", (void *)cuGraphExecUpdate, 10020, 0},
    {"cuGraphExecUpdate", (void *)cuGraphExecUpdate_v2, 12000, 0},
    {"cuGraphExternalSemaphoresSignalNodeGetParams", (void *)cuGraphExternalSemaphoresSignalNodeGetParams, 11020, 0},
    {"cuGraphExternalSemaphoresSignalNodeSetParams", (void *)cuGraphExternalSemaphoresSignalNodeSetParams, 11020, 0},
    {"cuGraphExternalSemaphoresWaitNodeGetParams", (void *)cuGraphExternalSemaphoresWaitNodeGetParams, 11020, 0},
    {"cuGraphExternalSemaphoresWaitNodeSetParams", (void *)cuGraphExternalSemaphoresWaitNodeSetParams, 11020, 0},
    {"cuGraphGetEdges", (void *)cuGraphGetEdges, 10000, 0},
    {"cuGraphGetEdges", (void *)cuGraphGetEdges_v2, 12030, 0},
    {"cuGraphGetId", (void *)cuGraphGetId, 13010, 0},
    {"cuGraphGetNodes", (void *)cuGraphGetNodes, 10000, 0},
    {"cuGraphGetRootNodes", (void *)cuGraphGetRootNodes, 10000, 0},
    {"cuGraphHostNodeGetParams", (void *)cuGraphHostNodeGetParams, 10000, 0},
    {"cuGraphHostNodeSetParams", (void *)cuGraphHostNodeSetParams, 10000, 0},
    {"cuGraphInstantiate", (void *)cuGraphInstantiate, 10000, 0},
    {"cuGraphInstantiate", (void *)cuGraphInstantiate_v2, 11000, 0},
    {"cuGraphInstantiateWithFlags", (void *)cuGraphInstantiateWithFlags, 11040, 0},
    {"cuGraphInstantiateWithParams", (void *)cuGraphInstantiateWithParams, 12000, 0},
    {"cuGraphInstantiateWithParams", (void *)cuGraphInstantiateWithParams_ptsz, 12000, 1},
    {"cuGraphKernelNodeCopyAttributes", (void *)cuGraphKernelNodeCopyAttributes, 11000, 0},
    {"cuGraphKernelNodeGetAttribute", (void *)cuGraphKernelNodeGetAttribute, 11000, 0},
    {"cuGraphKernelNodeGetParams", (void *)cuGraphKernelNodeGetParams, 10000, 0},
    {"cuGraphKernelNodeGetParams", (void *)cuGraphKernelNodeGetParams_v2, 12000, 0},
    {"cuGraphKernelNodeSetAttribute", (void *)cuGraphKernelNodeSetAttribute, 11000, 0},
    {"cuGraphKernelNodeSetParams", (void *)cuGraphKernelNodeSetParams, 10000, 0},
    {"cuGraphKernelNodeSetParams", (void *)cuGraphKernelNodeSetParams_v2, 12000, 0},
    {"cuGraphLaunch", (void *)cuGraphLaunch, 10000, 0},
    {"cuGraphLaunch", (void *)cuGraphLaunch_ptsz, 10000, 1},
    {"cuGraphMemAllocNodeGetParams", (void *)cuGraphMemAllocNodeGetParams, 11040, 0},
    {"cuGraphMemFreeNodeGetParams", (void *)cuGraphMemFreeNodeGetParams, 11040, 0},
    {"cuGraphMemcpyNodeGetParams", (void *)cuGraphMemcpyNodeGetParams, 10000, 0},
    {"cuGraphMemcpyNodeSetParams", (void *)cuGraphMemcpyNodeSetParams, 10000, 0},
    {"cuGraphMemsetNodeGetParams", (void *)cuGraphMemsetNodeGetParams, 10000, 0},
    {"cuGraphMemsetNodeSetParams", (void *)cuGraphMemsetNodeSetParams, 10000, 0},
    {"cuGraphNodeFindInClone", (void *)cuGraphNodeFindInClone, 10000, 0},
    {"cuGraphNodeGetContainingGraph", (void *)cuGraphNodeGetContainingGraph, 13010, 0},
    {"cuGraphNodeGetDependencies", (void *)cuGraphNodeGetDependencies, 10000, 0},
    {"cuGraphNodeGetDependencies", (void *)cuGraphNodeGetDependencies_v2, 12030, 0},
    {"cuGraphNodeGetDependentNodes", (void *)cuGraphNodeGetDependentNodes, 10000, 0},
    {"cuGraphNodeGetDependentNodes", (void *)cuGraphNodeGetDependentNodes_v2, 12030, 0},
    {"cuGraphNodeGetEnabled", (void *)cuGraphNodeGetEnabled, 11060, 0},
    {"cuGraphNodeGetLocalId", (void *)cuGraphNodeGetLocalId, 13010, 0},
    {"cuGraphNodeGetParams", (void *)cuGraphNodeGetParams, 13020, 0},
    {"cuGraphNodeGetToolsId", (void *)cuGraphNodeGetToolsId, 13010, 0},
    {"cuGraphNodeGetType", (void *)cuGraphNodeGetType, 10000, 0},
    {"cuGraphNodeSetEnabled", (void *)cuGraphNodeSetEnabled, 11060, 0},
    {"cuGraphNodeSetParams", (void *)cuGraphNodeSetParams, 12020, 0},
    {"cuGraphNodeSetParams", (void *)cuGraphNodeSetParams_v2, 13040, 0},
    {"cuGraphReleaseUserObject", (void *)cuGraphReleaseUserObject, 11030, 0},
    {"cuGraphRemoveDependencies", (void *)cuGraphRemoveDependencies, 10000, 0},
    {"cuGraphRemoveDependencies", (void *)cuGraphRemoveDependencies_v2, 12030, 0},
    {"cuGraphRetainUserObject", (void *)cuGraphRetainUserObject, 11030, 0},
    {"cuGraphUpload", (void *)cuGraphUpload, 11010, 0},
    {"cuGraphUpload", (void *)cuGraphUpload_ptsz, 11010, 1},
    {"cuGraphicsEGLRegisterImage", (void *)cuGraphicsEGLRegisterImage, 7000, 0},
    {"cuGraphicsGLRegisterBuffer", (void *)cuGraphicsGLRegisterBuffer, 3000, 0},
    {"cuGraphicsGLRegisterImage", (void *)cuGraphicsGLRegisterImage, 3000, 0},
    {"cuGraphicsMapResources", (void *)cuGraphicsMapResources, 3000, 0},
    {"cuGraphicsMapResources", (void *)cuGraphicsMapResources_ptsz, 7000, 1},
    {"cuGraphicsResourceGetMappedEglFrame", (void *)cuGraphicsResourceGetMappedEglFrame, 7000, 0},
    {"cuGraphicsResourceGetMappedMipmappedArray", (void *)cuGraphicsResourceGetMappedMipmappedArray, 5000, 0},
    {"cuGraphicsResourceGetMappedPointer", (void *)cuGraphicsResourceGetMappedPointer, 3000, 0},
    {"cuGraphicsResourceGetMappedPointer", (void *)cuGraphicsResourceGetMappedPointer_v2, 3020, 0},
    {"cuGraphicsResourceSetMapFlags", (void *)cuGraphicsResourceSetMapFlags, 3000, 0},
    {"cuGraphicsResourceSetMapFlags", (void *)cuGraphicsResourceSetMapFlags_v2, 6050, 0},
    {"cuGraphicsSubResourceGetMappedArray", (void *)cuGraphicsSubResourceGetMappedArray, 3000, 0},
    {"cuGraphicsUnmapResources", (void *)cuGraphicsUnmapResources, 3000, 0},
    {"cuGraphicsUnmapResources", (void *)cuGraphicsUnmapResources_ptsz, 7000, 1},
    {"cuGraphicsUnregisterResource", (void *)cuGraphicsUnregisterResource, 3000, 0},
    {"cuGraphicsVDPAURegisterOutputSurface", (void *)cuGraphicsVDPAURegisterOutputSurface, 3010, 0},
    {"cuGraphicsVDPAURegisterVideoSurface", (void *)cuGraphicsVDPAURegisterVideoSurface, 3010, 0},
    {"cuGreenCtxCreate", (void *)cuGreenCtxCreate, 12040, 0},
    {"cuGreenCtxDestroy", (void *)cuGreenCtxDestroy, 12040, 0},
    {"cuGreenCtxGetDevResource", (void *)cuGreenCtxGetDevResource, 12040, 0},
    {"cuGreenCtxGetId", (void *)cuGreenCtxGetId, 12090, 0},
    {"cuGreenCtxRecordEvent", (void *)cuGreenCtxRecordEvent, 12040, 0},
    {"cuGreenCtxStreamCreate", (void *)cuGreenCtxStreamCreate, 12050, 0},
    {"cuGreenCtxWaitEvent", (void *)cuGreenCtxWaitEvent, 12040, 0},
    {"cuImportExternalMemory", (void *)cuImportExternalMemory, 10000, 0},
    {"cuImportExternalSemaphore", (void *)cuImportExternalSemaphore, 10000, 0},
    {"cuInit", (void *)cuInit, 2000, 0},
    {"cuIpcCloseMemHandle", (void *)cuIpcCloseMemHandle, 4010, 0},
    {"cuIpcGetEventHandle", (void *)cuIpcGetEventHandle, 4010, 0},
    {"cuIpcGetMemHandle", (void *)cuIpcGetMemHandle, 4010, 0},
    {"cuIpcOpenEventHandle", (void *)cuIpcOpenEventHandle, 4010, 0},
    {"cuIpcOpenMemHandle", (void *)cuIpcOpenMemHandle, 4010, 0},
    {"cuIpcOpenMemHandle", (void *)cuIpcOpenMemHandle_v2, 11000, 0},
    {"cuKernelGetAttribute", (void *)cuKernelGetAttribute, 12000, 0},
    {"cuKernelGetFunction", (void *)cuKernelGetFunction, 12000, 0},
    {"cuKernelGetLibrary", (void *)cuKernelGetLibrary, 12050, 0},
    {"cuKernelGetName", (void *)cuKernelGetName, 12030, 0},
    {"cuKernelGetParamCount", (void *)cuKernelGetParamCount, 13020, 0},
    {"cuKernelGetParamInfo", (void *)cuKernelGetParamInfo, 12040, 0},
    {"cuKernelSetAttribute", (void *)cuKernelSetAttribute, 12000, 0},
    {"cuKernelSetCacheConfig", (void *)cuKernelSetCacheConfig, 12000, 0},
    {"cuLaunch", (void *)cuLaunch, 2000, 0},
    {"cuLaunchCooperativeKernel", (void *)cuLaunchCooperativeKernel, 9000, 0},
    {"cuLaunchCooperativeKernel", (void *)cuLaunchCooperativeKernel_ptsz, 9000, 1},
    {"cuLaunchCooperativeKernelMultiDevice", (void *)cuLaunchCooperativeKernelMultiDevice, 9000, 0},
    {"cuLaunchGrid", (void *)cuLaunchGrid, 2000, 0},
    {"cuLaunchGridAsync", (void *)cuLaunchGridAsync, 2000, 0},
    {"cuLaunchHostFunc", (void *)cuLaunchHostFunc, 10000, 0},
    {"cuLaunchHostFunc", (void *)cuLaunchHostFunc_ptsz, 10000, 1},
    {"cuLaunchHostFunc", (void *)cuLaunchHostFunc_v2, 13010, 0},
    {"cuLaunchHostFunc", (void *)cuLaunchHostFunc_v2_ptsz, 13010, 1},
    {"cuLaunchKernel", (void *)cuLaunchKernel, 4000, 0},
    {"cuLaunchKernel", (void *)cuLaunchKernel_ptsz, 7000, 1},
    {"cuLaunchKernelEx", (void *)cuLaunchKernelEx, 11060, 0},
    {"cuLaunchKernelEx", (void *)cuLaunchKernelEx_ptsz, 11060, 1},
    {"cuLibraryEnumerateKernels", (void *)cuLibraryEnumerateKernels, 12040, 0},
    {"cuLibraryGetGlobal", (void *)cuLibraryGetGlobal, 12000, 0},
    {"cuLibraryGetKernel", (void *)cuLibraryGetKernel, 12000, 0},
    {"cuLibraryGetKernelCount", (void *)cuLibraryGetKernelCount, 12040, 0},
    {"cuLibraryGetManaged", (void *)cuLibraryGetManaged, 12000, 0},
    {"cuLibraryGetModule", (void *)cuLibraryGetModule, 12000, 0},
    {"cuLibraryGetUnifiedFunction", (void *)cuLibraryGetUnifiedFunction, 12000, 0},
    {"cuLibraryLoadData", (void *)cuLibraryLoadData, 12000, 0},
    {"cuLibraryLoadFromFile", (void *)cuLibraryLoadFromFile, 12000, 0},
    {"cuLibraryUnload", (void *)cuLibraryUnload, 12000, 0},
    {"cuLinkAddData", (void *)cuLinkAddData, 5050, 0},
    {"cuLinkAddData", (void *)cuLinkAddData_v2, 6050, 0},
    {"cuLinkAddFile", (void *)cuLinkAddFile, 5050, 0},
    {"cuLinkAddFile", (void *)cuLinkAddFile_v2, 6050, 0},
    {"cuLinkComplete", (void *)cuLinkComplete, 5050, 0},
    {"cuLinkCreate", (void *)cuLinkCreate, 5050, 0},
    {"cuLinkCreate", (void *)cuLinkCreate_v2, 6050, 0},
    {"cuLinkDestroy", (void *)cuLinkDestroy, 5050, 0},
    {"cuLogicalEndpointAddDevice", (void *)cuLogicalEndpointAddDevice, 13030, 0},
    {"cuLogicalEndpointBindAddr", (void *)cuLogicalEndpointBindAddr, 13030, 0},
    {"cuLogicalEndpointBindMem", (void *)cuLogicalEndpointBindMem, 13030, 0},
    {"cuLogicalEndpointCreate", (void *)cuLogicalEndpointCreate, 13030, 0},
    {"cuLogicalEndpointDestroy", (void *)cuLogicalEndpointDestroy, 13030, 0},
    {"cuLogicalEndpointExport", (void *)cuLogicalEndpointExport, 13030, 0},
    {"cuLogicalEndpointGetLimits", (void *)cuLogicalEndpointGetLimits, 13030, 0},
    {"cuLogicalEndpointIdRelease", (void *)cuLogicalEndpointIdRelease, 13030, 0},
    {"cuLogicalEndpointIdReserve", (void *)cuLogicalEndpointIdReserve, 13030, 0},
    {"cuLogicalEndpointImport", (void *)cuLogicalEndpointImport, 13030, 0},
    {"cuLogicalEndpointQuery", (void *)cuLogicalEndpointQuery, 13030, 0},
    {"cuLogicalEndpointUnbind", (void *)cuLogicalEndpointUnbind, 13030, 0},
    {"cuLogsCurrent", (void *)cuLogsCurrent, 12090, 0},
    {"cuLogsDumpToFile", (void *)cuLogsDumpToFile, 12090, 0},
    {"cuLogsDumpToMemory", (void *)cuLogsDumpToMemory, 12090, 0},
    {"cuLogsRegisterCallback", (void *)cuLogsRegisterCallback, 12090, 0},
    {"cuLogsUnregisterCallback", (void *)cuLogsUnregisterCallback, 12090, 0},
    {"cuMemAddressFree", (void *)cuMemAddressFree, 10020, 0},
    {"cuMemAddressReserve", (void *)cuMemAddressReserve, 10020, 0},
    {"cuMemAdvise", (void *)cuMemAdvise, 8000, 0},
    {"cuMemAdvise", (void *)cuMemAdvise_v2, 12020, 0},
    {"cuMemAlloc", (void *)cuMemAlloc, 2000, 0},
    {"cuMemAlloc", (void *)cuMemAlloc_v2, 3020, 0},
    {"cuMemAllocAsync", (void *)cuMemAllocAsync, 11020, 0},
    {"cuMemAllocAsync", (void *)cuMemAllocAsync_ptsz, 11020, 1},
    {"cuMemAllocFromPoolAsync", (void *)cuMemAllocFromPoolAsync, 11020, 0},
    {"cuMemAllocFromPoolAsync", (void *)cuMemAllocFromPoolAsync_ptsz, 11020, 1},
    {"cuMemAllocHost", (void *)cuMemAllocHost, 2000, 0},
    {"cuMemAllocHost", (void *)cuMemAllocHost_v2, 3020, 0},
    {"cuMemAllocManaged", (void *)cuMemAllocManaged, 6000, 0},
    {"cuMemAllocPitch", (void *)cuMemAllocPitch, 2000, 0},
    {"cuMemAllocPitch", (void *)cuMemAllocPitch_v2, 3020, 0},
    {"cuMemBatchDecompressAsync", (void *)cuMemBatchDecompressAsync, 12060, 0},
    {"cuMemBatchDecompressAsync", (void *)cuMemBatchDecompressAsync_ptsz, 12060, 1},
    {"cuMemCreate", (void *)cuMemCreate, 10020, 0},
    {"cuMemDiscardAndPrefetchBatchAsync", (void *)cuMemDiscardAndPrefetchBatchAsync, 13000, 0},
    {"cuMemDiscardAndPrefetchBatchAsync", (void *)cuMemDiscardAndPrefetchBatchAsync_ptsz, 13000, 1},
    {"cuMemDiscardBatchAsync", (void *)cuMemDiscardBatchAsync, 13000, 0},
    {"cuMemDiscardBatchAsync", (void *)cuMemDiscardBatchAsync_ptsz, 13000, 1},
    {"cuMemExportToShareableHandle", (void *)cuMemExportToShareableHandle, 10020, 0},
    {"cuMemFree", (void *)cuMemFree, 2000, 0},
    {"cuMemFree", (void *)cuMemFree_v2, 3020, 0},
    {"cuMemFreeAsync", (void *)cuMemFreeAsync, 11020, 0},
    {"cuMemFreeAsync", (void *)cuMemFreeAsync_ptsz, 11020, 1},
    {"cuMemFreeHost", (void *)cuMemFreeHost, 2000, 0},
    {"cuMemGetAccess", (void *)cuMemGetAccess, 10020, 0},
    {"cuMemGetAddressRange", (void *)cuMemGetAddressRange, 2000, 0},
    {"cuMemGetAddressRange", (void *)cuMemGetAddressRange_v2, 3020, 0},
    {"cuMemGetAllocationGranularity", (void *)cuMemGetAllocationGranularity, 10020, 0},
    {"cuMemGetAllocationPropertiesFromHandle", (void *)cuMemGetAllocationPropertiesFromHandle, 10020, 0},
    {"cuMemGetDefaultMemPool", (void *)cuMemGetDefaultMemPool, 13000, 0},
    {"cuMemGetHandleForAddressRange", (void *)cuMemGetHandleForAddressRange, 11070, 0},
    {"cuMemGetInfo", (void *)cuMemGetInfo, 2000, 0},
    {"cuMemGetInfo", (void *)cuMemGetInfo_v2, 3020, 0},
    {"cuMemGetLocationInfo", (void *)cuMemGetLocationInfo, 13040, 0},
    {"cuMemGetMemPool", (void *)cuMemGetMemPool, 13000, 0},
    {"cuMemHostAlloc", (void *)cuMemHostAlloc, 2020, 0},
    {"cuMemHostGetDevicePointer", (void *)cuMemHostGetDevicePointer, 2020, 0},
    {"cuMemHostGetDevicePointer", (void *)cuMemHostGetDevicePointer_v2, 3020, 0},
    {"cuMemHostGetFlags", (void *)cuMemHostGetFlags, 2030, 0},
    {"cuMemHostRegister", (void *)cuMemHostRegister, 4000, 0},
    {"cuMemHostRegister", (void *)cuMemHostRegister_v2, 6050, 0},
    {"cuMemHostUnregister", (void *)cuMemHostUnregister, 4000, 0},
    {"cuMemImportFromShareableHandle", (void *)cuMemImportFromShareableHandle, 10020, 0},
    {"cuMemMap", (void *)cuMemMap, 10020, 0},
    {"cuMemMapArrayAsync", (void *)cuMemMapArrayAsync, 11010, 0},
    {"cuMemMapArrayAsync", (void *)cuMemMapArrayAsync_ptsz, 11010, 1},
    {"cuMemPoolCreate", (void *)cuMemPoolCreate, 11020, 0},
    {"cuMemPoolDestroy", (void *)cuMemPoolDestroy, 11020, 0},
    {"cuMemPoolExportPointer", (void *)cuMemPoolExportPointer, 11020, 0},
    {"cuMemPoolExportToShareableHandle", (void *)cuMemPoolExportToShareableHandle, 11020, 0},
    {"cuMemPoolGetAccess", (void *)cuMemPoolGetAccess, 11020, 0},
    {"cuMemPoolGetAttribute", (void *)cuMemPoolGetAttribute, 11020, 0},
    {"cuMemPoolImportFromShareableHandle", (void *)cuMemPoolImportFromShareableHandle, 11020, 0},
    {"cuMemPoolImportPointer", (void *)cuMemPoolImportPointer, 11020, 0},
    {"cuMemPoolSetAccess", (void *)cuMemPoolSetAccess, 11020, 0},
    {"cuMemPoolSetAttribute", (void *)cuMemPoolSetAttribute, 11020, 0},
    {"cuMemPoolTrimTo", (void *)cuMemPoolTrimTo, 11020, 0},
    {"cuMemPrefetchAsync", (void *)cuMemPrefetchAsync, 8000, 0},
    {"cuMemPrefetchAsync", (void *)cuMemPrefetchAsync_ptsz, 8000, 1},
    {"cuMemPrefetchAsync", (void *)cuMemPrefetchAsync_v2, 12020, 0},
    {"cuMemPrefetchAsync", (void *)cuMemPrefetchAsync_v2_ptsz, 12020, 1},
    {"cuMemPrefetchBatchAsync", (void *)cuMemPrefetchBatchAsync, 13000, 0},
    {"cuMemPrefetchBatchAsync", (void *)cuMemPrefetchBatchAsync_ptsz, 13000, 1},
    {"cuMemRangeGetAttribute", (void *)cuMemRangeGetAttribute, 8000, 0},
    {"cuMemRangeGetAttributes", (void *)cuMemRangeGetAttributes, 8000, 0},
    {"cuMemRelease", (void *)cuMemRelease, 10020, 0},
    {"cuMemRetainAllocationHandle", (void *)cuMemRetainAllocationHandle, 11000, 0},
    {"cuMemSetAccess", (void *)cuMemSetAccess, 10020, 0},
    {"cuMemSetMemPool", (void *)cuMemSetMemPool, 13000, 0},
    {"cuMemUnmap", (void *)cuMemUnmap, 10020, 0},
    {"cuMemcpy", (void *)cuMemcpy, 4000, 0},
    {"cuMemcpy", (void *)cuMemcpy_ptds, 7000, 1},
    {"cuMemcpy2D", (void *)cuMemcpy2D, 2000, 0},
    {"cuMemcpy2D", (void *)cuMemcpy2D_v2, 3020, 0},
    {"cuMemcpy2D", (void *)cuMemcpy2D_v2_ptds, 7000, 1},
    {"cuMemcpy2DAsync", (void *)cuMemcpy2DAsync, 2000, 0},
    {"cuMemcpy2DAsync", (void *)cuMemcpy2DAsync_v2, 3020, 0},
    {"cuMemcpy2DAsync", (void *)cuMemcpy2DAsync_v2_ptsz, 7000, 1},
    {"cuMemcpy2DUnaligned", (void *)cuMemcpy2DUnaligned, 2000, 0},
    {"cuMemcpy2DUnaligned", (void *)cuMemcpy2DUnaligned_v2, 3020, 0},
    {"cuMemcpy2DUnaligned", (void *)cuMemcpy2DUnaligned_v2_ptds, 7000, 1},
    {"cuMemcpy3D", (void *)cuMemcpy3D, 2000, 0},
    {"cuMemcpy3D", (void *)cuMemcpy3D_v2, 3020, 0},
    {"cuMemcpy3D", (void *)cuMemcpy3D_v2_ptds, 7000, 1},
    {"cuMemcpy3DAsync", (void *)cuMemcpy3DAsync, 2000, 0},
    {"cuMemcpy3DAsync", (void *)cuMemcpy3DAsync_v2, 3020, 0},
    {"cuMemcpy3DAsync", (void *)cuMemcpy3DAsync_v2_ptsz, 7000, 1},
    {"cuMemcpy3DBatchAsync", (void *)cuMemcpy3DBatchAsync, 12080, 0},
    {"cuMemcpy3DBatchAsync", (void *)cuMemcpy3DBatchAsync_ptsz, 12080, 1},
    {"cuMemcpy3DBatchAsync", (void *)cuMemcpy3DBatchAsync_v2, 13000, 0},
    {"cuMemcpy3DBatchAsync", (void *)cuMemcpy3DBatchAsync_v2_ptsz, 13000, 1},
    {"cuMemcpy3DPeer", (void *)cuMemcpy3DPeer, 4000, 0},
    {"cuMemcpy3DPeer", (void *)cuMemcpy3DPeer_ptds, 7000, 1},
    {"cuMemcpy3DPeerAsync", (void *)cuMemcpy3DPeerAsync, 4000, 0},
    {"cuMemcpy3DPeerAsync", (void *)cuMemcpy3DPeerAsync_ptsz, 7000, 1},
    {"cuMemcpy3DWithAttributesAsync", (void *)cuMemcpy3DWithAttributesAsync, 13020, 0},
    {"cuMemcpy3DWithAttributesAsync", (void *)cuMemcpy3DWithAttributesAsync_ptsz, 13020, 1},
    {"cuMemcpyAsync", (void *)cuMemcpyAsync, 4000, 0},
    {"cuMemcpyAsync", (void *)cuMemcpyAsync_ptsz, 7000, 1},
    {"cuMemcpyAtoA", (void *)cuMemcpyAtoA, 2000, 0},
    {"cuMemcpyAtoA", (void *)cuMemcpyAtoA_v2, 3020, 0},
    {"cuMemcpyAtoA", (void *)cuMemcpyAtoA_v2_ptds, 7000, 1},
    {"cuMemcpyAtoD", (void *)cuMemcpyAtoD, 2000, 0},
    {"cuMemcpyAtoD", (void *)cuMemcpyAtoD_v2, 3020, 0},
    {"cuMemcpyAtoD", (void *)cuMemcpyAtoD_v2_ptds, 7000, 1},
    {"cuMemcpyAtoH", (void *)cuMemcpyAtoH, 2000, 0},
    {"cuMemcpyAtoH", (void *)cuMemcpyAtoH_v2, 3020, 0},
    {"cuMemcpyAtoH", (void *)cuMemcpyAtoH_v2_ptds, 7000, 1},
    {"cuMemcpyAtoHAsync", (void *)cuMemcpyAtoHAsync, 2000, 0},
    {"cuMemcpyAtoHAsync", (void *)cuMemcpyAtoHAsync_v2, 3020, 0},
    {"cuMemcpyAtoHAsync", (void *)cuMemcpyAtoHAsync_v2_ptsz, 7000, 1},
    {"cuMemcpyBatchAsync", (void *)cuMemcpyBatchAsync, 12080, 0},
    {"cuMemcpyBatchAsync", (void *)cuMemcpyBatchAsync_ptsz, 12080, 1},
    {"cuMemcpyBatchAsync", (void *)cuMemcpyBatchAsync_v2, 13000, 0},
    {"cuMemcpyBatchAsync", (void *)cuMemcpyBatchAsync_v2_ptsz, 13000, 1},
    {"cuMemcpyDtoA", (void *)cuMemcpyDtoA, 2000, 0},
    {"cuMemcpyDtoA", (void *)cuMemcpyDtoA_v2, 3020, 0},
    {"cuMemcpyDtoA", (void *)cuMemcpyDtoA_v2_ptds, 7000, 1},
    {"cuMemcpyDtoD", (void *)cuMemcpyDtoD, 2000, 0},
    {"cuMemcpyDtoD", (void *)cuMemcpyDtoD_v2, 3020, 0},
    {"cuMemcpyDtoD", (void *)cuMemcpyDtoD_v2_ptds, 7000, 1},
    {"cuMemcpyDtoDAsync", (void *)cuMemcpyDtoDAsync, 3000, 0},
    {"cuMemcpyDtoDAsync", (void *)cuMemcpyDtoDAsync_v2, 3020, 0},
    {"cuMemcpyDtoDAsync", (void *)cuMemcpyDtoDAsync_v2_ptsz, 7000, 1},
    {"cuMemcpyDtoH", (void *)cuMemcpyDtoH, 2000, 0},
    {"cuMemcpyDtoH", (void *)cuMemcpyDtoH_v2, 3020, 0},
    {"cuMemcpyDtoH", (void *)cuMemcpyDtoH_v2_ptds, 7000, 1},
    {"cuMemcpyDtoHAsync", (void *)cuMemcpyDtoHAsync, 2000, 0},
    {"cuMemcpyDtoHAsync", (void *)cuMemcpyDtoHAsync_v2, 3020, 0},
    {"cuMemcpyDtoHAsync", (void *)cuMemcpyDtoHAsync_v2_ptsz, 7000, 1},
    {"cuMemcpyHtoA", (void *)cuMemcpyHtoA, 2000, 0},
    {"cuMemcpyHtoA", (void *)cuMemcpyHtoA_v2, 3020, 0},
    {"cuMemcpyHtoA", (void *)cuMemcpyHtoA_v2_ptds, 7000, 1},
    {"cuMemcpyHtoAAsync", (void *)cuMemcpyHtoAAsync, 2000, 0},
    {"cuMemcpyHtoAAsync", (void *)cuMemcpyHtoAAsync_v2, 3020, 0},
    {"cuMemcpyHtoAAsync", (void *)cuMemcpyHtoAAsync_v2_ptsz, 7000, 1},
    {"cuMemcpyHtoD", (void *)cuMemcpyHtoD, 2000, 0},
    {"cuMemcpyHtoD", (void *)cuMemcpyHtoD_v2, 3020, 0},
    {"cuMemcpyHtoD", (void *)cuMemcpyHtoD_v2_ptds, 7000, 1},
    {"cuMemcpyHtoDAsync", (void *)cuMemcpyHtoDAsync, 2000, 0},
    {"cuMemcpyHtoDAsync", (void *)cuMemcpyHtoDAsync_v2, 3020, 0},
    {"cuMemcpyHtoDAsync", (void *)cuMemcpyHtoDAsync_v2_ptsz, 7000, 1},
    {"cuMemcpyPeer", (void *)cuMemcpyPeer, 4000, 0},
    {"cuMemcpyPeer", (void *)cuMemcpyPeer_ptds, 7000, 1},
    {"cuMemcpyPeerAsync", (void *)cuMemcpyPeerAsync, 4000, 0},
    {"cuMemcpyPeerAsync", (void *)cuMemcpyPeerAsync_ptsz, 7000, 1},
    {"cuMemcpyWithAttributesAsync", (void *)cuMemcpyWithAttributesAsync, 13020, 0},
    {"cuMemcpyWithAttributesAsync", (void *)cuMemcpyWithAttributesAsync_ptsz, 13020, 1},
    {"cuMemsetD16", (void *)cuMemsetD16, 2000, 0},
    {"cuMemsetD16", (void *)cuMemsetD16_v2, 3020, 0},
    {"cuMemsetD16", (void *)cuMemsetD16_v2_ptds, 7000, 1},
    {"cuMemsetD16Async", (void *)cuMemsetD16Async, 3020, 0},
    {"cuMemsetD16Async", (void *)cuMemsetD16Async_ptsz, 7000, 1},
    {"cuMemsetD2D16", (void *)cuMemsetD2D16, 2000, 0},
    {"cuMemsetD2D16", (void *)cuMemsetD2D16_v2, 3020, 0},
    {"cuMemsetD2D16", (void *)cuMemsetD2D16_v2_ptds, 7000, 1},
    {"cuMemsetD2D16Async", (void *)cuMemsetD2D16Async, 3020, 0},
    {"cuMemsetD2D16Async", (void *)cuMemsetD2D16Async_ptsz, 7000, 1},
    {"cuMemsetD2D32", (void *)cuMemsetD2D32, 2000, 0},
    {"cuMemsetD2D32", (void *)cuMemsetD2D32_v2, 3020, 0},
    {"cuMemsetD2D32", (void *)cuMemsetD2D32_v2_ptds, 7000, 1},
    {"cuMemsetD2D32Async", (void *)cuMemsetD2D32Async, 3020, 0},
    {"cuMemsetD2D32Async", (void *)cuMemsetD2D32Async_ptsz, 7000, 1},
    {"cuMemsetD2D8", (void *)cuMemsetD2D8, 2000, 0},
    {"cuMemsetD2D8", (void *)cuMemsetD2D8_v2, 3020, 0},
    {"cuMemsetD2D8", (void *)cuMemsetD2D8_v2_ptds, 7000, 1},
    {"cuMemsetD2D8Async", (void *)cuMemsetD2D8Async, 3020, 0},
    {"cuMemsetD2D8Async", (void *)cuMemsetD2D8Async_ptsz, 7000, 1},
    {"cuMemsetD32", (void *)cuMemsetD32, 2000, 0},
    {"cuMemsetD32", (void *)cuMemsetD32_v2, 3020, 0},
    {"cuMemsetD32", (void *)cuMemsetD32_v2_ptds, 7000, 1},
    {"cuMemsetD32Async", (void *)cuMemsetD32Async, 3020, 0},
    {"cuMemsetD32Async", (void *)cuMemsetD32Async_ptsz, 7000, 1},
    {"cuMemsetD8", (void *)cuMemsetD8, 2000, 0},
    {"cuMemsetD8", (void *)cuMemsetD8_v2, 3020, 0},
    {"cuMemsetD8", (void *)cuMemsetD8_v2_ptds, 7000, 1},
    {"cuMemsetD8Async", (void *)cuMemsetD8Async, 3020, 0},
    {"cuMemsetD8Async", (void *)cuMemsetD8Async_ptsz, 7000, 1},
    {"cuMipmappedArrayCreate", (void *)cuMipmappedArrayCreate, 5000, 0},
    {"cuMipmappedArrayDestroy", (void *)cuMipmappedArrayDestroy, 5000, 0},
    {"cuMipmappedArrayGetLevel", (void *)cuMipmappedArrayGetLevel, 5000, 0},
    {"cuMipmappedArrayGetMemoryRequirements", (void *)cuMipmappedArrayGetMemoryRequirements, 11060, 0},
    {"cuMipmappedArrayGetSparseProperties", (void *)cuMipmappedArrayGetSparseProperties, 11010, 0},
    {"cuModuleEnumerateFunctions", (void *)cuModuleEnumerateFunctions, 12040, 0},
    {"cuModuleGetFunction", (void *)cuModuleGetFunction, 2000, 0},
    {"cuModuleGetFunctionCount", (void *)cuModuleGetFunctionCount, 12040, 0},
    {"cuModuleGetGlobal", (void *)cuModuleGetGlobal, 2000, 0},
    {"cuModuleGetGlobal", (void *)cuModuleGetGlobal_v2, 3020, 0},
    {"cuModuleGetLoadingMode", (void *)cuModuleGetLoadingMode, 11070, 0},
    {"cuModuleGetSurfRef", (void *)cuModuleGetSurfRef, 3000, 0},
    {"cuModuleGetTexRef", (void *)cuModuleGetTexRef, 2000, 0},
    {"cuModuleLoad", (void *)cuModuleLoad, 2000, 0},
    {"cuModuleLoadData", (void *)cuModuleLoadData, 2000, 0},
    {"cuModuleLoadDataEx", (void *)cuModuleLoadDataEx, 2010, 0},
    {"cuModuleLoadFatBinary", (void *)cuModuleLoadFatBinary, 2000, 0},
    {"cuModuleUnload", (void *)cuModuleUnload, 2000, 0},
    {"cuMulticastAddDevice", (void *)cuMulticastAddDevice, 12010, 0},
    {"cuMulticastBindAddr", (void *)cuMulticastBindAddr, 12010, 0},
    {"cuMulticastBindAddr", (void *)cuMulticastBindAddr_v2, 13010, 0},
    {"cuMulticastBindMem", (void *)cuMulticastBindMem, 12010, 0},
    {"cuMulticastBindMem", (void *)cuMulticastBindMem_v2, 13010, 0},
    {"cuMulticastCreate", (void *)cuMulticastCreate, 12010, 0},
    {"cuMulticastGetGranularity", (void *)cuMulticastGetGranularity, 12010, 0},
    {"cuMulticastUnbind", (void *)cuMulticastUnbind, 12010, 0},
    {"cuOccupancyAvailableDynamicSMemPerBlock", (void *)cuOccupancyAvailableDynamicSMemPerBlock, 10020, 0},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", (void *)cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, 0},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", (void *)cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, 0},
    {"cuOccupancyMaxActiveClusters", (void *)cuOccupancyMaxActiveClusters, 11070, 0},
    {"cuOccupancyMaxPotentialBlockSize", (void *)cuOccupancyMaxPotentialBlockSize, 6050, 0},
    {"cuOccupancyMaxPotentialBlockSizeWithFlags", (void *)cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, 0},
    {"cuOccupancyMaxPotentialClusterSize", (void *)cuOccupancyMaxPotentialClusterSize, 11070, 0},
    {"cuParamSetSize", (void *)cuParamSetSize, 2000, 0},
    {"cuParamSetTexRef", (void *)cuParamSetTexRef, 2000, 0},
    {"cuParamSetf", (void *)cuParamSetf, 2000, 0},
    {"cuParamSeti", (void *)cuParamSeti, 2000, 0},
    {"cuParamSetv", (void *)cuParamSetv, 2000, 0},
    {"cuPointerGetAttribute", (void *)cuPointerGetAttribute, 4000, 0},
    {"cuPointerGetAttributes", (void *)cuPointerGetAttributes, 7000, 0},
    {"cuPointerSetAttribute", (void *)cuPointerSetAttribute, 6000, 0},
    {"cuProfilerInitialize", (void *)cuProfilerInitialize, 4000, 0},
    {"cuProfilerStart", (void *)cuProfilerStart, 4000, 0},
    {"cuProfilerStop", (void *)cuProfilerStop, 4000, 0},
    {"cuSignalExternalSemaphoresAsync", (void *)cuSignalExternalSemaphoresAsync, 10000, 0},
    {"cuSignalExternalSemaphoresAsync", (void *)cuSignalExternalSemaphoresAsync_ptsz, 10000, 1},
    {"cuStreamAddCallback", (void *)cuStreamAddCallback, 5000, 0},
    {"cuStreamAddCallback", (void *)cuStreamAddCallback_ptsz, 7000, 1},
    {"cuStreamAttachMemAsync", (void *)cuStreamAttachMemAsync, 6000, 0},
    {"cuStreamAttachMemAsync", (void *)cuStreamAttachMemAsync_ptsz, 7000, 1},
    {"cuStreamBatchMemOp", (void *)cuStreamBatchMemOp, 8000, 0},
    {"cuStreamBatchMemOp", (void *)cuStreamBatchMemOp_ptsz, 8000, 1},
    {"cuStreamBatchMemOp", (void *)cuStreamBatchMemOp_v2, 11070, 0},
    {"cuStreamBatchMemOp", (void *)cuStreamBatchMemOp_v2_ptsz, 11070, 1},
    {"cuStreamBeginCapture", (void *)cuStreamBeginCapture, 10000, 0},
    {"cuStreamBeginCapture", (void *)cuStreamBeginCapture_ptsz, 10000, 1},
    {"cuStreamBeginCapture", (void *)cuStreamBeginCapture_v2, 10010, 0},
    {"cuStreamBeginCapture", (void *)cuStreamBeginCapture_v2_ptsz, 10010, 1},
    {"cuStreamBeginCaptureToCig", (void *)cuStreamBeginCaptureToCig, 13010, 0},
    {"cuStreamBeginCaptureToCig", (void *)cuStreamBeginCaptureToCig_ptsz, 13010, 1},
    {"cuStreamBeginCaptureToGraph", (void *)cuStreamBeginCaptureToGraph, 12030, 0},
    {"cuStreamBeginCaptureToGraph", (void *)cuStreamBeginCaptureToGraph_ptsz, 12030, 1},
    {"cuStreamBeginRecaptureToGraph", (void *)cuStreamBeginRecaptureToGraph, 13030, 0},
    {"cuStreamBeginRecaptureToGraph", (void *)cuStreamBeginRecaptureToGraph_ptsz, 13030, 1},
    {"cuStreamCopyAttributes", (void *)cuStreamCopyAttributes, 11000, 0},
    {"cuStreamCopyAttributes", (void *)cuStreamCopyAttributes_ptsz, 11000, 1},
    {"cuStreamCreate", (void *)cuStreamCreate, 2000, 0},
    {"cuStreamCreateWithPriority", (void *)cuStreamCreateWithPriority, 5050, 0},
    {"cuStreamDestroy", (void *)cuStreamDestroy, 2000, 0},
    {"cuStreamDestroy", (void *)cuStreamDestroy_v2, 4000, 0},
    {"cuStreamEndCapture", (void *)cuStreamEndCapture, 10000, 0},
    {"cuStreamEndCapture", (void *)cuStreamEndCapture_ptsz, 10000, 1},
    {"cuStreamEndCaptureToCig", (void *)cuStreamEndCaptureToCig, 13010, 0},
    {"cuStreamEndCaptureToCig", (void *)cuStreamEndCaptureToCig_ptsz, 13010, 1},
    {"cuStreamGetAttribute", (void *)cuStreamGetAttribute, 11000, 0},
    {"cuStreamGetAttribute", (void *)cuStreamGetAttribute_ptsz, 11000, 1},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo, 10010, 0},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_ptsz, 10010, 1},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_v2, 11030, 0},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_v2_ptsz, 11030, 1},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_v3, 12030, 0},
    {"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_v3_ptsz, 12030, 1},
    {"cuStreamGetCtx", (void *)cuStreamGetCtx, 9020, 0},
    {"cuStreamGetCtx", (void *)cuStreamGetCtx_ptsz, 9020, 1},
    {"cuStreamGetCtx", (void *)cuStreamGetCtx_v2, 12050, 0},
    {"cuStreamGetCtx", (void *)cuStreamGetCtx_v2_ptsz, 12050, 1},
    {"cuStreamGetDevResource", (void *)cuStreamGetDevResource, 13010, 0},
    {"cuStreamGetDevResource", (void *)cuStreamGetDevResource_ptsz, 13010, 1},
    {"cuStreamGetDevice", (void *)cuStreamGetDevice, 12080, 0},
    {"cuStreamGetDevice", (void *)cuStreamGetDevice_ptsz, 12080, 1},
    {"cuStreamGetFlags", (void *)cuStreamGetFlags, 5050, 0},
    {"cuStreamGetFlags", (void *)cuStreamGetFlags_ptsz, 7000, 1},
    {"cuStreamGetGreenCtx", (void *)cuStreamGetGreenCtx, 12040, 0},
    {"cuStreamGetId", (void *)cuStreamGetId, 12000, 0},
    {"cuStreamGetId", (void *)cuStreamGetId_ptsz, 12000, 1},
    {"cuStreamGetPriority", (void *)cuStreamGetPriority, 5050, 0},
    {"cuStreamGetPriority", (void *)cuStreamGetPriority_ptsz, 7000, 1},
    {"cuStreamIsCapturing", (void *)cuStreamIsCapturing, 10000, 0},
    {"cuStreamIsCapturing", (void *)cuStreamIsCapturing_ptsz, 10000, 1},
    {"cuStreamQuery", (void *)cuStreamQuery, 2000, 0},
    {"cuStreamQuery", (void *)cuStreamQuery_ptsz, 7000, 1},
    {"cuStreamSetAttribute", (void *)cuStreamSetAttribute, 11000, 0},
    {"cuStreamSetAttribute", (void *)cuStreamSetAttribute_ptsz, 11000, 1},
    {"cuStreamSynchronize", (void *)cuStreamSynchronize, 2000, 0},
    {"cuStreamSynchronize", (void *)cuStreamSynchronize_ptsz, 7000, 1},
    {"cuStreamUpdateCaptureDependencies", (void *)cuStreamUpdateCaptureDependencies, 11030, 0},
    {"cuStreamUpdateCaptureDependencies", (void *)cuStreamUpdateCaptureDependencies_ptsz, 11030, 1},
    {"cuStreamUpdateCaptureDependencies", (void *)cuStreamUpdateCaptureDependencies_v2, 12030, 0},
    {"cuStreamUpdateCaptureDependencies", (void *)cuStreamUpdateCaptureDependencies_v2_ptsz, 12030, 1},
    {"cuStreamWaitEvent", (void *)cuStreamWaitEvent, 3020, 0},
    {"cuStreamWaitEvent", (void *)cuStreamWaitEvent_ptsz, 7000, 1},
    {"cuStreamWaitValue32", (void *)cuStreamWaitValue32, 8000, 0},
    {"cuStreamWaitValue32", (void *)cuStreamWaitValue32_ptsz, 8000, 1},
    {"cuStreamWaitValue32", (void *)cuStreamWaitValue32_v2, 11070, 0},
    {"cuStreamWaitValue32", (void *)cuStreamWaitValue32_v2_ptsz, 11070, 1},
    {"cuStreamWaitValue64", (void *)cuStreamWaitValue64, 9000, 0},
    {"cuStreamWaitValue64", (void *)cuStreamWaitValue64_ptsz, 9000, 1},
    {"cuStreamWaitValue64", (void *)cuStreamWaitValue64_v2, 11070, 0},
    {"cuStreamWaitValue64", (void *)cuStreamWaitValue64_v2_ptsz, 11070, 1},
    {"cuStreamWriteValue32", (void *)cuStreamWriteValue32, 8000, 0},
    {"cuStreamWriteValue32", (void *)cuStreamWriteValue32_ptsz, 8000, 1},
    {"cuStreamWriteValue32", (void *)cuStreamWriteValue32_v2, 11070, 0},
    {"cuStreamWriteValue32", (void *)cuStreamWriteValue32_v2_ptsz, 11070, 1},
    {"cuStreamWriteValue64", (void *)cuStreamWriteValue64, 9000, 0},
    {"cuStreamWriteValue64", (void *)cuStreamWriteValue64_ptsz, 9000, 1},
    {"cuStreamWriteValue64", (void *)cuStreamWriteValue64_v2, 11070, 0},
    {"cuStreamWriteValue64", (void *)cuStreamWriteValue64_v2_ptsz, 11070, 1},
    {"cuSurfObjectCreate", (void *)cuSurfObjectCreate, 5000, 0},
    {"cuSurfObjectDestroy", (void *)cuSurfObjectDestroy, 5000, 0},
    {"cuSurfObjectGetResourceDesc", (void *)cuSurfObjectGetResourceDesc, 5000, 0},
    {"cuSurfRefGetArray", (void *)cuSurfRefGetArray, 3000, 0},
    {"cuSurfRefSetArray", (void *)cuSurfRefSetArray, 3000, 0},
    {"cuTensorMapEncodeIm2col", (void *)cuTensorMapEncodeIm2col, 12000, 0},
    {"cuTensorMapEncodeIm2colWide", (void *)cuTensorMapEncodeIm2colWide, 12080, 0},
    {"cuTensorMapEncodeTiled", (void *)cuTensorMapEncodeTiled, 12000, 0},
    {"cuTensorMapReplaceAddress", (void *)cuTensorMapReplaceAddress, 12000, 0},
    {"cuTensorMapSetAllocationClass", (void *)cuTensorMapSetAllocationClass, 13050, 0},
    {"cuTexObjectCreate", (void *)cuTexObjectCreate, 5000, 0},
    {"cuTexObjectDestroy", (void *)cuTexObjectDestroy, 5000, 0},
    {"cuTexObjectGetResourceDesc", (void *)cuTexObjectGetResourceDesc, 5000, 0},
    {"cuTexObjectGetResourceViewDesc", (void *)cuTexObjectGetResourceViewDesc, 5000, 0},
    {"cuTexObjectGetTextureDesc", (void *)cuTexObjectGetTextureDesc, 5000, 0},
    {"cuTexRefCreate", (void *)cuTexRefCreate, 2000, 0},
    {"cuTexRefDestroy", (void *)cuTexRefDestroy, 2000, 0},
    {"cuTexRefGetAddress", (void *)cuTexRefGetAddress, 2000, 0},
    {"cuTexRefGetAddress", (void *)cuTexRefGetAddress_v2, 3020, 0},
    {"cuTexRefGetAddressMode", (void *)cuTexRefGetAddressMode, 2000, 0},
    {"cuTexRefGetArray", (void *)cuTexRefGetArray, 2000, 0},
    {"cuTexRefGetBorderColor", (void *)cuTexRefGetBorderColor, 8000, 0},
    {"cuTexRefGetFilterMode", (void *)cuTexRefGetFilterMode, 2000, 0},
    {"cuTexRefGetFlags", (void *)cuTexRefGetFlags, 2000, 0},
    {"cuTexRefGetFormat", (void *)cuTexRefGetFormat, 2000, 0},
    {"cuTexRefGetMaxAnisotropy", (void *)cuTexRefGetMaxAnisotropy, 5000, 0},
    {"cuTexRefGetMipmapFilterMode", (void *)cuTexRefGetMipmapFilterMode, 5000, 0},
    {"cuTexRefGetMipmapLevelBias", (void *)cuTexRefGetMipmapLevelBias, 5000, 0},
    {"cuTexRefGetMipmapLevelClamp", (void *)cuTexRefGetMipmapLevelClamp, 5000, 0},
    {"cuTexRefGetMipmappedArray", (void *)cuTexRefGetMipmappedArray, 5000, 0},
    {"cuTexRefSetAddress", (void *)cuTexRefSetAddress, 2000, 0},
    {"cuTexRefSetAddress", (void *)cuTexRefSetAddress_v2, 3020, 0},
    {"cuTexRefSetAddress2D", (void *)cuTexRefSetAddress2D, 2020, 0},
    {"cuTexRefSetAddress2D", (void *)cuTexRefSetAddress2D_v2, 3020, 0},
    {"cuTexRefSetAddress2D", (void *)cuTexRefSetAddress2D_v3, 4010, 0},
    {"cuTexRefSetAddressMode", (void *)cuTexRefSetAddressMode, 2000, 0},
    {"cuTexRefSetArray", (void *)cuTexRefSetArray, 2000, 0},
    {"cuTexRefSetBorderColor", (void *)cuTexRefSetBorderColor, 8000, 0},
    {"cuTexRefSetFilterMode", (void *)cuTexRefSetFilterMode, 2000, 0},
    {"cuTexRefSetFlags", (void *)cuTexRefSetFlags, 2000, 0},
    {"cuTexRefSetFormat", (void *)cuTexRefSetFormat, 2000, 0},
    {"cuTexRefSetMaxAnisotropy", (void *)cuTexRefSetMaxAnisotropy, 5000, 0},
    {"cuTexRefSetMipmapFilterMode", (void *)cuTexRefSetMipmapFilterMode, 5000, 0},
    {"cuTexRefSetMipmapLevelBias", (void *)cuTexRefSetMipmapLevelBias, 5000, 0},
    {"cuTexRefSetMipmapLevelClamp", (void *)cuTexRefSetMipmapLevelClamp, 5000, 0},
    {"cuTexRefSetMipmappedArray", (void *)cuTexRefSetMipmappedArray, 5000, 0},
    {"cuThreadExchangeStreamCaptureMode", (void *)cuThreadExchangeStreamCaptureMode, 10010, 0},
    {"cuUserObjectCreate", (void *)cuUserObjectCreate, 11030, 0},
    {"cuUserObjectRelease", (void *)cuUserObjectRelease, 11030, 0},
    {"cuUserObjectRetain", (void *)cuUserObjectRetain, 11030, 0},
    {"cuVDPAUCtxCreate", (void *)cuVDPAUCtxCreate, 3010, 0},
    {"cuVDPAUCtxCreate", (void *)cuVDPAUCtxCreate_v2, 3020, 0},
    {"cuVDPAUGetDevice", (void *)cuVDPAUGetDevice, 3010, 0},
    {"cuWaitExternalSemaphoresAsync", (void *)cuWaitExternalSemaphoresAsync, 10000, 0},
    {"cuWaitExternalSemaphoresAsync", (void *)cuWaitExternalSemaphoresAsync_ptsz, 10000, 1},
};
const size_t sim_entry_count = 723;

const struct sim_error sim_errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {5, "CUDA_ERROR_PROFILER_DISABLED", "profiler disabled"},
    {6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "profiler not initialized"},
    {7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started"},
    {8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "stub library"},
    {36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "call requires newer driver"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {47, "CUDA_ERROR_MULTICAST_RESOURCE_FULL", "multicast resource full"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "device not licensed"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context already current"},
    {205, "CUDA_ERROR_MAP_FAILED", "map failed"},
    {206, "CUDA_ERROR_UNMAP_FAILED", "unmap failed"},
    {207, "CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped"},
    {208, "CUDA_ERROR_ALREADY_MAPPED", "already mapped"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no binary for gpu"},
    {210, "CUDA_ERROR_ALREADY_ACQUIRED", "already acquired"},
    {211, "CUDA_ERROR_NOT_MAPPED", "not mapped"},
    {212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "not mapped as array"},
    {213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "not mapped as pointer"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "ecc uncorrectable"},
    {215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "unsupported limit"},
    {216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "context already in use"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access unsupported"},
    {218, "CUDA_ERROR_INVALID_PTX", "invalid ptx"},
    {219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid graphics context"},
    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "nvlink uncorrectable"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "jit compiler not found"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported ptx version"},
    {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "jit compilation disabled"},
    {224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "unsupported exec affinity"},
    {225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "unsupported devside sync"},
    {226, "CUDA_ERROR_CONTAINED", "contained"},
    {227, "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION", "insufficient loader version"},
    {300, "CUDA_ERROR_INVALID_SOURCE", "invalid source"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"},
    {303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object init failed"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "illegal state"},
    {402, "CUDA_ERROR_LOSSY_QUERY", "lossy query"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "launch out of resources"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "launch timeout"},
    {703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "launch incompatible texturing"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access not enabled"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context active"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "assert"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS", "too many peers"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory already registered"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory not registered"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal instruction"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "invalid address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid pc"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "cooperative launch too large"},
    {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory leak"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not ready"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system driver mismatch"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "compat not supported on device"},
    {805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "mps connection failed"},
    {806, "CUDA_ERROR_MPS_RPC_FAILURE", "mps rpc failure"},
    {807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "mps server not ready"},
    {808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "mps max clients reached"},
    {809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "mps max connections reached"},
    {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "mps client terminated"},
    {811, "CUDA_ERROR_CDP_NOT_SUPPORTED", "cdp not supported"},
    {812, "CUDA_ERROR_CDP_VERSION_MISMATCH", "cdp version mismatch"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "stream capture unsupported"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "stream capture invalidated"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "stream capture merge"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "stream capture unmatched"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "stream capture unjoined"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "stream capture isolation"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "stream capture implicit"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "captured event"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "stream capture wrong thread"},
    {909, "CUDA_ERROR_TIMEOUT", "timeout"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "graph exec update failure"},
    {911, "CUDA_ERROR_EXTERNAL_DEVICE", "external device"},
    {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
    {913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "function not loaded"},
    {914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type"},
    {915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration"},
    {916, "CUDA_ERROR_KEY_ROTATION", "key rotation"},
    {917, "CUDA_ERROR_STREAM_DETACHED", "stream detached"},
    {918, "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE", "graph recapture failure"},
    {919, "CUDA_ERROR_FABRIC_NOT_READY", "fabric not ready"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
const size_t sim_error_count = 106;
