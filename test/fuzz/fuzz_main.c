/* Runs a fuzz target as a regression test, without libFuzzer: every file of the corpus directory, then inputs made from
 * a fixed seed: noise, good messages and frames (random_msg.h), and good ones with some bytes changed or cut off.
 *
 *   fuzz_msg CORPUS [ROUNDS]
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "test/fuzz/fuzz.h"
#include "test/unit/common/rpc/random_msg.h"

enum { INPUT_MAX = 1 << 21 };

static struct random_msg random_state = {.state = 20261121};

static int run_corpus(const char *path)
{
	DIR *corpus = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	if (!corpus) {
		fprintf(stderr, "%s: cannot open the corpus\n", path);
		return -1;
	}
	while ((entry = readdir(corpus)) != NULL) {
		KR_AUTO_FREE char *bytes = NULL;
		size_t length;

		if (entry->d_name[0] == '.')
			continue;
		if (kr_read_file(dirfd(corpus), entry->d_name, INPUT_MAX, &bytes, &length) < 0) {
			fprintf(stderr, "%s\n", kr_fail_reason());
			closedir(corpus);
			return -1;
		}
		LLVMFuzzerTestOneInput((const uint8_t *)bytes, length);
		count++;
	}
	closedir(corpus);
	printf("%u inputs of the corpus\n", count);
	return 0;
}

/* A random known type. */
static uint16_t choose_type(bool reply, struct kr_layout *ret_layout)
{
	uint16_t type;

	do
		type = (uint16_t)(random_u64(&random_state) % 128);
	while (!kr_msg_layout(type, reply, ret_layout));
	return type;
}

/* One message, with a frame's header when FRAME. */
static void put_message(struct kr_writer *w, bool frame, bool reply)
{
	struct kr_frame_header header = {.flags = reply ? KR_FRAME_REPLY : 0, .id = random_u64(&random_state) % 4};
	uint32_t data_length = (uint32_t)(random_u64(&random_state) % 3000);
	uint8_t bytes[KR_FRAME_HEADER];
	struct kr_writer fields;
	struct kr_layout layout;

	kr_writer_init(&fields);
	header.type = choose_type(reply, &layout);
	random_message(&random_state, &layout);
	kr_msg_encode(header.type, reply, &random_state.msg, &fields);
	header.fields_length = (uint32_t)fields.length;
	header.data_length = KR_MIN(layout.data_max, data_length);
	kr_frame_header_encode(&header, bytes);
	if (frame)
		kr_put_bytes(w, bytes, sizeof(bytes));
	else
		kr_put_u16(w, header.type);
	kr_put_bytes(w, fields.bytes, fields.length);
	for (uint32_t i = 0; frame && i < header.data_length; i++)
		kr_put_u8(w, (uint8_t)i);
	kr_writer_fini(&fields);
}

static void damage(struct kr_writer *w)
{
	switch (random_u64(&random_state) % 4) {
	case 0:
		break;
	case 1:
		w->length = random_u64(&random_state) % w->length + 1;
		break;
	case 2:
		random_bytes(&random_state, w->bytes + 1, w->length - 1);
		break;
	default:
		for (uint64_t i = random_u64(&random_state) % 4 + 1; i > 0; i--)
			w->bytes[random_u64(&random_state) % w->length] = (uint8_t)random_u64(&random_state);
		break;
	}
}

static void run_random(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t choice = random_u64(&random_state);
		bool frame = choice & 2, reply = choice & 1;
		struct kr_writer w;

		kr_writer_init(&w);
		kr_put_u8(&w, (uint8_t)choice);
		for (uint64_t messages = frame ? choice / 4 % 5 + 1 : 1; messages > 0; messages--)
			put_message(&w, frame, reply);
		damage(&w);
		LLVMFuzzerTestOneInput(w.bytes, w.length);
		kr_writer_fini(&w);
	}
	printf("%u random inputs\n", rounds);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "Usage: %s CORPUS [ROUNDS]\n", argv[0]);
		return 2;
	}
	if (run_corpus(argv[1]) < 0)
		return 1;
	run_random(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1000);
	return 0;
}
