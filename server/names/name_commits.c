/* See name_commits.h. */
#include "server/names/name_commits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

/* One name with uncommitted changes. */
struct kr_name_change {
	struct kr_table_link by_name; /* kr_name_commits.names */
	struct kr_link of_dir;        /* kr_name_dir.changes */
	struct kr_name_dir *dir;
	uint64_t first, last; /* numbers of its uncommitted changes */
	struct kr_list runs;  /* kr_name_run.link of those that have not ended, numbers ascending */
	uint64_t covered;     /* up to here the present sync covers them */
	uint32_t node;        /* that made them; 0: several */
	bool changed;         /* one that has ended had an effect */
	char name[];
};

struct kr_name_run {
	struct kr_link link;
	struct kr_name_change *change;
	uint64_t number;
};

struct kr_name_dir {
	struct kr_table_link by_fid; /* kr_name_commits.dirs */
	struct kr_fid fid;
	struct kr_list changes; /* kr_name_change.of_dir */
	struct kr_list waiting; /* kr_name_waiter.link */
	uint64_t count;         /* of changes */
	uint64_t syncs;         /* begun so far */
	bool in_sync;
	bool aged; /* it had changes at the last tick */
};

static uint64_t hash_name(const struct kr_fid *dir, const char *name)
{
	return kr_fid_hash(dir) ^ kr_hash_bytes(name, strlen(name));
}

static struct kr_name_dir *find_dir(const struct kr_name_commits *commits, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct kr_name_dir, dir, &commits->dirs, kr_fid_hash(fid), by_fid, kr_fid_equal(&dir->fid, fid));
}

static struct kr_name_change *find_change(
	const struct kr_name_commits *commits, const struct kr_fid *dir, const char *name)
{
	return KR_TABLE_FIND(struct kr_name_change, change, &commits->names, hash_name(dir, name), by_name,
		strcmp(change->name, name) == 0 && kr_fid_equal(&change->dir->fid, dir));
}

static struct kr_name_dir *get_dir(struct kr_name_commits *commits, const struct kr_fid *fid)
{
	struct kr_name_dir *dir = find_dir(commits, fid);

	if (dir)
		return dir;
	dir = kr_xcalloc(1, sizeof(*dir));
	dir->fid = *fid;
	kr_list_init(&dir->changes);
	kr_list_init(&dir->waiting);
	kr_table_insert(&commits->dirs, &dir->by_fid, kr_fid_hash(fid));
	return dir;
}

static void settle_dir(struct kr_name_commits *commits, struct kr_name_dir *dir)
{
	if (dir->count || dir->in_sync || !kr_list_empty(&dir->waiting))
		return;
	kr_table_remove(&commits->dirs, &dir->by_fid);
	free(dir);
}

static void free_change(struct kr_name_commits *commits, struct kr_name_change *change)
{
	kr_table_remove(&commits->names, &change->by_name);
	kr_list_remove(&change->of_dir);
	change->dir->count--;
	free(change);
}

/* Up to which number a sync that begins now covers the changes of a name: those before the first that runs. */
static uint64_t coverable(const struct kr_name_change *change)
{
	return kr_list_empty(&change->runs) ?
		change->last :
		KR_LIST_ENTRY(change->runs.head.next, const struct kr_name_run, link)->number - 1;
}

/* Whether a sync of DIR would serve a waiter.  If the waiter waits for a change that runs, its end begins one. */
static bool needs_sync(const struct kr_name_dir *dir)
{
	const struct kr_name_change *change;

	if (kr_list_empty(&dir->waiting))
		return false;
	KR_LIST_FOR_EACH(change, &dir->changes, of_dir) {
		if (coverable(change) >= change->first)
			return true;
	}
	return false;
}

static void start_sync(struct kr_name_commits *commits, struct kr_name_dir *dir)
{
	struct kr_name_change *change;

	if (dir->in_sync)
		return;
	KR_LIST_FOR_EACH(change, &dir->changes, of_dir)
		change->covered = coverable(change);
	dir->in_sync = true;
	dir->syncs++;
	commits->sync(commits->context, &dir->fid);
}

static bool is_done(const struct kr_name_dir *dir, const struct kr_name_waiter *waiter)
{
	const struct kr_name_change *change;

	KR_LIST_FOR_EACH(change, &dir->changes, of_dir) {
		if (change->first <= waiter->number)
			return false;
	}
	return true;
}

static void take_waiter(struct kr_name_waiter *waiter, struct kr_list *to)
{
	kr_list_remove(&waiter->link);
	waiter->dir = NULL;
	kr_list_append(to, &waiter->link);
}

static void tell(struct kr_list *waiters, int err)
{
	struct kr_name_waiter *waiter;

	while ((waiter = KR_LIST_POP(waiters, struct kr_name_waiter, link)))
		waiter->go_on(waiter, err);
}

/* After each event: waiters whose changes are committed go on, and a sync begins for the others.  DIR may be gone
 * afterwards. */
static void go_on(struct kr_name_commits *commits, struct kr_name_dir *dir)
{
	struct kr_name_waiter *waiter, *next;
	struct kr_list done;

	kr_list_init(&done);
	KR_LIST_FOR_EACH_SAFE(waiter, next, &dir->waiting, link) {
		if (is_done(dir, waiter))
			take_waiter(waiter, &done);
	}
	if (needs_sync(dir) || dir->count >= KR_NAME_COMMITS_MANY)
		start_sync(commits, dir);
	settle_dir(commits, dir);
	tell(&done, 0);
}

struct kr_name_run *kr_name_commits_begin(
	struct kr_name_commits *commits, const struct kr_fid *fid, const char *name, uint32_t node)
{
	struct kr_name_change *change = find_change(commits, fid, name);
	struct kr_name_dir *dir = get_dir(commits, fid);
	struct kr_name_run *run = kr_xcalloc(1, sizeof(*run));
	size_t length = strlen(name) + 1;

	if (!change) {
		change = kr_xcalloc(1, sizeof(*change) + length);
		memcpy(change->name, name, length);
		change->node = node;
		change->dir = dir;
		change->first = commits->last + 1;
		kr_list_init(&change->runs);
		kr_table_insert(&commits->names, &change->by_name, hash_name(fid, name));
		kr_list_append(&dir->changes, &change->of_dir);
		dir->count++;
	} else {
		change->node = change->node == node ? node : 0;
	}
	change->last = run->number = ++commits->last;
	run->change = change;
	kr_list_append(&change->runs, &run->link);
	return run;
}

void kr_name_commits_end(struct kr_name_commits *commits, struct kr_name_run *run, bool changed)
{
	struct kr_name_change *change = run->change;
	struct kr_name_dir *dir = change->dir;

	kr_list_remove(&run->link);
	free(run);
	change->changed |= changed;
	if (kr_list_empty(&change->runs) && !change->changed)
		free_change(commits, change);
	go_on(commits, dir);
}

static bool is_foreign(const struct kr_name_change *change, uint32_t node)
{
	return change->node != node;
}

/* The number of the latest change of DIR's names that NODE has not made; 0: none. */
static uint64_t last_foreign(const struct kr_name_dir *dir, uint32_t node)
{
	const struct kr_name_change *change;
	uint64_t last = 0;

	KR_LIST_FOR_EACH(change, &dir->changes, of_dir)
		last = is_foreign(change, node) ? KR_MAX(last, change->last) : last;
	return last;
}

bool kr_name_commits_wait(struct kr_name_commits *commits, const struct kr_fid *fid, const char *name, uint32_t node,
	struct kr_name_waiter *waiter)
{
	struct kr_name_dir *dir = find_dir(commits, fid);
	const struct kr_name_change *change = dir && name ? find_change(commits, fid, name) : NULL;
	uint64_t number = 0;

	if (!dir)
		return true;
	if (!name)
		number = last_foreign(dir, node);
	else if (change && is_foreign(change, node))
		number = change->last;
	if (!number)
		return true;
	commits->waits++;
	waiter->dir = dir;
	waiter->number = number;
	waiter->syncs = dir->syncs;
	kr_list_append(&dir->waiting, &waiter->link);
	if (needs_sync(dir))
		start_sync(commits, dir);
	return false;
}

void kr_name_commits_withdraw(struct kr_name_commits *commits, struct kr_name_waiter *waiter)
{
	if (!kr_link_linked(&waiter->link))
		return;
	kr_list_remove(&waiter->link);
	if (waiter->dir)
		settle_dir(commits, waiter->dir);
}

/* The sync has succeeded. */
static void note_covered(struct kr_name_commits *commits, struct kr_name_dir *dir)
{
	struct kr_name_change *change, *next;

	KR_LIST_FOR_EACH_SAFE(change, next, &dir->changes, of_dir) {
		change->first = KR_MAX(change->first, change->covered + 1);
		if (change->first > change->last)
			free_change(commits, change);
	}
}

void kr_name_commits_synced(struct kr_name_commits *commits, const struct kr_fid *fid, int err)
{
	struct kr_name_dir *dir = find_dir(commits, fid);
	struct kr_name_waiter *waiter, *next;
	struct kr_list failed;

	dir->in_sync = false;
	if (!err)
		note_covered(commits, dir);
	kr_list_init(&failed);
	KR_LIST_FOR_EACH_SAFE(waiter, next, &dir->waiting, link) {
		if (err && waiter->syncs < dir->syncs)
			take_waiter(waiter, &failed);
	}
	go_on(commits, dir);
	tell(&failed, err);
}

void kr_name_commits_tick(struct kr_name_commits *commits)
{
	struct kr_name_dir *dir;

	KR_TABLE_FOR_EACH(dir, &commits->dirs, by_fid) {
		if (dir->aged && dir->count)
			start_sync(commits, dir);
		dir->aged = dir->count > 0;
	}
}

void kr_name_commits_init(
	struct kr_name_commits *commits, void (*sync)(void *context, const struct kr_fid *dir), void *context)
{
	*commits = (struct kr_name_commits){.sync = sync, .context = context};
	kr_table_init(&commits->dirs);
	kr_table_init(&commits->names);
}

void kr_name_commits_fini(struct kr_name_commits *commits)
{
	struct kr_name_dir *dir;

	kr_table_free_all(&commits->names, offsetof(struct kr_name_change, by_name));
	KR_TABLE_FOR_EACH(dir, &commits->dirs, by_fid)
		assert(kr_list_empty(&dir->waiting));
	kr_table_free_all(&commits->dirs, offsetof(struct kr_name_dir, by_fid));
}
