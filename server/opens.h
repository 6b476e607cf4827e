/* Open files: OPEN, CREATE, CLOSE, RECLAIM, and what happens when the last open of a file without a name ends. */
#ifndef KR_SERVER_OPENS_H
#define KR_SERVER_OPENS_H

#include "server/files.h"

struct kr_request;

/* COUNT opens of the file (counted in file->opens) end: the export's holds go, in the background. */
void kr_opens_release(struct kr_sfile *file, uint64_t count);

/* A job has opened the file for the request (the export counts a hold): notes it for the session and tries to get WANT for
 * it. Returns what was granted: then kr_leases_announced must follow the reply. If the session has ended meanwhile the hold
 * is given back. */
uint8_t kr_opens_opened(struct kr_request *request, struct kr_sfile *file, uint8_t want);

void kr_opens_register(struct kr_server *server);
void kr_creates_register(struct kr_server *server);

#endif
