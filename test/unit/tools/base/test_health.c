/* What makes `kairan status --check` say that somebody should look. */
#include "tools/base/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char well_mount[] =
	"{\"kind\": \"mount\", \"server\": {\"connected\": true, \"fenced\": false},"
	" \"backlog\": {\"bytes\": 7, \"refused_bytes\": 0, \"orphaned_bytes\": 0, \"unstable_bytes\": 5}, \"conflict_files\": 3,"
	" \"files\": [{\"path\": \"a\", \"dirty\": 7, \"late\": false}], \"conflicts\": [{\"path\": \"b\"}], \"damage\": [],"
	" \"journal\": {\"error\": \"\", \"slow_ms\": 0, \"set_aside\": 0, \"waiting\": true}}";
static const char well_server[] =
	"{\"kind\": \"server\", \"export\": {\"present\": true}, \"grace\": false, \"parked\": {\"count\": 0},"
	" \"conflicts\": [{\"path\": \"b\"}], \"nodes\": [{\"connected\": true, \"refused_bytes\": 0}, {\"connected\": true}]}";

/* Whether the status TEXT is well if its member NAME, of SECTION where that is not NULL, is VALUE. */
static bool is_well_with(const char *text, const char *section, const char *name, const char *value)
{
	json_t *status = json_loads(text, 0, NULL), *changed = json_loads(value, JSON_DECODE_ANY, NULL);
	bool result;

	assert_non_null(status);
	assert_non_null(changed);
	json_object_set_new(section ? json_object_get(status, section) : status, name, changed);
	result = kr_status_is_healthy(status);
	json_decref(status);
	return result;
}

static void a_mount_that_works_is_well(void **state)
{
	(void)state;
	assert_true(is_well_with(well_mount, NULL, "more", "1"));
	assert_true(is_well_with(well_mount, NULL, "files", "[]"));
}

static void a_mount_in_trouble_is_not(void **state)
{
	static const char *const troubles[][3] = {
		{"server", "connected", "false"},
		{"server", "fenced", "true"},
		{"backlog", "refused_bytes", "1"},
		{"backlog", "orphaned_bytes", "1"},
		{NULL, "damage", "[\"a\"]"},
		{"journal", "error", "\"Input/output error\""},
		{"journal", "slow_ms", "1"},
		{"journal", "set_aside", "1"},
		{NULL, "files", "[{\"late\": false}, {\"late\": true}]"},
		{NULL, "server", "null"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(troubles) / sizeof(*troubles); i++)
		assert_false(is_well_with(well_mount, troubles[i][0], troubles[i][1], troubles[i][2]));
}

static void a_server_that_works_is_well(void **state)
{
	(void)state;
	assert_true(is_well_with(well_server, NULL, "more", "1"));
	assert_true(is_well_with(well_server, NULL, "nodes", "[]"));
}

static void a_server_in_trouble_is_not(void **state)
{
	static const char *const troubles[][3] = {
		{"export", "present", "false"},
		{NULL, "grace", "true"},
		{"parked", "count", "1"},
		{NULL, "nodes", "[{\"connected\": true}, {\"connected\": false}]"},
		{NULL, "nodes", "[{\"connected\": true, \"refused_bytes\": 1}]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(troubles) / sizeof(*troubles); i++)
		assert_false(is_well_with(well_server, troubles[i][0], troubles[i][1], troubles[i][2]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_that_works_is_well),
		cmocka_unit_test(a_mount_in_trouble_is_not),
		cmocka_unit_test(a_server_that_works_is_well),
		cmocka_unit_test(a_server_in_trouble_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
