/* What bounds the I/O of a program: `kairan predict`.  PURE.
 *
 * The rule is that of asymptotic bounds on closed queueing networks (Denning and Buzen, The Operational Analysis of
 * Queueing Network Models, 1978): each second that a program waits for I/O is spent at some resource, and the resource
 * that asks for most of it bounds the program, whatever the others are.  Samples in the trace tell what each resource
 * took while the program waited for T seconds:
 *
 *   the server's processors   threads of kairand that ran or were to run
 *   the server's disk         jobs of kairand that were blocked
 *   the node's processors     threads of kairanfs that ran or were to run
 *   the rest                  on the way between the two
 *
 * The way is the link if the bytes that moved take at least half of T at the envelope's best rate of bytes.  Else it is
 * the delay of messages, as far as requests times the shortest round trip go.
 *
 * With more processes at a time each process waits longer for what all of them share, and no longer for delays.  So the
 * seconds at a resource of the server grow with nodes and processes, those at the node's processors with its processes,
 * and those of delays do not.
 *
 * A resource bounds a program if it takes at least a third of T, and half as much again as any other.  Else more of it
 * alone would help little: several share the time, or one that is not known has it. */
#ifndef KR_TOOLS_TRACE_PREDICT_BOUND_H
#define KR_TOOLS_TRACE_PREDICT_BOUND_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/trace/traces.h"

enum kr_bound {
	KR_BOUND_SERVER_CPU,
	KR_BOUND_SERVER_DISK,
	KR_BOUND_NODE_CPU,
	KR_BOUND_LINK,
	KR_BOUND_DELAY,
	KR_BOUNDS, /* none of them alone */
};

struct kr_bounds {
	enum kr_bound bound;
	bool known;               /* the trace tells */
	double shares[KR_BOUNDS]; /* of the time in I/O, as traced */
};

/* NODES: how many had processes of PROGRAM at a time.  MORE_NODES and MORE_PROCESSES: how many times as many are
 * assumed. */
struct kr_bounds kr_bounds_of(const struct kr_traces *traces, const json_t *envelope, const char *program, double nodes,
	double more_nodes, double more_processes);

#endif
