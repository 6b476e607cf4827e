/* The hints of an open file: MPI's reserved keys, ROMIO's and kairan's own, from $KAIRAN_MPIIO_HINTS and from MPI_Info.
 *
 * An unusable value is ignored, as the standard says.  struct kr_hints is plain bytes, because all ranks use rank 0's:
 * two ranks with different aggregators would wait for each other for ever.
 */
#ifndef KR_MPIIO_HINTS_H
#define KR_MPIIO_HINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpiio/schedule/send_order.h"

enum kr_switch { KR_DISABLE, KR_ENABLE, KR_AUTOMATIC };

enum { KR_HINT_TEXT_MAX = 512 };

struct kr_hints {
	uint64_t cb_buffer_size;     /* the most that an aggregator handles in one piece; 0: kr_hints_piece */
	uint64_t striping_unit;      /* 0: the mount's, or 4 MiB */
	uint64_t direct_run;         /* longer runs on average go directly, without an exchange */
	uint32_t cb_nodes;           /* aggregators; 0: one per node, or as many as cb_config_list allows */
	uint32_t window;             /* sends outstanding per rank; 0: as many as ranks */
	uint32_t slots;              /* rounds in flight per aggregator */
	uint32_t read, write, order; /* enum kr_switch twice, enum kr_order */
	uint32_t summary;            /* 1: a line per file at close */
	char cb_config_list[KR_HINT_TEXT_MAX];
	char trace[KR_HINT_TEXT_MAX]; /* the path of the phase trace; empty: none */
};

void kr_hints_defaults(struct kr_hints *hints);
/* The cb_buffer_size of a file that RANKS have open, without a hint.  Small pieces let exchange and file I/O overlap
 * early, but must not make a rank's message in a piece too short. */
uint64_t kr_hints_piece(int ranks);
/* Takes one hint.  False: an unknown key or an unusable value, and no change. */
bool kr_hints_set(struct kr_hints *hints, const char *key, const char *value);
/* Takes "key=value;key=value"; skips unusable parts. */
void kr_hints_set_list(struct kr_hints *hints, const char *list);
/* The key of hint INDEX and its effective value as text; NULL behind the last.  VALUE holds KR_HINT_TEXT_MAX bytes. */
const char *kr_hints_get(const struct kr_hints *hints, size_t index, char *value);

#endif
