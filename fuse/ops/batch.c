/* See batch.h. */
#include "fuse/ops/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>

#include "common/base/fault.h"
#include "common/base/util.h"
#include "fuse/base/counters.h"
#include "fuse/file/file_read.h"
#include "fuse/base/notify.h"
#include "fuse/writeback/flush.h"

enum { BATCH_FILE_TIMEOUT_S = 3600, BATCH_FILE_MODE = S_IFREG | 0666 };

/* --- tokens ----------------------------------------------------------------------------------- */

struct kr_batches {
	pthread_mutex_t lock; /* guards the table, the tokens of the handles in it, and the asks of batch files */
	struct kr_table by_token;
};

static uint64_t hash_of(const struct kr_batch_token *token)
{
	return kr_hash_bytes(token, sizeof(*token));
}

struct kr_batches *kr_batches_new(void)
{
	struct kr_batches *batches = kr_xcalloc(1, sizeof(*batches));

	pthread_mutex_init(&batches->lock, NULL);
	kr_table_init(&batches->by_token);
	return batches;
}

void kr_batches_free(struct kr_batches *batches)
{
	if (!batches)
		return;
	kr_table_fini(&batches->by_token);
	pthread_mutex_destroy(&batches->lock);
	free(batches);
}

int kr_batch_token(struct kr_batches *batches, struct kr_handle *handle, struct kr_batch_token *ret_token)
{
	if (!handle->plain)
		return -EINVAL;
	KR_SCOPED_LOCK(&batches->lock);
	if (!handle->has_token) {
		if (getrandom(&handle->token, sizeof(handle->token), 0) != sizeof(handle->token))
			return -EIO;
		kr_table_insert(&batches->by_token, &handle->by_token, hash_of(&handle->token));
		handle->has_token = true;
		atomic_store(&handle->bursts, true);
	}
	*ret_token = handle->token;
	return 0;
}

/* [lock] The handle with this token; NULL: there is none, or it has lost a lock. */
static struct kr_handle *find_handle(struct kr_batches *batches, const struct kr_batch_token *token)
{
	struct kr_handle *handle;

	KR_TABLE_FOR_EACH_OF(handle, &batches->by_token, hash_of(token), by_token)
		if (memcmp(&handle->token, token, sizeof(*token)) == 0)
			return atomic_load(&handle->lost_lock) ? NULL : handle;
	return NULL;
}

static bool is_good(struct kr_batches *batches, const struct kr_batch_token *token)
{
	KR_SCOPED_LOCK(&batches->lock);
	return find_handle(batches, token) != NULL;
}

/* The file of that handle, with a reference.  NULL also when HEAD asks to read a handle that is not readable or not
 * relaxed. */
static struct kr_file *file_of(struct kr_batches *batches, const struct kr_batch_head *head)
{
	KR_SCOPED_LOCK(&batches->lock);
	struct kr_handle *handle = find_handle(batches, &head->token);

	if (!handle || (head->magic == KR_BATCH_READ_MAGIC && !(handle->readable && atomic_load(&handle->relaxed))))
		return NULL;
	return kr_file_get(handle->file);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The extents that the next reads of a batch file return. */
struct kr_batch_ask {
	unsigned references;  /* guarded by batches->lock */
	struct kr_file *file; /* a reference */
	uint32_t count;
	struct kr_batch_extent extents[];
};

static void put_ask(struct kr_batches *batches, struct kr_batch_ask *ask)
{
	bool last;

	if (!ask)
		return;
	pthread_mutex_lock(&batches->lock);
	last = --ask->references == 0;
	pthread_mutex_unlock(&batches->lock);
	if (!last)
		return;
	kr_file_put(ask->file);
	free(ask);
}

/* The next reads of BATCH_FILE return the extents of ASK (NULL: nothing). */
static void set_ask(struct kr_batches *batches, struct kr_handle *batch_file, struct kr_batch_ask *ask)
{
	struct kr_batch_ask *before;

	pthread_mutex_lock(&batches->lock);
	before = batch_file->ask;
	batch_file->ask = ask;
	pthread_mutex_unlock(&batches->lock);
	put_ask(batches, before);
}

static struct kr_batch_ask *get_ask(struct kr_batches *batches, struct kr_handle *batch_file)
{
	KR_SCOPED_LOCK(&batches->lock);
	if (batch_file->ask)
		batch_file->ask->references++;
	return batch_file->ask;
}

void kr_batch_forget(struct kr_batches *batches, struct kr_handle *handle)
{
	set_ask(batches, handle, NULL);
	KR_SCOPED_LOCK(&batches->lock);
	if (handle->has_token)
		kr_table_remove(&batches->by_token, &handle->by_token);
	handle->has_token = false;
}

/* Serves a write that names the extents of the next reads. */
static void answer_ask(fuse_req_t req, struct kr_handle *batch_file, const struct kr_batch_head *head,
	const struct kr_batch_extent *extents, size_t size)
{
	struct kr_batches *batches = kr_op_mount(req)->batches;
	struct kr_file *file = file_of(batches, head);
	struct kr_batch_ask *ask = file ? malloc(sizeof(*ask) + head->count * sizeof(*extents)) : NULL;

	if (!ask) {
		fuse_reply_err(req, file ? ENOMEM : EBADF);
		if (file)
			kr_file_put(file);
		return;
	}
	ask->references = 1;
	ask->file = file;
	ask->count = head->count;
	memcpy(ask->extents, extents, head->count * sizeof(*extents));
	set_ask(batches, batch_file, ask);
	fuse_reply_write(req, size);
}

/* Reads bytes [offset, offset + size) of all extents in a row.  Returns the count of bytes, or -errno. */
static ssize_t read_extents(const struct kr_batch_ask *ask, uint64_t offset, size_t size, char *buffer)
{
	uint64_t begin = 0; /* of the extent, in the row */
	size_t done = 0;

	for (uint32_t i = 0; i < ask->count && done < size; begin += ask->extents[i++].length) {
		const struct kr_batch_extent *extent = &ask->extents[i];
		uint64_t skip = offset + done - begin, length;
		int err;

		if (skip >= extent->length)
			continue;
		length = KR_MIN(extent->length - skip, size - done);
		err = kr_read_own(ask->file, extent->offset + skip, length, buffer + done);
		if (err)
			return err;
		done += length;
	}
	return (ssize_t)done;
}

static void reply_bytes(fuse_req_t req, const char *buffer, size_t length)
{
	kr_count(kr_op_mount(req)->counters, KR_COUNT_READ_BYTES, length);
	fuse_reply_buf(req, buffer, length);
}

void kr_batch_read(fuse_req_t req, struct kr_handle *batch_file, size_t size, uint64_t offset)
{
	struct kr_batches *batches = kr_op_mount(req)->batches;
	struct kr_batch_ask *ask = get_ask(batches, batch_file);
	char *buffer = ask ? malloc(size + 1) : NULL;
	ssize_t got;

	if (!buffer) {
		fuse_reply_err(req, ask ? ENOMEM : EINVAL);
		put_ask(batches, ask);
		return;
	}
	pthread_mutex_lock(&ask->file->lock);
	kr_flush_burst(ask->file);
	pthread_mutex_unlock(&ask->file->lock);
	got = read_extents(ask, offset, size, buffer);
	if (got < 0)
		fuse_reply_err(req, (int)-got);
	else
		reply_bytes(req, buffer, (size_t)got);
	free(buffer);
	put_ask(batches, ask);
}

/* --- one batch -------------------------------------------------------------------------------- */

int kr_batch_parse(const void *data, size_t size, const struct kr_batch_head **ret_head,
	const struct kr_batch_extent **ret_extents, const char **ret_bytes)
{
	const struct kr_batch_head *head = data;
	const struct kr_batch_extent *extents = (const void *)(head + 1);
	uint64_t total = 0, left, room;
	bool reading;

	if (size < sizeof(*head) || (head->magic != KR_BATCH_MAGIC && head->magic != KR_BATCH_READ_MAGIC) ||
		head->count == 0 || head->count > (size - sizeof(*head)) / sizeof(*extents))
		return -EINVAL;
	reading = head->magic == KR_BATCH_READ_MAGIC;
	left = size - sizeof(*head) - head->count * sizeof(*extents);
	room = reading ? KR_BATCH_MAX : left;
	for (uint32_t i = 0; i < head->count; i++) {
		if (extents[i].length == 0 || extents[i].length > room - total)
			return -EINVAL;
		if (extents[i].offset > INT64_MAX - extents[i].length)
			return -EFBIG;
		total += extents[i].length;
	}
	if (head->data != total || left != (reading ? 0 : total))
		return -EINVAL;
	*ret_head = head;
	*ret_extents = extents;
	*ret_bytes = (const char *)(extents + head->count);
	return 0;
}

struct batch {
	struct kr_batch_token token;
	const struct kr_batch_extent *extents;
	const char *bytes; /* of the first extent that is left */
	uint32_t count;
	uint32_t done; /* extents */
	size_t part;   /* bytes of the next one */
	size_t size;
	bool clear_suid;
	bool invalidate; /* the kernel may have older pages of these ranges */
};

struct batch_op {
	struct kr_file_op file_op;
	struct batch batch;
	_Alignas(8) char data[];
};

/* The answer to a batch waits for the invalidation of the pages it changed. */
struct invalidation {
	struct kr_notify_job job;
	fuse_req_t req;
	size_t size;
	int err;
	struct kr_file *file; /* a reference */
};

/* 0: all is journaled; -EBUSY: WRITE is needed; -EAGAIN: no space; else an error. */
static int try_batch(struct batch *batch, struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	if (kr_mount_fenced(file->mount) || !kr_lease_state_has(&file->holder, kr_file_write_kinds(file, false)))
		return -EBUSY;
	kr_flush_burst(file);
	batch->invalidate |= file->holder.pages; /* after an error, too: a part may have been journaled */
	while (batch->done < batch->count) {
		const struct kr_batch_extent *extent = &batch->extents[batch->done];
		size_t before = batch->part;
		int err;

		if (extent->offset + extent->length > kr_mount_file_max(file->mount))
			return -EFBIG;
		err = kr_file_append(file, extent->offset + batch->part, batch->bytes, extent->length - batch->part,
			&(struct kr_write_how){.clear_suid = batch->clear_suid}, &batch->part);

		batch->bytes += batch->part - before;
		if (err)
			return err;
		batch->done++;
		batch->part = 0;
	}
	return 0;
}

static void answer_now(fuse_req_t req, size_t size, int err)
{
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_write(req, size);
}

static void invalidated(struct kr_notify_job *job, int err)
{
	struct invalidation *invalidation = KR_CONTAINER_OF(job, struct invalidation, job);

	(void)err; /* as for single writes */
	answer_now(invalidation->req, invalidation->size, invalidation->err);
	kr_file_put(invalidation->file);
	free(invalidation);
}

/* ERR: 0, or why the rest was not journaled.  Any thread. */
static void answer(fuse_req_t req, const struct batch *batch, struct kr_file *file, int err)
{
	struct kr_mount *mount = file->mount;
	uint64_t begin = UINT64_MAX, end = 0;
	struct invalidation *invalidation;
	uint64_t number;

	(void)KR_FAULT("write.after");
	number = kr_inode_take_grant_of(mount->inodes, &file->fid, kr_clock_ns());
	if (!batch->invalidate && !number) {
		answer_now(req, batch->size, err);
		return;
	}
	for (uint32_t i = 0; i < batch->count; i++) {
		begin = KR_MIN(begin, batch->extents[i].offset);
		end = KR_MAX(end, batch->extents[i].offset + batch->extents[i].length);
	}
	invalidation = kr_xcalloc(1, sizeof(*invalidation));
	invalidation->req = req;
	invalidation->size = batch->size;
	invalidation->err = err;
	invalidation->file = kr_file_get(file);
	invalidation->job.nodeid = kr_inode_find(mount->inodes, &file->fid);
	invalidation->job.count = 1;
	invalidation->job.ranges[0] =
		batch->invalidate ? (struct kr_range){.offset = begin, .length = end - begin} : KR_NOTIFY_ATTRIBUTES;
	invalidation->job.done = invalidated;
	kr_notify(mount->notifier, &invalidation->job);
}

static void step_batch(struct kr_op *op)
{
	struct batch_op *batch_op = KR_CONTAINER_OF(op, struct batch_op, file_op.op);
	struct kr_file *file = batch_op->file_op.file;
	struct kr_mount *mount = op->mount;
	int lease_error = kr_file_lease_error(file);
	int err;

	if (op->interrupted)
		err = -EINTR;
	else if (!is_good(mount->batches, &batch_op->batch.token)) /* closed, or its lock lost, while the op waited */
		err = -EBADF;
	else
		err = try_batch(&batch_op->batch, file);
	if (err == -EBUSY && !lease_error) {
		kr_file_op_wait(&batch_op->file_op, kr_file_write_kinds(file, false));
	} else if (err == -EAGAIN && !(err = kr_flusher_hopeless(mount->flusher, file))) {
		kr_flusher_need_space(mount->flusher);
		kr_files_wait_space(mount->files, &op->waiter);
		kr_op_waits_for(op, KR_WAIT_SPACE);
	} else {
		answer(kr_op_finish(op), &batch_op->batch, file, err == -EBUSY ? lease_error : err);
		kr_op_free(op);
	}
}

static void wait_in_loop(fuse_req_t req, struct kr_file *file, const char *data, size_t size, const struct batch *batch)
{
	struct batch_op *op = kr_file_op_new(sizeof(*op) + size, req, "batch", file, step_batch);

	if (!op)
		return;
	memcpy(op->data, data, size);
	op->batch = *batch;
	op->batch.extents = (const void *)(op->data + ((const char *)batch->extents - data));
	op->batch.bytes = op->data + (batch->bytes - data);
	kr_op_post(&op->file_op.op);
}

void kr_batch_write(fuse_req_t req, struct kr_handle *batch_file, const char *data, size_t size)
{
	struct batch batch = {.size = size, .clear_suid = fuse_req_ctx(req)->uid != 0};
	const struct kr_batch_head *head;
	struct kr_file *file;
	int err = KR_FAULT("write.before");

	if (!err)
		err = kr_batch_parse(data, size, &head, &batch.extents, &batch.bytes);
	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	if (head->magic == KR_BATCH_READ_MAGIC) {
		answer_ask(req, batch_file, head, batch.extents, size);
		return;
	}
	batch.count = head->count;
	batch.token = head->token;
	file = file_of(kr_op_mount(req)->batches, head);
	if (!file) {
		fuse_reply_err(req, EBADF);
		return;
	}
	err = try_batch(&batch, file);
	if (err == -EBUSY || err == -EAGAIN)
		wait_in_loop(req, file, data, size, &batch);
	else
		answer(req, &batch, file, err);
	kr_file_put(file);
}

/* --- the batch file --------------------------------------------------------------------------- */

static const struct stat batch_file = {
	.st_ino = KR_INODE_BATCH_FILE, .st_mode = BATCH_FILE_MODE, .st_nlink = 1, .st_blksize = 4096};

void kr_batch_lookup(fuse_req_t req)
{
	struct fuse_entry_param entry = {.ino = KR_INODE_BATCH_FILE,
		.generation = 1,
		.attr = batch_file,
		.attr_timeout = BATCH_FILE_TIMEOUT_S,
		.entry_timeout = BATCH_FILE_TIMEOUT_S};

	fuse_reply_entry(req, &entry);
}

void kr_batch_getattr(fuse_req_t req)
{
	fuse_reply_attr(req, &batch_file, BATCH_FILE_TIMEOUT_S);
}

struct batch_open_op {
	struct kr_op op;
	struct fuse_file_info fi;
};

static void step_open(struct kr_op *op)
{
	struct batch_open_op *batch_open_op = KR_CONTAINER_OF(op, struct batch_open_op, op);
	struct fuse_file_info fi = batch_open_op->fi;
	struct kr_handle *handle;
	struct kr_fid fid;

	kr_inode_fid(op->mount->inodes, KR_INODE_BATCH_FILE, &fid);
	handle = kr_handle_new(kr_file_get_or_new(op->mount, &fid));
	handle->batch_file = handle->direct = true;
	fi.fh = (uintptr_t)handle;
	fi.direct_io = 1;
	if (kr_shim_reply_open(kr_op_finish(op), &fi) < 0)
		kr_handle_release(handle);
	kr_op_free(op);
}

void kr_batch_open(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct batch_open_op *op;

	if ((fi->flags & O_ACCMODE) == O_RDONLY) {
		fuse_reply_err(req, EACCES);
		return;
	}
	op = kr_op_new(sizeof(*op), kr_op_mount(req), req, "open", step_open);
	if (!op)
		return;
	op->fi = *fi;
	kr_op_post(&op->op);
}
