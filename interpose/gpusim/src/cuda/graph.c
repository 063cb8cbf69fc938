/*
 * Graphs: a list of work in the order it was added, which is a legal order since a node comes after what it depends on.
 * Launching does the list on one stream. Dependencies are kept only as far as their number.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"

struct sim_graph_node {
    struct sim_object object;
    struct sim_graph *graph;
    struct sim_graph_node *next;
    struct sim_work work;
    size_t dependencies;
};

struct sim_graph {
    struct sim_object object;
    struct sim_graph_node *first, **last;
    size_t count;
    bool executable, capturing, frees_first;
    uint64_t capture_id;
    struct sim_context *context; /* of the nodes' memory */
};

static _Atomic uint64_t next_capture = 1;

static struct sim_graph *graph_new(void) {
    struct sim_graph *graph = sim_object_new(SIM_TAG_GRAPH, sizeof *graph);
    if (graph != NULL) {
        graph->last = &graph->first;
        graph->context = sim_current_or_null();
    }
    return graph;
}

static CUresult graph_check(const struct sim_graph *graph, bool executable) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    return sim_is(graph, SIM_TAG_GRAPH) && graph->executable == executable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void graph_delete(struct sim_graph *graph) {
    for (struct sim_graph_node *at = graph->first; at != NULL;) {
        struct sim_graph_node *next = at->next;
        sim_object_delete(at);
        at = next;
    }
    sim_object_delete(graph);
}

static CUresult add(struct sim_graph *graph, const struct sim_work *work, size_t dependencies,
                    struct sim_graph_node **made) {
    struct sim_graph_node *node = sim_object_new(SIM_TAG_NODE, sizeof *node);
    if (node == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->graph = graph;
    node->work = *work;
    node->dependencies = dependencies;
    *graph->last = node;
    graph->last = &node->next;
    graph->count++;
    if (made != NULL) {
        *made = node;
    }
    return CUDA_SUCCESS;
}

static CUresult add_checked(CUgraphNode *made, CUgraph graph, const struct sim_work *work, size_t dependencies,
                            const void *params) {
    CUresult error = graph_check(graph, false);
    if (error != CUDA_SUCCESS || made == NULL || params == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    return add(graph, work, dependencies, made);
}

CUresult sim_capture(struct sim_stream *stream, const struct sim_work *work) {
    if (!sim_capturing(stream)) {
        return sim_do(stream, work);
    }
    return add(stream->capture, work, stream->capture->count != 0, NULL);
}

/* A stream that joined a capture through an event leaves it when the capture ends. */
bool sim_capturing(struct sim_stream *stream) {
    const struct sim_graph *graph = stream->capture;
    if (graph != NULL && !(sim_is(graph, SIM_TAG_GRAPH) && graph->capturing)) {
        stream->capture = NULL;
    }
    return stream->capture != NULL;
}

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (phGraph == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *phGraph = graph_new();
    return *phGraph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphDestroy(CUgraph hGraph) {
    CUresult error = graph_check(hGraph, false);
    if (error == CUDA_SUCCESS) {
        graph_delete(hGraph);
    }
    return error;
}

static struct sim_work kernel_work(const CUDA_KERNEL_NODE_PARAMS *params) {
    struct sim_function *function = params->func != NULL ? params->func : params->kern;
    struct sim_work work = {.type = SIM_WORK_KERNEL};
    if (sim_is(function, SIM_TAG_FUNCTION)) {
        work = sim_kernel_work(function);
    }
    work.kernel = *params;
    return work;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                     size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    (void)dependencies;
    if (nodeParams == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_work work = kernel_work(nodeParams);
    return add_checked(phGraphNode, hGraph, &work, numDependencies, nodeParams);
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    CUDA_KERNEL_NODE_PARAMS params = {0};
    if (nodeParams == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&params, nodeParams, sizeof *nodeParams);
    return sim_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &params);
}

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    if (!sim_is(hNode, SIM_TAG_NODE) || hNode->work.type != SIM_WORK_KERNEL || nodeParams == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *nodeParams = hNode->work.kernel;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    if (!sim_is(hNode, SIM_TAG_NODE) || hNode->work.type != SIM_WORK_KERNEL || nodeParams == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    hNode->work = kernel_work(nodeParams);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
    (void)dependencies;
    (void)ctx;
    if (memsetParams == NULL || memsetParams->height > 1) { /* one row is all that is simulated */
        return memsetParams == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sim_work work = {.type = SIM_WORK_SET,
                            .duration = 1000 + memsetParams->width / 1000,
                            .target = memsetParams->dst,
                            .value = memsetParams->value,
                            .width = memsetParams->elementSize,
                            .size = memsetParams->width};
    return add_checked(phGraphNode, hGraph, &work, numDependencies, memsetParams);
}

/* One row of host or device memory; other shapes are not simulated. */
CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    (void)dependencies;
    (void)ctx;
    if (copyParams == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    bool arrays = copyParams->srcMemoryType == CU_MEMORYTYPE_ARRAY || copyParams->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    if (copyParams->Height > 1 || copyParams->Depth > 1 || arrays) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    bool from_host = copyParams->srcMemoryType == CU_MEMORYTYPE_HOST,
         to_host = copyParams->dstMemoryType == CU_MEMORYTYPE_HOST;
    struct sim_work work = {
        .type = SIM_WORK_COPY,
        .duration = 1000 + copyParams->WidthInBytes / 25,
        .source = (from_host ? (uintptr_t)copyParams->srcHost : copyParams->srcDevice) + copyParams->srcXInBytes,
        .target = (to_host ? (uintptr_t)copyParams->dstHost : copyParams->dstDevice) + copyParams->dstXInBytes,
        .size = copyParams->WidthInBytes};
    return add_checked(phGraphNode, hGraph, &work, numDependencies, copyParams);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams) {
    (void)dependencies;
    if (nodeParams == NULL || nodeParams->fn == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_work work = {.type = SIM_WORK_HOST, .host = nodeParams->fn, .closure = nodeParams->userData};
    return add_checked(phGraphNode, hGraph, &work, numDependencies, nodeParams);
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies) {
    (void)dependencies;
    struct sim_work work = {.type = SIM_WORK_EMPTY};
    return add_checked(phGraphNode, hGraph, &work, numDependencies, &work);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, CUgraph childGraph) {
    (void)dependencies;
    if (graph_check(childGraph, false) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_work work = {.type = SIM_WORK_GRAPH};
    CUresult error = sim_cuGraphClone(&work.child, childGraph);
    return error != CUDA_SUCCESS ? error : add_checked(phGraphNode, hGraph, &work, numDependencies, childGraph);
}

/* The address is fixed when the node is made; the memory is taken at launch. */
CUresult sim_graph_allocate(CUdevice ordinal, uint64_t bytes, struct sim_context *context, struct sim_work *work) {
    struct sim_pool *pool = sim_graph_pool(ordinal);
    uint64_t taken = sim_round_up(bytes, SIM_GRANULE);
    struct sim_span *span = pool == NULL || taken < bytes ? NULL : sim_span_new(SIM_KIND_DEVICE, taken, 0);
    if (span == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    span->device = sim_driver.gpus[ordinal].index;
    span->graph = true;
    span->context = context;
    span->pool = pool;
    *work = (struct sim_work){.type = SIM_WORK_ALLOC, .target = span->base, .size = taken, .value = (unsigned)ordinal};
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                    size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    (void)dependencies;
    struct sim_work work;
    CUresult error = graph_check(hGraph, false);
    if (error != CUDA_SUCCESS || nodeParams == NULL || nodeParams->bytesize == 0) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    CUdevice ordinal = nodeParams->poolProps.location.id;
    if (sim_gpu_of(ordinal) == NULL || nodeParams->poolProps.location.type != CU_MEM_LOCATION_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    error = sim_graph_allocate(ordinal, nodeParams->bytesize, hGraph->context, &work);
    nodeParams->dptr = error == CUDA_SUCCESS ? work.target : 0;
    return error != CUDA_SUCCESS ? error : add_checked(phGraphNode, hGraph, &work, numDependencies, nodeParams);
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
    if (!sim_is(hNode, SIM_TAG_NODE) || hNode->work.type != SIM_WORK_ALLOC || params_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(params_out, 0, sizeof *params_out);
    params_out->poolProps.allocType = 1;
    params_out->poolProps.location = (CUmemLocation){CU_MEM_LOCATION_DEVICE, (int)hNode->work.value};
    params_out->bytesize = hNode->work.size;
    params_out->dptr = hNode->work.target;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
    if (!sim_is(hNode, SIM_TAG_NODE) || hNode->work.type != SIM_WORK_FREE || dptr_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *dptr_out = hNode->work.target;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
    if (!sim_is(hNode, SIM_TAG_NODE) || hNode->work.type != SIM_WORK_GRAPH || phGraph == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *phGraph = hNode->work.child;
    return CUDA_SUCCESS;
}

/* Only memory nodes are made by the generic call. */
CUresult sim_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                            size_t numDependencies, CUgraphNodeParams *nodeParams) {
    if (nodeParams == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    switch (nodeParams->type) {
    case SIM_WORK_ALLOC:
        return sim_cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, &nodeParams->alloc);
    case SIM_WORK_FREE:
        return sim_cuGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams->free);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult sim_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               const void *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams) {
    (void)dependencyData;
    return sim_cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                   size_t numDependencies, CUdeviceptr dptr) {
    (void)dependencies;
    struct sim_work work = {.type = SIM_WORK_FREE, .target = dptr};
    return add_checked(phGraphNode, hGraph, &work, numDependencies, &work);
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
    CUresult error = graph_check(hGraph, false);
    if (error != CUDA_SUCCESS || numNodes == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    size_t room = *numNodes, at = 0;
    for (struct sim_graph_node *node = hGraph->first; node != NULL && nodes != NULL; node = node->next, at++) {
        if (at < room) {
            nodes[at] = node;
        }
    }
    for (; nodes != NULL && at < room; at++) {
        nodes[at] = NULL;
    }
    *numNodes = hGraph->count;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
    CUresult error = graph_check(hGraph, false);
    if (error != CUDA_SUCCESS || numRootNodes == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    size_t room = *numRootNodes, count = 0;
    for (struct sim_graph_node *node = hGraph->first; node != NULL; node = node->next) {
        if (node->dependencies == 0) {
            if (rootNodes != NULL && count < room) {
                rootNodes[count] = node;
            }
            count++;
        }
    }
    *numRootNodes = count;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetType(CUgraphNode hNode, int *type) {
    if (!sim_is(hNode, SIM_TAG_NODE) || type == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *type = hNode->work.type;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (phGraphClone == NULL || !sim_is(originalGraph, SIM_TAG_GRAPH)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_graph *copy = graph_new();
    CUresult error = copy != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (struct sim_graph_node *node = originalGraph->first; node != NULL && error == CUDA_SUCCESS; node = node->next) {
        error = add(copy, &node->work, node->dependencies, NULL);
    }
    if (error == CUDA_SUCCESS) {
        *phGraphClone = copy;
    }
    return error;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraph *phGraphExec, CUgraph hGraph, unsigned long long flags) {
    enum { AUTO_FREE_ON_LAUNCH = 1 };
    CUresult error = graph_check(hGraph, false);
    if (error != CUDA_SUCCESS || phGraphExec == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    error = sim_cuGraphClone(phGraphExec, hGraph);
    if (error == CUDA_SUCCESS) {
        (*phGraphExec)->executable = true;
        (*phGraphExec)->frees_first = (flags & AUTO_FREE_ON_LAUNCH) != 0;
    }
    return error;
}

CUresult sim_cuGraphInstantiateWithParams(CUgraph *phGraphExec, CUgraph hGraph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    if (instantiateParams == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    CUresult error = sim_cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out = error == CUDA_SUCCESS ? 0 : 1;
    return error;
}

CUresult sim_cuGraphInstantiate_v2(CUgraph *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                   size_t bufferSize) {
    if (phErrorNode != NULL) {
        *phErrorNode = NULL;
    }
    if (logBuffer != NULL && bufferSize > 0) {
        logBuffer[0] = '\0';
    }
    return sim_cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult sim_cuGraphExecDestroy(CUgraph hGraphExec) {
    CUresult error = graph_check(hGraphExec, true);
    if (error == CUDA_SUCCESS) {
        graph_delete(hGraphExec);
    }
    return error;
}

CUresult sim_cuGraphUpload(CUgraph hGraphExec, CUstream hStream) {
    CUresult error = graph_check(hGraphExec, true);
    if (error == CUDA_SUCCESS) {
        (void)sim_stream_or_error(hStream, &error);
    }
    return error;
}

static CUresult take_memory(const struct sim_work *work) {
    struct sim_span *span = sim_span_at(work->target);
    if (span == NULL || span->charged != 0) {
        return CUDA_ERROR_INVALID_VALUE; /* still allocated from the launch before */
    }
    if (!sim_pool_take(span->pool, work->size)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    span->charged = work->size;
    return CUDA_SUCCESS;
}

/* A graph's free gives the memory back and keeps the address for the next launch. */
static CUresult return_memory(const struct sim_work *work) {
    struct sim_span *span = sim_span_at(work->target);
    if (span == NULL || span->charged == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_pool_return(span->pool, span->charged);
    span->charged = 0;
    return CUDA_SUCCESS;
}

static bool is_kernel(const struct sim_graph_node *node) {
    return node != NULL && node->work.type == SIM_WORK_KERNEL;
}

/* Kernels in a row take one place in the queue, as a graph does on a real device. Returns the last of them. */
static struct sim_graph_node *run_kernels(struct sim_graph_node *node, struct sim_stream *stream) {
    uint64_t duration = 0;
    for (;; node = node->next) {
        duration += sim_jittered(node->work.duration, node->work.sigma);
        if (!is_kernel(node->next) || node->next->work.weight != node->work.weight) {
            sim_submit(stream, SIM_OP_KERNEL, duration, node->work.weight);
            return node;
        }
    }
}

static CUresult run(struct sim_graph *graph, struct sim_stream *stream) {
    CUresult error = CUDA_SUCCESS;
    for (struct sim_graph_node *node = graph->first; node != NULL && error == CUDA_SUCCESS; node = node->next) {
        if (is_kernel(node) && stream->capture == NULL) {
            node = run_kernels(node, stream);
            continue;
        }
        switch (node->work.type) {
        case SIM_WORK_ALLOC:
            error = take_memory(&node->work);
            break;
        case SIM_WORK_FREE:
            error = return_memory(&node->work);
            break;
        case SIM_WORK_GRAPH:
            error = run(node->work.child, stream);
            break;
        default:
            error = sim_do(stream, &node->work);
        }
    }
    return error;
}

/* What earlier launches left allocated is freed where the graph was made so; otherwise it is not launched again. */
static CUresult free_earlier(const struct sim_graph *graph, bool frees) {
    CUresult error = CUDA_SUCCESS;
    for (const struct sim_graph_node *node = graph->first; node != NULL && error == CUDA_SUCCESS; node = node->next) {
        const struct sim_work *work = &node->work;
        const struct sim_span *span = work->type == SIM_WORK_ALLOC ? sim_span_at(work->target) : NULL;
        if (work->type == SIM_WORK_GRAPH) {
            error = free_earlier(work->child, frees);
        } else if (span != NULL && span->charged != 0) {
            error = frees ? return_memory(work) : CUDA_ERROR_INVALID_VALUE;
        }
    }
    return error;
}

CUresult sim_cuGraphLaunch(CUgraph hGraphExec, CUstream hStream) {
    CUresult error = graph_check(hGraphExec, true);
    struct sim_stream *stream = error == CUDA_SUCCESS ? sim_stream_or_error(hStream, &error) : NULL;
    if (stream != NULL) {
        error = free_earlier(hGraphExec, hGraphExec->frees_first);
    }
    return stream == NULL || error != CUDA_SUCCESS ? error : run(hGraphExec, stream);
}

/* Capture. */

CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, int mode) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL) {
        return error;
    }
    if (hStream == NULL || hStream == CU_STREAM_LEGACY) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (sim_capturing(stream) || mode < 0 || mode > 2) {
        return stream->capture != NULL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_graph *graph = graph_new();
    if (graph == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    graph->capture_id = atomic_fetch_add(&next_capture, 1);
    graph->capturing = true;
    stream->capture = graph;
    stream->capture_joined = false;
    stream->capture_mode = mode;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || phGraph == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim_capturing(stream) || stream->capture_joined) {
        return stream->capture == NULL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    *phGraph = stream->capture;
    stream->capture->capturing = false;
    stream->capture = NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, int *captureStatus) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || captureStatus == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *captureStatus = sim_capturing(stream);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
                                       const CUgraphNode **dependencies_out, size_t *numDependencies_out) {
    CUresult error = sim_cuStreamIsCapturing(hStream, captureStatus_out);
    if (error != CUDA_SUCCESS || *captureStatus_out == 0) {
        return error;
    }
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (id_out != NULL) {
        *id_out = stream->capture->capture_id;
    }
    if (graph_out != NULL) {
        *graph_out = stream->capture;
    }
    if (dependencies_out != NULL) {
        *dependencies_out = NULL;
    }
    if (numDependencies_out != NULL) {
        *numDependencies_out = 0;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out) {
    return sim_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, NULL, NULL, NULL);
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
                                       const CUgraphNode **dependencies_out, void *edgeData_out,
                                       size_t *numDependencies_out) {
    (void)edgeData_out;
    return sim_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                         numDependencies_out);
}

CUresult sim_cuThreadExchangeStreamCaptureMode(int *mode) {
    static _Thread_local int current;
    if (mode == NULL || *mode < 0 || *mode > 2) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
