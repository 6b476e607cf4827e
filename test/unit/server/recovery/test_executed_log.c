/* The memory of executed requests: beyond a restart, not beyond a boot, the latest only. */
#include "server/recovery/executed_log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/table.h"
#include "server/export/intent.h"

static const uint8_t boot[16] = "boot", other_boot[16] = "another";
static const struct kr_fid parent = {.length = 9, .bytes = "directory"},
			   new_parent = {.length = 10, .bytes = "directory2"};
static char path[64];
static int dir;

static struct kr_executed_key key_of(uint64_t request)
{
	return (struct kr_executed_key){.node_id = "node", .incarnation = 3, .request = request};
}

static int setup(void **state)
{
	(void)state;
	strcpy(path, "/tmp/kr-test-executed-XXXXXX");
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	return dir < 0;
}

static int teardown(void **state)
{
	(void)state;
	unlinkat(dir, "executed", 0);
	close(dir);
	return rmdir(path);
}

static enum kr_executed_phase phase_of(
	struct kr_executed *executed, uint64_t request, int *ret_err, uint64_t *ret_value)
{
	struct kr_executed_key key = key_of(request);

	return kr_executed_find(executed, &key, ret_err, ret_value);
}

static void reopen(struct kr_executed **executed)
{
	kr_executed_close(*executed);
	assert_int_equal(kr_executed_open(dir, boot, executed), 0);
}

static void remembers_beyond_a_restart_but_not_beyond_a_boot(void **state)
{
	struct kr_executed_key done = key_of(1), failed = key_of(2), begun = key_of(3), other = key_of(1);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &done);
	kr_executed_begin(executed, &failed);
	kr_executed_begin(executed, &begun);
	kr_executed_end(executed, &done, 0, 77);
	kr_executed_end(executed, &failed, -ENOENT, 0);
	kr_executed_close(executed);

	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(err, 0);
	assert_int_equal(value, 77);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(err, -ENOENT);
	assert_int_equal(phase_of(executed, 3, &err, &value), KR_EXECUTED_BEGUN);
	assert_int_equal(phase_of(executed, 4, &err, &value), KR_EXECUTED_UNKNOWN);
	other.incarnation++;
	assert_int_equal(kr_executed_find(executed, &other, &err, &value), KR_EXECUTED_UNKNOWN);
	kr_executed_close(executed);

	assert_int_equal(kr_executed_open(dir, other_boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_UNKNOWN);
	kr_executed_close(executed);
}

static void forgets_the_oldest_first(void **state)
{
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	for (uint64_t i = 1; i <= KR_EXECUTED_SLOTS; i++) {
		struct kr_executed_key key = key_of(i);

		kr_executed_begin(executed, &key);
	}
	kr_executed_close(executed);
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_BEGUN);
	kr_executed_begin(executed, &(struct kr_executed_key){.request = 9});
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_UNKNOWN);
	for (uint64_t i = 2; i <= KR_EXECUTED_SLOTS; i++)
		assert_int_equal(phase_of(executed, i, &err, &value), KR_EXECUTED_BEGUN);
	kr_executed_close(executed);
}

/* One that is begun anew is found as it is now, also when the memory has gone round and at the next start; forgotten is
 * what is oldest then. */
static void the_latest_of_a_request_counts(void **state)
{
	struct kr_executed_key twice = key_of(1), first = key_of(2);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	for (int round = 0; round < 2; round++) {
		kr_executed_begin(executed, &twice);
		kr_executed_end(executed, &twice, 0, 1);
		kr_executed_begin(executed, &first);
		kr_executed_begin(executed, &twice);
		kr_executed_end(executed, &twice, 0, 2);
		assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
		assert_int_equal(value, 2);
		reopen(&executed);
		assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
		assert_int_equal(value, 2);
		for (uint64_t i = 0; i < KR_EXECUTED_SLOTS - 2; i++) {
			struct kr_executed_key key = key_of(100 + i);

			kr_executed_begin(executed, &key);
		}
		assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
		assert_int_equal(value, 2);
		assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_BEGUN);
		kr_executed_begin(executed, &(struct kr_executed_key){.request = 7});
		assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
		assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_UNKNOWN);
		kr_executed_begin(executed, &(struct kr_executed_key){.request = 8});
		assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_UNKNOWN);
	}
	kr_executed_close(executed);
}

/* The limit of files' sizes stands for a disk without room. */
static void a_file_that_cannot_be_written_is_removed_and_the_memory_goes_on(void **state)
{
	struct kr_executed_key before = key_of(1), after = key_of(2);
	struct kr_executed *executed;
	struct rlimit limit = {0}, none;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &before);
	kr_executed_end(executed, &before, 0, 5);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &none);
	limit.rlim_max = none.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	kr_executed_begin(executed, &after);
	assert_int_equal(faccessat(dir, "executed", F_OK, 0), -1);
	kr_executed_end(executed, &after, 0, 6);
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(value, 6);
	reopen(&executed);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_UNKNOWN);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_UNKNOWN);
	assert_false(kr_executed_was_complete(executed));
	kr_executed_close(executed);
}

static size_t hash_of(uint64_t request)
{
	struct kr_executed_key key = key_of(request);

	return kr_hash_bytes(&key, sizeof(key)) % KR_EXECUTED_SLOTS;
}

/* One that comes into the slot that it had before, and is looked for together with one that has the same hash and is
 * not there. */
static void a_request_takes_its_own_slot_over(void **state)
{
	struct kr_executed_key key = key_of(1);
	struct kr_executed *executed;
	uint64_t missing = 1000000, value = 0;
	int err = 0;

	(void)state;
	while (hash_of(missing) != hash_of(1))
		missing++;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	alarm(60); /* who looks in circles */
	kr_executed_begin(executed, &key);
	for (uint64_t i = 2; i <= KR_EXECUTED_SLOTS; i++) {
		struct kr_executed_key other = key_of(i);

		kr_executed_begin(executed, &other);
	}
	kr_executed_begin_again(executed, &key, true);
	assert_int_equal(phase_of(executed, missing, &err, &value), KR_EXECUTED_UNKNOWN);
	alarm(0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DOUBT);
	kr_executed_close(executed);
}

static void what_is_not_there_was_never_begun_unless_it_may_be_forgotten(void **state)
{
	struct kr_executed_key key = key_of(2), earlier = key_of(1),
			       of_another = {.node_id = "other", .incarnation = 3, .request = 1},
			       of_another_start = key_of(1);
	struct kr_executed *executed;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_false(kr_executed_was_complete(executed));
	assert_true(kr_executed_never(executed, &key));
	for (uint64_t i = 0; i < KR_EXECUTED_SLOTS; i++)
		kr_executed_begin(executed, &of_another);
	of_another_start.incarnation--;
	kr_executed_begin(executed, &of_another_start);
	assert_false(kr_executed_never(executed, &key));
	kr_executed_begin(executed, &earlier);
	assert_true(kr_executed_never(executed, &key));
	reopen(&executed);
	assert_false(kr_executed_was_complete(executed)); /* the grace period was not over */
	kr_executed_complete(executed);
	reopen(&executed);
	assert_true(kr_executed_was_complete(executed));
	assert_true(kr_executed_never(executed, &key));
	kr_executed_close(executed);
}

/* It is begun after what its node sent later, and is there when that is forgotten. */
static void a_repetition_tells_nothing_of_what_was_sent_after_it(void **state)
{
	struct kr_executed_key first = key_of(1), repeated = key_of(2), doubtful = key_of(3), last = key_of(4);
	struct kr_executed *executed;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &first);
	kr_executed_begin(executed, &last);
	kr_executed_end(executed, &last, 0, 77);
	for (uint64_t i = 0; i < KR_EXECUTED_SLOTS - 2; i++)
		kr_executed_begin(executed, &(struct kr_executed_key){.node_id = "other", .request = i});
	assert_true(kr_executed_never(executed, &repeated));
	kr_executed_begin_again(executed, &repeated, false);
	kr_executed_begin_again(executed, &doubtful, true);
	assert_false(kr_executed_never(executed, &last));
	kr_executed_end(executed, &repeated, 0, 78);
	kr_executed_end(executed, &doubtful, 0, 79);
	kr_executed_close(executed);
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_false(kr_executed_never(executed, &last));
	kr_executed_close(executed);
}

/* A repetition that is cut short, too, leaves what is known of the first. */
static void a_turn_that_was_cut_short_stays_in_doubt(void **state)
{
	struct kr_executed_key cut_short = key_of(1), unknown = key_of(2);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &cut_short);
	kr_executed_intent(
		executed, &cut_short, &(struct kr_intent_change){.parent = &parent, .name = "a", .before = 77});
	kr_executed_begin_again(executed, &cut_short, true);
	kr_executed_begin_again(executed, &unknown, true);
	kr_executed_close(executed);

	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_INTENT);
	assert_int_equal(value, 77);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DOUBT);
	kr_executed_intent(
		executed, &unknown, &(struct kr_intent_change){.parent = &parent, .name = "b", .before = 78});
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_INTENT);
	kr_executed_no_intent(executed, &unknown, KR_EXECUTED_DOUBT);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DOUBT);
	kr_executed_end(executed, &cut_short, 0, 79);
	assert_true(kr_executed_by_other(executed, &unknown, 79));
	assert_false(kr_executed_by_other(executed, &cut_short, 79));
	kr_executed_close(executed);
}

/* --- settling --------------------------------------------------------------------------------- */

/* Judged by BEFORE. */
static struct {
	int asked;
	struct kr_intent_change last;
	char name[KR_NAME_MAX + 1], new_name[KR_NAME_MAX + 1];
	struct kr_fid parent, new_parent;
} judged;

enum { MADE = 1000, NOT_MADE = 2000, NOBODY_KNOWS = 3000 };

static enum kr_executed_phase judge(void *context, const struct kr_intent_change *change, uint64_t *ret_value)
{
	assert_ptr_equal(context, &judged);
	judged.asked++;
	judged.last = *change;
	strcpy(judged.name, change->name);
	strcpy(judged.new_name, change->new_name);
	judged.parent = *change->parent;
	judged.new_parent = *change->new_parent;
	*ret_value = change->before + 1;
	return change->before == MADE      ? KR_EXECUTED_DONE :
		change->before == NOT_MADE ? KR_EXECUTED_BEGUN :
					     KR_EXECUTED_INTENT;
}

static int settle(struct kr_executed *executed)
{
	judged.asked = 0;
	kr_executed_settle(executed, judge, &judged);
	return judged.asked;
}

static void begin_turn(struct kr_executed *executed, uint64_t request, bool doubtful, uint64_t before)
{
	struct kr_executed_key key = key_of(request);
	struct kr_intent_change change = {.kind = KR_INTENT_MAKE, .parent = &parent, .name = "name", .before = before};

	if (doubtful)
		kr_executed_begin_again(executed, &key, true);
	else
		kr_executed_begin(executed, &key);
	kr_executed_intent(executed, &key, &change);
}

static void what_ended_in_its_turn_is_settled_by_who_looks(void **state)
{
	struct kr_executed_key gone = key_of(5), over = key_of(6), never = key_of(7), key = key_of(8);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	begin_turn(executed, 1, false, MADE);
	begin_turn(executed, 2, false, NOT_MADE);
	begin_turn(executed, 3, true, NOT_MADE);
	begin_turn(executed, 4, false, NOBODY_KNOWS);
	begin_turn(executed, 5, false, MADE);
	kr_executed_no_intent(executed, &gone, KR_EXECUTED_BEGUN);
	begin_turn(executed, 6, false, MADE);
	kr_executed_end(executed, &over, 0, 66);
	kr_executed_begin(executed, &never);

	reopen(&executed);
	assert_int_equal(settle(executed), 4);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(err, 0);
	assert_int_equal(value, MADE + 1);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_BEGUN);
	assert_int_equal(phase_of(executed, 3, &err, &value), KR_EXECUTED_DOUBT);
	assert_int_equal(phase_of(executed, 4, &err, &value), KR_EXECUTED_INTENT);
	assert_int_equal(value, NOBODY_KNOWS);
	assert_int_equal(phase_of(executed, 5, &err, &value), KR_EXECUTED_BEGUN);
	assert_int_equal(phase_of(executed, 6, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(value, 66);
	assert_int_equal(phase_of(executed, 7, &err, &value), KR_EXECUTED_BEGUN);

	/* Later on nobody could tell by what is there. */
	reopen(&executed);
	assert_int_equal(settle(executed), 0);
	assert_int_equal(phase_of(executed, 4, &err, &value), KR_EXECUTED_INTENT);

	/* Whose turn comes once more, and ends again, is as far as it was. */
	key = key_of(4);
	kr_executed_begin_again(executed, &key, true);
	kr_executed_intent(
		executed, &key, &(struct kr_intent_change){.parent = &parent, .name = "name", .before = NOT_MADE});
	reopen(&executed);
	assert_int_equal(settle(executed), 1);
	assert_int_equal(phase_of(executed, 4, &err, &value), KR_EXECUTED_INTENT);
	kr_executed_close(executed);
}

static void who_looks_is_told_of_all_of_the_change(void **state)
{
	struct kr_intent_change change = {.kind = KR_INTENT_RENAME,
		.type = 7,
		.parent = &parent,
		.before = MADE,
		.other = 12,
		.new_parent = &new_parent};
	char name[KR_NAME_MAX + 1] = "", new_name[KR_NAME_MAX + 1] = "";
	struct kr_executed_key key = key_of(1);
	struct kr_executed *executed;

	(void)state;
	memset(name, 'n', KR_NAME_MAX);
	memset(new_name, 'm', KR_NAME_MAX);
	change.name = name;
	change.new_name = new_name;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &key);
	kr_executed_intent(executed, &key, &change);
	reopen(&executed);
	assert_int_equal(settle(executed), 1);
	assert_int_equal(judged.last.kind, KR_INTENT_RENAME);
	assert_int_equal(judged.last.type, 7);
	assert_int_equal(judged.last.other, 12);
	assert_string_equal(judged.name, name);
	assert_string_equal(judged.new_name, new_name);
	assert_true(kr_fid_equal(&judged.parent, &parent));
	assert_true(kr_fid_equal(&judged.new_parent, &new_parent));
	kr_executed_close(executed);
}

static void of_turns_beyond_the_room_nobody_can_tell(void **state)
{
	struct kr_executed_key key = key_of(1);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	for (uint64_t i = 1; i <= KR_EXECUTED_INTENTS + 1; i++)
		begin_turn(executed, i, false, MADE);
	kr_executed_end(executed, &key, 0, 0); /* makes room */
	begin_turn(executed, KR_EXECUTED_INTENTS + 2, false, MADE);
	reopen(&executed);
	assert_int_equal(settle(executed), KR_EXECUTED_INTENTS);
	assert_int_equal(phase_of(executed, KR_EXECUTED_INTENTS + 1, &err, &value), KR_EXECUTED_INTENT);
	assert_int_equal(phase_of(executed, KR_EXECUTED_INTENTS + 2, &err, &value), KR_EXECUTED_DONE);
	kr_executed_close(executed);
}

static void the_memory_of_another_version_is_forgotten(void **state)
{
	struct kr_executed_key key = key_of(1);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0, fd;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	begin_turn(executed, 1, false, MADE);
	kr_executed_close(executed);
	fd = openat(dir, "executed", O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "kairan turns 3", 15, 16), 15);
	assert_int_equal(ftruncate(fd, (KR_EXECUTED_SLOTS + 1) * 64), 0);
	close(fd);
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(settle(executed), 0);
	assert_int_equal(kr_executed_find(executed, &key, &err, &value), KR_EXECUTED_UNKNOWN);
	kr_executed_close(executed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(remembers_beyond_a_restart_but_not_beyond_a_boot, setup, teardown),
		cmocka_unit_test_setup_teardown(a_turn_that_was_cut_short_stays_in_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(what_ended_in_its_turn_is_settled_by_who_looks, setup, teardown),
		cmocka_unit_test_setup_teardown(who_looks_is_told_of_all_of_the_change, setup, teardown),
		cmocka_unit_test_setup_teardown(of_turns_beyond_the_room_nobody_can_tell, setup, teardown),
		cmocka_unit_test_setup_teardown(the_memory_of_another_version_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_file_that_cannot_be_written_is_removed_and_the_memory_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(the_latest_of_a_request_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_takes_its_own_slot_over, setup, teardown),
		cmocka_unit_test_setup_teardown(forgets_the_oldest_first, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_not_there_was_never_begun_unless_it_may_be_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_repetition_tells_nothing_of_what_was_sent_after_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
