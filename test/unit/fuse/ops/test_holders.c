/* What nodes hold of a file, as text. */
#include "fuse/ops/holders.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/wire.h"

static void put(struct kr_writer *w, const char *name, uint64_t cached, uint64_t unflushed)
{
	kr_put_u8(w, (uint8_t)strlen(name));
	kr_put_bytes(w, name, strlen(name));
	kr_put_u64(w, cached);
	kr_put_u64(w, unflushed);
}

static struct kr_bytes bytes_of(const struct kr_writer *w)
{
	return (struct kr_bytes){w->bytes, (uint32_t)w->length};
}

static void the_node_with_most_bytes_comes_first(void **state)
{
	struct kr_writer w;
	struct kr_bytes bytes;
	char *text;

	(void)state;
	kr_writer_init(&w);
	put(&w, "n2", 300, 0);
	put(&w, "n10", 0, 0);
	put(&w, "n 1=", 200, 4096);
	put(&w, "a", 300, 0);
	bytes = bytes_of(&w);
	text = kr_holders_text(&bytes, 4096);
	assert_string_equal(text, "n_1_=4096 a=300 n2=300 n10=0");
	free(text);
	text = kr_holders_json(&bytes, 4096);
	assert_string_equal(text,
		"{\"size\":4096,\"nodes\":[{\"node\":\"n 1=\",\"bytes\":4096,\"cached\":200,\"unflushed\":4096},"
		"{\"node\":\"a\",\"bytes\":300,\"cached\":300,\"unflushed\":0},"
		"{\"node\":\"n2\",\"bytes\":300,\"cached\":300,\"unflushed\":0},"
		"{\"node\":\"n10\",\"bytes\":0,\"cached\":0,\"unflushed\":0}]}");
	free(text);
	kr_writer_fini(&w);
}

static void no_holder_is_an_empty_text(void **state)
{
	const struct kr_bytes none = {0};
	char *text = kr_holders_text(&none, 0);

	(void)state;
	assert_string_equal(text, "");
	free(text);
	text = kr_holders_json(&none, 7);
	assert_string_equal(text, "{\"size\":7,\"nodes\":[]}");
	free(text);
}

static void any_cut_of_the_list_is_refused_or_a_shorter_list(void **state)
{
	struct kr_writer w;

	(void)state;
	kr_writer_init(&w);
	put(&w, "n1", 1, 2);
	put(&w, "", 3, 4);
	for (size_t length = 0; length <= w.length; length++) {
		uint8_t *copy = malloc(length ? length : 1);
		struct kr_bytes bytes = {copy, (uint32_t)length};
		char *text;

		memcpy(copy, w.bytes, length);
		text = kr_holders_text(&bytes, 4096);
		assert_true(!text == (length != 0 && length != 19 && length != w.length));
		free(text);
		free(copy);
	}
	kr_writer_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_node_with_most_bytes_comes_first),
		cmocka_unit_test(no_holder_is_an_empty_text),
		cmocka_unit_test(any_cut_of_the_list_is_refused_or_a_shorter_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
