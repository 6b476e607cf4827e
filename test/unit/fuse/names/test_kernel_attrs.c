/* Attributes in the kernel (fuse/names/kernel_attrs.h), against a model of the kernel and of other nodes that change a
 * file: replies are installed late, inodes are evicted, FORGETs arrive late, in every order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/stat.h>

#include "common/base/util.h"
#include "common/rpc/attr_cache.h"
#include "fuse/names/inode_table.h"

enum { BUCKET = 7, UNTIL = 1000, REPLIES = 4, FORGETS = 64 };

static struct kr_fid fid_of(unsigned number)
{
	struct kr_fid fid = {.length = sizeof(number)};

	memcpy(fid.bytes, &number, sizeof(number));
	return fid;
}

static struct kr_inodes *make(void)
{
	struct kr_fid root = fid_of(0);
	struct kr_inodes *inodes;

	assert_int_equal(kr_inodes_new(&root, &inodes), 0);
	return inodes;
}

static uint64_t learn(struct kr_inodes *inodes, unsigned number)
{
	struct kr_fid fid = fid_of(number);
	const struct kr_attr attr = {.mode = S_IFREG | 0644};
	uint64_t found, generation;

	assert_int_equal(kr_inode_learn(inodes, &fid, &attr, NULL, NULL, &found, &generation), 0);
	return found;
}

/* --- the table of grants ----------------------------------------------------------------------- */

static void grants_are_taken_by_bucket_once(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_inode_grant grants[8];
	uint64_t a = learn(inodes, 1), b = learn(inodes, 2), c = learn(inodes, 3);

	(void)state;
	kr_inode_grant(inodes, a, 5, UNTIL);
	kr_inode_grant(inodes, b, 5, UNTIL);
	kr_inode_grant(inodes, c, 6, UNTIL);
	kr_inode_grant(inodes, c, 6, UNTIL / 2); /* the longest counts */
	assert_true(kr_inodes_granted(inodes, 5, 1));
	assert_int_equal(kr_inodes_take_grants(inodes, 5, 1, grants, 8), 2);
	assert_int_equal(grants[0].number + grants[1].number, a + b);
	assert_false(kr_inodes_granted(inodes, 5, 1));
	assert_int_equal(kr_inodes_take_grants(inodes, 5, 1, grants, 8), 0);
	assert_int_equal(kr_inodes_take_grants(inodes, 6, UNTIL - 1, grants, 8), 1);
	assert_int_equal(grants[0].until_ns, UNTIL);
	kr_inodes_free(inodes);
}

static void all_are_taken_in_parts(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_inode_grant grants[4];
	size_t count, total = 0;

	(void)state;
	for (unsigned i = 1; i <= 10; i++)
		kr_inode_grant(inodes, learn(inodes, i), i, UNTIL);
	do
		total += count = kr_inodes_take_grants(inodes, KR_ATTR_CACHE_ALL, 1, grants, 4);
	while (count == 4);
	assert_int_equal(total, 10);
	assert_false(kr_inodes_granted(inodes, KR_ATTR_CACHE_ALL, 1));
	kr_inodes_free(inodes);
}

static void what_has_expired_or_is_forgotten_is_not_taken(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_inode_grant grants[4];
	struct kr_fid fid = fid_of(1);
	uint64_t number = learn(inodes, 1);

	(void)state;
	kr_inode_grant(inodes, number, 5, UNTIL);
	assert_int_equal(kr_inodes_take_grants(inodes, 5, UNTIL, grants, 4), 0);
	kr_inode_grant(inodes, number, 5, UNTIL);
	assert_int_equal(kr_inode_take_grant_of(inodes, &fid, 1), number);
	assert_int_equal(kr_inode_take_grant_of(inodes, &fid, 1), 0);
	kr_inode_grant(inodes, number, 5, UNTIL);
	kr_inode_forget(inodes, number, 1);
	assert_false(kr_inodes_granted(inodes, 5, 1));
	kr_inodes_free(inodes);
}

static void a_reply_may_be_under_way_while_the_kernel_has_not_given_all_lookups_back(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_inode_grant grant;
	uint64_t number = learn(inodes, 1);

	(void)state;
	kr_inode_grant(inodes, number, 5, UNTIL);
	assert_int_equal(kr_inodes_take_grants(inodes, 5, 1, &grant, 1), 1);
	assert_false(kr_inode_grant_ended(inodes, &grant, -ENOENT, 1));
	assert_true(kr_inode_grant_ended(inodes, &grant, 0, 1));
	assert_true(kr_inode_grant_ended(inodes, &grant, -ENOTCONN, 1));
	assert_true(kr_inode_grant_ended(inodes, &grant, -ENOENT, UNTIL));
	kr_inode_forget(inodes, number, 1);
	assert_true(kr_inode_grant_ended(inodes, &grant, -ENOENT, 1));
	learn(inodes, 1); /* another one, after INVALIDATE */
	assert_true(kr_inode_grant_ended(inodes, &grant, -ENOENT, 1));
	kr_inodes_free(inodes);
}

/* --- the model --------------------------------------------------------------------------------- */

/* A request of the kernel for the file, from when it is made to when its reply is installed. */
struct request {
	enum { NONE, MADE, ENTERED, ANSWERED } state;
	bool getattr;                /* it holds the inode; else it is a LOOKUP */
	uint64_t version, evictions; /* when it was made */
	uint64_t number;
	unsigned value, true_value;
	bool timeout;
};

/* The file's attributes are one number.  It is `value` at the server; `cached` in the node's attribute cache. */
static struct world {
	struct kr_inodes *inodes;
	/* kernel */
	bool known, valid;
	uint64_t lookups, version, inode_version, evictions;
	uint64_t number;
	unsigned shown;
	struct request requests[REPLIES];
	struct {
		uint64_t number, count;
	} forgets[FORGETS]; /* on their way */
	unsigned forget_count;
	/* node */
	bool is_cached;
	unsigned cached;
	enum { IDLE, INVALIDATED, TAKEN } invalidate;
	struct kr_inode_grant grant;
	/* server */
	unsigned value;
	bool changing; /* no reply may be cached */
	unsigned stale_looks, looks, again, late_inodes;
	bool forget_enoent, forget_evictions; /* mutants */
} w;

static struct kr_fid file;

static void make_request(struct request *request)
{
	request->getattr = w.known && rand() % 2;
	request->version = w.version;
	request->evictions = w.evictions;
	request->number = w.number;
	request->state = MADE;
}

/* The daemon finds what it will answer, and enters a grant. */
static void enter(struct request *request)
{
	if (!w.is_cached && !w.changing) {
		w.is_cached = true;
		w.cached = w.value;
	}
	request->value = w.is_cached ? w.cached : w.value;
	if (!request->getattr)
		request->number = learn(w.inodes, 1);
	kr_inode_grant(w.inodes, request->number, BUCKET, UNTIL);
	request->state = ENTERED;
}

/* It looks whether that is still true, and writes the reply. */
static void reply(struct request *request)
{
	request->timeout = w.is_cached && w.cached == request->value;
	request->state = ANSWERED;
}

static void install(struct request *request)
{
	bool made = false;

	request->state = NONE;
	if (!w.known) {
		w.known = made = true;
		w.number = request->number;
		w.lookups = 0;
		w.inode_version = 0;
		w.valid = false;
		w.late_inodes++;
	}
	if (!request->getattr)
		w.lookups++;
	if (w.inode_version > request->version)
		return;
	w.valid = request->timeout && (!made || w.forget_evictions || w.evictions == request->evictions);
	w.shown = request->value;
	w.inode_version = ++w.version;
}

static bool held(void)
{
	for (int i = 0; i < REPLIES; i++)
		if (w.requests[i].state != NONE && w.requests[i].getattr)
			return true;
	return false;
}

static void evict(void)
{
	if (!w.known || held() || w.forget_count == FORGETS)
		return;
	w.known = false;
	w.evictions++;
	w.forgets[w.forget_count].number = w.number;
	w.forgets[w.forget_count++].count = w.lookups;
}

static void deliver_forget(void)
{
	unsigned which;

	if (!w.forget_count)
		return;
	which = (unsigned)rand() % w.forget_count;
	kr_inode_forget(w.inodes, w.forgets[which].number, w.forgets[which].count);
	w.forgets[which] = w.forgets[--w.forget_count];
}

/* INVALIDATE in its steps; the server changes the file when it is answered. */
static void step_invalidate(void)
{
	int err;

	if (w.invalidate == IDLE) {
		w.changing = true;
		w.is_cached = false;
		w.invalidate = INVALIDATED;
	} else if (w.invalidate == INVALIDATED) {
		w.invalidate = TAKEN;
		if (kr_inodes_take_grants(w.inodes, BUCKET, 1, &w.grant, 1) == 0)
			goto answered;
	} else {
		err = w.known && w.number == w.grant.number ? 0 : -ENOENT;
		if (!err) {
			w.inode_version = ++w.version;
			w.valid = false;
		}
		if (!w.forget_enoent && !kr_inode_grant_ended(w.inodes, &w.grant, err, 1)) {
			w.again++;
			return;
		}
		goto answered;
	}
	return;
answered:
	w.value++;
	w.changing = false;
	w.invalidate = IDLE;
}

static void look_around(void)
{
	w.looks++;
	if (w.known && w.valid && w.shown != w.value)
		w.stale_looks++;
}

static void step(void)
{
	struct request *request = &w.requests[rand() % REPLIES];

	switch (rand() % 8) {
	case 0:
	case 1:
	case 2:
	case 3:
		if (request->state == NONE)
			make_request(request);
		else if (request->state == MADE)
			enter(request);
		else if (request->state == ENTERED)
			reply(request);
		else
			install(request);
		break;
	case 4:
		evict();
		break;
	case 5:
		deliver_forget();
		break;
	default:
		step_invalidate();
		break;
	}
	look_around();
}

static void play(unsigned seed)
{
	srand(seed);
	w = (struct world){.inodes = make(), .forget_enoent = w.forget_enoent, .forget_evictions = w.forget_evictions};
	file = fid_of(1);
	for (int i = 0; i < 200000; i++)
		step();
	kr_inodes_free(w.inodes);
}

static void no_order_of_events_leaves_old_attributes_in_the_kernel(void **state)
{
	(void)state;
	w.forget_enoent = w.forget_evictions = false;
	for (unsigned seed = 1; seed <= 20; seed++) {
		play(seed);
		assert_int_equal(w.stale_looks, 0);
		assert_true(w.again > 100 && w.late_inodes > 100);
	}
}

static void without_the_wait_for_a_late_reply_old_attributes_stay(void **state)
{
	(void)state;
	w.forget_enoent = true;
	w.forget_evictions = false;
	play(1);
	assert_true(w.stale_looks > 0);
}

static void a_kernel_that_does_not_count_evictions_keeps_old_attributes(void **state)
{
	(void)state;
	w.forget_enoent = false;
	w.forget_evictions = true;
	play(1);
	assert_true(w.stale_looks > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_are_taken_by_bucket_once),
		cmocka_unit_test(all_are_taken_in_parts),
		cmocka_unit_test(what_has_expired_or_is_forgotten_is_not_taken),
		cmocka_unit_test(a_reply_may_be_under_way_while_the_kernel_has_not_given_all_lookups_back),
		cmocka_unit_test(no_order_of_events_leaves_old_attributes_in_the_kernel),
		cmocka_unit_test(without_the_wait_for_a_late_reply_old_attributes_stay),
		cmocka_unit_test(a_kernel_that_does_not_count_evictions_keeps_old_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
