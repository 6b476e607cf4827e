/* For tests: a server and several nodes in one process.  Stages, caches and ring connections are real (TCP over
 * loopback); the control connection, the files and the journal are stubs.  Every byte that a node reads is compared
 * with the file's.  Included by one test program each.
 */
#ifndef KR_TEST_RING_WORLD_H
#define KR_TEST_RING_WORLD_H

#include "test/unit/effort.h"
#include "test/unit/fuse/readcache/ring_world_server.h"

static inline void start_node(uint32_t number, uint64_t cache_max)
{
	static const uint8_t export_id[16] = "export";
	static const struct kr_mount_options options = {.transport = KR_TRANSPORT_TCP, .lanes = LANES};
	struct node *node = &world->nodes[number];
	int fd;

	node->number = number;
	snprintf(node->name, sizeof(node->name), "n%u", number);
	memset(node->ring_key, (int)number, sizeof(node->ring_key));
	if (!node->path[0]) {
		strcpy(node->path, "/tmp/kairan-stage-XXXXXX");
		assert_non_null(mkdtemp(node->path));
	}
	fd = open(node->path, O_RDONLY | O_DIRECTORY);
	node->mount.loop = &world->loop;
	node->mount.options = &options;
	node->mount.rpc = (struct kr_rpc *)(void *)node;
	atomic_store(&node->mount.fence_at_ns, UINT64_MAX);
	assert_int_equal(kr_cache_new(fd, export_id, cache_max, &node->mount.cache), 0);
	close(fd);
	assert_int_equal(kr_hops_new(&node->mount, &node->mount.hops), 0);
	assert_int_equal(kr_hops_listen(node->mount.hops, "127.0.0.1", &(struct kr_port_range){0}, &node->port), 0);
	kr_hops_identify(node->mount.hops, number, number, node->ring_key, KR_SECURITY_INTEGRITY, 60000);
	assert_int_equal(kr_stages_init(&node->mount), 0);
	node->stage =
		kr_stage_new(&node->mount, (struct kr_file *)(void *)node, &(struct kr_fid){.length = 1}, &stage_hooks);
	node->buffer = malloc(READ_SIZE);
	node->up = true;
	kr_stage_set(node->stage, world->version, world->size);
}

/* One turn of the loop and of what the stubs have queued. */
static inline void turn(void)
{
	struct kr_task *task;
	struct call *call;

	uv_run(&world->loop, UV_RUN_ONCE);
	while ((task = KR_LIST_POP(&world->tasks, struct kr_task, link))) {
		task->queued = false;
		task->fn(task);
	}
	while ((call = KR_LIST_POP(&world->calls, struct call, link))) {
		answer_call(call);
		free(call);
	}
}

static inline bool is_closed(const struct kr_hops *hops)
{
	return hops->listeners == 0 && hops->incoming_count == 0 && hops->outgoing_count == 0 && hops->stores == 0 &&
		hops->jobs == 0 && !hops->evicting;
}

static inline void stop_node(uint32_t number)
{
	struct node *node = &world->nodes[number];

	if (!node->up)
		return;
	node->up = false;
	kr_pipeline_leave(&world->pipeline, number, tell_upstream, NULL);
	kr_hops_close(node->mount.hops);
	do {
		turn(); /* the first one closes the timer */
	} while (!is_closed(node->mount.hops));
	kr_stage_free(node->stage);
	kr_hops_free(node->mount.hops);
	kr_cache_free(node->mount.cache);
	free(node->buffer);
	node->stage = NULL;
}

/* Reads if the bytes are here, else wants them. 1: read; 0: not yet; else an error. */
static inline int try_read(struct node *node, uint64_t offset, size_t length)
{
	struct kr_stage *stage = node->stage;
	int err = kr_stage_pread(stage, world->version, offset, node->buffer, length);

	kr_stage_hint(stage, offset, length);
	if (err == 0) {
		assert_memory_equal(node->buffer, world->content + offset, length);
		node->reads++;
		return 1;
	}
	if (err != -ENODATA)
		return err;
	assert_true(kr_stage_want(stage, offset, length) >= 0);
	return 0;
}

/* Goes on reading in sequence, AT_MOST so many times. */
static inline void read_on(struct node *node, int at_most)
{
	while (node->up && !node->done && at_most-- > 0) {
		size_t length = (size_t)KR_MIN((uint64_t)READ_SIZE, world->size - node->position);
		int got = try_read(node, node->position, length);

		if (got == 0)
			return;
		if (got < 0)
			node->error = got;
		else
			node->position += length;
		node->done = got < 0 || node->position == world->size;
	}
}

/* Until every node has read the whole file; EVENT may disturb. */
static inline void read_all(void (*event)(uint64_t turns))
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S, turns = 0;
	bool busy = true;

	while (busy) {
		busy = false;
		turn();
		for (uint32_t i = 1; i <= NODES; i++) {
			read_on(&world->nodes[i], event ? 1 : 1000);
			busy = busy || (world->nodes[i].up && !world->nodes[i].done);
		}
		if (event)
			event(turns++);
		assert_true(kr_clock_ns() < until_ns);
	}
}

static inline void on_timer(uv_timer_t *timer)
{
	(void)timer; /* only to turn */
}

static inline int setup(void **state)
{
	struct sockaddr_in address;
	int size = sizeof(address);

	(void)state;
	world = calloc(1, sizeof(*world));
	world->size = KR_EFFORT(20, 12) * 1024 * 1024 + 777;
	world->version = 1;
	make_content();
	world->bad_block = UINT64_MAX;
	world->random = 4;
	kr_list_init(&world->calls);
	kr_list_init(&world->tasks);
	kr_list_init(&world->conns);
	kr_pipeline_init(&world->pipeline);
	uv_loop_init(&world->loop);
	uv_timer_init(&world->loop, &world->timer);
	uv_timer_start(&world->timer, on_timer, 1, 1);
	uv_tcp_init(&world->loop, &world->listener);
	uv_ip4_addr("127.0.0.1", 0, &address);
	uv_tcp_bind(&world->listener, (struct sockaddr *)&address, 0);
	uv_listen((uv_stream_t *)&world->listener, 64, on_connection);
	uv_tcp_getsockname(&world->listener, (struct sockaddr *)&address, &size);
	world->port = ntohs(address.sin_port);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= NODES; i++) /* after a test that has failed the next loop may fail, too */
		directory_remove(world->nodes[i].path);
	for (uint32_t i = 1; i <= NODES; i++) {
		stop_node(i);
		directory_remove(world->nodes[i].path); /* stores that were under way */
	}
	break_server_connections();
	uv_close((uv_handle_t *)&world->listener, NULL);
	uv_close((uv_handle_t *)&world->timer, NULL);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kr_pipeline_fini(&world->pipeline);
	free(world->content);
	free(world);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
	return 0;
}

static inline void start_all(uint64_t cache_max)
{
	for (uint32_t i = 1; i <= NODES; i++)
		start_node(i, cache_max);
}

static inline uint64_t file_blocks(void)
{
	return kr_cache_block_count(world->size);
}

#define LARGE (UINT64_C(1) << 30)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
