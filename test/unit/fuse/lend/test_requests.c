/* What a borrower knows of its kernel's requests. */
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/util.h"
#include "fuse/lend/requests.h"

static const uint64_t long_ns = 10 * KR_NS_PER_S, start_ns = KR_NS_PER_S;

static void take(struct kr_lend_requests *requests, uint32_t opcode, uint64_t unique, uint64_t number)
{
	const struct fuse_in_header header = {
		.opcode = opcode, .unique = unique, .nodeid = number, .len = sizeof(header)};

	assert_true(kr_lend_requests_take(requests, &header, sizeof(header), start_ns));
}

static void answer(struct kr_lend_requests *requests, uint64_t unique, int32_t error, uint64_t number)
{
	struct {
		struct fuse_out_header head;
		struct fuse_entry_out entry;
	} reply = {.head = {.unique = unique, .error = error}, .entry.nodeid = number};

	assert_true(kr_lend_requests_answered(requests, &reply, sizeof(reply), long_ns, start_ns));
}

static void add(uint64_t number, void *sum)
{
	*(uint64_t *)sum += number;
}

static uint64_t sum_of_held(struct kr_lend_requests *requests)
{
	uint64_t sum = 0;

	kr_lend_requests_each_held(requests, add, &sum);
	return sum;
}

static void open_files_and_acls_are_held(void **state)
{
	struct {
		struct fuse_in_header header;
		struct fuse_getxattr_in in;
		char name[32];
	} acl = {.header = {.opcode = FUSE_GETXATTR, .unique = 8, .nodeid = 300}, .name = "system.posix_acl_access"};
	struct kr_lend_requests requests;

	(void)state;
	kr_lend_requests_init(&requests);
	take(&requests, FUSE_OPEN, 2, 10);
	answer(&requests, 2, 0, 0);
	take(&requests, FUSE_OPEN, 3, 10);
	answer(&requests, 3, 0, 0);
	take(&requests, FUSE_OPEN, 4, 1000);
	answer(&requests, 4, -13, 0);
	take(&requests, FUSE_CREATE, 5, 1);
	answer(&requests, 5, 0, 20);
	assert_int_equal(sum_of_held(&requests), 30);
	take(&requests, FUSE_RELEASE, 6, 10);
	assert_int_equal(sum_of_held(&requests), 30);
	take(&requests, FUSE_RELEASE, 7, 10);
	assert_int_equal(sum_of_held(&requests), 20);
	assert_true(kr_lend_requests_take(&requests, &acl, sizeof(acl), start_ns));
	assert_int_equal(sum_of_held(&requests), 320);
	take(&requests, FUSE_FORGET, 0, 300);
	assert_int_equal(sum_of_held(&requests), 20);
	kr_lend_requests_fini(&requests);
}

static void an_answer_nobody_waits_for_is_told(void **state)
{
	struct fuse_out_header head = {.unique = 4};
	struct kr_lend_requests requests;

	(void)state;
	kr_lend_requests_init(&requests);
	assert_false(kr_lend_requests_answered(&requests, &head, sizeof(head), long_ns, start_ns));
	take(&requests, FUSE_FLUSH, 4, 1);
	assert_true(kr_lend_requests_answered(&requests, &head, sizeof(head), long_ns, start_ns));
	assert_false(kr_lend_requests_answered(&requests, &head, sizeof(head), long_ns, start_ns));
	kr_lend_requests_fini(&requests);
}

struct lookup_reply {
	struct fuse_out_header head;
	struct fuse_entry_out entry;
};

static struct lookup_reply look_up(struct kr_lend_requests *requests, unsigned wait_ms, uint64_t most_ns)
{
	struct lookup_reply reply = {
		.head.unique = 2, .entry = {.entry_valid_nsec = 20000000, .attr_valid = 9, .attr_valid_nsec = 5}};

	take(requests, FUSE_LOOKUP, 2, 1);
	assert_true(
		kr_lend_requests_answered(requests, &reply, sizeof(reply), most_ns, start_ns + wait_ms * KR_NS_PER_MS));
	return reply;
}

static void late_answers_lend_nothing(void **state)
{
	struct kr_lend_requests requests;
	struct lookup_reply reply;

	(void)state;
	kr_lend_requests_init(&requests);
	reply = look_up(&requests, 100, long_ns);
	assert_int_equal(reply.entry.attr_valid, 9);
	assert_int_equal(reply.entry.attr_valid_nsec, 5);
	assert_int_equal(reply.entry.entry_valid_nsec, 20000000);
	reply = look_up(&requests, 0, 3 * KR_NS_PER_S / 2);
	assert_int_equal(reply.entry.attr_valid, 1);
	assert_int_equal(reply.entry.attr_valid_nsec, 500000000);
	reply = look_up(&requests, 101, long_ns);
	assert_int_equal(reply.entry.attr_valid + reply.entry.attr_valid_nsec + reply.entry.entry_valid_nsec, 0);
	kr_lend_requests_fini(&requests);
}

static void each_entry_of_a_late_listing_lends_nothing(void **state)
{
	struct {
		struct fuse_out_header head;
		uint8_t body[600];
	} reply = {.head.unique = 2};
	struct fuse_direntplus entry = {.entry_out = {.attr_valid = 7, .entry_valid = 7}, .dirent.namelen = 5};
	const size_t step = FUSE_DIRENTPLUS_SIZE(&entry), count = 3;
	struct kr_lend_requests requests;

	(void)state;
	kr_lend_requests_init(&requests);
	for (size_t i = 0; i < count; i++)
		memcpy(reply.body + i * step, &entry, sizeof(entry));
	take(&requests, FUSE_READDIRPLUS, 2, 1);
	assert_true(kr_lend_requests_answered(&requests, &reply, sizeof(reply.head) + count * step, 0, start_ns));
	for (size_t i = 0; i < count; i++) {
		memcpy(&entry, reply.body + i * step, sizeof(entry));
		assert_int_equal(entry.entry_out.attr_valid + entry.entry_out.entry_valid, 0);
	}
	kr_lend_requests_fini(&requests);
}

static void an_interrupt_of_a_wait_for_a_lock_comes_once(void **state)
{
	struct kr_lend_interrupt interrupt = {
		.header = {.opcode = FUSE_INTERRUPT, .unique = 3, .len = sizeof(interrupt)}, .in.unique = 2};
	struct kr_lend_interrupt found;
	struct kr_lend_requests requests;

	(void)state;
	kr_lend_requests_init(&requests);
	assert_false(kr_lend_requests_take(&requests, &interrupt, sizeof(interrupt), start_ns)); /* of no request */
	assert_false(kr_lend_requests_interrupt(&requests, start_ns, &found));
	take(&requests, FUSE_SETLKW, 2, 1);
	assert_false(kr_lend_requests_interrupt(&requests, start_ns, &found));
	assert_false(kr_lend_requests_take(&requests, &interrupt, sizeof(interrupt), start_ns));
	assert_true(kr_lend_requests_interrupt(&requests, start_ns, &found));
	assert_memory_equal(&found, &interrupt, sizeof(found));
	assert_false(kr_lend_requests_interrupt(&requests, start_ns, &found));
	kr_lend_requests_fini(&requests);
}

static void groups_are_the_callers(void **state)
{
	struct fuse_in_header header = {.opcode = FUSE_LOOKUP, .uid = 1, .pid = (uint32_t)getpid()};
	const gid_t some[] = {3, 70000, 5};
	uint32_t groups[KR_GROUPS_MAX];
	gid_t own[KR_GROUPS_MAX];
	int count;

	(void)state;
	(void)!setgroups(KR_ARRAY_SIZE(some), some); /* root alone may */
	count = getgroups(KR_GROUPS_MAX, own);
	assert_int_equal(kr_lend_requests_groups(&header, groups), count);
	for (int i = 0; i < count; i++) {
		bool found = false;

		for (int j = 0; j < count; j++)
			found |= groups[i] == own[j];
		assert_true(found);
	}
	header.opcode = FUSE_WRITE;
	assert_int_equal(kr_lend_requests_groups(&header, groups), 0);
	header = (struct fuse_in_header){.opcode = FUSE_LOOKUP, .uid = 1, .pid = 0};
	assert_int_equal(kr_lend_requests_groups(&header, groups), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_files_and_acls_are_held),
		cmocka_unit_test(an_answer_nobody_waits_for_is_told),
		cmocka_unit_test(late_answers_lend_nothing),
		cmocka_unit_test(each_entry_of_a_late_listing_lends_nothing),
		cmocka_unit_test(an_interrupt_of_a_wait_for_a_lock_comes_once),
		cmocka_unit_test(groups_are_the_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
