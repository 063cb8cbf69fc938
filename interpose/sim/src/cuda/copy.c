#include "cuda_impl.h"
#include "driver.h"
