/* How long the programs of a trace would spend in I/O on a mount with a given envelope: `kairan predict`.  PURE.
 *
 * The model is that of the MTC performance model for Gfarm: files times rates, local reads apart from remote ones.  Its
 * rates depend on the file's size, and on how many processes of the program run on a node at a time.
 *
 *   time of a program = sum over the files that each of its processes uses of
 *       local share x T(read from the cache, size, P) + other share x T(read from the server, size, P)
 *     + T(write, size, P), less T(create, P) where the file was there already
 *     + T(open, P) where neither bytes are read nor written
 *
 * T(what, size, P) = P / rate is what one file takes one of P processes.  Between the sizes of the envelope's points T
 * is linear in the size (a latency, and a bandwidth), between its numbers of processes linear in P.  Beyond the largest
 * size or number it grows in proportion.  The model leaves out other programs at the same time, LOOKUPs, locks
 * and fsync.  Reads from another node count as reads from the server.  A program that computes while its bytes are
 * flushed waits less than the model says. */
#ifndef KR_TOOLS_TRACE_PREDICT_MODEL_H
#define KR_TOOLS_TRACE_PREDICT_MODEL_H

#include <jansson.h>
#include <stddef.h>

#include "tools/trace/traces.h"

enum kr_predicted_part {
	KR_PREDICTED_SERVER, /* reads from the server */
	KR_PREDICTED_CACHE,  /* reads from this node's cache */
	KR_PREDICTED_WRITES,
	KR_PREDICTED_OPENS,
	KR_PREDICTED_PARTS
};

enum kr_predict_reads { KR_PREDICT_AS_TRACED, KR_PREDICT_COLD, KR_PREDICT_WARM };

struct kr_prediction {
	char *program; /* owned */
	size_t processes;
	double at_a_time; /* processes on a node */
	/* Seconds, of all processes together. */
	double traced_s, expected_s, lowest_s, highest_s, parts_s[KR_PREDICTED_PARTS];
};

/* Predictions of each program of TRACES, the longest first; owned, and *RET_COUNT.  PROCESSES: how many run on a node at
 * a time (0: as traced). */
struct kr_prediction *kr_predict(const struct kr_traces *traces, const json_t *envelope, double processes,
	enum kr_predict_reads reads, size_t *ret_count);
void kr_predictions_free(struct kr_prediction *predictions, size_t count);

#endif
