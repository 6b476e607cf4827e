/* This process, as the kernel counts it. */
#ifndef KR_COMMON_PROCESS_H
#define KR_COMMON_PROCESS_H

#include <jansson.h>

/* {"resident_bytes", "cpu_ms"}, owned.  Any thread. */
json_t *kr_process_status(void);

#endif
