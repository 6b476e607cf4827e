/* Open files: OPEN, CLOSE, and what happens when the last open of a file without a name ends. */
#ifndef KR_SERVER_OPEN_H
#define KR_SERVER_OPEN_H

#include "server/leases/file_table.h"

struct kr_request;

/* COUNT opens of FILE (counted in file->opens) end: the export releases them in the background. */
void kr_opens_release(struct kr_sfile *file, uint64_t count);

/* A job has opened FILE for REQUEST, with FLAGS of OPEN.  Records that for the session and tries to get WANT for it.
 * Returns the kinds granted: then kr_leases_announced must follow the reply.  If the session has ended meanwhile, the
 * open ends. */
uint8_t kr_opens_opened(struct kr_request *request, struct kr_sfile *file, uint32_t flags, uint8_t want);

#endif
