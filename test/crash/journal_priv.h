/* Between journal.c, which leads the life of a journal, and journal_look.c, which looks at what a crash could have left
 * of it. */
#ifndef KR_TEST_CRASH_JOURNAL_PRIV_H
#define KR_TEST_CRASH_JOURNAL_PRIV_H

#include "fuse/journal/journal.h"
#include "test/crash/crash.h"
#include "test/crash/model.h"

enum { CELL = 64, RUN_MAX = 60 };

struct cell {
	uint32_t write, file, cell, mark;
	uint8_t filler[CELL - 16];
};

/* As the writeback room keeps one. */
struct applied_round {
	struct kr_link link;
	uint64_t round;
	struct kr_extent_map extents;
};

struct node_file {
	struct kr_journal_file *file;
	struct kr_extent_map dirty;
	struct kr_list applied; /* struct applied_round, ascending */
};

struct life {
	struct crash *crash;
	struct kr_journal *journal;
	struct kr_journal_options options;
	struct node_file files[FILES];
	uint64_t incarnation;

	struct model server;

	uint32_t last_write;
	uint32_t own[FILES][CELLS]; /* the newest write of the node that returned */
	uint64_t call_began;        /* event before the present call of the journal */
	uint32_t sample;            /* look at one state in so many */
};
extern struct life life;

/* Of this machine: what it is, and what it is after a loss of power. */
extern const uint8_t node_boots[2][16];

struct kr_fid fid_of(int index);
int index_of(const struct kr_fid *fid);
void fill_cell(struct cell *cell, uint32_t write, int file, uint32_t number);

/* What a journal, recovered or alive, has of FILE in MAP goes to SERVER: all after FROM. */
void send_map(
	struct kr_journal *journal, int file, const struct kr_extent_map *map, uint64_t from, struct model *server);
/* Before a system call of the journal, or a lock that it takes: recovers what a crash could leave now, perhaps. */
void before_call(void);

#endif
