/* The table of files in use: see file_table.h. */
#include "server/leases/file_table.h"

#include <assert.h>
#include <stdlib.h>

#include "server/export/export.h"
#include "server/leases/leases.h"
#include "server/leases/invalidation.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/session/trust.h"
#include "server/leases/watch.h"

enum { IDLE_MAX = 16384, GONE_MAX = 1024 };

struct kr_sfile *kr_sfile_find(struct kr_server *server, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct kr_sfile, file, &server->files->by_fid, kr_fid_hash(fid), by_fid, kr_fid_equal(&file->fid, fid));
}

static struct kr_sfile *file_new(struct kr_server *server, const struct kr_fid *fid)
{
	struct kr_sfile *file = kr_xcalloc(1, sizeof(*file));

	file->server = server;
	file->fid = *fid;
	file->entered_epoch = ++server->files->epoch;
	kr_link_init(&file->idle);
	kr_link_init(&file->watched);
	kr_list_init(&file->attachments);
	kr_list_init(&file->late);
	kr_leases_file_init(file);
	server->files->hooks.created(file);
	kr_table_insert(&server->files->by_fid, &file->by_fid, kr_fid_hash(fid));
	return file;
}

static void file_free(struct kr_sfile *file)
{
	struct kr_server *server = file->server;

	assert(kr_list_empty(&file->attachments));
	if (!file->gone && file->changed_epoch > server->files->forgotten_epoch)
		server->files->forgotten_epoch = file->changed_epoch;
	kr_watch_forget(file);
	kr_table_remove(&server->files->by_fid, &file->by_fid);
	file->server->files->hooks.destroyed(file);
	kr_lease_table_fini(&file->leases);
	free(file);
}

struct kr_sfile *kr_sfile_get(struct kr_server *server, const struct kr_fid *fid)
{
	struct kr_sfile *file = kr_sfile_find(server, fid);

	return kr_sfile_ref(file ? file : file_new(server, fid));
}

struct kr_sfile *kr_sfile_ref(struct kr_sfile *file)
{
	if (file->unused) {
		kr_list_remove(&file->idle);
		file->unused->count--;
		file->unused = NULL;
	}
	file->references++;
	return file;
}

static void drop_oldest(struct kr_unused_files *unused)
{
	struct kr_sfile *file = KR_LIST_POP(&unused->list, struct kr_sfile, idle);

	unused->count--;
	file_free(file);
}

void kr_sfile_put(struct kr_sfile *file)
{
	struct kr_file_table *files;

	if (!file)
		return;
	assert(file->references > 0);
	if (--file->references > 0)
		return;
	if (!file->gone && file->changes == 0 && !file->carried.valid && !kr_watch_awaits(file)) {
		file_free(file);
		return;
	}
	files = file->server->files;
	file->unused = file->gone ? &files->gone : &files->idle;
	kr_list_append(&file->unused->list, &file->idle);
	if (++file->unused->count > file->unused->max)
		drop_oldest(file->unused);
}

void kr_sfile_changing(struct kr_sfile *file)
{
	file->changing++;
	file->changes++;
	file->changed_epoch = ++file->server->files->epoch;
	kr_invalidation_change_begins(file->server, &file->fid);
}

void kr_sfile_changed(struct kr_sfile *file)
{
	assert(file->changing > 0);
	file->changing--;
	file->changes++;
	file->ended++;
	file->changed_epoch = ++file->server->files->epoch;
	kr_invalidation_change_ends(file->server, &file->fid);
}

void kr_sfile_made(struct kr_sfile *file, const struct kr_session *session)
{
	memcpy(file->own_node, session->node_id, 16);
	file->own_epoch = file->own_base = file->changed_epoch;
	file->own_ctime = (struct kr_time){.sec = INT64_MIN};
}

void kr_sfile_truncated(struct kr_sfile *file)
{
	file->cuts++;
}

void kr_sfile_version(struct kr_sfile *file, uint64_t changes_before, struct kr_attr *attr)
{
	if (!file->changing && file->changes == changes_before)
		kr_watch_look(file, attr, changes_before);
	if (file->changing || file->changes != changes_before)
		attr->version = 0;
	else
		attr->version = kr_sfile_version_at(file, attr, file->changes);
}

static bool is_told(const struct kr_told_version *told, const struct kr_attr *attr, uint64_t changes)
{
	return told->version && told->changes == changes && told->size == attr->size &&
		kr_time_compare(told->ctime, attr->ctime) == 0;
}

/* Where no change by others stays unknown, a version is valid at once, and stays after a coarse ctime's youth. */
uint64_t kr_sfile_version_at(struct kr_sfile *file, const struct kr_attr *attr, uint64_t changes)
{
	const bool tells = kr_watch_tells(file->server);
	struct kr_attr of_bytes = *attr;

	kr_carried_apply(&file->carried, changes, &of_bytes);
	if (!tells || !is_told(&file->told, &of_bytes, changes))
		file->told = (struct kr_told_version){.changes = changes,
			.ctime = of_bytes.ctime,
			.size = of_bytes.size,
			.version =
				kr_export_attr_version(file->server->export, &of_bytes, tells ? changes + 1 : changes)};
	return file->told.version;
}

struct kr_attachment *kr_attachment_find(const struct kr_sfile *file, const struct kr_session *session)
{
	return KR_LIST_FIND(
		struct kr_attachment, attachment, &file->attachments, of_file, attachment->session == session);
}

struct kr_attachment *kr_attachment_get(struct kr_sfile *file, struct kr_session *session)
{
	struct kr_attachment *attachment = kr_attachment_find(file, session);

	if (attachment)
		return attachment;
	assert(!session->dead);
	attachment = kr_xcalloc(1, sizeof(*attachment));
	attachment->session = session;
	attachment->file = kr_sfile_ref(file);
	kr_list_append(&file->attachments, &attachment->of_file);
	kr_list_append(&session->leases.attachments, &attachment->of_session);
	session->leases.files++;
	return attachment;
}

void kr_attachment_note_copy(struct kr_attachment *attachment)
{
	attachment->has_copy = true;
	kr_list_remove(&attachment->of_file);
	kr_list_prepend(&attachment->file->attachments, &attachment->of_file);
}

static bool may_take(const struct kr_attachment *copy, const struct kr_session *session)
{
	return copy->has_copy && copy->session != session && !kr_trust_is_user(copy->session) &&
		strcmp(copy->session->ring.name, session->ring.name) == 0;
}

struct kr_session *kr_sfile_copy_holder(const struct kr_sfile *file, const struct kr_session *session, size_t count)
{
	struct kr_attachment *attachment;
	struct kr_session *latest = NULL;

	if (file->told.size > KR_SMALL_FILE)
		return NULL;
	if (kr_trust_is_user(session)) /* it pulls from the server alone */
		return NULL;
	KR_LIST_FOR_EACH(attachment, &file->attachments, of_file) {
		if (!may_take(attachment, session))
			continue;
		latest = latest ? latest : attachment->session;
		if (--count == 0)
			return latest;
	}
	return NULL;
}

/* Files open or leased by all sessions of SESSION's user. */
static size_t files_of_user(const struct kr_session *session)
{
	const struct kr_session *other;
	size_t files = 0;

	KR_LIST_FOR_EACH(other, &session->server->sessions->living, link) {
		if (kr_trust_same_owner(other->trust.key, session->trust.key))
			files += other->leases.files;
	}
	return files;
}

static bool session_has_room(const struct kr_session *session)
{
	if (session->leases.files < KR_SESSION_FILES_ALWAYS)
		return true;
	return session->leases.files < KR_SESSION_FILES_MAX &&
		(!kr_trust_is_user(session) || files_of_user(session) < KR_USER_FILES_MAX);
}

bool kr_attachment_room(const struct kr_sfile *file, const struct kr_session *session)
{
	const struct kr_attachment *attachment = file ? kr_attachment_find(file, session) : NULL;

	return attachment ? attachment->opens < KR_ATTACHMENT_OPENS_MAX : session_has_room(session);
}

static void inherit_attachment(const struct kr_attachment *attachment, struct kr_session *successor, bool uncommitted)
{
	const struct kr_cover cover = attachment->cover;
	struct kr_attachment *inherited;

	kr_leases_inherit(attachment->file, attachment->session, successor);
	if (uncommitted)
		kr_list_append(
			&successor->leases.uncommitted, &kr_attachment_get(attachment->file, successor)->uncommitted);
	if (cover.refused || cover.lost)
		kr_attachment_get(attachment->file, successor)->cover = cover;
	inherited = kr_attachment_find(attachment->file, successor);
	if (inherited && inherited->inherited) { /* else no node waits for an answer */
		inherited->owed_lease_ns = attachment->owed_lease_ns;
		inherited->owed_size_ns = attachment->left_size_ns;
	}
}

static uint64_t covered_until(const struct kr_session *session, uint64_t epoch)
{
	const struct kr_attachment *attachment;

	KR_LIST_FOR_EACH(attachment, &session->leases.attachments, of_session) {
		if (attachment->cover.lost)
			epoch = KR_MIN(epoch, attachment->cover.lost);
	}
	return epoch;
}

void kr_attachment_settle(struct kr_attachment *attachment)
{
	struct kr_sfile *file = attachment->file;

	if (attachment->opens || attachment->waiting || attachment->cover.lost ||
		kr_link_linked(&attachment->uncommitted) ||
		kr_lease_table_known(&file->leases, attachment->session->node))
		return;
	kr_list_remove(&attachment->of_file);
	kr_list_remove(&attachment->of_session);
	attachment->session->leases.files--;
	free(attachment);
	kr_sfile_put(file);
}

/* RELEASE is false when the server stops: opens stay held, because the node will reclaim them from the next
 * instance. */
static void files_end(struct kr_session *session, struct kr_session *successor, bool release)
{
	struct kr_attachment *attachment;

	while ((attachment = KR_LIST_POP(&session->leases.attachments, struct kr_attachment, of_session))) {
		struct kr_sfile *file = attachment->file;
		bool uncommitted = kr_link_linked(&attachment->uncommitted);

		kr_list_remove(&attachment->of_file);
		session->leases.files--;
		kr_list_remove(&attachment->uncommitted);
		if (uncommitted)
			file->server->files->hooks.writer_ended(file, session, successor);
		if (successor)
			inherit_attachment(attachment, successor, uncommitted);
		else
			kr_lease_table_expire(&file->leases, session->node);
		if (release)
			file->server->files->hooks.release(file, attachment->opens);
		free(attachment);
		kr_sfile_put(file);
	}
}

static uint64_t epoch_of(const struct kr_server *server)
{
	return server->files->epoch;
}

void kr_files_init(struct kr_server *server)
{
	server->files = kr_xcalloc(1, sizeof(*server->files));
	server->sessions->hooks.files_end = files_end;
	server->sessions->hooks.covered_until = covered_until;
	server->sessions->hooks.epoch = epoch_of;
	kr_table_init(&server->files->by_fid);
	server->files->idle.max = IDLE_MAX;
	server->files->gone.max = GONE_MAX;
	kr_list_init(&server->files->idle.list);
	kr_list_init(&server->files->gone.list);
}

void kr_files_fini(struct kr_server *server)
{
	while (server->files->idle.count)
		drop_oldest(&server->files->idle);
	while (server->files->gone.count)
		drop_oldest(&server->files->gone);
	assert(server->files->by_fid.count == 0);
	kr_table_fini(&server->files->by_fid);
	free(server->files);
}
