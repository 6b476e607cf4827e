/* Directories.  An open directory fetches 64 KiB of entries at a time from the server, and the kernel gets them in
 * smaller pieces.
 *
 * Offsets are the server's cookies, so telldir and seekdir are stable while the directory changes.  A handle's state
 * belongs to the loop thread.
 *
 * The kernel asks by READDIRPLUS.  The reply lends it the names whose attributes are cached (kernel_names.h), which
 * spares their LOOKUPs.  Other entries are names alone, as in a reply to READDIR: they serve lookup prefetch
 * (lookup_prefetch.h).
 */
#include <dirent.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/util.h"
#include "fuse/base/cred.h"
#include "fuse/names/lookup_prefetch.h"
#include "fuse/names/dir_fsync.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/kernel_names.h"
#include "fuse/ops/op.h"
#include "fuse/session/session.h"

enum { PAGE_BYTES = 65536, ENTRY_FIXED = 8 + 8 + 1 + 1 };

struct dir {
	struct kr_cred cred; /* of the program that opened it */
	uint32_t *groups;    /* in it */
	struct kr_fid fid;
	uint64_t root_ino; /* 0: not the mount's root */
	/* Entries read ahead: those from `next` on start at directory position `cookie`. */
	uint8_t *entries;
	size_t length, next;
	uint64_t cookie;
	bool end; /* nothing follows them */
};

struct readdir_op {
	struct kr_op op;
	struct dir *dir;
	uint64_t offset;
	size_t size;
	bool plus; /* READDIRPLUS */
	bool asked;
	bool ahead; /* the first names have been asked for */
	bool lends; /* the reply has a name that is lent */
};

struct entry {
	uint64_t ino, next_cookie;
	uint8_t type;
	char name[KR_NAME_MAX + 1];
	size_t bytes; /* that it takes in the page */
};

static struct dir *dir_of(const struct fuse_file_info *fi)
{
	return (struct dir *)(uintptr_t)fi->fh;
}

static void free_dir(struct dir *dir)
{
	free(dir->entries);
	free(dir->groups);
	free(dir);
}

void kr_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir *dir = calloc(1, sizeof(*dir));

	if (!dir) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &dir->fid);
	if (ino == FUSE_ROOT_ID)
		dir->root_ino = kr_session_facts(kr_op_mount(req)->session)->root_attr.ino;
	fi->fh = (uint64_t)(uintptr_t)dir;
	kr_op_cred(req, &dir->cred);
	dir->cred.groups = dir->groups = kr_cred_copy_groups(&dir->cred);
	if (fuse_reply_open(req, fi) < 0)
		free_dir(dir);
}

void kr_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir *dir = dir_of(fi);

	(void)ino;
	free_dir(dir);
	fuse_reply_err(req, 0);
}

/* Takes the entry at position NEXT of the entries read ahead.  -EPROTO: the server's bytes make no sense. */
static int take_entry(const struct dir *dir, struct entry *ret)
{
	struct kr_reader r;

	kr_reader_init(&r, dir->entries + dir->next, dir->length - dir->next);
	ret->ino = kr_take_u64(&r);
	ret->next_cookie = kr_take_u64(&r);
	ret->type = kr_take_u8(&r);
	size_t length = kr_take_u8(&r);
	const uint8_t *name = kr_take_bytes(&r, length);

	if (!name || !length || memchr(name, '\0', length) || memchr(name, '/', length))
		return -EPROTO;
	memcpy(ret->name, name, length);
	ret->name[length] = '\0';
	ret->bytes = ENTRY_FIXED + length;
	return 0;
}

/* Adds ENTRY to a reply to READDIR, as fuse_add_direntry does. */
static size_t add_name(const struct readdir_op *op, char *buffer, size_t size, const struct entry *entry)
{
	const struct stat stat = {.st_ino = entry->ino, .st_mode = (mode_t)DTTOIF(entry->type)};

	return fuse_add_direntry(op->op.req, buffer, size, entry->name, &stat, (off_t)entry->next_cookie);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The same for READDIRPLUS; the name is lent for LOAN seconds, if the attribute cache knows it. */
static size_t add_entry(struct readdir_op *op, char *buffer, size_t size, const struct entry *entry, double loan)
{
	size_t need = fuse_add_direntry_plus(op->op.req, NULL, 0, entry->name, NULL, 0);
	struct fuse_entry_param known;
	int err;

	if (need > size)
		return need;
	if (loan > 0 && !is_dots(entry->name) &&
		kr_op_entry_cached(op->op.mount, NULL, &op->dir->fid, entry->name, &err, &known) && !err) {
		known.entry_timeout = loan;
		op->lends = true;
	} else {
		known = (struct fuse_entry_param){
			.attr = {.st_ino = entry->ino, .st_mode = (mode_t)DTTOIF(entry->type)}};
	}
	return fuse_add_direntry_plus(op->op.req, buffer, size, entry->name, &known, (off_t)entry->next_cookie);
}

/* A reply to READDIRPLUS, of LENGTH, did not reach the kernel: takes the lookups in it back. */
static void undo_entries(struct kr_mount *mount, const char *buffer, size_t length)
{
	struct fuse_direntplus entry;

	for (size_t at = 0; at < length; at += FUSE_DIRENTPLUS_SIZE(&entry)) {
		memcpy(&entry, buffer + at, sizeof(entry));
		if (entry.entry_out.nodeid)
			kr_inode_forget(mount->inodes, entry.entry_out.nodeid, 1);
	}
}

/* Moves entries into BUFFER as the kernel wants them; names are lent for LOAN seconds.  *USED: its bytes so far. */
static int fill(struct readdir_op *op, double loan, char *buffer, size_t *used)
{
	struct dir *dir = op->dir;

	while (dir->next < dir->length) {
		struct entry entry;
		int err = take_entry(dir, &entry);

		if (err < 0)
			return err;
		/* The parent of the mount's root is not in this filesystem. */
		if (dir->root_ino && strcmp(entry.name, "..") == 0)
			entry.ino = dir->root_ino;
		size_t left = op->size - *used;
		size_t need = op->plus ? add_entry(op, buffer + *used, left, &entry, loan) :
					 add_name(op, buffer + *used, left, &entry);

		if (need > left)
			break;
		*used += need;
		dir->next += entry.bytes;
		dir->cookie = entry.next_cookie;
	}
	return 0;
}

/* Replies with entries that were read ahead. */
static void reply(struct readdir_op *op)
{
	struct kr_mount *mount = op->op.mount;
	const struct kr_fid dir = op->dir->fid;
	double loan = op->plus ? kr_kernel_names_lend_listed(mount, &dir) : 0;
	KR_AUTO_FREE char *buffer = malloc(op->size);
	size_t used = 0;
	int err = buffer ? fill(op, loan, buffer, &used) : -ENOMEM;
	fuse_req_t req = kr_op_finish(&op->op);
	bool reached = (err < 0 ? fuse_reply_err(req, -err) : fuse_reply_buf(req, buffer, used)) == 0;

	if (op->plus && (err < 0 || !reached))
		undo_entries(mount, buffer, used);
	if (loan > 0 && reached && op->lends)
		kr_kernel_names_lent(mount, &dir);
	else if (loan > 0)
		kr_kernel_names_lent_none(mount, &dir);
	kr_op_free(&op->op);
}

static void on_entries(struct kr_op *base, int err, const void *message, struct kr_buf *data);

/* Reads the entries at the op's position from the attribute cache. */
static bool read_cached(struct readdir_op *op)
{
	struct dir *dir = op->dir;

	if (!dir->entries && !(dir->entries = malloc(PAGE_BYTES)))
		return false;
	if (!kr_attr_cache_readdir(op->op.mount, &dir->cred, &dir->fid, op->offset, dir->entries, PAGE_BYTES,
		    &dir->length, &dir->end) ||
		(!dir->length && !dir->end))
		return false;
	kr_lookup_prefetch_listed(op->op.mount, &dir->cred, &dir->fid, op->offset, dir->entries, dir->length, false);
	dir->next = 0;
	dir->cookie = op->offset;
	op->asked = true;
	return true;
}

static void step_readdir(struct kr_op *base)
{
	struct readdir_op *op = KR_CONTAINER_OF(base, struct readdir_op, op);
	struct dir *dir = op->dir;

	if (base->interrupted) {
		kr_op_reply_err(base, -EINTR);
		return;
	}
	/* A read from the start always asks the server anew: rewinddir has to see names created since. */
	bool here = dir->entries && op->offset == dir->cookie && (op->offset || op->asked);

	if (here && (dir->next < dir->length || dir->end)) {
		struct kr_list *list = op->plus && !op->offset && !op->ahead ?
			kr_lookup_prefetch_ahead(base->mount, &dir->cred, &dir->fid) :
			NULL;

		if (list) {
			op->ahead = true;
			kr_waiter_wait(&base->waiter, list);
			return;
		}
		reply(op);
		return;
	}
	if (read_cached(op)) {
		step_readdir(base);
		return;
	}
	struct kr_readdir_request msg = {.cred = dir->cred, .file = dir->fid, .cookie = op->offset, .size = PAGE_BYTES};

	kr_op_send(base, KR_MSG_READDIR, &msg, KR_RPC_READ_ONLY, on_entries);
}

static void on_entries(struct kr_op *base, int err, const void *message, struct kr_buf *data)
{
	struct readdir_op *op = KR_CONTAINER_OF(base, struct readdir_op, op);
	const struct kr_readdir_reply *reply = message;
	struct dir *dir = op->dir;

	(void)data;
	if (err == -ESTALE)
		err = -ENOENT; /* removed while open: a local directory answers the same */
	if (err == 0 && !reply->entries.length && !reply->end)
		err = -EPROTO;
	if (err == 0 && !dir->entries && !(dir->entries = malloc(PAGE_BYTES)))
		err = -ENOMEM;
	if (err < 0) {
		kr_op_reply_err(base, err);
		return;
	}
	dir->length = KR_MIN(reply->entries.length, (uint32_t)PAGE_BYTES);
	if (dir->length)
		memcpy(dir->entries, reply->entries.bytes, dir->length);
	kr_lookup_prefetch_listed(base->mount, &dir->cred, &dir->fid, op->offset, dir->entries, dir->length, true);
	dir->next = 0;
	dir->cookie = op->offset;
	dir->end = reply->end;
	op->asked = true;
	step_readdir(base);
}

static void start(fuse_req_t req, size_t size, off_t offset, const struct fuse_file_info *fi, bool plus)
{
	struct readdir_op *op = kr_op_new(sizeof(*op), kr_op_mount(req), req, "readdir", step_readdir);

	if (!op)
		return;
	op->plus = plus;
	op->dir = dir_of(fi);
	kr_kernel_names_listed(op->op.mount, &op->dir->fid);
	op->offset = (uint64_t)offset;
	op->size = size;
	kr_op_post(&op->op);
}

void kr_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)ino;
	start(req, size, offset, fi, false);
}

void kr_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)ino;
	start(req, size, offset, fi, true);
}

struct fsync_op {
	struct kr_op op;
	struct kr_fid dir;
	uint64_t begun;
};

static void on_fsync(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct fsync_op *sync = KR_CONTAINER_OF(op, struct fsync_op, op);

	(void)message, (void)data;
	kr_op_reply_err(op, kr_dir_fsync_end(op->mount->dir_syncs, &sync->dir, sync->begun, err, kr_clock_ns()));
}

void kr_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	struct kr_fsync_request msg = {.flags = data_only ? KR_FSYNC_DATA : 0};
	struct fsync_op *sync;

	(void)fi;
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	sync = kr_op_ask(sizeof(*sync), req, "fsyncdir", KR_MSG_FSYNC, &msg, 0, on_fsync);
	if (!sync)
		return;
	sync->dir = msg.file;
	sync->begun = kr_dir_fsync_begin(sync->op.mount->dir_syncs);
	kr_op_post(&sync->op);
}
