/* See delayed_unlink.h. */
#include "server/names/delayed_unlink.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "server/leases/file_table.h"
#include "server/names/open.h"
#include "server/base/server.h"

struct delayed {
	struct kr_link link;
	struct kr_sfile *file;
	uint64_t until_ns;
};

static struct delayed *oldest(const struct kr_delayed_unlink *linger)
{
	return kr_list_empty(&linger->files) ? NULL : KR_LIST_ENTRY(linger->files.head.next, struct delayed, link);
}

static struct kr_sfile *take(struct kr_delayed_unlink *linger, struct delayed *delayed)
{
	struct kr_sfile *file;

	assert(delayed);
	file = delayed->file;
	kr_list_remove(&delayed->link);
	linger->count--;
	free(delayed);
	return file;
}

static void end(struct kr_delayed_unlink *linger, struct delayed *delayed)
{
	struct kr_sfile *file = take(linger, delayed);

	kr_opens_release(file, 1);
	kr_sfile_put(file);
}

void kr_delayed_unlink_init(struct kr_server *server)
{
	server->delayed_unlink = kr_xcalloc(1, sizeof(*server->delayed_unlink));
	kr_list_init(&server->delayed_unlink->files);
}

struct kr_sfile *kr_delayed_unlink_add(struct kr_server *server, const struct kr_fid *fid)
{
	struct delayed *delayed = kr_xcalloc(1, sizeof(*delayed));

	if (server->delayed_unlink->count >= KR_DELAYED_UNLINK_MAX)
		end(server->delayed_unlink, oldest(server->delayed_unlink));
	delayed->file = kr_sfile_get(server, fid);
	delayed->file->opens++;
	delayed->until_ns = kr_clock_ns() + KR_DELAYED_UNLINK_MS * KR_NS_PER_MS;
	kr_list_append(&server->delayed_unlink->files, &delayed->link);
	server->delayed_unlink->count++;
	return delayed->file;
}

void kr_delayed_unlink_tick(struct kr_server *server, uint64_t now_ns)
{
	struct delayed *delayed;

	while ((delayed = oldest(server->delayed_unlink)) != NULL && now_ns >= delayed->until_ns)
		end(server->delayed_unlink, delayed);
}

void kr_delayed_unlink_end(struct kr_server *server)
{
	kr_delayed_unlink_tick(server, UINT64_MAX);
}

void kr_delayed_unlink_fini(struct kr_server *server)
{
	struct delayed *delayed;

	while ((delayed = oldest(server->delayed_unlink)) != NULL) {
		struct kr_sfile *file = take(server->delayed_unlink, delayed);

		file->opens--;
		kr_sfile_put(file);
	}
	free(server->delayed_unlink);
}
