/*
 * What the generated wrappers call: one function per policy of spec/, with the hook it was called through first and
 * then the wrapped function's own arguments. Each calls the driver's function of that hook exactly once (free on
 * the way back from a refused allocation aside) and returns what it returns, or CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef HAMI_POLICY_H
#define HAMI_POLICY_H

#include "cuda_abi.h"
#include "doors/hook.h"
#include "kinds.h"

#include "policies.h" /* generated, as the wrappers are */

#endif
