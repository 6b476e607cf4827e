/* See top_view.h. */
#include "tools/top_view.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/histogram.h"
#include "common/base/ring_order.h"
#include "common/base/text.h"
#include "common/base/util.h"

enum { CELL = 256, COLUMNS_MAX = 16, KINDS_MAX = 64 };

/* --- figures ------------------------------------------------------------------------------------- */

/* The figure SECTION.NAME, or NAME where SECTION is NULL; 0 if there is none. */
static double number(const json_t *status, const char *section, const char *name)
{
	const json_t *object = section ? json_object_get(status, section) : status;

	return json_number_value(json_object_get(object, name));
}

/* How fast a counter grows, per second.  Below 0: not known. */
static double rate(const struct kr_top_moment *moment, const char *section, const char *name)
{
	double grown = number(moment->now, section, name) - number(moment->before, section, name);

	return moment->before && moment->seconds > 0 && grown >= 0 ? grown / moment->seconds : -1;
}

/* "12.3 MiB": four digits at most. */
static void put_bytes(char cell[CELL], double bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	size_t unit = 0;

	for (; bytes >= 1023.5 && unit + 1 < KR_ARRAY_SIZE(units); unit++)
		bytes /= 1024;
	if (bytes < 0)
		snprintf(cell, CELL, "-");
	else
		snprintf(cell, CELL, unit && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

static void put_count(char cell[CELL], double count)
{
	if (count < 0)
		snprintf(cell, CELL, "-");
	else
		snprintf(cell, CELL, count < 99.95 ? "%.1f" : "%.0f", count);
}

static void put_seconds(char cell[CELL], double seconds)
{
	if (seconds < 0)
		snprintf(cell, CELL, "-");
	else if (seconds < 99.95)
		snprintf(cell, CELL, "%.1fs", seconds);
	else if (seconds < 5999.5)
		snprintf(cell, CELL, "%.0fm", seconds / 60);
	else
		snprintf(cell, CELL, "%.0fh", seconds / 3600);
}

static void put_us(char cell[CELL], double us)
{
	if (us < 0)
		snprintf(cell, CELL, "-");
	else if (us < 999.5)
		snprintf(cell, CELL, "%.0fus", us);
	else if (us < 999500)
		snprintf(cell, CELL, us < 99950 ? "%.1fms" : "%.0fms", us / 1e3);
	else
		snprintf(cell, CELL, "%.1fs", us / 1e6);
}

static void put_share(char cell[CELL], double part, double rest)
{
	if (part < 0 || rest < 0 || part + rest <= 0)
		snprintf(cell, CELL, "-");
	else
		snprintf(cell, CELL, "%.0f%%", 100 * part / (part + rest));
}

/* How long BYTES take to go at PER_SECOND. */
static void put_drain(char cell[CELL], double bytes, double per_second)
{
	if (bytes > 0 && per_second > 0)
		put_seconds(cell, bytes / per_second);
	else
		snprintf(cell, CELL, "%s", bytes > 0 ? "-" : "0.0s");
}

/* --- tables -------------------------------------------------------------------------------------- */

struct column {
	const char *title;
	unsigned width;
	bool left;     /* flush left: text */
	unsigned rank; /* 0 stays, the highest goes first */
};

struct table {
	FILE *out;
	const struct column *columns;
	size_t count;
	bool shown[COLUMNS_MAX];
};

static unsigned width_of(const struct table *table)
{
	unsigned width = 0;

	for (size_t i = 0; i < table->count; i++)
		width += table->shown[i] ? table->columns[i].width + (width ? 1 : 0) : 0;
	return width;
}

/* Hides the column of the highest rank.  False: none may go. */
static bool hide_one(struct table *table)
{
	size_t worst = 0;

	for (size_t i = 1; i < table->count; i++)
		if (table->shown[i] && (!table->shown[worst] || table->columns[i].rank > table->columns[worst].rank))
			worst = i;
	if (table->columns[worst].rank == 0)
		return false;
	table->shown[worst] = false;
	return true;
}

/* Characters, not bytes. */
static unsigned length_of(const char *text)
{
	unsigned length = 0;

	for (; *text; text++)
		length += ((unsigned char)*text & 0xc0) != 0x80;
	return length;
}

/* TEXT in WIDTH characters. */
static void put_cell(FILE *out, const char *text, unsigned width, bool left)
{
	const unsigned length = length_of(text), fill = length < width ? width - length : 0;

	fprintf(out, "%*s", left ? 0 : (int)fill, "");
	for (unsigned at = 0; *text; text++) {
		at += ((unsigned char)*text & 0xc0) != 0x80;
		if (at <= width)
			fputc(*text, out);
	}
	fprintf(out, "%*s", left ? (int)fill : 0, "");
}

/* CELLS: as many as there are columns. */
static void put_row(const struct table *table, char cells[][CELL])
{
	bool first = true;

	for (size_t i = 0; i < table->count; i++) {
		if (!table->shown[i])
			continue;
		if (!first)
			fputc(' ', table->out);
		put_cell(table->out, cells[i], table->columns[i].width, table->columns[i].left);
		first = false;
	}
	fputc('\n', table->out);
}

static void table_begin(struct table *table, FILE *out, unsigned width, const struct column *columns, size_t count)
{
	char cells[COLUMNS_MAX][CELL];

	*table = (struct table){.out = out, .columns = columns, .count = count};
	for (size_t i = 0; i < count; i++) {
		table->shown[i] = true;
		snprintf(cells[i], CELL, "%s", columns[i].title);
	}
	while (width_of(table) > width && hide_one(table))
		continue;
	fputc(KR_TOP_HEAD, out);
	put_row(table, cells);
}

/* A line of text, cut off at the width. */
__attribute__((format(printf, 3, 4))) static void put_line(FILE *out, unsigned width, const char *format, ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	put_cell(out, line, KR_MIN(width, length_of(line)), true);
	fputc('\n', out);
}

/* --- operations ---------------------------------------------------------------------------------- */

/* The buckets of all kinds together, owned. */
static json_t *all_buckets(const json_t *kinds)
{
	json_int_t sums[KR_HISTOGRAM_BUCKETS] = {0};
	json_t *all = json_array();

	for (void *at = json_object_iter((json_t *)(uintptr_t)kinds); at;
		at = json_object_iter_next((json_t *)(uintptr_t)kinds, at)) {
		const json_t *buckets = json_object_get(json_object_iter_value(at), "buckets");

		for (size_t i = 0; i < KR_HISTOGRAM_BUCKETS; i++)
			sums[i] += json_integer_value(json_array_get(buckets, i));
	}
	for (size_t i = 0; i < KR_HISTOGRAM_BUCKETS; i++)
		json_array_append_new(all, json_integer(sums[i]));
	return all;
}

static double count_of(const json_t *buckets)
{
	double count = 0;

	for (size_t i = 0; i < json_array_size(buckets); i++)
		count += json_number_value(json_array_get(buckets, i));
	return count;
}

/* Rate, median and 99th percentile of what came between. */
static void put_times(char cells[][CELL], const json_t *now, const json_t *before, bool known, double seconds)
{
	put_count(cells[0], known ? (count_of(now) - count_of(before)) / seconds : -1);
	put_us(cells[1], known ? kr_histogram_quantile(now, before, 0.5) : -1);
	put_us(cells[2], known ? kr_histogram_quantile(now, before, 0.99) : -1);
}

struct kind {
	const char *name;
	double count; /* between both moments */
};

static int by_count(const void *a, const void *b)
{
	const struct kind *one = a, *other = b;

	return one->count < other->count ? 1 : one->count > other->count ? -1 : strcmp(one->name, other->name);
}

/* The kinds that came, the most frequent first. */
static size_t sort_kinds(const json_t *now, const json_t *before, struct kind kinds[KINDS_MAX])
{
	size_t count = 0;

	for (void *at = json_object_iter((json_t *)(uintptr_t)now); at && count < KINDS_MAX;
		at = json_object_iter_next((json_t *)(uintptr_t)now, at)) {
		const char *name = json_object_iter_key(at);

		kinds[count] = (struct kind){.name = name,
			.count = number(json_object_iter_value(at), NULL, "count") - number(before, name, "count")};
		count += kinds[count].count > 0;
	}
	qsort(kinds, count, sizeof(*kinds), by_count);
	return count;
}

/* NOW and BEFORE: histograms by kind. */
static void put_kinds(
	const struct kr_top_moment *moment, const char *title, const json_t *now, const json_t *before, FILE *out)
{
	const struct column columns[] = {
		{title, 16, true, 0}, {"PER S", 8, false, 0}, {"MEDIAN", 8, false, 1}, {"99 %", 8, false, 2}};
	struct kind kinds[KINDS_MAX];
	size_t count = sort_kinds(now, before, kinds);
	struct table table;
	char cells[4][CELL];

	if (!moment->before || !count)
		return;
	fputc('\n', out);
	table_begin(&table, out, moment->width, columns, KR_ARRAY_SIZE(columns));
	for (size_t i = 0; i < count; i++) {
		snprintf(cells[0], CELL, "%s", kinds[i].name);
		put_times(&cells[1], json_object_get(json_object_get(now, kinds[i].name), "buckets"),
			json_object_get(json_object_get(before, kinds[i].name), "buckets"), true, moment->seconds);
		put_row(&table, cells);
	}
}

/* --- mounts -------------------------------------------------------------------------------------- */

/* The element of ARRAY that has the same NAME; NULL. */
static const json_t *same(const json_t *array, const json_t *status, const char *name)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (json_equal(json_object_get(json_array_get(array, i), name), json_object_get(status, name)))
			return json_array_get(array, i);
	return NULL;
}

static const char *state_of(const json_t *status)
{
	if (!json_is_true(json_object_get(json_object_get(status, "server"), "connected")))
		return "AWAY";
	if (json_is_true(json_object_get(json_object_get(status, "server"), "fenced")))
		return "FENCED";
	return json_is_true(json_object_get(status, "stopping")) ? "ends" : "ok";
}

static const struct column mount_columns[] = {
	{"MOUNT", 16, true, 0},
	{"NODE", 10, true, 11},
	{"STATE", 6, true, 6},
	{"READ/s", 8, false, 0},
	{"WRITTEN/s", 9, false, 0},
	{"SERVED/s", 8, false, 8},
	{"HITS", 4, false, 7},
	{"BACKLOG", 8, false, 1},
	{"AGE", 6, false, 9},
	{"DRAIN", 6, false, 5},
	{"OPS/s", 7, false, 2},
	{"MEDIAN", 7, false, 4},
	{"99 %", 7, false, 3},
	{"RECALLS/s", 9, false, 10},
};

/* PATH in WIDTH characters: mount points differ at their ends. */
static void put_path(char *cell, const char *path, unsigned width)
{
	unsigned length = length_of(path);
	bool cut = length > width;

	for (; length > width - cut; path++)
		length -= ((unsigned char)path[1] & 0xc0) != 0x80;
	snprintf(cell, CELL, "%s%s", cut ? "<" : "", path);
}

static void put_mount(const struct kr_top_moment *moment, const struct table *table)
{
	const json_t *kinds = json_object_get(json_object_get(moment->now, "counters"), "requests");
	const json_t *former = json_object_get(json_object_get(moment->before, "counters"), "requests");
	json_t *now = all_buckets(kinds), *before = all_buckets(former);
	char cells[KR_ARRAY_SIZE(mount_columns)][CELL];

	put_path(cells[0], kr_text_of(moment->now, "mount_point"), table->columns[0].width);
	snprintf(cells[1], CELL, "%s", kr_text_of(moment->now, "node_name"));
	snprintf(cells[2], CELL, "%s", state_of(moment->now));
	put_bytes(cells[3], rate(moment, "counters", "read_bytes"));
	put_bytes(cells[4], rate(moment, "counters", "written_bytes"));
	put_bytes(cells[5], rate(moment, "ring", "sent_bytes"));
	put_share(cells[6], rate(moment, "counters", "cache_hits"), rate(moment, "counters", "cache_misses"));
	put_bytes(cells[7], number(moment->now, "backlog", "bytes"));
	put_seconds(cells[8], number(moment->now, "backlog", "oldest_ms") / 1000);
	put_drain(cells[9], number(moment->now, "backlog", "bytes"), rate(moment, "counters", "flushed_bytes"));
	put_times(&cells[10], now, before, moment->before != NULL, moment->seconds);
	put_count(cells[13], rate(moment, "counters", "recalls"));
	put_row(table, cells);
	json_decref(now);
	json_decref(before);
}

static void put_mount_details(const struct kr_top_moment *moment, FILE *out)
{
	const json_t *now = moment->now;
	char cells[8][CELL];

	put_bytes(cells[0], number(now, "cache", "bytes"));
	put_bytes(cells[1], number(now, "cache", "max_bytes"));
	put_bytes(cells[2], number(now, "journal", "used"));
	put_bytes(cells[3], number(now, "journal", "max"));
	put_bytes(cells[4], number(now, "backlog", "unstable_bytes"));
	put_bytes(cells[5], number(now, "process", "resident_bytes"));
	fputc('\n', out);
	put_line(out, moment->width, "cache %s of %s, journal %s of %s, not yet durable %s, memory %s", cells[0],
		cells[1], cells[2], cells[3], cells[4], cells[5]);
	put_bytes(cells[0], rate(moment, "ring", "received_bytes"));
	put_bytes(cells[1], rate(moment, "ring", "sent_bytes"));
	put_count(cells[2], rate(moment, "counters", "flushes"));
	put_bytes(cells[3], rate(moment, "counters", "flushed_bytes"));
	put_line(out, moment->width, "ring: fed by %.0f at %s/s, feeds %.0f at %s/s; flushes: %s/s of %s/s",
		number(now, "ring", "outgoing"), cells[0], number(now, "ring", "incoming"), cells[1], cells[2],
		cells[3]);
	put_line(out, moment->width,
		"open files %.0f, operations waiting %.0f, refused files %.0f, conflict files %.0f",
		number(now, "inodes", "open"), number(now, "operations", "count"),
		number(now, "backlog", "refused_files"), number(now, NULL, "conflict_files"));
	put_kinds(moment, "OPERATION", json_object_get(json_object_get(now, "counters"), "requests"),
		json_object_get(json_object_get(moment->before, "counters"), "requests"), out);
}

/* How wide the paths of mounts are shown: they get the room that the other columns leave. */
static unsigned path_width(const struct kr_top_moment *moment)
{
	unsigned all = 0, longest = mount_columns[0].width;

	for (size_t i = 0; i < KR_ARRAY_SIZE(mount_columns); i++)
		all += mount_columns[i].width + 1;
	for (size_t i = 0; i < json_array_size(moment->now); i++)
		longest = KR_MAX(longest, length_of(kr_text_of(json_array_get(moment->now, i), "mount_point")));
	return moment->width > all ? KR_MIN(longest, mount_columns[0].width + moment->width - all) :
				     mount_columns[0].width;
}

void kr_top_mounts(const struct kr_top_moment *moment, FILE *out)
{
	struct column columns[KR_ARRAY_SIZE(mount_columns)];
	struct table table;

	memcpy(columns, mount_columns, sizeof(columns));
	columns[0].width = path_width(moment);
	table_begin(&table, out, moment->width, columns, KR_ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(moment->now); i++) {
		struct kr_top_moment one = *moment;

		one.now = json_array_get(moment->now, i);
		one.before = same(moment->before, one.now, "mount_point");
		put_mount(&one, &table);
		if (json_array_size(moment->now) == 1)
			put_mount_details(&one, out);
	}
}

/* --- a server ------------------------------------------------------------------------------------ */

static const struct column node_columns[] = {
	{"NODE", 16, true, 0},
	{"STATE", 6, true, 1},
	{"BACKLOG", 8, false, 0},
	{"DRAIN", 6, false, 3},
	{"REFUSED", 8, false, 4},
	{"FROM/s", 8, false, 2},
	{"TO/s", 8, false, 2},
	{"OPENS", 6, false, 5},
	{"HEARD", 6, false, 6},
	{"RING", 10, true, 7},
	{"ADDRESS", 22, true, 8},
};

static void put_node(const struct kr_top_moment *moment, const struct table *table)
{
	const json_t *now = moment->now;
	double left = number(now, NULL, "unflushed_bytes"),
	       gone = moment->before ? number(moment->before, NULL, "unflushed_bytes") - left : 0;
	char cells[KR_ARRAY_SIZE(node_columns)][CELL];

	snprintf(cells[0], CELL, "%s", kr_text_of(now, "name"));
	snprintf(cells[1], CELL, "%s", json_is_true(json_object_get(now, "connected")) ? "ok" : "AWAY");
	put_bytes(cells[2], left);
	put_drain(cells[3], left, moment->seconds > 0 ? gone / moment->seconds : 0);
	put_bytes(cells[4], number(now, NULL, "refused_bytes"));
	put_bytes(cells[5], rate(moment, NULL, "received_bytes"));
	put_bytes(cells[6], rate(moment, NULL, "sent_bytes"));
	snprintf(cells[7], CELL, "%.0f", number(now, NULL, "opens"));
	put_seconds(cells[8], number(now, NULL, "silent_ms") / 1000);
	snprintf(cells[9], CELL, "%s", kr_text_of(now, "ring"));
	snprintf(cells[10], CELL, "%s", kr_text_of(now, "address"));
	put_row(table, cells);
}

static int in_ring(const void *a, const void *b)
{
	const json_t *const *one = a, *const *other = b;
	int rings = strcmp(kr_text_of(*one, "ring"), kr_text_of(*other, "ring"));

	return rings ? rings :
		       kr_ring_order(kr_text_of(*one, "name"), (uint32_t)number(*one, NULL, "node"),
			       kr_text_of(*other, "name"), (uint32_t)number(*other, NULL, "node"));
}

/* The nodes, ring by ring, in the order in which bytes go round. */
static void put_nodes(const struct kr_top_moment *moment, FILE *out)
{
	const json_t *nodes = json_object_get(moment->now, "nodes"), *former = json_object_get(moment->before, "nodes");
	size_t count = json_array_size(nodes);
	const json_t **sorted = kr_xcalloc(count + 1, sizeof(*sorted));
	struct table table;

	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(nodes, i);
	qsort(sorted, count, sizeof(*sorted), in_ring);
	fputc('\n', out);
	table_begin(&table, out, moment->width, node_columns, KR_ARRAY_SIZE(node_columns));
	for (size_t i = 0; i < count; i++) {
		struct kr_top_moment one = *moment;

		one.now = sorted[i];
		one.before = same(former, one.now, "node");
		put_node(&one, &table);
	}
	free(sorted);
}

/* The moment as seen from SECTION. */
static struct kr_top_moment within(const struct kr_top_moment *moment, const char *section)
{
	struct kr_top_moment inner = *moment;

	inner.now = json_object_get(moment->now, section);
	inner.before = json_object_get(moment->before, section);
	return inner;
}

static void put_server_figures(const struct kr_top_moment *moment, FILE *out)
{
	const struct kr_top_moment data = within(moment, "data");
	char cells[6][CELL];

	put_bytes(cells[0], rate(moment, "export", "read_bytes"));
	put_bytes(cells[1], rate(moment, "export", "write_bytes"));
	put_bytes(cells[2], rate(&data, "feed", "bytes"));
	put_bytes(cells[3], rate(&data, "writes", "flushed_bytes"));
	put_line(out, moment->width, "read %s/s, written %s/s, served %s/s, flushed %s/s", cells[0], cells[1], cells[2],
		cells[3]);
	put_count(cells[0], rate(moment, NULL, "requests_served"));
	put_count(cells[1], rate(moment, "leases", "recalls"));
	put_count(cells[2], rate(&data, "rounds", "inline"));
	put_count(cells[3], rate(&data, "rounds", "chained"));
	put_count(cells[4], rate(&data, "syncs", "number"));
	put_line(out, moment->width, "requests %s/s, lease recalls %s/s, rounds %s/s and %s/s chained, syncs %s/s",
		cells[0], cells[1], cells[2], cells[3], cells[4]);
	put_bytes(cells[0], number(moment->now, NULL, "nodes_unflushed_bytes"));
	put_bytes(cells[1], number(moment->now, "process", "resident_bytes"));
	put_line(out, moment->width, "backlog of all nodes %s, uncommitted files %.0f, parked requests %.0f, memory %s",
		cells[0], number(moment->now, "data", "uncommitted_files"), number(moment->now, "parked", "count"),
		cells[1]);
}

/* With a user's key there are the user's nodes alone. */
void kr_top_server(const struct kr_top_moment *moment, const char *name, FILE *out)
{
	const json_t *now = moment->now;
	char uptime[CELL];

	put_seconds(uptime, number(now, NULL, "uptime_ms") / 1000);
	put_line(out, moment->width, "%s: export %s%s, up %s, %zu mounts%s", name,
		kr_text_of(json_object_get(now, "export"), "path"),
		json_is_true(json_object_get(json_object_get(now, "export"), "present")) ? "" : " (GONE)", uptime,
		json_array_size(json_object_get(now, "nodes")),
		json_is_true(json_object_get(now, "grace")) ? "; waits for nodes to come back" : "");
	if (json_object_get(now, "data"))
		put_server_figures(moment, out);
	put_nodes(moment, out);
	put_kinds(moment, "REQUEST", json_object_get(now, "latencies"), json_object_get(moment->before, "latencies"),
		out);
}
