/* Who is the head of a job: never two, whatever is cut off, killed or started anew. */
#include "server/session/introductions.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LEASE = 100, ALICE = 1000, BOB = 1001 };

static struct kr_introductions table;

static int set_up(void **state)
{
	(void)state;
	kr_introductions_init(&table, LEASE, false, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kr_introductions_fini(&table);
	return 0;
}

static struct kr_introduce_request request_of(const char *job, int member)
{
	return (struct kr_introduce_request){
		.job = job, .member = {(uint8_t)member, (uint8_t)(member >> 8)}, .node = "n", .address = ""};
}

/* 'h': the member is head; 'w': it waits; 's': it is told where the head serves; '-': nothing; or -errno. */
static int ask(const char *job, int member, uint32_t uid, uint8_t flags, uint64_t now_ns)
{
	struct kr_introduce_request request = request_of(job, member);
	const struct kr_introduction *found;
	int err;

	request.flags = flags;
	err = kr_introduce(&table, &request, uid, now_ns, &found);
	if (err < 0)
		return err;
	if (!found)
		return '-';
	return kr_introduction_is_head(found, &request) ? 'h' : found->port ? 's' : 'w';
}

static int serve(const char *job, int member, uint64_t now_ns)
{
	struct kr_introduce_request request = request_of(job, member);
	const struct kr_introduction *found;
	int err;

	request.address = "10.0.0.1";
	request.port = (uint16_t)(5000 + member);
	err = kr_introduce(&table, &request, ALICE, now_ns, &found);
	if (err == 0)
		assert_int_equal(found->port, 5000 + member);
	return err;
}

static void first_is_head_and_others_wait_until_it_serves(void **state)
{
	(void)state;
	assert_int_equal(ask("a", 1, ALICE, 0, 1), 'h');
	assert_int_equal(ask("a", 2, ALICE, 0, 2), 'w');
	assert_int_equal(ask("a", 1, ALICE, 0, 3), 'h'); /* its connection broke before the answer */
	assert_int_equal(serve("a", 1, 4), 0);
	assert_int_equal(ask("a", 2, ALICE, 0, 5), 's');
	assert_int_equal(ask("b", 2, ALICE, 0, 6), 'h');
}

static void head_that_dies_before_it_serves_is_replaced(void **state)
{
	(void)state;
	assert_int_equal(ask("a", 1, ALICE, 0, 0), 'h');
	assert_int_equal(ask("a", 2, ALICE, 0, LEASE), 'w');
	assert_int_equal(ask("a", 2, ALICE, 0, LEASE + 1), 'h');
	assert_int_equal(ask("a", 3, ALICE, 0, LEASE + 2), 'w');
	assert_int_equal(serve("a", 1, LEASE + 3), -EEXIST); /* it was only stopped */
	assert_int_equal(ask("a", 1, ALICE, KR_INTRODUCE_LEAVE, LEASE + 4), -EEXIST);
	assert_int_equal(ask("a", 3, ALICE, 0, LEASE + 5), 'w');
}

static void head_that_is_cut_off_keeps_its_place_while_members_reach_it(void **state)
{
	(void)state;
	ask("a", 1, ALICE, 0, 0);
	assert_int_equal(serve("a", 1, 0), 0);
	assert_int_equal(ask("a", 2, ALICE, 0, 5 * LEASE), 's');
	assert_int_equal(serve("a", 1, 6 * LEASE), 0);
	assert_int_equal(ask("a", 2, ALICE, KR_INTRODUCE_UNANSWERED, 7 * LEASE), 's'); /* the server hears of it */
	assert_int_equal(ask("a", 2, ALICE, KR_INTRODUCE_UNANSWERED, 7 * LEASE + 1), 'h');
	assert_int_equal(serve("a", 1, 8 * LEASE), -EEXIST);
}

static void head_is_forgotten_after_long_silence(void **state)
{
	(void)state;
	ask("a", 1, ALICE, 0, 0);
	serve("a", 1, 0);
	assert_int_equal(ask("a", 2, ALICE, 0, KR_JOB_SILENT_LEASES * LEASE), 's');
	assert_int_equal(ask("a", 2, ALICE, 0, KR_JOB_SILENT_LEASES * LEASE + 1), 'h');
}

static void server_that_has_restarted_waits_for_heads(void **state)
{
	(void)state;
	kr_introductions_fini(&table);
	kr_introductions_init(&table, LEASE, true, 1000);
	assert_int_equal(ask("a", 2, ALICE, 0, 1001), '-');
	assert_int_equal(ask("a", 2, BOB, 0, 1001), '-');
	assert_int_equal(serve("a", 1, 1000 + LEASE / 2 - 1), 0); /* the head says again that it serves */
	assert_int_equal(ask("a", 2, ALICE, 0, 1000 + LEASE / 2 - 1), 's');
	assert_int_equal(ask("a", 3, BOB, 0, 1000 + LEASE / 2 - 1), '-');
	assert_int_equal(ask("b", 2, ALICE, 0, 1000 + LEASE / 2), 'h');
}

static void job_ends_when_its_head_leaves(void **state)
{
	(void)state;
	ask("a", 1, ALICE, 0, 0);
	serve("a", 1, 1);
	assert_int_equal(ask("a", 2, ALICE, KR_INTRODUCE_LEAVE, 2), -EEXIST);
	assert_int_equal(ask("a", 1, ALICE, KR_INTRODUCE_LEAVE, 3), '-');
	assert_int_equal(ask("a", 1, ALICE, KR_INTRODUCE_LEAVE, 4), '-');
	assert_int_equal(table.count, 0);
	assert_int_equal(ask("a", 2, BOB, 0, 5), 'h');
}

static void users_jobs_have_names_of_their_own(void **state)
{
	(void)state;
	ask("a", 1, ALICE, 0, 0);
	serve("a", 1, 1);
	assert_int_equal(ask("a", 1, BOB, KR_INTRODUCE_LEAVE, 1), '-');
	assert_int_equal(ask("a", 1, BOB, 0, 1), 'h'); /* of his own job */
	assert_int_equal(ask("a", 2, 0, 0, 1), 'h');
	assert_int_equal(ask("a", 3, BOB, 0, 1), 'w');
	assert_int_equal(ask("a", 3, ALICE, 0, 1), 's');
}

static void names_that_are_none_are_refused(void **state)
{
	static const char *const bad[] = {"", "a b", "a/b", "../a", "a\nb", "a\tb", "\033[2J", "\x7f"};
	char longest[KR_JOB_NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		struct kr_introduce_request request = request_of("a", 1);
		const struct kr_introduction *found;

		assert_int_equal(ask(bad[i], 1, ALICE, 0, 0), -EINVAL);
		request.node = bad[i];
		assert_int_equal(kr_introduce(&table, &request, ALICE, 0, &found), -EINVAL);
	}
	memset(longest, 'a', sizeof(longest));
	longest[KR_JOB_NAME_MAX + 1] = '\0';
	assert_int_equal(ask(longest, 1, ALICE, 0, 0), -EINVAL);
	longest[KR_JOB_NAME_MAX] = '\0';
	assert_int_equal(ask(longest, 1, ALICE, 0, 0), 'h');
	assert_int_equal(table.count, 1);
}

static void addresses_are_bounded(void **state)
{
	struct kr_introduce_request request = request_of("a", 1);
	char longest[KR_JOB_NAME_MAX + 2];
	const struct kr_introduction *found;

	(void)state;
	request.port = 1;
	assert_int_equal(kr_introduce(&table, &request, ALICE, 0, &found), -EINVAL);
	memset(longest, '1', sizeof(longest));
	longest[KR_JOB_NAME_MAX + 1] = '\0';
	request.address = longest;
	assert_int_equal(kr_introduce(&table, &request, ALICE, 0, &found), -EINVAL);
	longest[KR_JOB_NAME_MAX] = '\0';
	assert_int_equal(kr_introduce(&table, &request, ALICE, 0, &found), 0);
}

static void jobs_are_bounded(void **state)
{
	char name[16];

	(void)state;
	for (int i = 0; i < KR_JOBS_MAX + 1; i++) {
		snprintf(name, sizeof(name), "u%d", i);
		assert_int_equal(ask(name, i, ALICE, 0, 0), i < KR_JOBS_USER_MAX ? 'h' : -EUSERS);
	}
	assert_int_equal(table.count, KR_JOBS_USER_MAX);
	for (int i = KR_JOBS_USER_MAX; i < KR_JOBS_MAX + 1; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		assert_int_equal(ask(name, i, 0, 0, 0), i < KR_JOBS_MAX ? 'h' : -EUSERS);
	}
	assert_int_equal(ask("u0", 0, ALICE, KR_INTRODUCE_LEAVE, 0), '-');
	assert_int_equal(ask("more", 1, 0, 0, 0), 'h');
}

/* Members that ask, serve, leave and die at random.  A head that has served, has not left, and is heard within the
 * lease time is the one that everybody is told. */
static void there_is_never_a_second_head(void **state)
{
	enum { MEMBERS = 8, STEPS = 100000 };
	const char *text = getenv("RANDOM_SEED");
	int head = -1;
	uint64_t now = 0, heard = 0;

	(void)state;
	srandom(text ? (unsigned)atoi(text) : 1);
	for (int i = 0; i < STEPS; i++) {
		const int member = (int)(random() % MEMBERS);
		const bool lives = head >= 0 && now - heard <= LEASE;
		int result;

		switch (random() % 8) {
		case 0:
			result = serve("a", member, now);
			if (lives)
				assert_int_equal(result, member == head ? 0 : -EEXIST);
			if (result == 0) {
				head = member;
				heard = now;
			}
			break;
		case 1:
			result = ask("a", member, ALICE, KR_INTRODUCE_LEAVE, now);
			if (lives)
				assert_int_equal(result, member == head ? '-' : -EEXIST);
			head = result == '-' ? -1 : head;
			break;
		case 2:
			now += (uint64_t)(random() % (LEASE / 2));
			break;
		default:
			result = ask("a", member, ALICE, random() % 2 ? KR_INTRODUCE_UNANSWERED : 0, now);
			if (lives)
				assert_int_equal(result, member == head ? 'h' : 's');
			else if (result == 'h' && member != head)
				head = -1; /* another one starts to serve */
		}
	}
}

static void assert_shown(const uint32_t *owner, uint64_t now_ns, const char *expected)
{
	json_t *jobs = kr_introductions_status(&table, owner, now_ns);
	char *text = json_dumps(jobs, JSON_COMPACT | JSON_SORT_KEYS);

	assert_string_equal(text, expected);
	free(text);
	json_decref(jobs);
}

static void status_shows_each_user_their_jobs(void **state)
{
	static const uint32_t alice = ALICE, bob = BOB;
	const uint64_t second = UINT64_C(1000000000);

#define OF_ALICE \
	"{\"address\":\"10.0.0.1\",\"job\":\"a\",\"node\":\"n\",\"port\":5001,\"silent_ms\":2000,\"user\":1000}"
#define OF_BOB "{\"address\":\"\",\"job\":\"a\",\"node\":\"n\",\"port\":0,\"silent_ms\":2000,\"user\":1001}"
	(void)state;
	assert_shown(NULL, 0, "[]");
	ask("a", 1, ALICE, 0, second);
	serve("a", 1, second);
	ask("a", 2, BOB, 0, second);
	assert_shown(NULL, 3 * second, "[" OF_ALICE "," OF_BOB "]");
	assert_shown(&alice, 3 * second, "[" OF_ALICE "]");
	assert_shown(&bob, 3 * second, "[" OF_BOB "]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(first_is_head_and_others_wait_until_it_serves),
		TEST(head_that_dies_before_it_serves_is_replaced),
		TEST(head_that_is_cut_off_keeps_its_place_while_members_reach_it),
		TEST(head_is_forgotten_after_long_silence),
		TEST(server_that_has_restarted_waits_for_heads),
		TEST(job_ends_when_its_head_leaves),
		TEST(users_jobs_have_names_of_their_own),
		TEST(names_that_are_none_are_refused),
		TEST(addresses_are_bounded),
		TEST(jobs_are_bounded),
		TEST(there_is_never_a_second_head),
		TEST(status_shows_each_user_their_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
