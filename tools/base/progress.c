/* See progress.h. */
#include "tools/base/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "tools/base/units.h"

/* The rate is an average in which older seconds count less and less. */
enum { MEMORY_MS = 3000, LINE_FIRST_MS = 2000, LINE_MS = 60000 };

void kr_progress_update(
	struct kr_progress *progress, json_int_t now_ms, json_int_t rest, json_int_t waiting, json_int_t refused)
{
	const double ms = (double)(now_ms - progress->updated_ms);

	if (progress->begun && ms <= 0)
		return;
	if (progress->begun) {
		const double gone = (double)KR_MAX(progress->rest - rest, (json_int_t)0);

		progress->rate += (gone * 1000 / ms - progress->rate) * ms / (ms + MEMORY_MS);
	}
	progress->begun = true;
	progress->total = KR_MAX(progress->total, rest + waiting);
	progress->rest = rest;
	progress->waiting = waiting;
	progress->refused = refused;
	progress->updated_ms = now_ms;
}

void kr_progress_text(const struct kr_progress *progress, char text[KR_PROGRESS_TEXT])
{
	const json_int_t going = progress->rest - progress->refused;
	int length = snprintf(text, KR_PROGRESS_TEXT, "%s of %s sent", kr_bytes_text(progress->total - progress->rest),
		kr_bytes_text(progress->total));

	if (going > 0 && progress->rate >= 1)
		length += snprintf(text + length, (size_t)(KR_PROGRESS_TEXT - length), ", %s/s, %s left",
			kr_bytes_text((json_int_t)progress->rate),
			kr_time_text((json_int_t)((double)going * 1000 / progress->rate)));
	else if (going > 0)
		length += snprintf(text + length, (size_t)(KR_PROGRESS_TEXT - length), ", nothing moves");
	if (progress->refused > 0)
		length += snprintf(text + length, (size_t)(KR_PROGRESS_TEXT - length), ", %s refused",
			kr_bytes_text(progress->refused));
	if (going <= 0 && progress->waiting > 0)
		snprintf(text + length, (size_t)(KR_PROGRESS_TEXT - length), ", %s wait for the server's disk",
			kr_bytes_text(progress->waiting));
}

void kr_progress_bar(const struct kr_progress *progress, char bar[KR_PROGRESS_BAR + 1])
{
	const double share =
		progress->total > 0 ? (double)(progress->total - progress->rest) / (double)progress->total : 1;
	const int filled = (int)(share * KR_PROGRESS_BAR);

	memset(bar, '.', KR_PROGRESS_BAR);
	memset(bar, '#', (size_t)KR_MAX(0, KR_MIN(filled, (int)KR_PROGRESS_BAR)));
	bar[KR_PROGRESS_BAR] = '\0';
}

/* --- shown --- */

void kr_display_init(struct kr_display *display, const char *path, bool quiet)
{
	uint64_t now = kr_clock_ms();

	*display = (struct kr_display){.path = path,
		.quiet = quiet,
		.terminal = isatty(STDOUT_FILENO),
		.start_ms = now,
		.next_ms = now + LINE_FIRST_MS};
}

void kr_display_show(struct kr_display *display, json_int_t rest, json_int_t waiting, json_int_t refused)
{
	uint64_t now = kr_clock_ms();
	char text[KR_PROGRESS_TEXT], bar[KR_PROGRESS_BAR + 1];
	int width;

	kr_progress_update(&display->progress, (json_int_t)now, rest, waiting, refused);
	if (display->quiet || (!display->terminal && now < display->next_ms))
		return;
	kr_progress_text(&display->progress, text);
	if (!display->terminal) {
		display->next_ms = now + KR_MIN(now - display->start_ms, (uint64_t)LINE_MS);
		fprintf(stderr, "kairan: %s after %s: %s\n", display->path,
			kr_time_text((json_int_t)(now - display->start_ms)), text);
		return;
	}
	kr_progress_bar(&display->progress, bar);
	width = printf("\r[%s] %s", bar, text);
	printf("%*s", KR_MAX(display->width - width, 0), "");
	display->width = width;
	fflush(stdout);
}

void kr_display_end(const struct kr_display *display)
{
	if (display->width)
		printf("\r%*s\r", display->width, "");
	fflush(stdout); /* before what goes to standard error */
}
