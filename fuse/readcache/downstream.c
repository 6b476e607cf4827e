/* Peers that pull from this node.
 *
 * A connection proves that the server sent the peer (common/auth/pair.h), or is dropped.  Each block of a PULL is a
 * `want`.  The node answers a want when the block is in memory: read from the cache in the pool, or come from our
 * upstream (then from the very buffer it came in).  Some wants could be answered but would overfill the connection's
 * queue.  They wait in `ready`, without a buffer, until the queue has drained.  So a slow peer costs KR_HOP_QUEUE bytes
 * and delays no other peer.  Other types of frames go to the handlers registered for them.
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/readcache/cache.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/readcache/stage_priv.h"

struct peer {
	struct kr_hops *hops;
	struct kr_link link;
	struct kr_conn *conn; /* NULL: closed */
	uint32_t references;  /* the connection's, and one for each read under way */
	uint32_t node;
	bool greeted;
	bool stranger;       /* counts as one: neither greeted nor sent away */
	struct kr_pair pair; /* until it is greeted */
	uint64_t since_ns;
	struct kr_list pulls, ready; /* struct pull, struct want */
	uint32_t wanted, reading;
	bool pumping;
};

struct pull {
	struct kr_link link;
	struct peer *peer;
	struct kr_fid fid;
	uint64_t id, version;
	struct kr_list wants;
};

struct want {
	struct kr_stage_waiter waiter;
	struct kr_link link; /* pull->wants */
	struct kr_link ready;
	struct pull *pull; /* NULL: given up while being read */
};

struct read {
	uv_work_t work;
	struct peer *peer; /* reference */
	struct want *want;
	struct kr_cache_entry *entry; /* reference */
	uint64_t block, checksum;
	struct kr_buf *buf;
	int err;
};

static void pump(struct peer *peer);

static void put_peer(struct peer *peer)
{
	if (--peer->references > 0)
		return;
	kr_pair_fini(&peer->pair);
	free(peer);
}

/* --- answering -------------------------------------------------------------------------------- */

static void free_want(struct want *want)
{
	want->pull->peer->wanted--;
	kr_list_remove(&want->waiter.fetch.link);
	kr_list_remove(&want->ready);
	kr_list_remove(&want->link);
	free(want);
}

/* Ends PULL with ERR, and gives up the blocks that it still wants. */
static void end_pull(struct pull *pull, int err)
{
	struct peer *peer = pull->peer;
	struct want *want, *after;

	KR_LIST_FOR_EACH_SAFE(want, after, &pull->wants, link) {
		if (kr_link_linked(&want->ready) || kr_link_linked(&want->waiter.fetch.link)) {
			free_want(want);
			continue;
		}
		/* Being read: the read frees it. */
		kr_list_remove(&want->link);
		peer->wanted--;
		want->pull = NULL;
	}
	if (peer->conn)
		kr_conn_reply(
			peer->conn, KR_MSG_PULL, pull->id, 0, err, err ? NULL : &(struct kr_pull_reply){0}, NULL, 0);
	kr_list_remove(&pull->link);
	free(pull);
}

static void answer(struct want *want, struct kr_buf *buf, uint64_t checksum)
{
	struct pull *pull = want->pull;
	struct kr_pull_reply reply = {.block = want->waiter.block, .checksum = checksum};
	struct kr_slice slice = {buf, 0, buf->length};

	kr_conn_reply(pull->peer->conn, KR_MSG_PULL, pull->id, KR_FRAME_MORE, 0, &reply, &slice, 1);
	free_want(want);
	if (kr_list_empty(&pull->wants))
		end_pull(pull, 0);
}

static bool has_room(const struct peer *peer)
{
	return peer->conn && kr_conn_queued(peer->conn) + (uint64_t)peer->reading * KR_BLOCK_SIZE < KR_HOP_QUEUE;
}

/* WANT, which is in no list but its pull's, can't be answered: nor is the rest. */
static void fail_want(struct want *want, int err)
{
	kr_list_append(&want->pull->peer->ready, &want->ready);
	end_pull(want->pull, err);
}

/* From the stage: the block has come, or won't. */
static void on_ready(struct kr_stage_waiter *waiter, int err, struct kr_buf *buf, uint64_t checksum)
{
	struct want *want = KR_CONTAINER_OF(waiter, struct want, waiter);
	struct peer *peer = want->pull->peer;

	if (err == 0 && has_room(peer)) {
		answer(want, buf, checksum);
	} else if (err == 0 || err == -EAGAIN) {
		kr_list_append(&peer->ready, &want->ready);
		pump(peer);
	} else {
		fail_want(want, err);
	}
}

/* --- from the disk ---------------------------------------------------------------------------- */

static void read_block(uv_work_t *work)
{
	struct read *job = KR_CONTAINER_OF(work, struct read, work);

	job->err = kr_cache_read_block(job->entry, job->block, &job->buf, &job->checksum);
}

static void on_read(uv_work_t *work, int status)
{
	struct read *job = KR_CONTAINER_OF(work, struct read, work);
	struct peer *peer = job->peer;
	struct want *want = job->want;

	(void)status;
	peer->reading--;
	peer->hops->jobs--;
	if (!want->pull) {
		free(want);
	} else if (job->err == 0) {
		answer(want, job->buf, job->checksum);
	} else if (job->err == -ENODATA) {
		kr_list_append(&peer->ready, &want->ready); /* not here any more: to be fetched */
	} else {
		fail_want(want, -ECANCELED);
	}
	if (job->buf)
		kr_buf_put(job->buf);
	kr_cache_entry_put(job->entry);
	free(job);
	pump(peer);
	put_peer(peer);
}

static void start_read(struct want *want, struct kr_cache_entry *entry)
{
	struct peer *peer = want->pull->peer;
	struct read *job = kr_xcalloc(1, sizeof(*job));

	job->peer = peer;
	job->want = want;
	job->entry = entry;
	job->block = want->waiter.block;
	peer->references++;
	peer->reading++;
	peer->hops->jobs++;
	uv_queue_work(peer->hops->mount->loop, &job->work, read_block, on_read);
}

/* --- what a stage gives to peers --------------------------------------------------------------- */

/* Where a block is that a peer wants. */
enum { WAITS, IN_MEMORY, ON_DISK };

/* Whether blocks of VERSION are those of the stage: the versions are equal, or one of them is volatile and both are
 * under a lease now. (The asking peer holds READ, and so does this node.)
 */
static bool is_our_version(const struct kr_stage *stage, uint64_t version)
{
	if (!stage->known)
		return false;
	if (version != 0 && stage->version != 0)
		return version == stage->version;
	return stage->live && !kr_mount_fenced(stage->mount);
}

/* WAITER's block has to come first. */
static int wait_for(struct kr_stage *stage, struct kr_stage_waiter *waiter)
{
	if (!stage->live)
		return -ECANCELED;
	if (stage->outdated)
		return -ESTALE;
	if (kr_puller_want(&stage->puller, waiter->block, &waiter->fetch) < 0)
		return -ENOMEM;
	kr_stage_advance(stage);
	return WAITS;
}

/* A peer wants WAITER->block of VERSION. IN_MEMORY: *RET_BUF (owned) and *RET_CHECKSUM; ON_DISK:
 * *RET_ENTRY (a reference) has it; WAITS: WAITER->ready will be called. -ESTALE, -ECANCELED, -EINVAL, -ENOMEM.
 */
static int find_block(struct kr_stage *stage, uint64_t version, struct kr_stage_waiter *waiter, struct kr_buf **ret_buf,
	uint64_t *ret_checksum, struct kr_cache_entry **ret_entry)
{
	struct kr_held *held;

	if (!is_our_version(stage, version))
		return -ESTALE;
	if (waiter->block >= kr_cache_block_count(stage->size))
		return -EINVAL;
	held = kr_stage_find_held(stage, waiter->block); /* the loop is the table's only writer */
	if (held) {
		*ret_buf = kr_buf_get(held->buf);
		*ret_checksum = held->checksum;
		return IN_MEMORY;
	}
	if (stage->loading || stage->patching) {
		kr_list_append(&stage->parked, &waiter->fetch.link);
		return WAITS;
	}
	if (kr_cache_has(stage->entry, waiter->block)) {
		*ret_entry = kr_cache_entry_ref(stage->entry);
		return ON_DISK;
	}
	return wait_for(stage, waiter);
}

/* --- serving ---------------------------------------------------------------------------------- */

/* WANT is in no list but its pull's. */
static void serve(struct want *want)
{
	struct pull *pull = want->pull;
	struct kr_stage *stage = kr_stage_find(pull->peer->hops, &pull->fid);
	struct kr_cache_entry *entry = NULL;
	struct kr_buf *buf = NULL;
	uint64_t checksum = 0;
	int got = -ESTALE;

	if (stage)
		got = find_block(stage, pull->version, &want->waiter, &buf, &checksum, &entry);
	if (got == IN_MEMORY) {
		answer(want, buf, checksum);
		kr_buf_put(buf);
	} else if (got == ON_DISK) {
		start_read(want, entry);
	} else if (got < 0) {
		fail_want(want, got);
	}
}

/* Serves the blocks that are ready while there is room. */
static void pump(struct peer *peer)
{
	struct want *want;

	if (peer->pumping)
		return; /* the caller further up goes on */
	peer->pumping = true;
	while (has_room(peer) && (want = KR_LIST_POP(&peer->ready, struct want, ready)))
		serve(want);
	peer->pumping = false;
}

static bool add_want(struct pull *pull, uint64_t block)
{
	struct want *want = calloc(1, sizeof(*want));

	if (!want)
		return false;
	want->waiter.block = block;
	want->waiter.ready = on_ready;
	want->pull = pull;
	kr_list_append(&pull->wants, &want->link);
	kr_list_append(&pull->peer->ready, &want->ready);
	pull->peer->wanted++;
	return true;
}

/* All blocks of the request; false: too many of them, or no memory. */
static bool add_wants(struct pull *pull, const struct kr_ranges *blocks)
{
	for (uint32_t i = 0; i < blocks->count; i++) {
		const struct kr_range *range = &blocks->ranges[i];

		if (range->length > KR_HOP_WANTED || range->offset > UINT64_MAX - KR_HOP_WANTED)
			return false;
		for (uint64_t block = range->offset; block < range->offset + range->length; block++) {
			if (pull->peer->wanted >= KR_HOP_WANTED || !add_want(pull, block))
				return false;
		}
	}
	return true;
}

static void on_pull(struct peer *peer, const struct kr_frame *frame)
{
	struct kr_arena arena = {0};
	struct kr_pull_request request;
	struct pull *pull;
	bool fits;

	if (kr_msg_decode(KR_MSG_PULL, false, frame->fields, frame->header.fields_length, &request, &arena) < 0) {
		kr_arena_fini(&arena);
		kr_conn_reply(peer->conn, KR_MSG_PULL, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
		return;
	}
	pull = kr_xcalloc(1, sizeof(*pull));
	pull->peer = peer;
	pull->fid = request.file;
	pull->id = frame->header.id;
	pull->version = request.version;
	kr_list_init(&pull->wants);
	kr_list_append(&peer->pulls, &pull->link);
	fits = add_wants(pull, &request.blocks);
	kr_arena_fini(&arena);
	if (!fits)
		end_pull(pull, -ECANCELED);
	else if (kr_list_empty(&pull->wants))
		end_pull(pull, 0);
	pump(peer);
}

/* HAVE: how many of the blocks are here. */
static void on_have(struct peer *peer, const struct kr_frame *frame)
{
	struct kr_arena arena = {0};
	struct kr_have_request request;
	struct kr_have_reply reply = {0};
	struct kr_stage *stage;
	uint64_t left = KR_HOP_WANTED;
	int err = kr_msg_decode(KR_MSG_HAVE, false, frame->fields, frame->header.fields_length, &request, &arena);

	stage = err < 0 ? NULL : kr_stage_find(peer->hops, &request.file);
	for (uint32_t i = 0; stage && is_our_version(stage, request.version) && i < request.blocks.count; i++) {
		const struct kr_range *range = &request.blocks.ranges[i];

		for (uint64_t n = 0; n < range->length && left > 0; n++, left--)
			reply.count += kr_stage_has(stage, range->offset + n);
	}
	kr_arena_fini(&arena);
	kr_conn_reply(
		peer->conn, KR_MSG_HAVE, frame->header.id, 0, err < 0 ? -EPROTO : 0, err < 0 ? NULL : &reply, NULL, 0);
}

/* --- connections ------------------------------------------------------------------------------ */

static void no_longer_stranger(struct peer *peer)
{
	peer->hops->strangers -= peer->stranger;
	peer->stranger = false;
}

/* A peer without a key must not take another peer's place by connecting again and again. */
static void limit_strangers(struct kr_hops *hops)
{
	struct peer *peer;

	if (hops->strangers <= KR_HOPS_STRANGERS)
		return;
	KR_LIST_FOR_EACH(peer, &hops->incoming, link) {
		if (peer->stranger) {
			no_longer_stranger(peer);
			kr_conn_close(peer->conn, false);
			return;
		}
	}
}

static void refuse(struct peer *peer, const struct kr_frame *frame, int err, const char *why)
{
	kr_log_info("ring connection from %s refused: %s", kr_conn_peer(peer->conn), why);
	if (!(frame->header.flags & KR_FRAME_ONEWAY))
		kr_conn_reply(peer->conn, frame->header.type, frame->header.id, 0, err, NULL, NULL, 0);
	kr_conn_close(peer->conn, true);
}

static uint32_t count_of(const struct kr_hops *hops, uint32_t node)
{
	const struct peer *peer;
	uint32_t count = 0;

	KR_LIST_FOR_EACH(peer, &hops->incoming, link)
		count += peer->greeted && peer->node == node;
	return count;
}

static void on_hello(struct peer *peer, const struct kr_frame *frame)
{
	struct kr_hops *hops = peer->hops;
	struct kr_hop_hello_request hello;
	struct kr_hop_hello_reply reply;
	struct kr_fresh fresh;
	int err = kr_msg_decode(KR_MSG_HOP_HELLO, false, frame->fields, frame->header.fields_length, &hello, NULL);

	kr_fresh_make(&fresh);
	if (err < 0)
		err = kr_fail(-EPROTO, "its HOP_HELLO is malformed (is it of another version?)");
	else if (!hops->identified || hello.session != hops->self.session)
		err = kr_fail(-ENOTCONN, "it looks for a session that is not ours");
	else
		err = kr_pair_challenge(&peer->pair, &hello, hops->self.ring_key, hops->self.least, &fresh, &reply);
	sodium_memzero(&fresh, sizeof(fresh));
	if (err < 0) {
		refuse(peer, frame, err, kr_fail_reason());
		return;
	}
	peer->node = hello.node;
	kr_conn_reply(peer->conn, KR_MSG_HOP_HELLO, frame->header.id, 0, 0, &reply, NULL, 0);
}

static void on_prove(struct peer *peer, const struct kr_frame *frame)
{
	const struct kr_hops *hops = peer->hops;
	struct kr_hop_prove_request prove;
	struct kr_seal_keys keys;
	int err = kr_msg_decode(KR_MSG_HOP_PROVE, false, frame->fields, frame->header.fields_length, &prove, NULL);

	err = err < 0 ? kr_fail(-EPROTO, "its HOP_PROVE is malformed") : kr_pair_verify(&peer->pair, &prove, &keys);
	if (err < 0) {
		refuse(peer, frame, err, kr_fail_reason());
		return;
	}
	kr_conn_seal(peer->conn, &keys);
	sodium_memzero(&keys, sizeof(keys));
	if (count_of(hops, peer->node) >= KR_HOPS_PER_NODE) {
		refuse(peer, frame, -EAGAIN, "too many connections of one node");
		return;
	}
	peer->greeted = true;
	no_longer_stranger(peer);
	kr_conn_set_guest(peer->conn, false);
	kr_conn_reply(peer->conn, KR_MSG_HOP_PROVE, frame->header.id, 0, 0, NULL, NULL, 0);
}

static void on_other(struct peer *peer, const struct kr_frame *frame)
{
	struct kr_hops *hops = peer->hops;

	for (size_t i = 0; i < hops->handler_count; i++) {
		if (hops->handlers[i].type == frame->header.type) {
			hops->handlers[i].frame(hops->mount, peer->conn, peer->node, frame);
			return;
		}
	}
	if (!(frame->header.flags & KR_FRAME_ONEWAY))
		kr_conn_reply(peer->conn, frame->header.type, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct peer *peer = kr_conn_context(conn);
	uint16_t type = frame->header.type;

	if (type == KR_MSG_HOP_HELLO && !peer->greeted)
		on_hello(peer, frame);
	else if (type == KR_MSG_HOP_PROVE && !peer->greeted)
		on_prove(peer, frame);
	else if (!peer->greeted)
		refuse(peer, frame, -EPROTO, "it does not begin with HOP_HELLO");
	else if (type == KR_MSG_PULL && !(frame->header.flags & KR_FRAME_ONEWAY))
		on_pull(peer, frame);
	else if (type == KR_MSG_HAVE && !(frame->header.flags & KR_FRAME_ONEWAY))
		on_have(peer, frame);
	else if (type == KR_MSG_HOP_VERBS)
		kr_verbs_answer(peer->hops->verbs, conn, frame);
	else
		on_other(peer, frame);
}

static void on_drain(struct kr_conn *conn)
{
	pump(kr_conn_context(conn));
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct peer *peer = kr_conn_context(conn);
	struct kr_hops *hops = peer->hops;
	uint64_t received, sent;

	kr_conn_counters(conn, &received, &sent);
	hops->received += received;
	hops->sent += sent;
	if (err != 0 && !peer->greeted)
		kr_log_info("ring connection from %s dropped: %s", kr_conn_peer(conn), reason);
	for (size_t i = 0; peer->greeted && i < hops->handler_count; i++) {
		if (hops->handlers[i].closed)
			hops->handlers[i].closed(hops->mount, conn);
	}
	no_longer_stranger(peer);
	peer->conn = NULL;
	while (!kr_list_empty(&peer->pulls))
		end_pull(KR_LIST_ENTRY(peer->pulls.head.next, struct pull, link), -ECONNRESET);
	kr_list_remove(&peer->link);
	hops->incoming_count--;
	put_peer(peer);
}

static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_drain = on_drain, .on_closed = on_closed};

void kr_downstream_accept(struct kr_hops *hops, uv_stream_t *listener)
{
	struct peer *peer = kr_xcalloc(1, sizeof(*peer));

	peer->hops = hops;
	peer->references = 1;
	peer->since_ns = kr_clock_ns();
	kr_list_init(&peer->pulls);
	kr_list_init(&peer->ready);
	if (kr_conn_accept(listener, &handler, peer, &peer->conn) < 0) {
		free(peer);
		return;
	}
	kr_conn_set_guest(peer->conn, true);
	kr_conn_set_ring(peer->conn);
	kr_list_append(&hops->incoming, &peer->link);
	peer->stranger = true;
	hops->strangers++;
	kr_hops_start_tick(hops);
	limit_strangers(hops);
	if (++hops->incoming_count > KR_HOPS_INCOMING || hops->closing)
		kr_conn_close(peer->conn, false);
}

void kr_downstream_cancel(struct kr_hops *hops, const struct kr_fid *fid)
{
	struct peer *peer;
	struct pull *pull, *after;

	KR_LIST_FOR_EACH(peer, &hops->incoming, link) {
		KR_LIST_FOR_EACH_SAFE(pull, after, &peer->pulls, link) {
			if (kr_fid_equal(&pull->fid, fid))
				end_pull(pull, -ECANCELED);
		}
	}
}

void kr_downstream_tick(struct kr_hops *hops)
{
	uint64_t now_ns = kr_clock_ns();
	struct peer *peer, *after;

	KR_LIST_FOR_EACH_SAFE(peer, after, &hops->incoming, link) {
		if (!peer->greeted && now_ns - peer->since_ns > KR_HOP_HELLO_S * KR_NS_PER_S)
			kr_conn_close(peer->conn, false);
	}
}

void kr_downstream_count(const struct kr_hops *hops, struct kr_hops_counters *counters)
{
	struct peer *peer;

	KR_LIST_FOR_EACH(peer, &hops->incoming, link)
		kr_hop_count(peer->conn, counters);
}

void kr_downstream_each(const struct kr_hops *hops, kr_hop_each_fn each, void *context)
{
	struct peer *peer;

	KR_LIST_FOR_EACH(peer, &hops->incoming, link) {
		if (peer->greeted)
			each(context, peer->conn, true);
	}
}

void kr_downstream_close_all(struct kr_hops *hops)
{
	struct peer *peer, *after;

	KR_LIST_FOR_EACH_SAFE(peer, after, &hops->incoming, link)
		kr_conn_close(peer->conn, false);
}
