/* How far a transfer is: bytes, rate, time left.  Pure, but for kr_display. */
#ifndef KR_TOOLS_PROGRESS_H
#define KR_TOOLS_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { KR_PROGRESS_BAR = 24, KR_PROGRESS_TEXT = 160 };

struct kr_progress {
	json_int_t total, rest; /* the most bytes that were to go so far; those that are to go now */
	json_int_t waiting;     /* gone, but not known to be on the server's disk */
	json_int_t refused;     /* of the rest */
	double rate;            /* bytes per second, of the last seconds */
	json_int_t updated_ms;
	bool begun;
};

/* The figures at NOW_MS. */
void kr_progress_update(
	struct kr_progress *progress, json_int_t now_ms, json_int_t rest, json_int_t waiting, json_int_t refused);
/* "3.1 MiB of 12.0 MiB sent, 1.2 MiB/s, 7.4 s left", and what is refused or waits for the server's disk. */
void kr_progress_text(const struct kr_progress *progress, char text[KR_PROGRESS_TEXT]);
/* "######......", KR_PROGRESS_BAR characters. */
void kr_progress_bar(const struct kr_progress *progress, char bar[KR_PROGRESS_BAR + 1]);

/* Shows it: as a line that changes on a terminal, else as a line on standard error after two seconds, and whenever the
 * time has doubled or a minute has passed. */
struct kr_display {
	const char *path; /* begins the lines; borrowed */
	bool quiet, terminal;
	struct kr_progress progress;
	uint64_t start_ms, next_ms; /* of the beginning; of the next line */
	int width;                  /* of the line on the terminal */
};

void kr_display_init(struct kr_display *display, const char *path, bool quiet);
/* As kr_progress_update, now. */
void kr_display_show(struct kr_display *display, json_int_t rest, json_int_t waiting, json_int_t refused);
/* Clears the terminal's line. */
void kr_display_end(const struct kr_display *display);

#endif
