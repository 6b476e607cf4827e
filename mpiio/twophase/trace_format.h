/* The phase trace of collective I/O, which the library writes and `kairan gantt` reads.  This header is the
 * specification.
 *
 * A trace file is JSON lines, one object per rank, round and phase, and one more
 * "exchange" of 0 bytes that ends a call, in any order; a reader takes several files (one per
 * rank, say) together.  Fields, all required, numbers are non-negative integers:
 *   "call"   number of the collective call on this file handle, from 0, the same on all ranks
 *   "file"   the file's name as it was opened
 *   "open"   number that distinguishes opens of the same name (the same on all ranks)
 *   "op"     "write" or "read": the kind of the call
 *   "rank"   in the file's communicator;  "node": its node's number (topology.h)
 *   "round"  from 0;  "slot": the buffer slot that the round used
 *   "phase"  "lists" (exchange of views and ranges), "read" (from the file), "exchange" (between ranks),
 *            "write" (to the file)
 *   "start", "end"   nanoseconds, start <= end, on one clock for all ranks (the library measures the offset between
 *            the ranks' clocks and subtracts it); only differences have a meaning
 *   "bytes"  moved by this phase (0 for lists)
 * Readers ignore unknown fields.  A line is complete only with its newline; readers skip an incomplete last line (the
 * program was killed).
 */
#ifndef KR_MPIIO_TRACE_FORMAT_H
#define KR_MPIIO_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum kr_trace_phase { KR_TRACE_LISTS, KR_TRACE_READ, KR_TRACE_EXCHANGE, KR_TRACE_WRITE, KR_TRACE_PHASES };

struct kr_trace_event {
	const char *file; /* borrowed */
	const char *op;   /* "write" or "read" */
	uint64_t open, call, round;
	uint32_t rank, node, slot;
	enum kr_trace_phase phase;
	uint64_t start_ns, end_ns, bytes;
};

const char *kr_trace_phase_name(enum kr_trace_phase phase);
/* The event as one line with its newline, not NUL-terminated.  Returns the line's length; a longer line than SIZE is
 * not written.  Any bytes in the file's name are safe (those that are not UTF-8 become U+FFFD). */
size_t kr_trace_format(const struct kr_trace_event *event, char *buffer, size_t size);

#endif
