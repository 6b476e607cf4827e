/* This process, as the kernel counts it. */
#ifndef KR_COMMON_PROCESS_H
#define KR_COMMON_PROCESS_H

#include <jansson.h>
#include <stdint.h>

/* {"resident_bytes", "cpu_ms", "runnable_ms"}, owned.  "runnable_ms": how long its threads, those that run now, have
 * waited for a processor; 0 where the kernel does not tell.  Any thread. */
json_t *kr_process_status(void);
/* How long a thread has waited for a processor, from its file schedstat PATH; 0: not known. */
uint64_t kr_runnable_ns(const char *path);

#endif
