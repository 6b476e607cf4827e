/* See locks.h. */
#include "fuse/file/locks.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "fuse/file/file.h"
#include "fuse/file/file_priv.h"
#include "fuse/names/inode_table.h"
#include "fuse/file/lock_owners.h"
#include "fuse/file/handle.h"
#include "fuse/session/rpc.h"

struct kr_locks {
	struct kr_list files;
	struct kr_lock_owners *lockers;
};

/* Exists while a lock of the file is held or asked for. */
struct kr_file_locks {
	struct kr_link link;
	struct kr_file *file; /* reference */
	struct kr_lock_table held;
	struct kr_list calls; /* in order of asking */
};

struct kr_lock_call {
	struct kr_link link;
	struct kr_file_locks *locks;
	struct kr_file_waiter waiter; /* until it is sent */
	struct kr_lock want;
	bool wait, flush, sent;
	bool stores;  /* waits for what programs have stored through mappings */
	bool restore; /* what it leaves at the server must be set right in [first, last] */
	uint64_t first, last;
	uint64_t id;                          /* of the rpc */
	void (*done)(void *context, int err); /* NULL: abandoned */
	void *context;
};

/* --- the file's record ------------------------------------------------------------------------ */

static void counted(void *context, const struct kr_lock *lock, int change)
{
	const struct kr_file_locks *locks = context;

	if (lock->kind == KR_LOCK_WRITE && !lock->owner.flock)
		kr_lock_owners_count(locks->file->mount->locks->lockers, lock->owner.id, locks->file, change);
}

static struct kr_file_locks *locks_of(struct kr_file *file)
{
	struct kr_file_locks *locks = file->locks;

	if (locks)
		return locks;
	locks = kr_xcalloc(1, sizeof(*locks));
	locks->file = kr_file_get(file);
	kr_lock_table_init(&locks->held, NULL, NULL, locks);
	locks->held.counted = counted;
	kr_list_init(&locks->calls);
	kr_list_append(&file->mount->locks->files, &locks->link);
	file->locks = locks;
	atomic_store(&file->locked, true);
	return locks;
}

static void settle(struct kr_file_locks *locks)
{
	struct kr_file *file = locks->file;

	if (locks->held.count || !kr_list_empty(&locks->calls))
		return;
	atomic_store(&file->locked, false);
	file->locks = NULL;
	kr_list_remove(&locks->link);
	kr_lock_table_fini(&locks->held);
	free(locks);
	kr_file_put(file);
}

bool kr_locks_held(const struct kr_file *file, const struct kr_lock_owner *owner)
{
	return file->locks && kr_lock_table_held(&file->locks->held, owner, 0, KR_LOCK_END);
}

bool kr_locks_elsewhere(const struct kr_file *file, uint64_t process)
{
	return kr_lock_owners_elsewhere(file->mount->locks->lockers, process, file);
}

bool kr_locks_any(const struct kr_file *file, const struct kr_lock_owner *owner)
{
	const struct kr_lock_call *call;

	if (!file->locks)
		return false;
	KR_LIST_FOR_EACH(call, &file->locks->calls, link) {
		if (kr_lock_owner_equal(&call->want.owner, owner))
			return true;
	}
	return kr_locks_held(file, owner);
}

/* --- setting right what a late answer has changed --------------------------------------------- */

static uint64_t send_lock(struct kr_file *file, const struct kr_lock *want, bool wait, kr_rpc_fn fn, void *context)
{
	struct kr_lock_request request = {.file = file->fid,
		.owner = want->owner.id,
		.pid = want->pid,
		.kind = want->kind,
		.flock = want->owner.flock,
		.wait = wait,
		.first = want->first,
		.last = want->last};

	return kr_rpc_call(file->mount->rpc, KR_MSG_LOCK, &request, NULL, 0, KR_RPC_HARD, fn, context);
}

/* The server shall have of OWNER, from FIRST to LAST, what our record says. */
static void restore(struct kr_file_locks *locks, const struct kr_lock_owner *owner, uint64_t first, uint64_t last)
{
	const struct kr_lock *held;
	struct kr_lock piece;

	for (uint64_t at = first; at <= last; at = piece.last + 1) {
		held = kr_lock_table_held(&locks->held, owner, at, last);
		piece = (struct kr_lock){.owner = *owner, .first = at, .last = last};
		if (held && held->first <= at) {
			piece.kind = held->kind;
			piece.pid = held->pid;
			piece.last = KR_MIN(held->last, last);
		} else if (held) {
			piece.last = held->first - 1;
		}
		send_lock(locks->file, &piece, false, NULL, NULL);
	}
}

/* CALL has left behind what its program does not know of.  A request of the same owner that is on its way may be
 * answered already, without our knowing: then it is left to that one's end. */
static void restore_after(struct kr_file_locks *locks, const struct kr_lock_call *call)
{
	struct kr_lock_call *other;

	KR_LIST_FOR_EACH(other, &locks->calls, link) {
		if (!other->sent || !kr_lock_owner_equal(&other->want.owner, &call->want.owner))
			continue;
		other->first = other->restore ? KR_MIN(other->first, call->first) : call->first;
		other->last = other->restore ? KR_MAX(other->last, call->last) : call->last;
		other->restore = true;
		return;
	}
	restore(locks, &call->want.owner, call->first, call->last);
}

static void must_restore(struct kr_lock_call *call)
{
	call->first = call->restore ? KR_MIN(call->first, call->want.first) : call->want.first;
	call->last = call->restore ? KR_MAX(call->last, call->want.last) : call->want.last;
	call->restore = true;
}

/* --- requests --------------------------------------------------------------------------------- */

/* Takes the call out and tells its maker. */
static void end_call(struct kr_lock_call *call, int err)
{
	struct kr_file_locks *locks = call->locks;
	void (*done)(void *context, int err) = call->done;
	void *context = call->context;

	kr_file_unwait(&call->waiter);
	kr_list_remove(&call->link);
	if (call->restore)
		restore_after(locks, call);
	free(call);
	kr_file_step(locks->file);
	settle(locks);
	if (done)
		done(context, err);
}

static void on_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_lock_call *call = context;
	struct kr_lock gone = call->want;

	(void)reply, (void)data;
	gone.kind = KR_LOCK_NONE;
	if (err == -ECANCELED) /* the mount ends */
		call->restore = false;
	else if (call->want.kind == KR_LOCK_NONE)
		kr_lock_table_note(&call->locks->held, &gone);
	else if (!err && call->done)
		kr_lock_table_note(&call->locks->held, &call->want);
	else if (!err)
		must_restore(call);
	else if (call->want.owner.flock && kr_lock_table_held(&call->locks->held, &call->want.owner, 0, KR_LOCK_END)) {
		kr_lock_table_note(&call->locks->held, &gone); /* a conversion gives up the old one first */
		must_restore(call);
	}
	end_call(call, err);
}

static bool behind_another(const struct kr_lock_call *call)
{
	const struct kr_lock_call *other;

	KR_LIST_FOR_EACH(other, &call->locks->calls, link) {
		if (other == call)
			return false;
		if (!other->sent && kr_lock_owner_equal(&other->want.owner, &call->want.owner))
			return true;
	}
	return false;
}

/* Makes the kernel write back what programs have stored through mappings: nothing does that but taking the pages from
 * it.  False: there is nothing. */
static bool ask_for_stores(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	if (!file->holder.pages_writable)
		return false;
	kr_lease_state_distrust(&file->holder);
	kr_file_step(file);
	return true;
}

static bool awaits_stores(struct kr_lock_call *call)
{
	struct kr_file *file = call->locks->file;

	KR_SCOPED_LOCK(&file->lock);
	call->stores &= file->holder.suspect;
	return call->stores;
}

static void step(struct kr_lock_call *call)
{
	struct kr_file *file = call->locks->file;

	if (behind_another(call) || awaits_stores(call)) {
		kr_file_wait(file, &call->waiter);
		return;
	}
	/* fsync and close report bytes that the server refuses for good; these must not delay the lock. */
	if (call->flush && !file->mount->files->flush->is_hopeless(file) &&
		kr_file_before_change(file, &call->waiter, UINT64_MAX) == -EAGAIN)
		return;
	call->sent = true;
	call->id = send_lock(file, &call->want, call->wait, on_reply, call);
	kr_file_step(file);
}

static void wake(struct kr_waiter *waiter)
{
	step(KR_CONTAINER_OF(waiter, struct kr_lock_call, waiter.waiter));
}

static bool holds_exclusive(const struct kr_lock_table *held, const struct kr_lock *want)
{
	const struct kr_lock *lock;

	for (uint64_t at = want->first; at <= want->last; at = lock->last + 1) {
		lock = kr_lock_table_held(held, &want->owner, at, want->last);
		if (!lock || lock->kind == KR_LOCK_WRITE)
			return lock != NULL;
	}
	return false;
}

struct kr_lock_call *kr_locks_ask(struct kr_file *file, const struct kr_lock *want, bool wait,
	void (*done)(void *context, int err), void *context)
{
	struct kr_file_locks *locks = locks_of(file);
	struct kr_lock_call *call = kr_xcalloc(1, sizeof(*call));

	*call = (struct kr_lock_call){.locks = locks,
		.waiter.waiter.wake = wake,
		.want = *want,
		.wait = wait,
		.done = done,
		.context = context};
	/* A request for an exclusive range gives nothing up. */
	call->flush = (want->kind != KR_LOCK_WRITE || want->owner.flock) &&
		kr_lock_table_held(&locks->held, &want->owner, want->first, want->last);
	call->stores = call->flush && holds_exclusive(&locks->held, want) && ask_for_stores(file);
	kr_list_append(&locks->calls, &call->link);
	step(call);
	return call;
}

void kr_locks_abandon(struct kr_lock_call *call)
{
	call->done = NULL;
	if (call->want.kind == KR_LOCK_NONE)
		return;
	if (call->sent)
		kr_rpc_withdraw(call->locks->file->mount->rpc, call->id);
	else
		end_call(call, -EINTR);
}

void kr_locks_release_handle(struct kr_file *file, const struct kr_handle *handle)
{
	const struct kr_lock *lock;
	struct kr_lock_call *call;
	struct kr_lock *record;

	if (!file->locks)
		return;
	/* Each owner once: its calls tell. */
	KR_LIST_FOR_EACH(lock, &file->locks->held.locks, link) {
		struct kr_lock all = {.owner = lock->owner, .last = KR_LOCK_END};
		bool asked = false;

		if (lock->via != (uintptr_t)handle)
			continue;
		KR_LIST_FOR_EACH(call, &file->locks->calls, link)
			asked |= call->want.kind == KR_LOCK_NONE && call->want.first == 0 &&
				call->want.last == KR_LOCK_END && kr_lock_owner_equal(&call->want.owner, &all.owner);
		if (!asked)
			kr_locks_ask(file, &all, false, NULL, NULL);
	}
	KR_LIST_FOR_EACH(record, &file->locks->held.locks, link)
		record->via = record->via == (uintptr_t)handle ? 0 : record->via;
	KR_LIST_FOR_EACH(call, &file->locks->calls, link)
		call->want.via = call->want.via == (uintptr_t)handle ? 0 : call->want.via;
}

/* --- recovery --------------------------------------------------------------------------------- */

struct claim {
	struct kr_file *file; /* reference */
	struct kr_lock lock;
};

/* As with NFS: what the program does next through the descriptor that it locked by fails (op_read.c, op_write.c,
 * op_sync.c). */
static void lost(struct kr_file *file, const struct kr_lock *lock)
{
	const struct kr_lock *held = kr_lock_table_held(&file->locks->held, &lock->owner, lock->first, lock->last);

	KR_AUTO_FREE char *path = kr_inode_path(file->mount->inodes, &file->fid);

	kr_log_warn("process %u has lost its %s on %s: this node was cut off for too long, others may have had it "
		    "meanwhile",
		lock->pid, lock->owner.flock ? "flock" : "byte-range lock", path ? path : "a file");
	if (held && held->via)
		atomic_store(&((struct kr_handle *)held->via)->lost_lock, true);
}

static void on_claimed(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct claim *claim = context;
	struct kr_file *file = claim->file;

	(void)reply, (void)data;
	/* Without a connection nothing is decided: the next session claims it again. */
	if (err && err != -ECONNRESET && err != -ECANCELED && file->locks) {
		lost(file, &claim->lock);
		claim->lock.kind = KR_LOCK_NONE;
		kr_lock_table_note(&file->locks->held, &claim->lock);
		settle(file->locks);
	}
	free(claim);
	kr_file_put(file);
}

static void claim(struct kr_file *file, const struct kr_lock *lock)
{
	struct kr_reclaim_lock_request request = {.file = file->fid,
		.owner = lock->owner.id,
		.pid = lock->pid,
		.kind = lock->kind,
		.flock = lock->owner.flock,
		.first = lock->first,
		.last = lock->last};
	struct claim *claim = kr_xcalloc(1, sizeof(*claim));

	claim->file = kr_file_get(file);
	claim->lock = *lock;
	if (kr_rpc_direct(file->mount->rpc, KR_MSG_RECLAIM_LOCK, &request, on_claimed, claim) < 0) {
		free(claim);
		kr_file_put(file);
	}
}

static bool holds_all(const struct kr_lock_table *held, const struct kr_lock *want)
{
	const struct kr_lock *lock;

	for (uint64_t at = want->first; at <= want->last; at = lock->last + 1) {
		lock = kr_lock_table_held(held, &want->owner, at, want->last);
		if (!lock || lock->first > at)
			return false;
	}
	return true;
}

/* A request on its way may have given up a lock that another owner has already, without our knowing.  The node does not
 * claim that lock, or the other owner would lose it. (The server waits with what the request asks for until all nodes
 * are back.) */
static void let_go(struct kr_file_locks *locks)
{
	const struct kr_lock_call *call;

	KR_LIST_FOR_EACH(call, &locks->calls, link) {
		struct kr_lock left = call->want;
		const struct kr_lock *held = kr_lock_table_held(&locks->held, &left.owner, left.first, left.last);

		if (!call->sent || !held)
			continue;
		if (left.owner.flock &&
			held->kind <
				left.kind) /* a conversion gives up the old one first, and may wait for the new one */
			left.kind = KR_LOCK_NONE;
		else if (left.kind == KR_LOCK_WRITE || (left.kind == KR_LOCK_READ && !holds_all(&locks->held, &left)))
			continue; /* nothing is given up; or it may wait with all that it has */
		kr_lock_table_note(&locks->held, &left);
	}
}

void kr_locks_reclaim(struct kr_mount *mount)
{
	struct kr_file_locks *locks;
	const struct kr_lock *lock;

	if (!mount->locks)
		return;
	KR_LIST_FOR_EACH(locks, &mount->locks->files, link) {
		let_go(locks);
		KR_LIST_FOR_EACH(lock, &locks->held.locks, link)
			claim(locks->file, lock);
	}
}

/* --- beginning and end ------------------------------------------------------------------------ */

void kr_locks_init(struct kr_mount *mount)
{
	mount->locks = kr_xcalloc(1, sizeof(*mount->locks));
	kr_list_init(&mount->locks->files);
	mount->locks->lockers = kr_lock_owners_new();
}

static void end_file(struct kr_file_locks *locks)
{
	struct kr_file *file = locks->file;
	struct kr_lock_call *call;

	while ((call = KR_LIST_POP(&locks->calls, struct kr_lock_call, link))) {
		kr_file_unwait(&call->waiter);
		free(call);
	}
	kr_lock_table_fini(&locks->held);
	file->locks = NULL;
	free(locks);
	kr_file_put(file);
}

void kr_locks_fini(struct kr_mount *mount)
{
	struct kr_file_locks *locks;

	if (!mount->locks)
		return;
	while ((locks = KR_LIST_POP(&mount->locks->files, struct kr_file_locks, link)))
		end_file(locks);
	kr_lock_owners_free(mount->locks->lockers);
	free(mount->locks);
	mount->locks = NULL;
}
