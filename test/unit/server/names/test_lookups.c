/* LOOKUPS: the lists on the wire, and what the server says of many names, against what LOOKUP says of each. */
#include "test/unit/server/session/server_fixture.h"

#include <fcntl.h>

#include "common/rpc/lookups.h"
#include "common/rpc/attr_cache.h"
#include "server/leases/invalidation.h"

/* --- the lists -------------------------------------------------------------------------------- */

static void names_come_out_as_they_went_in(void **state)
{
	char name[KR_NAME_MAX + 1], longest[KR_NAME_MAX + 1];
	struct kr_writer w;
	struct kr_reader r;

	(void)state;
	memset(longest, 'x', KR_NAME_MAX);
	longest[KR_NAME_MAX] = '\0';
	kr_writer_init(&w);
	kr_lookups_put_name(&w, "a");
	kr_lookups_put_name(&w, longest);
	assert_memory_equal(w.bytes, "\1a\377xxx", 6);
	kr_reader_init(&r, w.bytes, w.length);
	assert_int_equal(kr_lookups_take_name(&r, name), 1);
	assert_string_equal(name, "a");
	assert_int_equal(kr_lookups_take_name(&r, name), 1);
	assert_string_equal(name, longest);
	assert_int_equal(kr_lookups_take_name(&r, name), 0);
	for (size_t cut = 3; cut < w.length; cut++) {
		kr_reader_init(&r, w.bytes, cut);
		assert_int_equal(kr_lookups_take_name(&r, name), 1);
		assert_int_equal(kr_lookups_take_name(&r, name), -EBADMSG);
	}
	kr_writer_fini(&w);
}

static void names_that_cannot_be_are_refused(void **state)
{
	const struct {
		const char *bytes;
		size_t length;
	} bad[] = {{"\0", 1}, {"\3a/b", 4}, {"\3a\0b", 4}};
	char name[KR_NAME_MAX + 1];
	struct kr_reader r;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		kr_reader_init(&r, bad[i].bytes, bad[i].length);
		assert_int_equal(kr_lookups_take_name(&r, name), -EBADMSG);
	}
}

static void what_was_found_comes_out_as_it_went_in(void **state)
{
	struct kr_found file = {.number = 3,
		.kind = KR_FOUND_BARE,
		.fid = {2, {7, 8}},
		.attr = {.ino = 9, .size = 10, .mtime = {11, 12}}};
	struct kr_found nothing = {.number = 127}, found;
	struct kr_writer w;
	struct kr_reader r;
	int last = -1;

	(void)state;
	kr_writer_init(&w);
	kr_lookups_put_found(&w, &file);
	kr_lookups_put_found(&w, &nothing);
	assert_memory_equal(w.bytes, "\3\2\2\7\10\0\0\0\0\0\0\0\11", 13);
	assert_memory_equal(w.bytes + w.length - 2, "\177\0", 2);
	kr_reader_init(&r, w.bytes, w.length);
	assert_int_equal(kr_lookups_take_found(&r, &last, &found), 1);
	assert_true(found.number == 3 && found.kind == KR_FOUND_BARE && kr_fid_equal(&found.fid, &file.fid));
	assert_true(found.attr.ino == 9 && found.attr.size == 10 && found.attr.mtime.sec == 11 &&
		found.attr.mtime.nsec == 12);
	assert_int_equal(kr_lookups_take_found(&r, &last, &found), 1);
	assert_true(found.number == 127 && found.kind == KR_FOUND_NOTHING);
	assert_int_equal(kr_lookups_take_found(&r, &last, &found), 0);
	for (size_t cut = 1; cut < w.length - 2; cut++) {
		last = -1;
		kr_reader_init(&r, w.bytes, cut);
		assert_int_equal(kr_lookups_take_found(&r, &last, &found), -EBADMSG);
	}
	kr_writer_fini(&w);
}

static void numbers_ascend_and_kinds_are_known(void **state)
{
	const char *bad[] = {"\200\0", "\1\3", "\1\0\1\0", "\2\0\1\0"};
	const size_t lengths[] = {2, 2, 4, 4};
	struct kr_found found;
	struct kr_reader r;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		int last = -1, r1;

		kr_reader_init(&r, bad[i], lengths[i]);
		r1 = kr_lookups_take_found(&r, &last, &found);
		assert_int_equal(r1 == 1 ? kr_lookups_take_found(&r, &last, &found) : r1, -EBADMSG);
	}
}

/* --- the server ------------------------------------------------------------------------------- */

enum { USER = 1000 };

static int set_up(void **state)
{
	int err = setup(state);
	struct fixture *f = *state;

	kr_invalidation_allow(&f->server, true);
	return err;
}

/* An answer. */
struct said {
	bool here;
	int err;
	struct kr_found found[KR_LOOKUPS_MAX];
	size_t count;
};

static void on_said(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	const struct kr_lookups_reply *list = reply;
	struct said *said = context;
	struct kr_reader r;
	int last = -1, got = 0;

	(void)data, (void)more;
	said->here = true;
	said->err = err;
	if (err)
		return;
	kr_reader_init(&r, list->found.bytes, list->found.length);
	while (said->count < KR_LOOKUPS_MAX && (got = kr_lookups_take_found(&r, &last, &said->found[said->count])) > 0)
		said->count++;
	assert_true(got >= 0 && kr_reader_left(&r) == 0);
}

static bool is_here(void *context)
{
	return ((struct said *)context)->here;
}

static void send_list(struct node *node, const struct kr_cred *cred, const struct kr_writer *names, struct said *said)
{
	struct kr_lookups_request msg = {
		.cred = *cred, .parent = node->hello.root, .names = {names->bytes, (uint32_t)names->length}};

	*said = (struct said){0};
	assert_int_equal(
		kr_conn_request_as(node->conn, node->next_id++, 0, KR_MSG_LOOKUPS, &msg, NULL, 0, on_said, said), 0);
}

static void send_names(
	struct node *node, const struct kr_cred *cred, const char *const *names, size_t count, struct said *said)
{
	struct kr_writer w;

	kr_writer_init(&w);
	for (size_t i = 0; i < count; i++)
		kr_lookups_put_name(&w, names[i]);
	send_list(node, cred, &w, said);
	kr_writer_fini(&w);
}

static const struct kr_cred root = {0};

static void ask(
	struct node *node, const struct kr_cred *cred, const char *const *names, size_t count, struct said *said)
{
	send_names(node, cred, names, count, said);
	assert_true(node_wait_for(node->loop, is_here, said));
}

static void make_file(struct fixture *f, const char *name)
{
	char path[120];

	snprintf(path, sizeof(path), "%s/%s", f->export_path, name);
	close(open(path, O_CREAT | O_WRONLY, 0644));
}

static void each_name_gets_what_lookup_says(void **state)
{
	const char *names[] = {"a", "none", "b", "..", "c", ".kairan"};
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	const union kr_any_msg *alone;
	struct said said;

	make_file(f, "a");
	make_file(f, "b");
	make_file(f, "c");
	ask(node, &root, names, 6, &said);
	assert_int_equal(said.err, 0);
	assert_int_equal(said.count, 5); /* ".." is an error, and left out */
	for (size_t i = 0; i < said.count; i++) {
		const struct kr_found *found = &said.found[i];
		int err = lookup(node, names[found->number], &alone);

		assert_int_equal(err, found->kind == KR_FOUND_NOTHING ? -ENOENT : 0);
		if (err == 0) {
			assert_true(kr_fid_equal(&found->fid, &alone->lookup_reply.file));
			assert_int_equal(found->attr.ino, alone->lookup_reply.attr.ino);
			assert_int_equal(found->attr.ctime.nsec, alone->lookup_reply.attr.ctime.nsec);
		}
	}
}

static void what_another_node_writes_is_left_out(void **state)
{
	const char *names[] = {"a", "f", "b"};
	struct fixture *f = *state;
	struct node *reader = joined(f, 0), *writer = joined(f, 1);
	struct said said;

	make_file(f, "a");
	make_file(f, "b");
	create(writer, "f", KR_LEASE_WRITE);
	pass_a_moment(f); /* the writer's change of the directory keeps others from noting there for a while */
	move_clock(MOMENT_MS);
	ask(reader, &root, names, 3, &said);
	assert_int_equal(said.count, 2);
	assert_int_equal(said.found[0].number, 0);
	assert_int_equal(said.found[1].number, 2);
	ask(writer, &root, names, 3, &said); /* itself it may note it */
	assert_int_equal(said.count, 3);
}

static void nothing_is_said_while_the_directory_is_changed(void **state)
{
	const char *names[] = {"a"};
	struct fixture *f = *state;
	struct node *holder = joined(f, 0), *changer = joined(f, 1), *asker = joined(f, 2);
	struct kr_remove_request remove = {.parent = holder->hello.root, .name = "b"};
	struct said said;
	uint64_t id;

	make_file(f, "a");
	make_file(f, "b");
	ask(holder, &root, names, 1, &said);
	assert_int_equal(said.count, 1);
	id = node_send(changer, KR_MSG_REMOVE, &remove);
	node_asked(holder, KR_MSG_INVALIDATE); /* so what was said counted as noted */
	ask(asker, &root, names, 1, &said);
	assert_int_equal(said.err, 0);
	assert_int_equal(said.count, 0);
	node_reply(holder, node_asked(holder, KR_MSG_INVALIDATE), NULL);
	assert_int_equal(node_result(changer, id, NULL), 0);
}

static void a_file_that_is_changed_is_left_out(void **state)
{
	const char *names[] = {"a", "b"};
	struct fixture *f = *state;
	struct node *holder = joined(f, 0), *changer = joined(f, 1), *asker = joined(f, 2);
	struct kr_setattr_request chmod_b = {.valid = KR_SET_MODE, .mode = 0600};
	struct said said;
	uint64_t id;

	make_file(f, "a");
	make_file(f, "b");
	ask(holder, &root, names, 2, &said);
	assert_int_equal(said.count, 2);
	chmod_b.file = said.found[1].fid;
	id = node_send(changer, KR_MSG_SETATTR, &chmod_b);
	node_asked(holder, KR_MSG_INVALIDATE);
	ask(asker, &root, names, 2, &said);
	assert_int_equal(said.count, 1);
	assert_int_equal(said.found[0].number, 0);
	node_reply(holder, node_asked(holder, KR_MSG_INVALIDATE), NULL);
	assert_int_equal(node_result(changer, id, NULL), 0);
}

static void names_are_looked_up_as_the_caller(void **state)
{
	const struct kr_cred user = {.uid = USER, .gid = USER};
	const char *names[] = {"a", "none"};
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct said said;

	if (geteuid() != 0)
		skip();
	make_file(f, "a");
	assert_int_equal(chmod(f->export_path, 0700), 0);
	ask(node, &user, names, 2, &said);
	assert_int_equal(said.count, 0); /* it is not even told what there is not */
	ask(node, &root, names, 2, &said);
	assert_int_equal(said.count, 2);
}

static void too_many_names_and_malformed_ones_are_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_writer w;
	struct said said;

	make_file(f, "a");
	kr_writer_init(&w);
	for (int i = 0; i < KR_LOOKUPS_MAX; i++)
		kr_lookups_put_name(&w, "a");
	send_list(node, &root, &w, &said);
	assert_true(node_wait_for(node->loop, is_here, &said));
	assert_int_equal(said.count, KR_LOOKUPS_MAX);
	kr_lookups_put_name(&w, "a");
	send_list(node, &root, &w, &said);
	assert_true(node_wait_for(node->loop, is_here, &said));
	assert_int_equal(said.err, -EPROTO);
	w.length = 3; /* cut within a name */
	send_list(node, &root, &w, &said);
	assert_true(node_wait_for(node->loop, is_here, &said));
	assert_int_equal(said.err, -EPROTO);
	w.length = 0;
	send_list(node, &root, &w, &said);
	assert_true(node_wait_for(node->loop, is_here, &said));
	assert_int_equal(said.err, 0);
	assert_int_equal(said.count, 0);
	kr_writer_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_come_out_as_they_went_in),
		cmocka_unit_test(names_that_cannot_be_are_refused),
		cmocka_unit_test(what_was_found_comes_out_as_it_went_in),
		cmocka_unit_test(numbers_ascend_and_kinds_are_known),
		cmocka_unit_test_setup_teardown(each_name_gets_what_lookup_says, set_up, teardown),
		cmocka_unit_test_setup_teardown(what_another_node_writes_is_left_out, set_up, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_said_while_the_directory_is_changed, set_up, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_changed_is_left_out, set_up, teardown),
		cmocka_unit_test_setup_teardown(names_are_looked_up_as_the_caller, set_up, teardown),
		cmocka_unit_test_setup_teardown(too_many_names_and_malformed_ones_are_refused, set_up, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
