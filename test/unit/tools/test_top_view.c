/* The pictures of kairan top. */
#include "tools/top_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/util.h"

/* A mount's status with so many bytes read, of which 3 of 4 reads were hits, and reads of 3 us each. */
static json_t *mount_status(const char *mount_point, int reads, json_int_t read_bytes, json_int_t backlog)
{
	return json_pack("{s:s, s:s, s:{s:b, s:b}, s:{s:I, s:i}, s:{s:I, s:i, s:i, s:i, s:I, s:{s:{s:i, s:[i,i,i]}}}}",
		"mount_point", mount_point, "node_name", "n1", "server", "connected", 1, "fenced", 0, "backlog",
		"bytes", backlog, "oldest_ms", 2500, "counters", "read_bytes", read_bytes, "cache_hits", reads / 4 * 3,
		"cache_misses", reads / 4, "recalls", 0, "flushed_bytes", 2 * read_bytes, "requests", "read", "count",
		reads, "buckets", 0, 0, reads);
}

/* Takes NOW and BEFORE (may be NULL). */
static char *picture(json_t *now, json_t *before, unsigned width)
{
	struct kr_top_moment moment = {.now = now, .before = before, .seconds = 2, .width = width};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (json_is_array(now))
		kr_top_mounts(&moment, out);
	else
		kr_top_server(&moment, "fs1", out);
	fclose(out);
	json_decref(now);
	json_decref(before);
	return text;
}

static unsigned longest_line(const char *text)
{
	unsigned longest = 0, here = 0;

	for (; *text; text++) {
		if (*text == '\n')
			here = 0;
		else if (*text != KR_TOP_HEAD && ((unsigned char)*text & 0xc0) != 0x80)
			here++;
		longest = KR_MAX(longest, here);
	}
	return longest;
}

static void rates_are_of_the_time_between(void **state)
{
	char *text = picture(json_pack("[o]", mount_status("/mnt/data", 120, 6 << 20, 8 << 20)),
		json_pack("[o]", mount_status("/mnt/data", 80, 2 << 20, 0)), 200);

	(void)state;
	/* 4 MiB in 2 s; 8 MiB go at 4 MiB/s. */
	assert_non_null(strstr(text,
		"\n/mnt/data        n1         ok      2.0 MiB       0 B      0 B  75%  8.0 MiB   2.5s   "
		"2.0s    20.0     3us     4us       0.0\n"));
	assert_non_null(strstr(text, "\nread                 20.0      3us      4us\n"));
	free(text);
}

static void without_a_former_status_there_are_no_rates(void **state)
{
	char *text = picture(json_pack("[o]", mount_status("/mnt/data", 120, 6 << 20, 8 << 20)), NULL, 200);

	(void)state;
	assert_non_null(
		strstr(text, "ok            -         -        -    -  8.0 MiB   2.5s      -       -       -       -"));
	assert_null(strstr(text, "OPERATION"));
	free(text);
}

/* A daemon that was started anew counts from 0. */
static void counters_that_fall_have_no_rate(void **state)
{
	char *text = picture(json_pack("[o]", mount_status("/mnt/data", 8, 1 << 20, 0)),
		json_pack("[o]", mount_status("/mnt/data", 80, 2 << 20, 0)), 200);

	(void)state;
	assert_non_null(strstr(text, "ok            -"));
	assert_null(strstr(text, "OPERATION"));
	free(text);
}

static void no_line_is_wider_than_the_terminal(void **state)
{
	(void)state;
	for (unsigned width = 20; width < 220; width++) {
		char *text = picture(json_pack("[o,o]", mount_status("/mnt/回覧", 120, 6 << 20, 8 << 20),
					     mount_status("/a/mount/point/that/is/very/long", 1, 1, 1)),
			NULL, width);

		assert_non_null(strstr(text, "READ/s"));
		if (width >= 43) /* these stay in a terminal of any width */
			assert_in_range(longest_line(text), 34, width);
		free(text);
	}
}

static void a_path_is_whole_where_there_is_room(void **state)
{
	const char *path = "/a/mount/point/that/is/very/long/and/longer/than/any/terminal/is/in/which/it/would/be/cut";
	char *text = picture(json_pack("[o]", mount_status(path, 1, 1, 1)), NULL, 512);

	(void)state;
	assert_non_null(strstr(text, path));
	free(text);
}

static void nodes_come_in_the_order_of_the_ring(void **state)
{
	json_t *now = json_pack("{s:{s:s, s:b}, s:[{s:s,s:i,s:s},{s:s,s:i,s:s},{s:s,s:i,s:s}]}", "export", "path",
		"/srv", "present", 1, "nodes", "name", "n10", "node", 1, "ring", "", "name", "n9", "node", 2, "ring",
		"", "name", "n1", "node", 3, "ring", "rack2");
	char *text = picture(now, NULL, 120), *n9 = strstr(text, "\nn9 "), *n10 = strstr(text, "\nn10 "),
	     *n1 = strstr(text, "\nn1 ");

	(void)state;
	assert_true(n9 && n10 && n1 && n9 < n10 && n10 < n1);
	assert_non_null(strstr(text, "fs1: export /srv, up 0.0s, 3 mounts\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_of_the_time_between),
		cmocka_unit_test(without_a_former_status_there_are_no_rates),
		cmocka_unit_test(counters_that_fall_have_no_rate),
		cmocka_unit_test(no_line_is_wider_than_the_terminal),
		cmocka_unit_test(a_path_is_whole_where_there_is_room),
		cmocka_unit_test(nodes_come_in_the_order_of_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
