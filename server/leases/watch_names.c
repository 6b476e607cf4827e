/* Changes of names and attributes by local programs: nodes drop what they cache of them (invalidation.h).
 *
 * The events come from fanotify, on a descriptor of its own.  So many new names elsewhere in the filesystem do not
 * make data look changed when the kernel's queue overflows.  Without these events no node may cache attributes.  Loop
 * thread.
 */
#include "server/leases/watch.h"

#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/leases/invalidation.h"
#include "server/base/server.h"

enum { REST_MS = 2 };

struct kr_watch_names {
	struct kr_server *server;
	struct kr_listener listener;
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

static void ended(void *context, const char *why)
{
	struct kr_watch_names *names = context;

	kr_log_error("no more word of new names in the export: %s; nodes ask each time", why);
	kr_invalidation_allow(names->server, false);
	kr_invalidation_all_changed(names->server);
}

void kr_watch_names_start(struct kr_server *server)
{
	struct kr_watch_names *names = kr_xcalloc(1, sizeof(*names));

	server->watch_names = names;
	names->server = server;
	names->listener = (struct kr_listener){
		.export = server->export, .rest_ms = REST_MS, .sink = {on_changed, on_lost, names}, .ended = ended};
	if (kr_listener_open(&names->listener, server->loop, KR_EVENTS_NAMES) < 0)
		kr_log_info("names and attributes are asked of the server each time: %s", kr_fail_reason());
	else
		kr_invalidation_allow(server, true);
}

void kr_watch_names_stop(struct kr_server *server)
{
	if (!server->watch_names)
		return;
	kr_listener_close(&server->watch_names->listener);
	kr_invalidation_allow(server, false);
}

void kr_watch_names_free(struct kr_server *server)
{
	free(server->watch_names);
	server->watch_names = NULL;
}
