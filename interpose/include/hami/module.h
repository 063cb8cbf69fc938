/*
 * Code on the device. What a module or library takes is not told by the driver: it is measured by what the device has
 * left before and after, less what the container's own allocations took meanwhile.
 */
#ifndef HAMI_MODULE_H
#define HAMI_MODULE_H

void hami_modules_after_fork(void);

#endif
