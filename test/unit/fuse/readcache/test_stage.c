/* Stages of several nodes that pull from each other: what is read is right, whatever happens in between. */
#include "test/unit/fuse/readcache/ring_world.h"

static void all_nodes_read_and_the_server_sends_each_block_about_once(void **state)
{
	(void)state;
	world->no_other = true;
	start_all(LARGE);
	for (uint32_t i = 1; i <= NODES; i++)
		world->nodes[i].mount.hops->patience_ms = 2 * DEADLINE_S * 1000;
	read_all(NULL);
	for (uint32_t i = 1; i <= NODES; i++)
		assert_int_equal(world->nodes[i].error, 0);
	assert_in_range(world->blocks_sent, 0, file_blocks() + 8);
}

static void a_disk_that_keeps_nothing_fails_no_read(void **state)
{
	(void)state;
	start_all(1);
	read_all(NULL);
	for (uint32_t i = 1; i <= NODES; i++)
		assert_int_equal(world->nodes[i].error, 0);
}

/* Turns until the node cannot go on, or has all. */
static int stage_all(struct node *node, uint64_t *ret_bytes)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;
	int err;

	while ((err = kr_stage_all(node->stage, ret_bytes)) == 0) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	return err;
}

static void a_node_whose_disk_is_full_says_so_and_pulls_a_staged_file_once(void **state)
{
	uint64_t bytes;

	(void)state;
	start_node(1, 1);
	assert_int_equal(stage_all(&world->nodes[1], &bytes), -ENOSPC);
	assert_int_equal(bytes, 0);
	assert_int_equal(stage_all(&world->nodes[1], &bytes), -ENOSPC);
	assert_int_equal(world->blocks_sent, file_blocks());
	start_node(2, world->size / 2);
	assert_int_equal(stage_all(&world->nodes[2], &bytes), -ENOSPC);
	assert_in_range(bytes, 1, world->size / 2);
	assert_int_equal(stage_all(&world->nodes[2], &bytes), -ENOSPC);
	start_node(3, LARGE);
	assert_int_equal(stage_all(&world->nodes[3], &bytes), 1);
	assert_int_equal(bytes, world->size);
}

static void kill_some(uint64_t turns)
{
	uint64_t reached = world->nodes[6].position;

	(void)turns;
	if (reached > world->size / 5 && world->disturbances == 0)
		stop_node(2);
	else if (reached > world->size / 4 && world->disturbances == 1)
		stop_node(4);
	else if (reached > world->size / 3 && world->disturbances == 2)
		start_node(2, LARGE);
	else if (reached > world->size / 2 && world->disturbances == 3)
		break_server_connections();
	else
		return;
	world->disturbances++;
}

static void members_may_die_and_join_in_the_middle(void **state)
{
	(void)state;
	start_all(LARGE);
	read_all(kill_some);
	for (uint32_t i = 1; i <= NODES; i++)
		assert_int_equal(world->nodes[i].error, 0);
	assert_int_equal(world->disturbances, 4);
}

/* As if NODE's upstream had lost a trial. */
static void find_slow(const struct node *node)
{
	uint32_t slow = kr_pipeline_upstream(&world->pipeline, node->number), upstream;

	if (kr_pipeline_put_last(&world->pipeline, node->number, slow, tell_upstream, &slow, &upstream) == 0)
		tell_upstream(&slow, node->number, upstream);
}

/* As if the links of NODE had become long, or one of the connections had broken. */
static void change_lanes(struct node *node, bool breaks)
{
	struct kr_upstream *hop;

	KR_LIST_FOR_EACH(hop, &node->mount.hops->outgoing, link) {
		uint32_t lane = (uint32_t)rand_r(&world->random) % LANES;

		hop->lanes.wanted = LANES;
		if (breaks && hop->conns[lane].conn)
			kr_conn_close(hop->conns[lane].conn, false);
		world->lanes = KR_MAX(world->lanes, hop->open);
	}
	kr_upstream_tick(node->mount.hops);
}

static void disturb(uint64_t turns)
{
	struct node *node = &world->nodes[1 + (uint32_t)rand_r(&world->random) % NODES];
	uint64_t offset = (uint64_t)rand_r(&world->random) % (world->size - 5000);

	if (node->up)
		(void)try_read(node, offset, 5000);
	if (turns > 1000 || rand_r(&world->random) % 2)
		return;
	world->disturbances++;
	switch (rand_r(&world->random) % 11) {
	case 0:
		stop_node(node->number);
		break;
	case 1:
	case 2:
	case 3:
		if (!node->up) {
			start_node(node->number, LARGE);
			node->position = 0;
			node->done = false;
		}
		break;
	case 4:
		break_server_connections();
		break;
	case 5:
		if (node->up)
			kr_upstream_close_all(node->mount.hops);
		break;
	case 6:
		world->corrupt = 1;
		break;
	case 7:
		find_slow(node);
		break;
	case 8:
	case 9:
		if (node->up)
			change_lanes(node, rand_r(&world->random) % 2);
		break;
	default:
		if (node->up) {
			kr_stage_suspend(node->stage);
			kr_pipeline_leave(&world->pipeline, node->number, tell_upstream, NULL);
			kr_stage_set(node->stage, world->version, world->size);
		}
	}
}

static void random_disturbances_leave_every_byte_right_and_every_reader_goes_on(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 6; seed++) {
		world->random = seed;
		world->version = 10 + seed;
		for (uint32_t i = 1; i <= NODES; i++) {
			if (!world->nodes[i].up)
				start_node(i, LARGE);
			kr_stage_set(world->nodes[i].stage, world->version, world->size);
			world->nodes[i].position = 0;
			world->nodes[i].done = false;
		}
		read_all(disturb);
		for (uint32_t i = 1; i <= NODES; i++)
			assert_int_equal(world->nodes[i].error, 0);
	}
	assert_true(world->disturbances > 100);
	assert_in_range(world->lanes, 2, LANES);
}

static bool has_joined(struct node *node)
{
	return node->stage->upstream != NULL;
}

/* For its own block, and for the one that the other node wants of it. */
static bool has_asked_the_server_twice(struct node *node)
{
	(void)node;
	return world->unanswered == 2;
}

static bool can_read_the_first_block(struct node *node)
{
	for (uint32_t i = 1; i <= 2; i++) {
		struct kr_upstream *hop;

		KR_LIST_FOR_EACH(hop, &world->nodes[i].mount.hops->outgoing, link)
			hop->silent_ticks = 0; /* nobody loses patience and finds another way */
	}
	return try_read(node, 0, 100) == 1;
}

static void until(bool (*condition)(struct node *node), struct node *node)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	while (!condition(node)) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
}

/* In the first pipeline the second node waits for the first; in the one after a start of the server the other way
 * round. */
static void nodes_do_not_wait_in_a_circle_after_a_restart_of_the_server(void **state)
{
	struct node *first = &world->nodes[1], *second = &world->nodes[2];

	(void)state;
	start_node(1, LARGE);
	start_node(2, LARGE);
	world->silent = true;
	assert_int_equal(try_read(first, UINT64_C(40) * BLOCK, 100), 0);
	until(has_joined, first);
	assert_int_equal(try_read(second, 0, 100), 0);
	until(has_asked_the_server_twice, first);
	kr_pipeline_fini(&world->pipeline);
	kr_pipeline_init(&world->pipeline);
	kr_stages_rejoin(&second->mount);
	assert_int_equal(try_read(second, UINT64_C(80) * BLOCK, 100), 0);
	until(has_joined, second);
	break_server_connections();
	world->silent = false;
	kr_stages_rejoin(&first->mount);
	until(can_read_the_first_block, second);
	until(can_read_the_first_block, first);
}

/* The second node waits for the first, which becomes the last and then has to ask the second. */
static void nodes_do_not_wait_in_a_circle_when_a_member_becomes_the_last(void **state)
{
	struct node *first = &world->nodes[1], *second = &world->nodes[2];

	(void)state;
	start_node(1, LARGE);
	start_node(2, LARGE);
	/* Nobody gives up, and nobody is named another way. */
	world->no_other = true;
	first->mount.hops->patience_ms = second->mount.hops->patience_ms = 2 * DEADLINE_S * 1000;
	world->silent = true;
	assert_int_equal(try_read(first, UINT64_C(40) * BLOCK, 100), 0);
	until(has_joined, first);
	assert_int_equal(try_read(second, 0, 100), 0);
	until(has_asked_the_server_twice, first);
	find_slow(second);
	assert_int_equal(kr_pipeline_upstream(&world->pipeline, 1), 2);
	world->silent = false;
	break_server_connections();
	until(can_read_the_first_block, second);
	until(can_read_the_first_block, first);
}

static void turns_until_joined(uint32_t number)
{
	assert_true(try_read(&world->nodes[number], 0, 100) >= 0);
	until(has_joined, &world->nodes[number]);
}

static bool has_all_lanes(struct node *node)
{
	return node->stage->upstream && node->stage->upstream->open == LANES;
}

/* The peer holds back what it owes on one of the connections, and the node's clock goes on. */
static void blocks_of_a_late_lane_come_over_another(void **state)
{
	struct node *node = &world->nodes[1];
	struct kr_upstream *hop;
	uint32_t late = 0;

	(void)state;
	start_node(1, LARGE);
	turns_until_joined(1);
	hop = node->stage->upstream;
	hop->lanes.wanted = LANES;
	kr_upstream_tick(node->mount.hops);
	until(has_all_lanes, node);
	while (hop->lanes.lanes[late].owed == 0) {
		late = (late + 1) % LANES;
		read_on(node, 1);
		turn();
		assert_false(node->done);
	}
	kr_conn_pause(hop->conns[late].conn);
	read_all(NULL);
	assert_int_equal(node->error, 0);
	assert_true(node->mount.hops->reassigned > 0);
}

/* Node 3 has joined, but can ask nobody: its peers would wait for it. */
static void members_go_round_one_that_has_nothing(void **state)
{
	struct node *third = &world->nodes[3];

	(void)state;
	start_all(LARGE);
	for (uint32_t i = 1; i <= NODES; i++) {
		world->nodes[i].mount.hops->patience_ms = 2 * DEADLINE_S * 1000;
		turns_until_joined(i);
	}
	third->mount.hops->charged += KR_HOPS_BUDGET; /* so much is on its way that it asks for nothing */
	third->done = true;
	read_all(NULL);
	for (uint32_t i = 1; i <= NODES; i++)
		assert_int_equal(world->nodes[i].error, 0);
	assert_true(world->blocks_sent <= file_blocks() + 16);
	third->mount.hops->charged -= KR_HOPS_BUDGET;
}

static bool has_given_node_1_up(struct node *node)
{
	struct kr_upstream *hop;

	KR_LIST_FOR_EACH(hop, &node->mount.hops->outgoing, link) {
		hop->lanes.lanes[0].bytes = UINT64_MAX; /* as if some bytes had come since */
		if (hop->to.node == 1 && !hop->ending)
			return false;
	}
	return true;
}

/* After KR_HOP_SLOW times the patience with a silent upstream. */
static void an_upstream_that_sends_bytes_and_no_whole_block_is_given_up(void **state)
{
	struct node *first = &world->nodes[1], *second = &world->nodes[2];

	(void)state;
	start_node(1, LARGE);
	start_node(2, LARGE);
	second->mount.hops->patience_ms = 250;
	world->silent = true; /* node 1 never has the block */
	assert_int_equal(try_read(first, UINT64_C(40) * BLOCK, 100), 0);
	until(has_joined, first);
	assert_int_equal(try_read(second, 0, 100), 0);
	until(has_joined, second);
	assert_int_equal(second->stage->upstream->to.node, 1);
	until(has_given_node_1_up, second);
	world->silent = false;
	break_server_connections();
	until(can_read_the_first_block, second);
}

static void the_next_mount_finds_what_was_staged(void **state)
{
	uint64_t sent;

	(void)state;
	start_node(1, LARGE);
	read_all(NULL);
	stop_node(1);
	sent = world->blocks_sent;
	start_node(1, LARGE);
	world->nodes[1].position = 0;
	world->nodes[1].done = false;
	read_all(NULL);
	assert_int_equal(world->blocks_sent, sent);
}

static void a_block_that_the_server_cannot_read_fails_alone(void **state)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;
	int got;

	(void)state;
	world->bad_block = 9;
	start_node(1, LARGE);
	start_node(2, LARGE);
	read_all(NULL);
	assert_int_equal(world->nodes[1].error, -EIO);
	assert_int_equal(world->nodes[2].error, -EIO);
	while ((got = try_read(&world->nodes[2], 10 * BLOCK, 5000)) == 0) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	assert_int_equal(got, 1);
}

static void a_version_that_is_gone_makes_the_attributes_stale(void **state)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;
	struct node *node = &world->nodes[1];

	(void)state;
	world->stale = true;
	start_node(1, LARGE);
	while (!node->stale) {
		assert_true(try_read(node, 0, 5000) == 0);
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	world->stale = false;
	world->version = 3;
	kr_stage_flushed(node->stage, 0, world->version, world->size, NULL);
	read_all(NULL);
	assert_int_equal(node->error, 0);
}

/* Where the version is not known (0) the server cannot tell that the size is another one by now. */
static void a_block_of_another_length_is_not_damaged(void **state)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S, last = world->size / BLOCK * BLOCK;
	struct node *node = &world->nodes[1];
	struct kr_link *link;

	(void)state;
	world->version = 0;
	start_node(1, LARGE);
	while (try_read(node, 0, 5000) != 1)
		turn();
	link = world->conns.head.next;
	world->size -= 100;
	while (!node->stale) {
		assert_true(try_read(node, last, 500) == 0);
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	assert_ptr_equal(world->conns.head.next, link);
	assert_ptr_equal(link->next, &world->conns.head);
	kr_stage_set(node->stage, world->version, world->size);
	while (try_read(node, last, 500) != 1) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	assert_ptr_equal(world->conns.head.next, link);
}

static void own_flushed_bytes_are_patched_into_the_copy(void **state)
{
	static const struct kr_extent extents[] = {
		{100, 1000, 0, 1}, {BLOCK - 10, BLOCK + 20, 0, 2}, {2 * BLOCK + 50, BLOCK - 50, 0, 3}};
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S, sent;
	struct node *node = &world->nodes[1];
	struct kr_extent_map map;

	(void)state;
	start_node(1, LARGE);
	world->size = 2 * BLOCK + 40;
	kr_stage_set(node->stage, 1, world->size);
	read_all(NULL);
	memset(world->content + world->size, 0, 3 * BLOCK - world->size); /* what the file has not had yet */
	kr_extent_map_init(&map);
	for (size_t i = 0; i < KR_ARRAY_SIZE(extents); i++) {
		struct kr_extent extent = extents[i];

		extent.position = extent.offset;
		memset(world->content + extent.offset, (int)(i + 1), extent.length);
		assert_int_equal(kr_extent_map_insert(&map, &extent, NULL, NULL), 0);
	}
	world->version = 2;
	world->size = 3 * BLOCK;
	sent = world->blocks_sent;
	kr_stage_flushed(node->stage, 1, 2, world->size, &map);
	kr_extent_map_fini(&map);
	node->position = 0;
	node->done = false;
	read_all(NULL);
	assert_int_equal(node->error, 0);
	assert_int_equal(world->blocks_sent, sent);
	assert_true(kr_clock_ns() < until_ns);
}

enum { FLUSHES = 5 };

/* Node 1 has the file of 3 blocks. */
static struct node *have_three_blocks(void)
{
	struct node *node = &world->nodes[1];

	start_node(1, LARGE);
	world->size = 3 * BLOCK;
	kr_stage_set(node->stage, 1, world->size);
	read_all(NULL);
	return node;
}

/* FLUSHES flushes, one after the other before the loop turns; each has a piece of all blocks. */
static void flush_pieces(struct node *node)
{
	struct kr_extent_map map;

	for (uint64_t i = 0; i < FLUSHES; i++) {
		struct kr_extent extent = {.length = 100, .seq = i + 1};

		kr_extent_map_init(&map);
		for (uint64_t block = 0; block < 3; block++) {
			extent.offset = extent.position = block * BLOCK + 1000 * i;
			memset(world->content + extent.offset, (int)(i + 1), extent.length);
			assert_int_equal(kr_extent_map_insert(&map, &extent, NULL, NULL), 0);
		}
		kr_stage_flushed(node->stage, world->version, world->version + 1, world->size, &map);
		world->version++;
		kr_extent_map_fini(&map);
	}
	node->position = 0;
	node->done = false;
}

static void flushes_that_follow_each_other_are_all_patched_in(void **state)
{
	struct node *node = have_three_blocks();
	uint64_t sent = world->blocks_sent;

	(void)state;
	flush_pieces(node);
	assert_false(kr_list_empty(&node->stage->patches));
	assert_int_equal(node->patching, 1);
	assert_int_equal(try_read(node, 0, 5000), 0);
	read_all(NULL);
	assert_int_equal(node->patching, 0);
	assert_int_equal(node->error, 0);
	assert_int_equal(world->blocks_sent, sent);
}

static void a_flush_during_the_reading_of_the_cache_is_patched_in(void **state)
{
	struct node *node = have_three_blocks();
	uint64_t sent = world->blocks_sent;

	(void)state;
	while (node->stage->held.count > 0) /* on their way to the disk */
		turn();
	stop_node(1);
	start_node(1, LARGE);
	assert_true(node->stage->loading);
	flush_pieces(node);
	read_all(NULL);
	assert_int_equal(node->error, 0);
	assert_int_equal(world->blocks_sent, sent);
}

static void where_the_journal_is_half_full_no_patch_waits_in_it(void **state)
{
	struct node *node = have_three_blocks();
	uint64_t sent = world->blocks_sent;

	(void)state;
	world->journal_used = 51;
	flush_pieces(node);
	assert_true(kr_list_empty(&node->stage->patches));
	read_all(NULL);
	assert_int_equal(node->patching, 0);
	assert_int_equal(node->error, 0);
	assert_int_equal(world->blocks_sent, sent + 3);
}

static void a_small_file_is_read_back_as_soon_as_it_is_flushed(void **state)
{
	struct kr_extent extent = {.length = 4096, .seq = 1};
	struct node *node = &world->nodes[1];
	struct kr_extent_map map;

	(void)state;
	start_node(1, LARGE);
	kr_stage_set(node->stage, 1, 0);
	kr_extent_map_init(&map);
	assert_int_equal(kr_extent_map_insert(&map, &extent, NULL, NULL), 0);
	world->version = 2;
	world->size = 4096;
	kr_stage_flushed(node->stage, 1, 2, 4096, &map);
	kr_extent_map_fini(&map);
	assert_int_equal(try_read(node, 0, 4096), 1); /* no other thread is needed for that */
	assert_int_equal(world->blocks_sent, 0);
}

static void data_that_came_with_open_is_checked_and_served(void **state)
{
	struct kr_buf *buf = kr_buf_new(5000);

	(void)state;
	world->size = 5000;
	start_node(1, LARGE);
	buf->length = 5000;
	memcpy(buf->data, world->content, 5000);
	assert_int_equal(kr_stage_put_inline(world->nodes[1].stage, buf, 1), -EBADMSG);
	assert_int_equal(kr_stage_put_inline(world->nodes[1].stage, buf, kr_checksum(buf->data, 5000)), 0);
	assert_int_equal(try_read(&world->nodes[1], 0, 5000), 1);
	kr_buf_put(buf);
	assert_int_equal(world->blocks_sent, 0);
}

static struct kr_cache_counters counters_of(struct node *node)
{
	struct kr_cache_counters counters;

	kr_cache_counters(node->mount.cache, &counters);
	return counters;
}

/* What programs read meanwhile would push it out of memory, and the next mount would not find it. */
static void a_small_file_that_came_with_open_gets_a_file_when_it_is_staged(void **state)
{
	uint64_t bytes;
	struct node *node = &world->nodes[1];
	struct kr_buf *buf = kr_buf_new(5000);

	(void)state;
	world->size = 5000;
	start_node(1, LARGE);
	buf->length = 5000;
	memcpy(buf->data, world->content, 5000);
	assert_int_equal(kr_stage_put_inline(node->stage, buf, kr_checksum(buf->data, 5000)), 0);
	kr_buf_put(buf);
	assert_int_equal(stage_all(node, &bytes), 1);
	assert_int_equal(bytes, 5000);
	assert_int_equal(try_read(node, 0, 5000), 1);
	assert_int_equal(counters_of(node).files, 1);
	assert_int_equal(counters_of(node).memory_bytes, 0);
	assert_int_equal(try_read(node, 0, 5000), 1);
	assert_int_equal(kr_stage_all(node->stage, &bytes), 1);
	assert_int_equal(world->blocks_sent, 0);
}

/* Another file takes all of the cache, and leaves it when the node has flushed bytes of its own meanwhile. */
static void blocks_in_memory_are_stored_under_the_version_that_came_since(void **state)
{
	const struct kr_extent piece = {.offset = BLOCK + 1000, .length = 100, .position = BLOCK + 1000, .seq = 1};
	struct node *node = &world->nodes[1];
	struct kr_buf *buf = kr_buf_new(BLOCK);
	struct kr_cache_entry *other;
	struct kr_extent_map map;
	uint64_t bytes;

	(void)state;
	start_node(1, 3 * BLOCK);
	world->size = 3 * BLOCK;
	kr_stage_set(node->stage, 1, world->size);
	other = kr_cache_entry_get(node->mount.cache, &(struct kr_fid){.length = 2}, 1, world->size);
	buf->length = BLOCK;
	memset(buf->data, 0, BLOCK);
	for (uint64_t block = 0; block < 3; block++)
		assert_int_equal(
			kr_cache_put(other, kr_cache_edition(other), block, buf, kr_checksum(buf->data, BLOCK)), 0);
	kr_buf_put(buf);
	read_all(NULL);
	kr_extent_map_init(&map);
	assert_int_equal(kr_extent_map_insert(&map, &piece, NULL, NULL), 0);
	memset(world->content + piece.offset, 1, piece.length);
	world->version = 2;
	kr_stage_flushed(node->stage, 1, 2, world->size, &map);
	kr_extent_map_fini(&map);
	node->position = 0;
	node->done = false;
	read_all(NULL);
	kr_cache_entry_abandon(other);
	kr_cache_entry_put(other);
	while (kr_cache_evict_step(node->mount.cache))
		continue;
	assert_int_equal(stage_all(node, &bytes), 1);
	assert_int_equal(bytes, world->size);
	assert_int_equal(counters_of(node).bytes, world->size);
}

/* By a job of a former stage of the file, which is not told of who reads now. */
static void a_reader_goes_on_when_somebody_else_has_put_its_block(void **state)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;
	struct node *node = &world->nodes[1];
	struct kr_buf *buf = kr_buf_new(BLOCK);
	struct kr_cache_entry *entry;

	(void)state;
	world->size = BLOCK;
	start_node(1, LARGE);
	assert_int_equal(try_read(node, 0, 5000), 0);
	entry = kr_cache_entry_get(node->mount.cache, &(struct kr_fid){.length = 1}, world->version, world->size);
	buf->length = BLOCK;
	memcpy(buf->data, world->content, BLOCK);
	assert_int_equal(kr_cache_put(entry, kr_cache_edition(entry), 0, buf, kr_checksum(buf->data, BLOCK)), 0);
	node->changed = 0;
	while (!node->changed) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	assert_int_equal(try_read(node, 0, 5000), 1);
	kr_cache_entry_put(entry);
	kr_buf_put(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_nodes_read_and_the_server_sends_each_block_about_once),
		TEST(a_disk_that_keeps_nothing_fails_no_read),
		TEST(a_node_whose_disk_is_full_says_so_and_pulls_a_staged_file_once),
		TEST(members_may_die_and_join_in_the_middle),
		TEST(random_disturbances_leave_every_byte_right_and_every_reader_goes_on),
		TEST(blocks_of_a_late_lane_come_over_another),
		TEST(an_upstream_that_sends_bytes_and_no_whole_block_is_given_up),
		TEST(the_next_mount_finds_what_was_staged),
		TEST(nodes_do_not_wait_in_a_circle_when_a_member_becomes_the_last),
		TEST(members_go_round_one_that_has_nothing),
		TEST(nodes_do_not_wait_in_a_circle_after_a_restart_of_the_server),
		TEST(a_block_that_the_server_cannot_read_fails_alone),
		TEST(a_version_that_is_gone_makes_the_attributes_stale),
		TEST(a_block_of_another_length_is_not_damaged),
		TEST(own_flushed_bytes_are_patched_into_the_copy),
		TEST(flushes_that_follow_each_other_are_all_patched_in),
		TEST(a_flush_during_the_reading_of_the_cache_is_patched_in),
		TEST(where_the_journal_is_half_full_no_patch_waits_in_it),
		TEST(a_small_file_is_read_back_as_soon_as_it_is_flushed),
		TEST(data_that_came_with_open_is_checked_and_served),
		TEST(a_small_file_that_came_with_open_gets_a_file_when_it_is_staged),
		TEST(blocks_in_memory_are_stored_under_the_version_that_came_since),
		TEST(a_reader_goes_on_when_somebody_else_has_put_its_block),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
