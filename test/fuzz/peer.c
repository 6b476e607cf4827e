/* A malicious node against a live server without keys, and against the ring listeners of live nodes:
 *
 *   fuzz_peer HOST PORT SEED SECONDS
 *
 * Several sessions at a time say what the protocol allows them to say, with fields that are partly true (file
 * identities, versions, sessions, ways into the ring learnt from answers) and partly from the ends of their ranges;
 * answer the server's questions truly, falsely or not at all; stop reading; leave without a word; call the neighbours
 * that the server names, and ask them for what they have.  Besides come connections with garbage, and half-open ones.
 * What is done is a function of SEED and of the order in which answers come.  It acts as user 1000 and never allocates
 * much, so that what it can destroy is what that user may.  Exit status 0: at the end the server still opens a session.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/auth/pair_conn.h"
#include "common/base/util.h"
#include "test/unit/common/rpc/random_msg.h"

enum {
	PEERS = 6,
	CALLS = 6,
	STRANGERS = 48,
	FIDS = 48,
	NUMBERS = 64,
	HOPS = 8,
	USER = 1000,
	ACTIONS = 12,
	UNANSWERED_MAX = 400
};

struct peer {
	struct kr_conn *conn;
	bool ring, paused;
	uint32_t unanswered;
	struct kr_pair_caller self; /* as the server knows it */
};

static uv_loop_t loop;
static struct sockaddr_in server;
static struct random_msg random_state;
static struct peer peers[PEERS + CALLS]; /* to the server; to whom it names */
static int strangers[STRANGERS];
static struct kr_fid fids[FIDS];
static uint64_t numbers[NUMBERS] = {1}; /* versions, sessions, rounds, streams */
static struct kr_hop_address hops[HOPS];
static char hop_addresses[HOPS][64];
static struct kr_pair_caller hop_callers[HOPS];
static uint64_t fid_count, number_count = 1, hop_count, requests, answers, asked;

static uint64_t below(uint64_t limit)
{
	return (random_u64(&random_state) >> 8) % limit;
}

static bool one_in(uint64_t n)
{
	return below(n) == 0;
}

/* --- what has been learnt --------------------------------------------------------------------- */

static void learn_number(uint64_t number)
{
	numbers[number_count++ % NUMBERS] = number;
}

static void learn(const struct peer *peer, const struct kr_layout *layout, const void *msg)
{
	for (size_t i = 0; i < layout->count; i++) {
		const void *field = (const char *)msg + layout->fields[i].offset;
		const struct kr_hop_address *hop = field;

		switch (layout->fields[i].kind) {
		case KR_FIELD_FID:
			fids[fid_count++ % FIDS] = *(const struct kr_fid *)field;
			break;
		case KR_FIELD_U64:
			learn_number(*(const uint64_t *)field);
			break;
		case KR_FIELD_ATTR:
			learn_number(((const struct kr_attr *)field)->version);
			break;
		case KR_FIELD_HOP:
			snprintf(hop_addresses[hop_count % HOPS], sizeof(hop_addresses[0]), "%s", hop->address);
			hops[hop_count % HOPS] = *hop;
			hops[hop_count % HOPS].address = hop_addresses[hop_count % HOPS];
			hop_callers[hop_count % HOPS] = peer->self;
			hop_count++;
			break;
		default:
			break;
		}
	}
}

/* --- what is said ----------------------------------------------------------------------------- */

static uint64_t some_u64(void)
{
	static const uint64_t ends[] = {
		0, 1, 4095, 131072, 1 << 24, INT64_MAX - 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};

	if (one_in(3))
		return ends[below(KR_ARRAY_SIZE(ends))];
	return one_in(2) ? numbers[below(KR_MIN(number_count, (uint64_t)NUMBERS))] : below(100000);
}

static const char *some_name(void)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "sub", "public", "..", ".kairan"};

	return names[below(KR_ARRAY_SIZE(names))];
}

static void some_ranges(struct kr_ranges *ranges)
{
	uint64_t next = 0;

	for (uint32_t i = 0; i < ranges->count; i++) {
		struct kr_range *range = (struct kr_range *)(uintptr_t)&ranges->ranges[i];

		if (one_in(20))
			continue; /* as random as it came */
		*range = (struct kr_range){next + below(50), 1 + below(20)};
		next = range->offset + range->length;
	}
}

static void tune(const struct kr_layout *layout, void *msg)
{
	for (size_t i = 0; i < layout->count; i++) {
		void *field = (char *)msg + layout->fields[i].offset;

		switch (layout->fields[i].kind) {
		case KR_FIELD_FID:
			if (fid_count && !one_in(10))
				*(struct kr_fid *)field = fids[below(KR_MIN(fid_count, (uint64_t)FIDS))];
			break;
		case KR_FIELD_U64:
			*(uint64_t *)field = some_u64();
			break;
		case KR_FIELD_U32:
			if (!one_in(8))
				*(uint32_t *)field = (uint32_t)below(16);
			break;
		case KR_FIELD_U8:
			if (!one_in(8))
				*(uint8_t *)field = (uint8_t)below(4);
			break;
		case KR_FIELD_NAME:
			*(const char **)field = some_name();
			break;
		case KR_FIELD_STR:
			if (!one_in(8))
				*(const char **)field = one_in(3) ? "" : some_name();
			break;
		case KR_FIELD_CRED:
			*(struct kr_cred *)field = (struct kr_cred){.uid = USER, .gid = USER};
			break;
		case KR_FIELD_RANGES:
			some_ranges(field);
			break;
		default:
			break;
		}
	}
}

/* Without it hardly anything would get past the first check. */
static struct kr_buf *mend(uint16_t type, union kr_any_msg *msg)
{
	struct kr_buf *data = NULL;
	size_t length = 0;

	if (type == KR_MSG_FALLOCATE)
		msg->fallocate_request.length = below(1 << 20);
	if (type == KR_MSG_FLUSH) {
		msg->flush_request.flags = one_in(20) ? (uint32_t)below(8) : (uint32_t)below(2);
		if (!(msg->flush_request.flags & 1))
			msg->flush_request.extents.count = 0;
		for (uint32_t i = 0; i < msg->flush_request.extents.count; i++)
			length += msg->flush_request.extents.ranges[i].length;
	}
	if (type == KR_MSG_EXTENT)
		length = 1 + below(KR_BLOCK_SIZE);
	if (length == 0 || length > KR_BLOCK_SIZE || (data = kr_buf_new(length)) == NULL)
		return NULL;
	memset(data->data, (int)below(256), length);
	data->length = length;
	if (type == KR_MSG_FLUSH && !one_in(10))
		msg->flush_request.checksum = kr_checksum(data->data, length);
	if (type == KR_MSG_EXTENT && !one_in(10))
		msg->extent_request.checksum = kr_checksum(data->data, length);
	return data;
}

struct question {
	struct peer *peer;
	struct kr_conn *conn;
	uint16_t type;
};

static void take_hello(struct peer *peer, const struct kr_hello_reply *hello)
{
	peer->self = (struct kr_pair_caller){.node = hello->node, .session = hello->session, .least = KR_SECURITY_AUTH};
	memcpy(peer->self.ring_key, hello->ring_key, sizeof(peer->self.ring_key));
}

static void on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct question *question = context;
	struct kr_layout layout;

	(void)data;
	answers++;
	if (err == 0 && reply && question->type == KR_MSG_HELLO)
		take_hello(question->peer, reply);
	if (err == 0 && reply && kr_msg_layout(question->type, true, &layout))
		learn(question->peer, &layout, reply);
	if (more)
		return;
	if (question->peer->conn == question->conn && question->peer->unanswered > 0)
		question->peer->unanswered--;
	free(question);
}

static void say(struct peer *peer, uint16_t type, const union kr_any_msg *msg, struct kr_buf *data)
{
	struct question *question = kr_xcalloc(1, sizeof(*question));
	struct kr_slice slice = {.buf = data, .length = data ? data->length : 0};

	*question = (struct question){peer, peer->conn, type};
	requests++;
	peer->unanswered++;
	if (type == KR_MSG_EXTENT || type == KR_MSG_STREAM_END) {
		kr_conn_oneway(peer->conn, type, msg, &slice, data ? 1 : 0);
		peer->unanswered--;
		free(question);
	} else if (!kr_conn_request(peer->conn, type, msg, &slice, data ? 1 : 0, on_reply, question)) {
		peer->unanswered--;
		free(question);
	}
	kr_buf_put(data);
}

static void say_something(struct peer *peer, uint16_t type)
{
	struct kr_layout layout;

	if (!kr_msg_layout(type, false, &layout))
		return;
	random_message(&random_state, &layout);
	tune(&layout, &random_state.msg);
	say(peer, type, &random_state.msg, mend(type, &random_state.msg));
}

static uint16_t some_type(enum kr_direction wanted)
{
	enum kr_direction direction;
	uint16_t type;

	do
		type = (uint16_t)below(128);
	while (!kr_msg_known(type, &direction) || direction != wanted || (type == KR_MSG_GOODBYE && !one_in(20)));
	return type;
}

/* --- what is answered ------------------------------------------------------------------------- */

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	const uint16_t type = frame->header.type;
	struct kr_arena arena = {0};
	struct kr_layout layout;
	union kr_any_msg msg;

	asked++;
	if (kr_msg_decode(type, false, frame->fields, frame->header.fields_length, &msg, &arena) == 0 &&
		kr_msg_layout(type, false, &layout))
		learn(kr_conn_context(conn), &layout, &msg);
	kr_arena_fini(&arena);
	if (one_in(5) || !kr_msg_layout(type, true, &layout))
		return; /* never */
	random_message(&random_state, &layout);
	tune(&layout, &random_state.msg);
	kr_conn_reply(conn, type, frame->header.id + one_in(20), 0, one_in(5) ? -EIO : 0, &random_state.msg, NULL, 0);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct peer *peer = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (peer->conn == conn)
		*peer = (struct peer){.ring = peer->ring};
}

static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};

/* --- coming and going ------------------------------------------------------------------------- */

static void say_hello(struct peer *peer)
{
	union kr_any_msg msg = {.hello_request = {.proto_min = KR_PROTO_VERSION,
					.proto_max = KR_PROTO_VERSION,
					.node_name = some_name(),
					.ring_address = one_in(4) ? "127.0.0.1" : "",
					.ring_port = one_in(2) ? (uint16_t)below(65536) : 0,
					.subdir = "",
					.ring = "",
					.incarnation = some_u64(),
					.session = one_in(2) ? some_u64() : 0}};

	memset(msg.hello_request.node_id, (int)below(4), 16);
	say(peer, KR_MSG_HELLO, &msg, NULL);
	if (!one_in(4))
		say_something(peer, KR_MSG_RECLAIM_DONE);
}

static void call_hop(struct peer *peer)
{
	uint64_t which = below(KR_MIN(hop_count, (uint64_t)HOPS));
	const struct kr_hop_address *hop = &hops[which];
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(hop->port)};
	struct kr_pair_caller caller = hop_callers[which];

	if (hop->port == 0 || inet_pton(AF_INET, hop->address, &address.sin_addr) != 1)
		return;
	if (one_in(8))
		caller.ring_key[below(KR_RING_KEY)] ^= 1;
	if (kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, peer, &peer->conn) < 0)
		peer->conn = NULL;
	else
		kr_pair_open(peer->conn, hop, &caller, NULL, NULL);
}

static void come(struct peer *peer)
{
	if (peer->ring) {
		if (hop_count)
			call_hop(peer);
		return;
	}
	if (kr_conn_connect(&loop, (const struct sockaddr *)&server, &handler, peer, &peer->conn) < 0)
		peer->conn = NULL;
	else if (!one_in(10))
		say_hello(peer);
}

static void leave(struct peer *peer)
{
	struct kr_conn *conn = peer->conn;

	kr_conn_close(conn, one_in(2));
}

/* Garbage, or a connection that says nothing and stays. */
static void act_strange(void)
{
	int *fd = &strangers[below(STRANGERS)];
	uint8_t bytes[256];
	struct kr_frame_header header = {
		.type = (uint16_t)below(128), .id = below(9), .fields_length = (uint32_t)below(300)};

	if (*fd > 0)
		close(*fd);
	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0 || (connect(*fd, (const struct sockaddr *)&server, sizeof(server)) < 0 && errno != EINPROGRESS))
		return;
	random_bytes(&random_state, bytes, sizeof(bytes));
	if (!one_in(3))
		kr_frame_header_encode(&header, bytes);
	if (!one_in(3))
		(void)!send(*fd, bytes, below(sizeof(bytes)), MSG_NOSIGNAL);
}

static void act(struct peer *peer)
{
	if (!peer->conn) {
		come(peer);
	} else if (one_in(150)) {
		leave(peer);
	} else if (one_in(100)) {
		peer->paused = !peer->paused;
		if (peer->paused)
			kr_conn_pause(peer->conn);
		else
			kr_conn_resume(peer->conn);
	} else if (peer->unanswered < UNANSWERED_MAX && kr_conn_queued(peer->conn) < 1 << 20) {
		say_something(peer, some_type(peer->ring ? KR_DIRECTION_RING : KR_DIRECTION_UP));
	}
}

static void on_timer(uv_timer_t *timer)
{
	uint64_t *ends_ns = timer->data;

	for (int i = 0; i < ACTIONS; i++)
		act(&peers[below(KR_ARRAY_SIZE(peers))]);
	if (one_in(20))
		act_strange();
	if (kr_clock_ns() > *ends_ns)
		uv_timer_stop(timer);
}

/* --- the end ---------------------------------------------------------------------------------- */

static int last_words = -EINPROGRESS;

static void on_last_words(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)context, (void)reply, (void)data, (void)more;
	last_words = err;
}

static bool still_serves(void)
{
	static struct peer peer;
	union kr_any_msg msg = {.hello_request = {.proto_min = KR_PROTO_VERSION,
					.proto_max = KR_PROTO_VERSION,
					.node_name = "last",
					.ring_address = "",
					.subdir = "",
					.ring = ""}};
	uint64_t ends_ns = kr_clock_ns() + 60 * KR_NS_PER_S;

	memset(msg.hello_request.node_id, 77, 16);
	if (kr_conn_connect(&loop, (const struct sockaddr *)&server, &handler, &peer, &peer.conn) < 0 ||
		!kr_conn_request(peer.conn, KR_MSG_HELLO, &msg, NULL, 0, on_last_words, NULL))
		return false;
	while (last_words == -EINPROGRESS && kr_clock_ns() < ends_ns) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	return last_words == 0;
}

int main(int argc, char **argv)
{
	uv_timer_t timer;
	uint64_t ends_ns;

	if (argc != 5) {
		fprintf(stderr, "Usage: %s HOST PORT SEED SECONDS\n", argv[0]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
	if (inet_pton(AF_INET, argv[1], &server.sin_addr) != 1)
		return 2;
	random_state.state = strtoull(argv[3], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	ends_ns = kr_clock_ns() + strtoull(argv[4], NULL, 10) * KR_NS_PER_S;
	for (int i = PEERS; i < PEERS + CALLS; i++)
		peers[i].ring = true;
	uv_loop_init(&loop);
	uv_timer_init(&loop, &timer);
	timer.data = &ends_ns;
	uv_timer_start(&timer, on_timer, 2, 2);
	while (uv_is_active((uv_handle_t *)&timer))
		uv_run(&loop, UV_RUN_ONCE);
	printf("seed %s: %llu requests, %llu answers, %llu questions, %llu files and %llu neighbours heard of\n",
		argv[3], (unsigned long long)requests, (unsigned long long)answers, (unsigned long long)asked,
		(unsigned long long)fid_count, (unsigned long long)hop_count);
	if (!still_serves()) {
		fprintf(stderr, "the server does not open a session any more (%d)\n", last_words);
		return 1;
	}
	return 0;
}
