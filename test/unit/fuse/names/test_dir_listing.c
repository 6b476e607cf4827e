/* What a program that goes through a directory is going to look up next: programs of all kinds against a listing. */
#include "fuse/names/dir_listing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/rpc/lookups.h"
#include "common/rpc/attr_cache.h"
#include "common/base/util.h"
#include "common/rpc/wire.h"

enum { FILES = 1000 };

/* A node: what it has brought and not forgotten. */
static struct {
	struct kr_dir_listing *listing;
	bool noted[FILES], refused[FILES];
	unsigned requests, single, brought;
	uint64_t now_ms;
} node;

/* In the order of the directory neither inodes nor names ascend. */
static unsigned inode_of(unsigned i)
{
	return (i * 7919) % FILES;
}

static void name_of(unsigned i, char name[16])
{
	snprintf(name, 16, "f%03u", (i * 6007) % FILES);
}

static unsigned number_of(const char *name)
{
	char own[16];

	for (unsigned i = 0; i < FILES; i++) {
		name_of(i, own);
		if (strcmp(own, name) == 0)
			return i;
	}
	fail();
	return 0;
}

static void put_entry(struct kr_writer *w, uint64_t ino, uint64_t next, const char *name)
{
	kr_put_u64(w, ino);
	kr_put_u64(w, next);
	kr_put_u8(w, 8);
	kr_put_u8(w, (uint8_t)strlen(name));
	kr_put_bytes(w, name, strlen(name));
}

/* A page of the files FIRST to LAST - 1, whose cookies are their numbers + 1. */
static void list(unsigned first, unsigned last)
{
	struct kr_writer w;
	char name[16];

	kr_writer_init(&w);
	if (first == 0) {
		put_entry(&w, 1, 0, ".");
		put_entry(&w, 2, 0, "..");
	}
	for (unsigned i = first; i < last; i++) {
		name_of(i, name);
		put_entry(&w, inode_of(i), i + 1, name);
	}
	kr_dir_listing_add(node.listing, first, w.bytes, w.length);
	kr_writer_fini(&w);
}

static int set_up(void **state)
{
	(void)state;
	memset(&node, 0, sizeof(node));
	node.now_ms = 1000000;
	node.listing = kr_dir_listing_new();
	list(0, 600);
	list(600, FILES);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kr_dir_listing_free(node.listing);
	return 0;
}

static bool known(void *context, const char *name)
{
	(void)context;
	return node.noted[number_of(name)];
}

static bool unknown(void *context, const char *name)
{
	(void)context, (void)name;
	return false;
}

/* A program looks file I up. */
static void look(unsigned i)
{
	const char *names[KR_LOOKUPS_MAX];
	char name[16];
	size_t count;

	if (node.noted[i])
		return;
	name_of(i, name);
	node.requests++;
	count = kr_dir_listing_ahead(node.listing, name, node.now_ms, known, NULL, names);
	assert_true(count != 1 && count <= KR_LOOKUPS_MAX);
	if (count == 0) {
		node.single++;
		node.noted[i] = !node.refused[i];
		return;
	}
	assert_string_equal(names[0], name);
	for (size_t n = 0; n < count; n++) {
		unsigned number = number_of(names[n]);

		assert_false(node.noted[number]); /* nothing is asked for twice */
		node.noted[number] = !node.refused[number];
		node.brought++;
		kr_dir_listing_brought(node.listing, names[n], node.noted[number], node.now_ms);
	}
}

/* The file at place I of an order. */
static unsigned by_inode(unsigned i)
{
	for (unsigned n = 0; n < FILES; n++) {
		if (inode_of(n) == i)
			return n;
	}
	fail();
	return 0;
}

static unsigned by_name(unsigned i)
{
	char name[16];

	snprintf(name, sizeof(name), "f%03u", i);
	return number_of(name);
}

static unsigned as_listed(unsigned i)
{
	return i;
}

static void go_through(unsigned (*nth)(unsigned))
{
	for (unsigned i = 0; i < FILES; i++)
		look(nth(i));
}

static void a_directory_costs_few_requests_in_each_order(void **state)
{
	unsigned (*orders[])(unsigned) = {as_listed, by_inode, by_name};

	for (size_t i = 0; i < KR_ARRAY_SIZE(orders); i++) {
		go_through(orders[i]);
		assert_true(node.requests <= 12); /* 8 + 16 + 32 + 64 + 7 * 128 */
		assert_int_equal(node.single, 0);
		tear_down(state);
		set_up(state);
	}
}

static void a_program_may_leave_some_out_and_begin_anywhere(void **state)
{
	(void)state;
	for (unsigned i = 100; i < FILES; i += 1 + i % 3)
		look(i);
	assert_true(node.requests <= 13);
}

static void who_wants_few_files_gets_few(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		look((500 + i * 349) % FILES);
	assert_true(node.brought <= 4 * KR_DIR_LISTING_FIRST);
	assert_true(node.single >= 16);
}

static void the_first_names_can_be_asked_for_before_a_program_does(void **state)
{
	const char *names[KR_LOOKUPS_MAX];

	(void)state;
	node.noted[3] = true;
	assert_int_equal(kr_dir_listing_first(node.listing, known, NULL, names), KR_LOOKUPS_MAX);
	for (unsigned n = 0; n < KR_LOOKUPS_MAX; n++) {
		assert_int_equal(number_of(names[n]), n < 3 ? n : n + 1);
		node.noted[number_of(names[n])] = true;
		kr_dir_listing_brought(node.listing, names[n], true, node.now_ms);
	}
	assert_int_equal(kr_dir_listing_first(node.listing, known, NULL, names), 0); /* once */
	go_through(as_listed);
	assert_true(node.requests <= 7); /* it goes on with the sequence: 871 names, 128 at a time */
	assert_int_equal(node.single, 0);
}

static void where_nothing_can_be_noted_the_first_names_are_left_alone(void **state)
{
	const char *names[KR_LOOKUPS_MAX];

	(void)state;
	kr_dir_listing_restrain(node.listing);
	assert_int_equal(kr_dir_listing_first(node.listing, known, NULL, names), KR_LOOKUPS_MAX / 4);
	list(0, 600);
	kr_dir_listing_restrain(node.listing);
	kr_dir_listing_restrain(node.listing);
	kr_dir_listing_restrain(node.listing);
	assert_int_equal(kr_dir_listing_first(node.listing, known, NULL, names), 0);
}

static void what_is_refused_is_asked_for_by_itself_from_then_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i += 50)
		node.refused[i] = true;
	go_through(as_listed);
	assert_true(node.requests - node.single <= 12);
	node.requests = node.single = 0;
	go_through(as_listed);
	assert_int_equal(node.requests, node.single);
}

/* rm -r: each removal makes the node forget the whole directory. */
static void where_all_is_forgotten_again_nothing_is_brought_for_long(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		look(i);
		memset(node.noted, 0, sizeof(node.noted));
	}
	assert_true(node.brought <= 4 * KR_DIR_LISTING_FIRST);
	list(0, FILES); /* listed anew, it begins anew */
	node.brought = 0;
	look(0);
	assert_int_equal(node.brought, KR_DIR_LISTING_FIRST);
}

static void where_nothing_can_be_noted_it_is_soon_left(void **state)
{
	unsigned useless = 0;

	(void)state;
	memset(node.refused, true, sizeof(node.refused));
	for (unsigned i = 0; i < FILES; i++) {
		unsigned single = node.single;

		look(i);
		if (node.single == single) {
			kr_dir_listing_restrain(node.listing);
			useless++;
		}
	}
	assert_int_equal(useless, 3);
}

/* Files whose slots are one. */
static void a_few_that_are_forgotten_do_not_matter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		if (i % 100 == 99)
			node.noted[i] = false;
		look(i);
	}
	assert_true(node.requests <= 12 + FILES / 100);
}

static void what_has_grown_too_old_is_brought_again(void **state)
{
	(void)state;
	for (int round = 0; round < 5; round++) {
		node.requests = 0;
		go_through(as_listed);
		assert_true(node.requests <= 12);
		memset(node.noted, 0, sizeof(node.noted));
		node.now_ms += KR_ATTR_CACHE_MS;
	}
}

static void a_listing_that_goes_on_goes_on_with_the_sequence(void **state)
{
	(void)state;
	list(0, 600);
	for (unsigned i = 0; i < 600; i++)
		look(i);
	list(600, FILES);
	for (unsigned i = 600; i < FILES; i++)
		look(i);
	assert_true(node.requests <= 13);
	assert_int_equal(node.single, 0);
}

static void what_does_not_follow_and_what_is_not_listed_is_no_use(void **state)
{
	const char *names[KR_LOOKUPS_MAX];

	(void)state;
	list(0, 10);
	list(20, 30);
	look(20);
	look(21);
	look(22);
	assert_int_equal(node.single, 3);
	assert_int_equal(kr_dir_listing_ahead(node.listing, "none", 0, known, NULL, names), 0);
	assert_int_equal(kr_dir_listing_ahead(node.listing, "", 0, known, NULL, names), 0);
	kr_dir_listing_brought(node.listing, "none", true, 0);
}

static void malformed_entries_end_the_page(void **state)
{
	const char *names[KR_LOOKUPS_MAX];
	struct kr_writer w;
	const char *bad[] = {"a/b", ""};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		kr_writer_init(&w);
		put_entry(&w, 1, 1, "f000");
		put_entry(&w, 2, 2, bad[i]);
		put_entry(&w, 3, 3, "f001");
		kr_dir_listing_add(node.listing, 0, w.bytes, w.length);
		assert_int_equal(kr_dir_listing_ahead(node.listing, "f001", 0, known, NULL, names), 0);
		kr_dir_listing_add(node.listing, 0, w.bytes, 10);
		assert_int_equal(kr_dir_listing_ahead(node.listing, "f000", 0, known, NULL, names), 0);
		kr_writer_fini(&w);
	}
}

static void the_last_names_of_a_huge_directory_are_kept(void **state)
{
	const char *names[KR_LOOKUPS_MAX];
	struct kr_writer w;
	char name[300];

	(void)state;
	memset(name, 'x', sizeof(name));
	for (unsigned page = 0; page < 400; page++) {
		kr_writer_init(&w);
		for (unsigned i = 0; i < 200; i++) {
			snprintf(name + 240, 16, "%08u", page * 200 + i);
			put_entry(&w, i, page * 200 + i + 1, name);
		}
		kr_dir_listing_add(node.listing, page * 200, w.bytes, w.length);
		kr_writer_fini(&w);
		assert_true(kr_dir_listing_bytes(node.listing) < 20 << 20);
	}
	snprintf(name + 240, 16, "%08u", 400 * 200 - 101);
	assert_int_equal(kr_dir_listing_ahead(node.listing, name, 0, unknown, NULL, names), 0);
	snprintf(name + 240, 16, "%08u", 400 * 200 - 100);
	assert_int_equal(kr_dir_listing_ahead(node.listing, name, 0, unknown, NULL, names), KR_DIR_LISTING_FIRST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_directory_costs_few_requests_in_each_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_program_may_leave_some_out_and_begin_anywhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_wants_few_files_gets_few, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_first_names_can_be_asked_for_before_a_program_does, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			where_nothing_can_be_noted_the_first_names_are_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_refused_is_asked_for_by_itself_from_then_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			where_all_is_forgotten_again_nothing_is_brought_for_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(where_nothing_can_be_noted_it_is_soon_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_few_that_are_forgotten_do_not_matter, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_has_grown_too_old_is_brought_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_listing_that_goes_on_goes_on_with_the_sequence, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_does_not_follow_and_what_is_not_listed_is_no_use, set_up, tear_down),
		cmocka_unit_test_setup_teardown(malformed_entries_end_the_page, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_last_names_of_a_huge_directory_are_kept, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
