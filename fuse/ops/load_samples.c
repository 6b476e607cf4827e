/* See load_samples.h.  Each answer of the server ends one sample and begins the next.  A server that is late, or gone,
 * makes samples longer: nothing here waits for it. */
#include "fuse/ops/load_samples.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "common/base/process.h"
#include "common/base/util.h"
#include "fuse/session/rpc.h"

enum { SAMPLE_MS = 500, LINES_MAX = 1000 };

/* Sums so far, but for the time. */
struct sample {
	uint64_t at_ns, server_us, disk_us, node_us;
	struct kr_conn_sums moved;
};

struct kr_load_samples {
	struct kr_mount *mount;
	uv_timer_t timer;
	bool on, asking;
	uint64_t started_ns;
	struct sample before; /* at_ns 0: none yet */
	char *lines;          /* owned, NULL: none */
	unsigned count;
};

static uint64_t us_of(const json_t *load, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(load, name)) * 1000;
}

static struct sample sample_of(const json_t *server)
{
	struct sample now = {.at_ns = kr_clock_ns(),
		.server_us = us_of(server, "cpu_ms") + us_of(server, "runnable_ms"),
		.disk_us = us_of(server, "disk_ms"),
		.moved = kr_conn_sums()};
	json_t *node = kr_process_status();

	now.node_us = us_of(node, "cpu_ms") + us_of(node, "runnable_ms");
	json_decref(node);
	return now;
}

/* Threads that have ended, and a server that was started anew, make sums smaller. */
static uint64_t more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void add_line(struct kr_load_samples *samples, const struct sample *now)
{
	const struct sample *before = &samples->before;
	char *lines = NULL;

	if (asprintf(&lines,
		    "%s[\"S\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		    ",%" PRIu64 ",%" PRIu64 "]\n",
		    samples->lines ? samples->lines : "", more(before->at_ns, samples->started_ns) / 1000,
		    more(now->at_ns, samples->started_ns) / 1000, more(now->server_us, before->server_us),
		    more(now->disk_us, before->disk_us), more(now->node_us, before->node_us),
		    more(now->moved.requests, before->moved.requests), kr_rpc_rtt_us(samples->mount->rpc),
		    more(now->moved.received, before->moved.received), more(now->moved.sent, before->moved.sent)) < 0)
		abort();
	free(samples->lines);
	samples->lines = lines;
	samples->count++;
}

static void on_load(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_load_samples *samples = context;
	const struct kr_status_reply *reply = message;
	json_t *load = err == 0 ? json_loadb((const char *)reply->json.bytes, reply->json.length, 0, NULL) : NULL;

	(void)data;
	samples->asking = false;
	if (json_is_object(load) && samples->on) {
		const struct sample now = sample_of(load);

		if (samples->before.at_ns && samples->count < LINES_MAX)
			add_line(samples, &now);
		samples->before = now;
	}
	json_decref(load);
}

static void on_timer(uv_timer_t *timer)
{
	struct kr_load_samples *samples = timer->data;
	const struct kr_status_request request = {.what = "load", .argument = ""};

	if (!samples->asking && kr_rpc_connected(samples->mount->rpc))
		samples->asking = kr_rpc_direct(samples->mount->rpc, KR_MSG_STATUS, &request, on_load, samples) == 0;
}

void kr_load_samples_start(struct kr_load_samples *samples, uint64_t started_ns)
{
	samples->on = samples->mount->rpc != NULL;
	samples->started_ns = started_ns;
	samples->before.at_ns = 0;
	if (samples->on)
		uv_timer_start(&samples->timer, on_timer, 0, SAMPLE_MS);
}

void kr_load_samples_stop(struct kr_load_samples *samples)
{
	samples->on = false;
	uv_timer_stop(&samples->timer);
}

char *kr_load_samples_take(struct kr_load_samples *samples)
{
	char *lines = samples->lines;

	samples->lines = NULL;
	samples->count = 0;
	return lines;
}

struct kr_load_samples *kr_load_samples_new(struct kr_mount *mount)
{
	struct kr_load_samples *samples = kr_xcalloc(1, sizeof(*samples));

	samples->mount = mount;
	uv_timer_init(mount->loop, &samples->timer);
	samples->timer.data = samples;
	return samples;
}

void kr_load_samples_close(struct kr_load_samples *samples)
{
	kr_load_samples_stop(samples);
	uv_close((uv_handle_t *)&samples->timer, NULL);
}

void kr_load_samples_free(struct kr_load_samples *samples)
{
	free(samples->lines);
	free(samples);
}
