/* Names that the server's loss of power may undo, and what the node asks the server to restore. */
#include "fuse/names/uncommitted_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "common/base/util.h"

static struct kr_uncommitted_names *names;
static uint64_t now_ns;
static char told[1000]; /* "file:parent/name " for each */
static const char *unwanted;

static struct kr_fid fid_of(const char *text)
{
	struct kr_fid fid = {.length = (uint8_t)strlen(text)};

	memcpy(fid.bytes, text, fid.length);
	return fid;
}

static bool is_wanted(void *context, const struct kr_fid *fid)
{
	(void)context;
	return !unwanted || fid->length != strlen(unwanted) || memcmp(fid->bytes, unwanted, fid->length) != 0;
}

static void add(void *context, const struct kr_restore_request *request)
{
	size_t length = strlen(told);

	(void)context;
	snprintf(told + length, sizeof(told) - length, "%.*s:%.*s/%s ", request->file.length,
		(const char *)request->file.bytes, request->parent.length, (const char *)request->parent.bytes,
		request->name);
}

static struct kr_restore_request looked;

static void look(void *context, const struct kr_restore_request *request)
{
	(void)context;
	looked = *request;
}

static void assert_restores(const char *text)
{
	told[0] = '\0';
	kr_uncommitted_names_restore(names, add, NULL);
	assert_string_equal(told, text);
}

static void create(const char *fid, const char *parent, const char *name)
{
	const union kr_any_msg asked = {.create_request = {.parent = fid_of(parent), .name = name}};
	const union kr_any_msg reply = {
		.create_reply = {.created = 1, .file = fid_of(fid), .attr = {.mode = S_IFREG | 0644}}};

	kr_uncommitted_names_answered(names, KR_MSG_CREATE, &asked, &reply, now_ns);
}

static void make(const char *fid, const char *parent, const char *name, uint32_t mode)
{
	const union kr_any_msg asked = {.make_request = {.parent = fid_of(parent), .name = name}};
	const union kr_any_msg reply = {.make_reply = {.file = fid_of(fid), .attr = {.mode = mode}}};

	kr_uncommitted_names_answered(names, KR_MSG_MAKE, &asked, &reply, now_ns);
}

static void link_name(const char *fid, const char *parent, const char *name)
{
	const union kr_any_msg asked = {.link_request = {.file = fid_of(fid), .parent = fid_of(parent), .name = name}};

	kr_uncommitted_names_answered(names, KR_MSG_LINK, &asked, &(union kr_any_msg){0}, now_ns);
}

static void remove_name(const char *parent, const char *name)
{
	const union kr_any_msg asked = {.remove_request = {.parent = fid_of(parent), .name = name}};

	kr_uncommitted_names_answered(names, KR_MSG_REMOVE, &asked, &(union kr_any_msg){0}, now_ns);
}

static void rename_name(
	const char *parent, const char *name, const char *new_parent, const char *new_name, uint32_t flags)
{
	const union kr_any_msg asked = {.rename_request = {.parent = fid_of(parent),
						.name = name,
						.new_parent = fid_of(new_parent),
						.new_name = new_name,
						.flags = flags}};

	kr_uncommitted_names_answered(names, KR_MSG_RENAME, &asked, &(union kr_any_msg){0}, now_ns);
}

static int setup(void **state)
{
	(void)state;
	names = kr_uncommitted_names_new(is_wanted, NULL);
	now_ns = 100 * KR_NS_PER_S;
	unwanted = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kr_uncommitted_names_free(names);
	return 0;
}

static void a_file_is_restored_where_it_is_now(void **state)
{
	(void)state;
	create("F", "old", "f");
	assert_restores("F:old/f ");
	rename_name("old", "f", "other", "g", 0);
	assert_restores("F:other/g ");
	link_name("F", "old", "h");
	assert_restores("F:other/g F:old/h ");
	rename_name("old", "h", "other", "g", 0); /* does nothing */
	assert_restores("F:other/g F:old/h ");
	remove_name("other", "g");
	assert_restores("F:old/h ");
	unwanted = "F";
	assert_restores("");
}

static void a_removed_file_has_no_name(void **state)
{
	(void)state;
	create("F", "d", "f");
	create("T", "d", "");
	remove_name("d", "f");
	assert_restores("T:T/ F:F/ ");
	create("G", "d", "f");
	link_name("T", "d", "t");
	assert_restores("F:F/ G:d/f T:d/t ");
	rename_name("d", "f", "d", "t", 0);
	assert_restores("F:F/ T:T/ G:d/t ");
	rename_name("d", "was there", "d", "t", 0);
	assert_restores("F:F/ T:T/ G:G/ ");
}

static void a_removed_file_that_is_not_open_is_forgotten(void **state)
{
	(void)state;
	create("F", "d", "f");
	link_name("F", "d", "g");
	create("G", "d", "h");
	unwanted = "F";
	remove_name("d", "f");
	rename_name("d", "h", "d", "g", 0);
	unwanted = NULL;
	assert_restores("G:d/g ");
}

static void new_directories_come_before_what_is_in_them(void **state)
{
	(void)state;
	make("D", "root", "d", S_IFDIR | 0755);
	make("E", "D", "e", S_IFDIR | 0755);
	make("empty", "D", "empty", S_IFDIR | 0755);
	create("F", "E", "f");
	create("G", "E", "g");
	rename_name("root", "d", "root", "moved", 0);
	assert_restores("D:root/moved E:D/e F:E/f G:E/g ");
	remove_name("E", "f");
	remove_name("E", "g");
	remove_name("D", "e");
	assert_restores("F:F/ G:G/ ");
}

static void an_exchange_exchanges(void **state)
{
	(void)state;
	create("F", "d", "f");
	create("G", "e", "g");
	rename_name("d", "f", "e", "g", 2);
	assert_restores("F:e/g G:d/f ");
	rename_name("d", "f", "e", "was there", 2);
	assert_restores("F:e/g G:e/was there ");
	rename_name("d", "was there", "e", "g", 2);
	assert_restores("G:e/was there F:d/was there ");
}

static void only_what_was_made_is_restored(void **state)
{
	const union kr_any_msg asked = {.create_request = {.parent = fid_of("d"), .name = "f"}};
	const union kr_any_msg reply = {.create_reply = {.file = fid_of("F"), .attr = {.mode = S_IFREG | 0644}}};

	(void)state;
	kr_uncommitted_names_answered(names, KR_MSG_CREATE, &asked, &reply, now_ns);
	link_name("F", "d", "g");
	make("L", "d", "l", S_IFLNK | 0777);
	assert_restores("");
}

static void the_latest_attributes_count(void **state)
{
	const union kr_any_msg asked = {.setattr_request = {.file = fid_of("F")}};
	const union kr_any_msg reply = {.setattr_reply = {.attr = {.mode = S_IFREG | 0600, .uid = 7, .gid = 8}}};

	(void)state;
	create("F", "d", "f");
	kr_uncommitted_names_answered(names, KR_MSG_SETATTR, &asked, &reply, now_ns);
	kr_uncommitted_names_restore(names, look, NULL);
	assert_int_equal(looked.mode, S_IFREG | 0600);
	assert_int_equal(looked.uid, 7);
	assert_int_equal(looked.gid, 8);
}

static void what_is_settled_is_forgotten(void **state)
{
	(void)state;
	create("F", "d", "f");
	create("G", "d", "g");
	now_ns += KR_UNCOMMITTED_S * KR_NS_PER_S;
	rename_name("d", "f", "d", "h", 0);
	assert_restores("G:d/g F:d/h ");
	now_ns += KR_NS_PER_S;
	create("H", "d", "i");
	assert_restores("F:d/h H:d/i ");
	for (int i = 0; i < KR_UNCOMMITTED_MAX; i++) {
		char text[20];

		snprintf(text, sizeof(text), "%d", i);
		create(text, "d", text);
	}
	unwanted = "0";
	told[0] = '\0';
	kr_uncommitted_names_restore(names, add, NULL);
	assert_memory_equal(told, "1:d/1 2:d/2 ", 12);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_is_restored_where_it_is_now),
		TEST(a_removed_file_has_no_name),
		TEST(a_removed_file_that_is_not_open_is_forgotten),
		TEST(new_directories_come_before_what_is_in_them),
		TEST(an_exchange_exchanges),
		TEST(only_what_was_made_is_restored),
		TEST(the_latest_attributes_count),
		TEST(what_is_settled_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
