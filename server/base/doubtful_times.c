#include "server/base/doubtful_times.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "server/base/line_log.h"

static const char log_name[] = "doubts";

static bool meet(const struct kr_doubt *a, const struct kr_doubt *b)
{
	return a->from_ns <= b->to_ns && b->from_ns <= a->to_ns;
}

/* Both get the first one's salt, so that older files change version only once. Where they meet, the first already had
 * that salt, so those files change, too. */
static void join_oldest(struct kr_doubts *doubts)
{
	struct kr_doubt *list = doubts->list;

	if (!meet(&list[0], &list[1]))
		list[1].salt = list[0].salt;
	list[1].from_ns = KR_MIN(list[0].from_ns, list[1].from_ns);
	list[1].to_ns = KR_MAX(list[0].to_ns, list[1].to_ns);
	memmove(&list[0], &list[1], --doubts->count * sizeof(*list));
}

static void add(struct kr_doubts *doubts, struct kr_doubt doubt)
{
	if (doubts->count == KR_DOUBTS_MAX)
		join_oldest(doubts);
	doubts->list[doubts->count++] = doubt;
}

/* Beyond NOW_NS as well: the server does not watch at once. */
void kr_doubts_start(struct kr_doubts *doubts, uint64_t former_ns, uint64_t now_ns, uint64_t salt)
{
	const uint64_t reach_ns = KR_DOUBTS_REACH_S * KR_NS_PER_S, first_ns = KR_MIN(former_ns, now_ns);
	struct kr_doubt doubt = {.from_ns = first_ns - KR_MIN(first_ns, reach_ns),
		.to_ns = KR_MAX(former_ns, now_ns) + reach_ns,
		.salt = salt};
	const struct kr_doubt *last = doubts->count ? &doubts->list[doubts->count - 1] : NULL;

	/* Not a later end, after the clock was set back: each start until then would take it over. */
	if (last && meet(&doubt, last) && last->to_ns <= doubt.to_ns) {
		doubt.from_ns = KR_MIN(doubt.from_ns, last->from_ns);
		doubts->count--;
	}
	add(doubts, doubt);
}

uint64_t kr_doubts_of(const struct kr_doubts *doubts, uint64_t ctime_ns)
{
	for (unsigned i = doubts->count; i-- > 0;) {
		if (ctime_ns >= doubts->list[i].from_ns && ctime_ns <= doubts->list[i].to_ns)
			return doubts->list[i].salt;
	}
	return 0;
}

static void read_line(void *doubts, char *line)
{
	struct kr_doubt doubt;

	if (sscanf(line, "doubt %" SCNu64 " %" SCNu64 " %" SCNu64, &doubt.from_ns, &doubt.to_ns, &doubt.salt) == 3)
		add(doubts, doubt);
}

static int write_log(const struct kr_doubts *doubts, int dir)
{
	struct kr_writer lines = {0};
	int err;

	for (unsigned i = 0; i < doubts->count; i++)
		kr_line_log_add(&lines, "doubt %" PRIu64 " %" PRIu64 " %" PRIu64, doubts->list[i].from_ns,
			doubts->list[i].to_ns, doubts->list[i].salt);
	err = kr_line_log_write(&lines, dir, log_name);
	kr_writer_fini(&lines);
	return err;
}

int kr_doubts_open(struct kr_doubts *doubts, int dir, uint64_t former_ns, uint64_t salt)
{
	int err;

	*doubts = (struct kr_doubts){0};
	err = kr_line_log_read(dir, log_name, read_line, doubts, NULL);
	if (err)
		return err;
	if (!former_ns && salt == 1)
		return 0;
	kr_doubts_start(doubts, former_ns, kr_clock_real_ns(), salt);
	err = write_log(doubts, dir);
	return err ? kr_fail_errno(err, "cannot write %s of the state directory", log_name) : 0;
}
