/* cuGraphLaunch: the memory of what is launched. */
#include "hami/graph.h"
#include "hami/policy.h"

int32_t hami_graph_launch(enum hami_hook hook, void *graph, CUstream stream) {
    CUresult (*driver)(void *, CUstream) = hami_driver_function(hook);
    struct hami_graph_memory *memory = NULL;
    if (!hami_graph_run_begin(graph, &memory)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(graph, stream);
    hami_graph_run_end(memory);
    return status;
}
