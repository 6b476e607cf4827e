/* Streams of flush rounds over real connections: nodes A and B and a server that only collects, in one process. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/writeback/chain.h"
#include "fuse/writeback/chain_priv.h"
#include "fuse/readcache/hops.h"
#include "fuse/journal/journal.h"
#include "fuse/base/loop.h"
#include "test/unit/directory.h"

/* More than the kernel's socket buffers take between two nodes and a server, however they grow. */
enum { FILE_BYTES = 160 << 20, SERVER = 0, A = 1, B = 2, PARTIES = 3, ROUND = 77 };

struct party {
	struct kr_mount mount;
	uv_tcp_t listener;
	uint16_t port;
	kr_hop_frame_fn on_frame;
	kr_hop_closed_fn on_closed;
	char directory[64];
	struct kr_journal *journal;
	struct kr_journal_file *file;
	struct kr_extent_map map;
	struct kr_chain *chain;
	int result;
	bool own, done;
	bool first; /* of the round, whoever else sends it a stream */
};

static struct party parties[PARTIES];
static struct kr_loop *loop;
static const struct kr_fid fid = {.length = 4, .bytes = "file"};

/* What the server got. */
static struct {
	uint8_t *bytes;
	uint64_t next, extents, total, stream, overlapped;
	bool ended, slow;
	uint32_t error;
	struct kr_conn *conn, *upstream_of_b;
	sem_t changed;
} server;

/* --- in place of hops.c and flush.c --- */

void kr_hops_on(struct kr_hops *hops, uint16_t type, kr_hop_frame_fn frame, kr_hop_closed_fn closed)
{
	struct party *party = (void *)hops;

	(void)type;
	party->on_frame = frame;
	party->on_closed = closed ? closed : party->on_closed;
}

int kr_hop_dial(struct kr_hops *hops, const struct kr_hop_address *to, bool receives,
	const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn)
{
	struct sockaddr_in address;

	(void)hops, (void)receives;
	uv_ip4_addr("127.0.0.1", parties[to->node].port, &address);
	return kr_conn_connect(kr_loop_uv(loop), (struct sockaddr *)&address, handler, context, ret_conn);
}

/* --- the server's side --- */

static void collect(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	assert_int_equal(
		kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	if (frame->header.type == KR_MSG_STREAM) {
		server.stream = frame->header.id;
		server.conn = conn;
		if (server.slow)
			kr_conn_pause(conn);
	} else if (frame->header.type == KR_MSG_EXTENT) {
		assert_true(msg.extent_request.offset >= server.next);
		assert_int_equal(msg.extent_request.checksum, kr_checksum(frame->data->data, frame->data->length));
		memcpy(server.bytes + msg.extent_request.offset, frame->data->data, frame->data->length);
		server.next = msg.extent_request.offset + frame->data->length;
		server.extents++;
		server.total += frame->data->length;
	} else {
		server.error = msg.stream_end_request.error;
		__atomic_store_n(&server.ended, true, __ATOMIC_RELEASE);
		if (!server.error) {
			assert_int_equal(msg.stream_end_request.extents, server.extents);
			assert_int_equal(msg.stream_end_request.bytes, server.total);
			server.overlapped = msg.stream_end_request.overlapped;
			kr_conn_reply(conn, KR_MSG_STREAM, server.stream, 0, 0, NULL, NULL, 0);
		}
		sem_post(&server.changed);
	}
	kr_arena_fini(&arena);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct party *party = kr_conn_context(conn);

	if (party == &parties[SERVER]) {
		collect(conn, frame);
		return;
	}
	server.upstream_of_b = conn;
	party->on_frame(&party->mount, conn, A, frame);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct party *party = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (party->on_closed)
		party->on_closed(&party->mount, conn);
	sem_post(&server.changed);
}

static void on_connection(uv_stream_t *listener, int status)
{
	static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};
	struct kr_conn *conn;

	assert_int_equal(status, 0);
	assert_int_equal(kr_conn_accept(listener, &handler, listener->data, &conn), 0);
}

/* --- the nodes' side --- */

static void done(void *context, int err, bool own)
{
	struct party *party = context;

	party->chain = NULL;
	party->result = err;
	party->own = own;
	__atomic_store_n(&party->done, true, __ATOMIC_RELEASE);
	sem_post(&server.changed);
}

static void start_chain(void *context)
{
	struct party *party = context;
	struct kr_round_request round = {.file = fid,
		.round = ROUND,
		.has_upstream = party == &parties[B] && !party->first,
		.downstream = {
			.node = party == &parties[A] && parties[B].map.count ? B : SERVER, .address = "127.0.0.1"}};

	party->done = false;
	party->chain = kr_chain_start(party->mount.chains, &round, &party->map, done, party);
	assert_non_null(party->chain);
}

static void run(void (*fn)(void *context), void *context)
{
	kr_loop_run(loop, fn, context);
}

static void wait_until(const bool *flag)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += 30;
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		assert_int_equal(sem_timedwait(&server.changed, &deadline), 0);
}

static void put(struct party *party, uint64_t offset, size_t length, uint8_t value, uint8_t *expected)
{
	uint8_t *data = malloc(length);
	struct kr_extent extent;

	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(value + i / 1000 % 60);
	assert_int_equal(kr_journal_append(party->journal, party->file, offset, data, length, (struct kr_time){0},
				 false, &extent),
		0);
	assert_int_equal(kr_extent_map_insert(&party->map, &extent, kr_journal_release, party->journal), 0);
	memcpy(expected + offset, data, length);
	free(data);
}

static void on_early(struct kr_flusher *flusher)
{
	(void)flusher;
}

static void make_party(void *context)
{
	struct party *party = context;
	struct sockaddr_in address;
	int length = sizeof(address);

	party->mount = (struct kr_mount){
		.kr_loop = loop, .loop = kr_loop_uv(loop), .journal = party->journal, .hops = (void *)party};
	if (party != &parties[SERVER])
		assert_int_equal(kr_chains_new(&party->mount, on_early, &party->mount.chains), 0);
	uv_tcp_init(kr_loop_uv(loop), &party->listener);
	party->listener.data = party;
	uv_ip4_addr("127.0.0.1", 0, &address);
	assert_int_equal(uv_tcp_bind(&party->listener, (struct sockaddr *)&address, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&party->listener, 8, on_connection), 0);
	uv_tcp_getsockname(&party->listener, (struct sockaddr *)&address, &length);
	party->port = ntohs(address.sin_port);
}

/* Zeros; pages that the test does not touch take no memory.  calloc and free would fill all (MALLOC_PERTURB_). */
static uint8_t *new_bytes(void)
{
	void *bytes = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(bytes != MAP_FAILED);
	return bytes;
}

static void free_bytes(uint8_t *bytes)
{
	munmap(bytes, FILE_BYTES);
}

static int setup(void **state)
{
	(void)state;
	memset(parties, 0, sizeof(parties));
	memset(&server, 0, sizeof(server));
	server.bytes = new_bytes();
	sem_init(&server.changed, 0, 0);
	assert_int_equal(kr_loop_new(&loop), 0);
	for (int i = 0; i < PARTIES; i++) {
		struct party *party = &parties[i];

		if (i != SERVER) {
			struct kr_journal_options options = {.directory = party->directory,
				.export_id = {1},
				.node_id = {1},
				.incarnation = 1,
				.max = 256 << 20};
			struct kr_recovery recovery;

			strcpy(party->directory, "/tmp/kairan-chain-XXXXXX");
			assert_non_null(mkdtemp(party->directory));
			assert_int_equal(kr_journal_open(&options, &recovery, &party->journal), 0);
			kr_recovery_fini(&recovery);
			party->file = kr_journal_file_new(&fid, NULL);
		}
		kr_extent_map_init(&party->map);
		run(make_party, party);
	}
	return 0;
}

static void stop_party(void *context)
{
	struct party *party = context;

	kr_chain_abort(party->chain);
	if (party->mount.chains)
		kr_chains_stop(party->mount.chains);
	uv_close((uv_handle_t *)&party->listener, NULL);
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < PARTIES; i++)
		run(stop_party, &parties[i]);
	kr_loop_free(loop);
	for (int i = A; i < PARTIES; i++) {
		kr_extent_map_fini(&parties[i].map);
		kr_journal_file_free(parties[i].file);
		kr_journal_free(parties[i].journal);
		kr_chains_free(parties[i].mount.chains);
		directory_remove(parties[i].directory);
	}
	sem_destroy(&server.changed);
	free_bytes(server.bytes);
	return 0;
}

/* --- tests --- */

static void a_single_stream_arrives_whole_and_its_lane_is_used_again(void **state)
{
	uint8_t *expected = new_bytes();

	(void)state;
	for (uint64_t i = 0; i < 300; i++)
		put(&parties[A], (i * 7919) % 300 * 40000 + 13, 30000, (uint8_t)i, expected);
	put(&parties[A], 1000000, 900000, 5, expected);
	for (int round = 0; round < 2; round++) {
		memset(server.bytes, 0, FILE_BYTES);
		server.next = server.extents = server.total = 0;
		server.ended = false;
		run(start_chain, &parties[A]);
		wait_until(&parties[A].done);
		assert_int_equal(parties[A].result, 0);
		assert_memory_equal(server.bytes, expected, FILE_BYTES);
		assert_int_equal(server.total, parties[A].map.bytes);
	}
	assert_int_equal(parties[A].mount.chains->idle_lanes, 1);
	free_bytes(expected);
}

static void has_intake(void *context)
{
	*(bool *)context = !kr_list_empty(&parties[B].mount.chains->receivers);
}

static void merge_of_two(bool upstream_first)
{
	uint8_t *expected = new_bytes();

	for (uint64_t i = 0; i < 400; i++)
		put(&parties[A], i * 7488, 3744, 1, expected);
	for (uint64_t i = 0; i < 400; i++)
		put(&parties[B], i * 7488 + 3000, 4488, 100, expected); /* later in ring order: wins */
	put(&parties[B], 20 << 20, 100, 9, expected);
	run(start_chain, &parties[upstream_first ? A : B]);
	for (bool early = !upstream_first; !early; usleep(1000))
		run(has_intake, &early);
	run(start_chain, &parties[upstream_first ? B : A]);
	wait_until(&parties[A].done);
	wait_until(&parties[B].done);
	assert_int_equal(parties[A].result, 0);
	assert_int_equal(parties[B].result, 0);
	assert_memory_equal(server.bytes, expected, FILE_BYTES);
	assert_int_equal(server.overlapped, 400 * 744);
	free_bytes(expected);
}

static void two_streams_are_merged_and_the_later_in_the_ring_wins(void **state)
{
	(void)state;
	merge_of_two(false);
}

static void a_stream_that_comes_before_the_round_waits_for_it(void **state)
{
	(void)state;
	merge_of_two(true);
}

static void pass_time(void *context)
{
	kr_chains_tick(parties[B].mount.chains, kr_clock_ns() + *(const uint64_t *)context * KR_NS_PER_MS);
}

/* Its round has been aborted before it came; nobody reads the connection, so nobody would see its end. */
static void a_stream_whose_round_never_comes_is_dropped(void **state)
{
	uint8_t *expected = new_bytes();
	bool waits = false;

	(void)state;
	put(&parties[A], 0, 1000, 1, expected);
	put(&parties[B], 0, 1000, 1, expected);
	run(start_chain, &parties[A]);
	for (; !waits; usleep(1000))
		run(has_intake, &waits);
	run(pass_time, &(uint64_t){KR_CHAIN_EARLY_MS / 2});
	run(has_intake, &waits);
	assert_true(waits);
	run(pass_time, &(uint64_t){KR_CHAIN_EARLY_MS + 1});
	run(has_intake, &waits);
	assert_false(waits);
	wait_until(&parties[A].done);
	assert_int_equal(parties[A].result, -ECONNRESET);
	free_bytes(expected);
}

/* Who is in the ring may send one to anybody, also to the node that the round begins with. */
static void a_stream_to_the_first_node_of_a_round_is_dropped(void **state)
{
	uint8_t *expected = new_bytes();
	bool waits = false;

	(void)state;
	put(&parties[A], 0, 1000, 1, expected);
	memset(expected, 0, 1000);
	put(&parties[B], 500, 1000, 1, expected);
	run(start_chain, &parties[A]);
	for (; !waits; usleep(1000))
		run(has_intake, &waits);
	parties[B].first = true;
	run(start_chain, &parties[B]);
	wait_until(&parties[B].done);
	assert_int_equal(parties[B].result, 0);
	assert_memory_equal(server.bytes, expected, FILE_BYTES);
	assert_int_equal(server.overlapped, 0);
	wait_until(&parties[A].done);
	assert_int_equal(parties[A].result, -ECONNRESET);
	free_bytes(expected);
}

static void cut_upstream(void *context)
{
	(void)context;
	kr_chain_abort(parties[A].chain);
	parties[A].chain = NULL;
}

static void let_server_read(void *context)
{
	(void)context;
	server.slow = false;
	kr_conn_resume(server.conn);
}

static void is_stalled(void *context)
{
	*(bool *)context = server.conn && kr_buf_bytes_in_use() > KR_CHAIN_WINDOW;
}

static void a_slow_downstream_bounds_memory_and_a_lost_upstream_ends_the_stream(void **state)
{
	uint8_t *expected = new_bytes();

	(void)state;
	for (uint64_t i = 0; i < 150; i++)
		put(&parties[A], i << 20, 900000, 1, expected);
	put(&parties[B], 151 << 20, 4488, 100, expected);
	server.slow = true;
	run(start_chain, &parties[B]);
	run(start_chain, &parties[A]);
	for (bool stalled = false; !stalled; usleep(1000))
		run(is_stalled, &stalled);
	usleep(50000); /* gives a flood the time to show */
	assert_true(kr_buf_bytes_in_use() < KR_CHAIN_WINDOW * 2 + KR_CHAIN_INPUT + 4 * KR_CHAIN_READ + (8 << 20));
	assert_false(parties[A].done);
	run(cut_upstream, NULL);
	run(let_server_read, NULL);
	wait_until(&parties[B].done);
	assert_int_equal(parties[B].result, -ECONNRESET);
	assert_false(parties[B].own);
	free_bytes(expected);
}

static void own_bytes_that_are_damaged_are_never_sent(void **state)
{
	uint8_t *expected = new_bytes();
	char path[100];
	int fd;

	(void)state;
	put(&parties[A], 0, 500000, 1, expected);
	snprintf(path, sizeof(path), "%s/00000001.data", parties[A].directory);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "damage", 6, 300000), 6);
	close(fd);
	run(start_chain, &parties[A]);
	wait_until(&parties[A].done);
	assert_int_equal(parties[A].result, -EBADMSG);
	assert_true(parties[A].own);
	wait_until(&server.ended);
	assert_int_equal(server.error, kr_status_from_errno(-EBADMSG));
	free_bytes(expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_single_stream_arrives_whole_and_its_lane_is_used_again, setup, teardown),
		cmocka_unit_test_setup_teardown(two_streams_are_merged_and_the_later_in_the_ring_wins, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stream_that_comes_before_the_round_waits_for_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stream_whose_round_never_comes_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stream_to_the_first_node_of_a_round_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_slow_downstream_bounds_memory_and_a_lost_upstream_ends_the_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(own_bytes_that_are_damaged_are_never_sent, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
