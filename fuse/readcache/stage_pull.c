/* What a stage pulls: joining the pipeline, asking the upstream for batches, taking what comes, changing upstreams.
 *
 *   no upstream --something is wanted--> JOIN (or REPARENT, when one has failed) --reply--> upstream
 *   upstream --UPSTREAM from the server--> another (what was asked from the former still comes from it)
 *   upstream --broken, silent, refuses, damaged data--> none
 *
 * A PULL belongs to the generation of the stage for which it was sent.  What comes for an earlier generation only frees
 * its share of the budget.  Loop thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage_priv.h"

/* One PULL under way. */
struct pull {
	struct kr_stage *stage;  /* reference */
	struct kr_upstream *hop; /* reference */
	struct kr_upstream_lane *lane;
	struct kr_link link; /* in its list */
	bool taken_back;     /* its blocks are asked of others, too, and do not count against the budget */
	uint64_t generation, size;
	uint64_t blocks[KR_PULL_BATCH]; /* not yet answered */
	size_t count;
};

struct question {
	struct kr_stage *stage; /* reference */
	uint64_t epoch;
};

/* --- the choice of the upstream --------------------------------------------------------------- */

static void set_upstream(struct kr_stage *stage, struct kr_upstream *hop)
{
	if (stage->upstream) {
		kr_list_remove(&stage->upstream_link);
		kr_upstream_put(stage->upstream);
		kr_hops_start_tick(stage->mount->hops); /* it may be idle now */
	}
	stage->upstream = hop;
	if (hop)
		kr_list_append(&hop->stages, &stage->upstream_link);
	kr_stage_end_trial(stage);
	kr_puller_set_upstream(&stage->puller, hop ? hop->id : 0);
}

/* Nothing can be had: the waiting readers and peers hear of it. */
static void fail_all(struct kr_stage *stage, int err)
{
	kr_stage_note_failed(stage, KR_STAGE_ANY_BLOCK, err);
	kr_stage_stop_pulling(stage, err);
	kr_stage_step(stage);
}

static void retry_later(struct kr_stage *stage)
{
	/* The first time at once: a connection may break although the server lives. */
	uint64_t delay_ms = stage->retries ? UINT64_C(50) << KR_MIN(stage->retries, 5u) : 0;

	stage->retries++;
	stage->retry_ns = kr_clock_ns() + delay_ms * KR_NS_PER_MS;
}

void kr_stage_take_upstream(struct kr_stage *stage, const struct kr_hop_address *to)
{
	struct kr_upstream *hop = kr_upstream_get(stage->mount->hops, to);

	if (!hop) {
		/* An address that we can't use: the server has others, at last its own. */
		set_upstream(stage, NULL);
		stage->failed_once = true;
		stage->failed_node = to->node;
		retry_later(stage);
		return;
	}
	set_upstream(stage, hop);
	kr_stage_advance(stage);
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct question *question = context;
	struct kr_stage *stage = question->stage;

	(void)data;
	if (stage->epoch == question->epoch) {
		stage->asking = false;
		if (err < 0) {
			fail_all(stage, err == -ECANCELED ? -EIO : err);
		} else {
			/* Both replies are one HOP. */
			stage->joined = true;
			stage->failed_once = false;
			kr_stage_take_upstream(stage, &((const struct kr_join_reply *)reply)->upstream);
		}
	}
	kr_stage_unref(stage);
	free(question);
}

static void ask_upstream(struct kr_stage *stage)
{
	struct question *question = kr_xcalloc(1, sizeof(*question));
	struct kr_rpc *rpc = stage->mount->rpc;

	*question = (struct question){kr_stage_ref(stage), stage->epoch};
	stage->asking = true;
	/* When it is the server that has failed, joining anew gives its present address and token. */
	if (stage->joined && stage->failed_once && stage->failed_node != 0) {
		struct kr_reparent_request request = {
			.file = stage->fid, .node = stage->failed_node, .complaint = KR_COMPLAINT_FAILED};

		kr_rpc_call(rpc, KR_MSG_REPARENT, &request, NULL, 0, KR_RPC_READ_ONLY, on_answer, question);
	} else {
		struct kr_join_request request = {.file = stage->fid, .version = stage->version};

		kr_rpc_call(rpc, KR_MSG_JOIN, &request, NULL, 0, KR_RPC_READ_ONLY, on_answer, question);
	}
}

void kr_stage_upstream_lost(struct kr_stage *stage, struct kr_upstream *hop)
{
	kr_puller_lost(&stage->puller, hop->id);
	if (stage->beside == hop)
		kr_stage_beside_lost(stage);
	if (stage->upstream != hop)
		return;
	stage->failed_once = true;
	stage->failed_node = hop->to.node;
	if (hop->to.node == 0)
		retry_later(stage);
	set_upstream(stage, NULL);
}

/* UPSTREAM from the server. */
static void on_upstream(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data)
{
	const struct kr_upstream_request *request = msg;
	struct kr_stage *stage = kr_stage_find(mount->hops, &request->file);
	struct kr_upstream *hop;

	(void)data;
	if (stage && stage->live && stage->joined) {
		KR_LIST_FOR_EACH(hop, &mount->hops->outgoing, link) {
			if (request->last && hop->to.node == request->last)
				kr_puller_take_back(&stage->puller, hop->id);
		}
		kr_stage_take_upstream(stage, &request->upstream);
		if (request->last == mount->hops->self.node)
			kr_downstream_cancel(mount->hops, &request->file);
	}
	kr_rpc_answer(mount->rpc, down, 0, &(struct kr_upstream_reply){});
}

int kr_stages_init(struct kr_mount *mount)
{
	kr_rpc_on(mount->rpc, KR_MSG_UPSTREAM, on_upstream);
	return 0;
}

void kr_stages_rejoin(struct kr_mount *mount)
{
	struct kr_stage *stage;

	KR_LIST_FOR_EACH(stage, &mount->hops->stages, link) {
		stage->epoch++;
		stage->joined = stage->asking = stage->failed_once = false;
		set_upstream(stage, NULL);
		kr_puller_renew(&stage->puller);
		/* A stage that only feeds others joins, too, when something is next wanted of it. */
		kr_stage_advance(stage);
	}
}

/* --- asking ----------------------------------------------------------------------------------- */

/* The server says that the version is gone: attributes have to be asked again. */
static void outdated(struct kr_stage *stage)
{
	stage->outdated = true;
	kr_stage_stop_pulling(stage, -ESTALE);
	if (stage->file)
		stage->hooks->outdated(stage->file);
}

static void on_block(struct pull *pull, const struct kr_pull_reply *reply, struct kr_buf *data);
static void end_pull(struct pull *pull, int err);

/* ERR: 0 and MORE: a block; else the end. */
static void on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct pull *pull = context;

	if (err == 0 && more)
		on_block(pull, reply, data);
	else
		end_pull(pull, err);
}

uint32_t kr_stage_ranges(const uint64_t *blocks, size_t count, struct kr_range *ranges)
{
	uint32_t used = 0;

	for (size_t i = 0; i < count; i++) {
		if (used > 0 && ranges[used - 1].offset + ranges[used - 1].length == blocks[i])
			ranges[used - 1].length++;
		else
			ranges[used++] = (struct kr_range){blocks[i], 1};
	}
	return used;
}

/* Queues again what PULL owes. */
static void requeue(struct pull *pull)
{
	struct kr_fetches *fetches = &pull->stage->puller.fetches;

	for (size_t i = pull->count; i-- > 0;) {
		struct kr_fetch *fetch = kr_fetches_find(fetches, pull->blocks[i]);

		if (fetch && fetch->state == KR_FETCH_ASKED && fetch->upstream == pull->hop->id)
			kr_fetches_mark_queued(fetches, fetch);
	}
}

/* Whom the stage asks next. */
static struct kr_upstream *asked_hop(const struct kr_stage *stage)
{
	return stage->beside ? stage->beside : stage->upstream;
}

static bool send_pull(struct kr_stage *stage, uint32_t lane, const uint64_t *blocks, size_t count)
{
	struct kr_range ranges[KR_PULL_BATCH];
	struct kr_hops *hops = stage->mount->hops;
	struct kr_pull_request request = {.file = stage->fid, .version = stage->version};
	struct pull *pull = kr_xcalloc(1, sizeof(*pull));

	request.blocks = (struct kr_ranges){ranges, kr_stage_ranges(blocks, count, ranges)};
	pull->stage = kr_stage_ref(stage);
	pull->hop = asked_hop(stage);
	pull->hop->references++;
	pull->lane = &pull->hop->conns[lane];
	pull->generation = stage->generation;
	pull->size = stage->size;
	memcpy(pull->blocks, blocks, count * sizeof(*blocks));
	pull->count = count;
	if (kr_conn_request(pull->lane->conn, KR_MSG_PULL, &request, NULL, 0, on_reply, pull) == 0) {
		requeue(pull);
		kr_upstream_put(pull->hop);
		kr_stage_unref(stage);
		free(pull);
		return false;
	}
	pull->hop->pulls++;
	kr_hops_start_tick(stage->mount->hops);
	kr_list_append(&pull->lane->pulls, &pull->link);
	kr_lanes_asked(&pull->hop->lanes, lane, (uint32_t)count);
	hops->charged += count * KR_BLOCK_SIZE;
	return true;
}

/* Goes on when blocks of any stage have come. */
static void wait_for_room(struct kr_stage *stage)
{
	if (!kr_link_linked(&stage->starved))
		kr_list_append(&stage->mount->hops->starved, &stage->starved);
}

/* How many blocks may be asked now. */
static size_t allowance(struct kr_stage *stage)
{
	struct kr_hops *hops = stage->mount->hops;
	uint64_t budget = hops->charged < KR_HOPS_BUDGET ? (KR_HOPS_BUDGET - hops->charged) / KR_BLOCK_SIZE : 0;

	/* A trial costs little: the upstream will ask the server for the same blocks, or is well itself. */
	if (stage->beside && (stage->beside->to.node == 0 || !stage->hedge.silent)) {
		uint32_t owed = kr_puller_owed(&stage->puller, stage->beside->id);

		budget = KR_MIN(budget, (uint64_t)(owed < KR_HEDGE_WINDOW ? KR_HEDGE_WINDOW - owed : 0));
		if (budget == 0)
			return 0;
	}
	if (budget == 0) {
		wait_for_room(stage);
		return 0;
	}
	if (kr_puller_holds_back(&stage->puller)) {
		stage->upstream->lanes.full = true;
		return 0;
	}
	return stage->solo ? 1 : KR_MIN(budget, (uint64_t)KR_PULL_BATCH);
}

/* The puller's read-ahead range is used up: the next one. */
static bool next_ahead(struct kr_stage *stage)
{
	KR_SCOPED_LOCK(&stage->lock);
	while (stage->ahead_count > 0) {
		uint64_t from = stage->ahead[0].offset, end = from + stage->ahead[0].length;

		memmove(&stage->ahead[0], &stage->ahead[1], sizeof(stage->ahead[0]) * --stage->ahead_count);
		from = kr_cache_next_absent(stage->entry, from, end);
		if (from < end) {
			kr_puller_ahead(&stage->puller, from, end);
			return true;
		}
	}
	return false;
}

/* Whether anything is to be asked. */
static bool has_work(struct kr_stage *stage)
{
	struct kr_puller *puller = &stage->puller;

	return puller->fetches.queued_count > 0 || puller->ahead_next < puller->ahead_end || next_ahead(stage);
}

/* Whether there is more to be asked than the puller lets through now. */
static bool is_waiting(const struct kr_stage *stage)
{
	const struct kr_puller *puller = &stage->puller;

	return puller->ahead_next < puller->ahead_end || puller->fetches.queued_count > 0;
}

enum progress {
	GO_ON, /* the next batch may be asked */
	WAIT,  /* an event will go on: blocks, an answer, the tick */
	LOST,  /* the asked upstream has no connection any more */
};

static enum progress wait_for_upstream(struct kr_stage *stage)
{
	if (!stage->asking && kr_clock_ns() >= stage->retry_ns)
		ask_upstream(stage);
	kr_hops_start_tick(stage->mount->hops);
	return WAIT;
}

static enum progress ask_batch(struct kr_stage *stage)
{
	struct kr_upstream *hop = asked_hop(stage);
	uint64_t blocks[KR_PULL_BATCH];
	size_t count, most = allowance(stage);
	uint32_t room;
	int lane;

	if (most == 0)
		return WAIT;
	lane = kr_lanes_pick(&hop->lanes, stage->puller.window, &room);
	if (lane < 0 && !kr_upstream_conn(hop))
		return LOST;
	if (lane < 0) {
		hop->lanes.full = true;
		wait_for_room(stage);
		return WAIT;
	}
	count = kr_puller_next(&stage->puller, blocks, KR_MIN(most, (size_t)room));
	if (count == 0 && is_waiting(stage)) {
		stage->upstream->lanes.full = true; /* the window is full */
		return WAIT;
	}
	if (count > 0 && !send_pull(stage, (uint32_t)lane, blocks, count) && !kr_upstream_lane_lost(&hop->conns[lane]))
		return LOST;
	if (stage->solo > 0 && count > 0)
		stage->solo--;
	return GO_ON;
}

void kr_stage_advance(struct kr_stage *stage)
{
	enum progress progress = GO_ON;

	if (!stage->live || !stage->known || stage->loading || stage->patching || stage->outdated || !stage->file ||
		stage->mount->hops->closing)
		return;
	while (progress == GO_ON && has_work(stage))
		progress = stage->upstream ? ask_batch(stage) : wait_for_upstream(stage);
	if (progress == LOST)
		kr_stage_upstream_lost(stage, asked_hop(stage));
}

void kr_stage_stop_pulling(struct kr_stage *stage, int err)
{
	struct kr_list waiters;

	kr_list_init(&waiters);
	kr_puller_reset(&stage->puller, &waiters);
	kr_list_move(&stage->parked, &waiters);
	pthread_mutex_lock(&stage->lock);
	stage->ahead_count = 0;
	pthread_mutex_unlock(&stage->lock);
	kr_list_remove(&stage->starved);
	stage->solo = 0;
	kr_stage_tell(&waiters, err, NULL, 0);
}

void kr_stage_part(struct kr_stage *stage, int err)
{
	kr_stage_stop_pulling(stage, err);
	set_upstream(stage, NULL);
	stage->epoch++;
	stage->joined = stage->asking = stage->failed_once = false;
	stage->retries = 0;
	stage->retry_ns = 0;
}

void kr_stages_advance(struct kr_hops *hops)
{
	struct kr_stage *stage, *after;

	KR_LIST_FOR_EACH_SAFE(stage, after, &hops->stages, link)
		kr_stage_advance(stage);
}

bool kr_stage_tick(struct kr_stage *stage)
{
	if ((!stage->upstream && !stage->asking) || kr_link_linked(&stage->starved))
		kr_stage_advance(stage);
	kr_stage_hedge_tick(stage);
	return has_work(stage);
}

/* --- taking what comes ------------------------------------------------------------------------ */

/* Whether BLOCK was asked by PULL and not answered; if so it is answered now. */
static bool tick_off(struct pull *pull, uint64_t block)
{
	for (size_t i = 0; i < pull->count; i++) {
		if (pull->blocks[i] == block) {
			pull->blocks[i] = pull->blocks[--pull->count];
			return true;
		}
	}
	return false;
}

static uint32_t lane_number(const struct pull *pull)
{
	return (uint32_t)(pull->lane - pull->hop->conns);
}

/* BLOCKS of PULL are no longer awaited. */
static void uncharge(const struct pull *pull, size_t blocks)
{
	if (!pull->taken_back)
		kr_hops_uncharge(pull->stage->mount->hops, blocks * KR_BLOCK_SIZE);
}

static bool is_sound(const struct pull *pull, const struct kr_pull_reply *reply, const struct kr_buf *data)
{
	return data && data->length == kr_cache_block_length(pull->size, reply->block) &&
		kr_checksum(data->data, data->length) == reply->checksum;
}

/* Whole, but as long as the file is by now: without a version (0) the server cannot tell what the attributes were of.
 */
static bool is_of_other_size(const struct pull *pull, const struct kr_pull_reply *reply, const struct kr_buf *data)
{
	return pull->hop->to.node == 0 && data && data->length != kr_cache_block_length(pull->size, reply->block) &&
		kr_checksum(data->data, data->length) == reply->checksum;
}

/* One more block has come. */
static void adapt_window(struct kr_stage *stage)
{
	uint64_t rtt_us = 0, least = KR_PULL_WINDOW_MIN;

	if (stage->beside)
		least += KR_HEDGE_WINDOW;
	if (stage->upstream) {
		rtt_us = stage->upstream->rtt_us;
		least = KR_MAX(least, (uint64_t)KR_LANES_UNPROVEN * stage->upstream->lanes.count);
	}
	kr_puller_adapt(&stage->puller, kr_clock_ns(), rtt_us, least);
}

static void on_block(struct pull *pull, const struct kr_pull_reply *reply, struct kr_buf *data)
{
	struct kr_stage *stage = pull->stage;
	struct kr_hops *hops = stage->mount->hops;

	if (!tick_off(pull, reply->block)) {
		kr_upstream_break(pull->hop, "sent a block that was not asked");
		return;
	}
	kr_lanes_came(&pull->hop->lanes, lane_number(pull));
	if (!is_sound(pull, reply, data)) {
		uncharge(pull, 1);
		if (is_of_other_size(pull, reply, data)) {
			if (pull->generation == stage->generation && stage->live)
				outdated(stage);
			return;
		}
		kr_log_warn("a block from %s is damaged: asking elsewhere", kr_upstream_peer(pull->hop));
		kr_upstream_break(pull->hop, "sent a damaged block");
		return;
	}
	pull->hop->blocks++;
	hops->came++;
	stage->retries = 0;
	adapt_window(stage);
	if (pull->generation == stage->generation && stage->live)
		kr_stage_hedge_came(stage, pull->hop);
	if (pull->generation != stage->generation || !stage->live || kr_stage_has(stage, reply->block)) {
		struct kr_list waiters;

		kr_list_init(&waiters);
		if (pull->generation == stage->generation)
			kr_puller_arrived(&stage->puller, reply->block, &waiters);
		kr_stage_tell(&waiters, -EAGAIN, NULL, 0);
		kr_stage_step(stage); /* a job of the file's former stage may have put the block, and woken no reader */
		uncharge(pull, 1);
	} else if (data->length == stage->size && !stage->whole.waits) {
		uncharge(pull, 1);
		kr_stage_deliver_whole(stage, data, reply->checksum);
	} else {
		kr_stage_deliver(stage, reply->block, data, reply->checksum, !pull->taken_back);
	}
	kr_stage_advance(stage);
}

uint64_t kr_stage_take_back(const struct kr_list *pulls)
{
	struct kr_link *link;
	uint64_t blocks = 0;

	/* Each goes to the head of its queue. */
	for (link = pulls->head.prev; link != &pulls->head; link = link->prev) {
		struct pull *pull = KR_LIST_ENTRY(link, struct pull, link);

		if (pull->taken_back)
			continue;
		if (pull->generation == pull->stage->generation && pull->stage->live) {
			requeue(pull);
			blocks += pull->count;
		}
		pull->stage->mount->hops->charged -= pull->count * KR_BLOCK_SIZE;
		pull->taken_back = true;
	}
	return blocks;
}

/* An upstream can't read a block: which one is found out by asking one by one. */
static void unreadable(struct pull *pull, int err)
{
	struct kr_stage *stage = pull->stage;
	struct kr_list waiters;

	if (pull->count != 1) {
		stage->solo += (uint32_t)pull->count;
		requeue(pull);
		return;
	}
	kr_list_init(&waiters);
	kr_stage_note_failed(stage, pull->blocks[0], err);
	kr_puller_arrived(&stage->puller, pull->blocks[0], &waiters);
	kr_stage_tell(&waiters, err, NULL, 0);
	kr_stage_step(stage);
}

/* PULL's last reply for the present generation. */
static void conclude(struct pull *pull, int err)
{
	struct kr_stage *stage = pull->stage;
	bool server = pull->hop->to.node == 0;

	if (err == 0 && pull->count == 0)
		return;
	if (err == -ESTALE && server)
		outdated(stage);
	else if (server && err != 0 && err != -ECONNRESET && err != -ECANCELED && err != -ENOTCONN)
		unreadable(pull, err);
	else if (!server && (err == -EIO || err == -ENXIO))
		unreadable(pull, err);
	else
		kr_stage_upstream_lost(stage, pull->hop);
}

static void end_pull(struct pull *pull, int err)
{
	struct kr_stage *stage = pull->stage;
	struct kr_upstream *hop = pull->hop;
	bool others_left = false;

	hop->pulls--;
	kr_list_remove(&pull->link);
	kr_lanes_refused(&hop->lanes, lane_number(pull), (uint32_t)pull->count);
	if (err == -ECONNRESET)
		others_left = kr_upstream_lane_lost(pull->lane);
	if (pull->generation == stage->generation && stage->live && others_left && !pull->taken_back)
		requeue(pull);
	else if (pull->generation == stage->generation && stage->live && !others_left)
		conclude(pull, err);
	uncharge(pull, pull->count);
	kr_stage_advance(stage);
	free(pull);
	kr_upstream_put(hop);
	kr_stage_unref(stage);
}
