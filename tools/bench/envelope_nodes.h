/* Several nodes that do the steps of kairan envelope at the same time.  Each runs `kairan envelope --worker`, which a
 * remote shell starts; it takes tasks as JSON from standard input, and answers on standard output. */
#ifndef KR_TOOLS_BENCH_ENVELOPE_NODES_H
#define KR_TOOLS_BENCH_ENVELOPE_NODES_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "tools/bench/envelope_steps.h"

enum { KR_ENVELOPE_NODES_MAX = 256 };

/* Zero-initialised by the owner. */
struct kr_envelope_nodes {
	struct kr_envelope_node {
		char *name; /* owned */
		pid_t pid;  /* of the remote shell */
		FILE *to, *from;
	} * nodes;
	size_t count;
};

/* Starts workers on the nodes of LIST ("n1,n2") by RSH, a command and its options, in DIRECTORY, which they all mount.
 * -errno with a reason; then stop, too. */
int kr_envelope_nodes_start(struct kr_envelope_nodes *nodes, const char *list, const char *rsh, const char *directory);
/* The first COUNT nodes do TASKS, one each, at the same time.  -errno with a reason. */
int kr_envelope_nodes_do(struct kr_envelope_nodes *nodes, size_t count, struct kr_envelope_task *tasks);
/* Returns when all have ended. */
void kr_envelope_nodes_stop(struct kr_envelope_nodes *nodes);

/* The worker's part: returns at the end of IN.  -errno with a reason. */
int kr_envelope_serve(FILE *in, FILE *out);

#endif
