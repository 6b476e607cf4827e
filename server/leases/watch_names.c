/* Changes of names and attributes by local programs: nodes drop what they cache of them (invalidation.h).
 *
 * The events come from fanotify, on a descriptor of its own.  So many new names elsewhere in the filesystem do not
 * make data look changed when the kernel's queue overflows.  Without these events no node may cache attributes.  Loop
 * thread.
 */
#include "server/leases/watch.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/export/events.h"
#include "server/leases/invalidation.h"
#include "server/base/server.h"

enum { REST_MS = 2 };

struct kr_watch_names {
	struct kr_server *server;
	int fd; /* -1: closed */
	uv_poll_t poll;
	uv_timer_t rest;
};

static void on_changed(void *context, const struct kr_fid *fid, unsigned what)
{
	struct kr_watch_names *names = context;

	(void)what;
	kr_invalidation_change_begins(names->server, fid);
	kr_invalidation_change_ends(names->server, fid);
}

static void on_lost(void *context)
{
	struct kr_watch_names *names = context;

	kr_log_info("the kernel lost count of new names in the export: nodes forget all that they have noted");
	kr_invalidation_all_changed(names->server);
}

static void close_events(struct kr_watch_names *names)
{
	if (names->fd < 0)
		return;
	uv_close((uv_handle_t *)&names->poll, NULL);
	uv_close((uv_handle_t *)&names->rest, NULL);
	close(names->fd);
	names->fd = -1;
}

static void on_events(uv_poll_t *poll, int status, int events);

static void rested(uv_timer_t *rest)
{
	struct kr_watch_names *names = rest->data;

	uv_poll_start(&names->poll, UV_READABLE, on_events);
}

/* Events that wait merge: a moment later there are fewer. */
static void on_events(uv_poll_t *poll, int status, int events)
{
	struct kr_watch_names *names = poll->data;
	const struct kr_events_sink sink = {on_changed, on_lost, names};

	(void)events;
	if (status == 0 && kr_events_read(names->fd, names->server->export, &sink) == 0) {
		uv_poll_stop(poll);
		uv_timer_start(&names->rest, rested, REST_MS, 0);
		return;
	}
	kr_log_error("no more word of new names in the export: %s; nodes ask each time",
		status ? uv_strerror(status) : kr_fail_reason());
	close_events(names);
	kr_invalidation_allow(names->server, false);
	kr_invalidation_all_changed(names->server);
}

void kr_watch_names_start(struct kr_server *server)
{
	struct kr_watch_names *names = kr_xcalloc(1, sizeof(*names));

	server->watch_names = names;
	names->server = server;
	names->fd = kr_events_open(server->export, KR_EVENTS_NAMES);
	if (names->fd >= 0 && uv_poll_init(server->loop, &names->poll, names->fd) < 0) {
		close(names->fd);
		names->fd = -1;
	}
	if (names->fd < 0) {
		kr_log_info("names and attributes are asked of the server each time: %s", kr_fail_reason());
		return;
	}
	uv_timer_init(server->loop, &names->rest);
	names->poll.data = names->rest.data = names;
	uv_poll_start(&names->poll, UV_READABLE, on_events);
	kr_invalidation_allow(server, true);
}

void kr_watch_names_stop(struct kr_server *server)
{
	if (!server->watch_names)
		return;
	close_events(server->watch_names);
	kr_invalidation_allow(server, false);
}

void kr_watch_names_free(struct kr_server *server)
{
	free(server->watch_names);
	server->watch_names = NULL;
}
