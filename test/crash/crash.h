/* The power-loss checker's two halves, and what they share. */
#ifndef KR_TEST_CRASH_CRASH_H
#define KR_TEST_CRASH_CRASH_H

#include <stdbool.h>
#include <stdint.h>

/* What is broken on purpose, to see that the checker notices. */
enum crash_broken {
	BROKEN_NOTHING,
	BROKEN_SINCE, /* others' changes count from the last live write on, not from the first */
	BROKEN_POWER, /* a loss of the node's power is taken for a killed daemon */
	BROKEN_CHECKSUM,
	BROKEN_TAIL,
	BROKEN_SYNC,
	BROKEN_STATE,
	BROKEN_RELEASE, /* the newest round dies first */
	BROKEN_SHARE,   /* a file is handed over before its writer has heard that all is durable */
};

struct crash {
	uint64_t wanted, points;          /* states to look at, looked at */
	uint64_t powers;                  /* of them after a loss of power, not a kill */
	uint64_t records, damages, lates; /* found in them; for the summary */
	enum crash_broken broken;
	bool ordered;
	char directory[64], state[80], live[80]; /* all lie in the first */
	const char *failure;                     /* the first thing that was wrong; the run ends */
	char text[256];
};

void crash_failed(struct crash *crash, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Empties a directory. */
void crash_empty(const char *path);

/* One life of a journal, with states looked at on the way. */
void crash_journal(struct crash *crash);
/* One life of a server's export and state directory. */
void crash_server(struct crash *crash);

#endif
