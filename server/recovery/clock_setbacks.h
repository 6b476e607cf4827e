/* Setbacks of this machine's clock: after one, a file's later change can carry an earlier time.
 *
 * Sometimes only times tell whether others have changed a file since a late node had it (late.h).  The file then counts
 * as changed if its time may be from after a setback, and the node's moment from before it.  That lasts until the clock
 * is past its former time again.
 *
 * The server compares the clock with one that nobody can set (CLOCK_MONOTONIC_RAW).  `clock` in the state directory
 * keeps the result for the next instance, as lines (line_log.h):
 *   boot ID REAL RAW   the machine's boot id (32 hex digits), both clocks at the latest look (nanoseconds)
 *   back TO FROM       the clock went back from FROM to TO, in seconds since the epoch
 * The server writes it every KR_SETBACKS_SAVE_S, and when the clock was set.  After a reboot, the first look assumes
 * that the clock went on for up to twice that time after the save.  Another machine may take the export over, and have
 * been up before: then only its time at the start counts, not that at its boot.  PURE, except reading and writing.
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
