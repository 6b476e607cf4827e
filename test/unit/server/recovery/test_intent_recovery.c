/* What has become of a change of names, told by what its names stand for. */
#include "server/recovery/intent_recovery.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { NOTHING = 0, OURS = 1, THEIRS = 2, ANOTHER = 3 };
enum { MADE = KR_EXECUTED_DONE, NOT_MADE = KR_EXECUTED_BEGUN, NOBODY_KNOWS = KR_EXECUTED_INTENT };

static const struct kr_intent_recovery_name unseen = {.err = -ESTALE}, gone = {.err = -ESTALE, .gone = true};
static const struct kr_fid parent = {.length = 9, .bytes = "directory"};
static uint64_t value;

static struct kr_intent_recovery_name has(uint64_t file)
{
	return (struct kr_intent_recovery_name){.file = file, .type = file ? S_IFDIR : 0};
}

static int judge(enum kr_intent_kind kind, struct kr_intent_recovery_name name)
{
	struct kr_intent_change change = {.kind = kind,
		.type = S_IFDIR,
		.parent = &parent,
		.name = "name",
		.before = kind == KR_INTENT_REMOVE ? OURS : NOTHING,
		.other = kind == KR_INTENT_LINK ? OURS : NOTHING};

	return (int)kr_intent_recovery_judge(&change, &name, &(struct kr_intent_recovery_name){0}, &value);
}

/* Of OURS, to the name of OTHER. */
static int judge_rename(uint64_t other, struct kr_intent_recovery_name name, struct kr_intent_recovery_name new_name)
{
	struct kr_intent_change change = {
		.kind = KR_INTENT_RENAME, .parent = &parent, .name = "name", .before = OURS, .other = other};

	return (int)kr_intent_recovery_judge(&change, &name, &new_name, &value);
}

static void what_is_there_has_been_made(void **state)
{
	(void)state;
	assert_int_equal(judge(KR_INTENT_MAKE, has(OURS)), MADE);
	assert_int_equal(value, OURS);
	assert_int_equal(judge(KR_INTENT_MAKE, has(NOTHING)), NOT_MADE);
	assert_int_equal(judge(KR_INTENT_MAKE, unseen), NOBODY_KNOWS);
	assert_int_equal(
		judge(KR_INTENT_MAKE, (struct kr_intent_recovery_name){.file = ANOTHER, .type = S_IFREG}), NOT_MADE);
}

static void a_link_is_made_if_the_file_has_the_name(void **state)
{
	(void)state;
	assert_int_equal(judge(KR_INTENT_LINK, has(OURS)), MADE);
	assert_int_equal(value, kr_intent_value(KR_INTENT_LINK, &parent, "name"));
	assert_int_equal(judge(KR_INTENT_LINK, has(NOTHING)), NOT_MADE);
	assert_int_equal(judge(KR_INTENT_LINK, has(ANOTHER)), NOT_MADE);
	assert_int_equal(judge(KR_INTENT_LINK, unseen), NOBODY_KNOWS);
}

static void what_has_lost_its_name_has_been_removed(void **state)
{
	(void)state;
	assert_int_equal(judge(KR_INTENT_REMOVE, has(NOTHING)), MADE);
	assert_int_equal(value, kr_intent_value(KR_INTENT_REMOVE, &parent, "name"));
	assert_int_not_equal(value, kr_intent_value(KR_INTENT_LINK, &parent, "name"));
	assert_int_not_equal(value, kr_intent_value(KR_INTENT_REMOVE, &parent, "nam"));
	assert_int_equal(judge(KR_INTENT_REMOVE, gone), MADE);
	assert_int_equal(value, kr_intent_value(KR_INTENT_REMOVE, &parent, "name"));
	assert_int_equal(judge(KR_INTENT_REMOVE, has(OURS)), NOT_MADE);
	assert_int_equal(judge(KR_INTENT_REMOVE, has(ANOTHER)), MADE);
	assert_int_equal(judge(KR_INTENT_REMOVE, unseen), NOBODY_KNOWS);
}

static void a_rename_is_told_by_both_names(void **state)
{
	(void)state;
	assert_int_equal(judge_rename(NOTHING, has(NOTHING), has(OURS)), MADE);
	assert_int_equal(
		value, kr_intent_value(KR_INTENT_REMOVE, &parent, "name")); /* who takes the name away is told by it */
	assert_int_equal(judge_rename(NOTHING, has(OURS), has(NOTHING)), NOT_MADE);
	assert_int_equal(judge_rename(THEIRS, has(NOTHING), has(OURS)), MADE);
	assert_int_equal(judge_rename(THEIRS, has(OURS), has(THEIRS)), NOT_MADE);
	assert_int_equal(judge_rename(THEIRS, has(THEIRS), has(OURS)), MADE); /* an exchange */
	assert_int_equal(value, 0);
	assert_int_equal(judge_rename(THEIRS, has(OURS), unseen), NOT_MADE);
	assert_int_equal(judge_rename(THEIRS, unseen, has(OURS)), MADE); /* it was not there before */
	assert_int_equal(judge_rename(THEIRS, gone, has(OURS)), MADE);
	assert_int_equal(
		judge_rename(THEIRS, gone, has(ANOTHER)), NOBODY_KNOWS); /* it may have been moved on, or removed */
	assert_int_equal(judge_rename(THEIRS, has(NOTHING), has(ANOTHER)), NOBODY_KNOWS);
	assert_int_equal(judge_rename(THEIRS, has(NOTHING), unseen), NOBODY_KNOWS);
	assert_int_equal(
		judge_rename(OURS, has(OURS), has(OURS)), NOT_MADE); /* another name of the same file: nothing to do */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_has_been_made),
		cmocka_unit_test(a_link_is_made_if_the_file_has_the_name),
		cmocka_unit_test(what_has_lost_its_name_has_been_removed),
		cmocka_unit_test(a_rename_is_told_by_both_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
