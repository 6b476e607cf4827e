/* Which flush rounds are on stable storage, kept over a loss of the server's power: so that a node that was away when
 * others were told so, and replays what it knows to be applied only, does not cover later bytes that were synced.
 *
 * Round numbers ascend over all files and starts of the server, and the rounds of one file are applied one after the
 * other. So a sync of a file has all its rounds up to that number: replaying one of those is never needed, and it would
 * be wrong where a later one wrote the same bytes and its node has let go of them.  Hence the rule (stable.c): before
 * anybody is told that a file is synced up to a round, while another node has rounds up to there as well, that is
 * written down.  A file that one node alone writes needs nothing; nor do rounds below `floor`, which holds for all
 * files and is raised now and then, so that there are few entries.
 *
 * What is known begins after `lost`: rounds of a former boot that were not synced before its end, or of a sync that
 * failed, may be missing although later ones are there.  Whether such a round may still go in is judged as late bytes
 * are (late.h).
 *
 * `synced` in the state directory is a log of lines, each with a checksum (hexadecimal) of what stands before it:
 *   boot ID LOST           the boot of the machine (32 hex digits) of the lines to come; rounds up to LOST may be
 *                          missing
 *   all LOST ROUND         all rounds of all files up to ROUND are synced, but perhaps those up to LOST
 *   file FID LOST ROUND    the same of one file (FID in hexadecimal)
 * A later line replaces an earlier one.  Lines that are no such lines mean nothing.  The log is written anew when it is
 * opened and when the floor is raised.  Loop thread; what blocks runs in the pool, one write for all that has come up
 * meanwhile.
 */
#ifndef KR_SERVER_SYNCED_H
#define KR_SERVER_SYNCED_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

enum {
	KR_SYNCED_MAX =
		65536, /* files; above, the floor rises without their knowledge: their rounds below it are judged */
	KR_SYNCED_LOG = 4096, /* lines after which the floor is to be raised */
};

struct kr_server;

/* Rounds up to `round` are synced, but perhaps those up to `lost`. */
struct kr_synced_span {
	uint64_t lost, round;
};

struct kr_synced {
	struct kr_server *server;
	int dir, fd;
	uint8_t boot_id[16];
	uint64_t lost;               /* of what is noted from now on */
	struct kr_synced_span floor; /* of all files */
	struct kr_table table;       /* struct entry of synced.c: files of which more is known */
	struct kr_list order;        /* ... oldest first */
	struct kr_list notes;        /* to be written */
	uint64_t raising;            /* the floor to be written; 0: none */
	uint64_t lines;              /* of the log */
	bool writing, rewrite;       /* a write is under way; the next one is of the whole log */
	uint64_t writes;             /* for status */
};

/* Reads DIR/synced, and writes it anew; rounds up to LAST_ROUND were given out by former instances. 0 or -errno with a
 * reason. Blocks. SERVER may be NULL as long as nothing is noted. */
int kr_synced_open(
	struct kr_synced *synced, struct kr_server *server, int dir, const uint8_t boot_id[16], uint64_t last_round);
/* No write may be under way. */
void kr_synced_close(struct kr_synced *synced);

/* What is known of FILE, durably: the greater of its own and all files'. */
uint64_t kr_synced_round(const struct kr_synced *synced, const struct kr_fid *file);
enum kr_synced_verdict {
	KR_SYNCED_NOT,       /* not known to be synced: to be replayed, in the order of rounds */
	KR_SYNCED_ALL,       /* all are there */
	KR_SYNCED_OVERTAKEN, /* some may be missing, and later ones are there */
};
/* Of the rounds of FILE from OLDEST to NEWEST, which a node has. */
enum kr_synced_verdict kr_synced_judge(
	const struct kr_synced *synced, const struct kr_fid *file, uint64_t oldest, uint64_t newest);

/* FILE is synced up to ROUND: writes that down, then DONE in the loop (0 or -errno: it is not known after a crash). */
void kr_synced_note(struct kr_synced *synced, const struct kr_fid *file, uint64_t round,
	void (*done)(void *context, int err), void *context);
/* All files are synced up to ROUND, but for what was lost. */
void kr_synced_raise(struct kr_synced *synced, uint64_t round);
/* A sync has failed: rounds up to ROUND may be missing. */
void kr_synced_lose(struct kr_synced *synced, uint64_t round);
bool kr_synced_busy(const struct kr_synced *synced);

#endif
