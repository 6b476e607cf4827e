/* Figures as people read them.  Results lie in one of a few static buffers each. */
#ifndef KR_TOOLS_UNITS_H
#define KR_TOOLS_UNITS_H

#include <jansson.h>

/* "12.5 MiB" */
const char *kr_bytes_text(json_int_t bytes);
/* "12.5 s", "3 min", "26 h" or "9 days" */
const char *kr_time_text(json_int_t ms);

#endif
