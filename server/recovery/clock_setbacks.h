/* When the clock of this machine was set back: then a change of a file can have an earlier time than what was before
 * it.
 *
 * Sometimes only times tell whether others have changed a file since a late node had it (late.h).  Then a file counts
 * as changed if its time can be from after a setback, and the moment of comparison from before the setback.  That is so
 * for as long as the clock shows what it has shown before.
 *
 * It is noticed by a clock that nobody sets (CLOCK_MONOTONIC_RAW): the difference between the two becomes smaller.
 * `clock` in the state directory keeps it for the next instance, as lines (line_log.h):
 *   boot ID REAL RAW   both clocks, in nanoseconds, when they were looked at the last time, in the boot ID (32 hex
 *                      digits)
 *   back TO FROM       the clock went from FROM back to TO, in seconds since the epoch
 * It is written every KR_SETBACKS_SAVE_S, and when the clock has been set.  After another boot the clock may have gone
 * on for so long unseen.  PURE but for reading and writing.
 */
#ifndef KR_SERVER_CLOCK_SETBACKS_H
#define KR_SERVER_CLOCK_SETBACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

struct kr_server;

enum { KR_SETBACKS_MAX = 16, KR_SETBACKS_SAVE_S = 60 };

struct kr_setback {
	int64_t to, from; /* seconds: to at the latest, from at the earliest */
};

struct kr_setbacks {
	struct kr_setback list[KR_SETBACKS_MAX]; /* of too many the two first are made one */
	unsigned count;
	uint64_t real_ns, raw_ns; /* at the last look; 0: there was none */
	uint64_t saved_ns;        /* raw, at the last save */
	uint64_t former_ns;       /* real, when a former instance saved the last time; 0: there was none */
	bool saving, unsaved;
};

/* The clocks now. */
void kr_setbacks_look(struct kr_setbacks *setbacks, uint64_t real_ns, uint64_t raw_ns);
/* The first look in another boot, after which the clock has gone on for UNSEEN_S at most since the last one. */
void kr_setbacks_boot(struct kr_setbacks *setbacks, uint64_t real_ns, uint64_t raw_ns, uint64_t unseen_s);
/* Whether what was changed at CHANGED, which is not after SINCE, can have been changed later all the same. */
bool kr_setbacks_doubt(const struct kr_setbacks *setbacks, struct kr_time changed, struct kr_time since);

/* Reads DIR/clock, and looks. 0 or -errno with a reason. Blocks. */
int kr_setbacks_open(struct kr_setbacks *setbacks, int dir, const uint8_t boot_id[16]);
/* Writes DIR/clock: when no code needs the former instance's last times any more
 * (export/doubtful_times.h). 0 or -errno with
 * a reason. Blocks. */
int kr_setbacks_save(struct kr_setbacks *setbacks, int dir, const uint8_t boot_id[16]);
/* Looks, and saves if it is time. Loop thread. */
void kr_setbacks_tick(struct kr_server *server);

#endif
