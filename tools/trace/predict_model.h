/* How long the programs of a trace would spend in I/O on a mount with a given envelope: `kairan predict`.  PURE.
 *
 * The model begins with that of the MTC performance model for Gfarm: files times rates, local reads apart from remote
 * ones:
 *
 *   I/O time of a program = sum over the files that each of its processes uses of
 *       T(read from the server, another node, or the cache, size, n) + T(write, size, n), less T(create, n) where the
 *       file was there already, + T(open, n) where neither bytes are read nor written
 *
 * T(what, size, n) = n / rate is what one file takes one of n processes that do nothing else.  A file of which a read
 * has waited for a block comes from there as a whole.
 *
 * n is not the number P of processes, since they do other things, too.  Each of the others is at the same part (reads
 * from the server, writes...) for a share of its time.  To that time belongs what the trace says that processes spend
 * elsewhere, computing.  So n = 1 + (P - 1) share.  The shares follow from the times, and are computed in turns, as in
 * approximate mean value analysis of closed queueing networks (Schweitzer).  P is the number on a node for what happens
 * there; for the rest, the numbers on a node and of nodes.
 *
 * Where a program both reads from the server and writes, requests wait behind bytes that go the same way.  So both
 * parts take longer by what the envelope's processes need that do these by turns.
 *
 * Between the sizes of the envelope's points T is linear in the size (a latency, and a bandwidth).  Between its numbers
 * of processes and of nodes it is linear in these.  Beyond the largest size or number it grows in proportion.
 *
 * The model leaves out other programs at the same time, LOOKUPs, locks and fsync. */
#ifndef KR_TOOLS_TRACE_PREDICT_MODEL_H
#define KR_TOOLS_TRACE_PREDICT_MODEL_H

#include <jansson.h>
#include <stddef.h>

#include "tools/trace/predict_bound.h"
#include "tools/trace/traces.h"

enum kr_predicted_part {
	KR_PREDICTED_SERVER, /* reads from the server */
	KR_PREDICTED_NODE,   /* reads from another node */
	KR_PREDICTED_CACHE,  /* reads from this node's cache */
	KR_PREDICTED_WRITES,
	KR_PREDICTED_OPENS,
	KR_PREDICTED_PARTS
};

enum kr_predict_reads { KR_PREDICT_AS_TRACED, KR_PREDICT_COLD, KR_PREDICT_WARM };

/* The assumptions.  0: as in the trace. */
struct kr_predict_with {
	double nodes, processes; /* processes of a program on each node at a time */
	enum kr_predict_reads reads;
};

struct kr_prediction {
	char *program; /* owned */
	size_t processes;
	double nodes, at_a_time; /* processes on each node */
	/* Seconds, of all processes together. */
	double traced_s, expected_s, lowest_s, highest_s, parts_s[KR_PREDICTED_PARTS];
	struct kr_bounds bounds; /* none, if reads are assumed to come from elsewhere than in the trace */
};

/* Predictions of each program of TRACES, the longest first; owned, and *RET_COUNT. */
struct kr_prediction *kr_predict(
	const struct kr_traces *traces, const json_t *envelope, const struct kr_predict_with *with, size_t *ret_count);
void kr_predictions_free(struct kr_prediction *predictions, size_t count);

#endif
