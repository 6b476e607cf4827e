/* Open handles of a file, and requests of programs that wait for its lease while the kernel has locked their pages. */
#ifndef KR_FUSE_HANDLE_H
#define KR_FUSE_HANDLE_H

#include "common/kairan_ioctl.h"
#include "fuse/file/file.h"

/* fi->fh: one open(2). */
struct kr_handle {
	struct kr_link link;  /* kr_file_opens.list */
	struct kr_file *file; /* a reference */
	bool readable, writable;
	bool direct;           /* the kernel's read(2) does not go through its pages (a mapping's faults still do) */
	bool paged;            /* for writing, and its write(2) fills the kernel's pages on the way (op_write.c) */
	bool mappable;         /* programs may map it for storing; counted in file->pages.mappable */
	bool plain;            /* for writing, neither O_APPEND nor O_SYNC: batches may write through it */
	bool batch_file;       /* of the batch file (batch.h), not of a file */
	atomic_bool lost_lock; /* it had a lock, and others may have had it since: only closing it helps (locks.h) */
	atomic_bool relaxed;   /* coherence=relaxed, KR_IOC_RELAXED; direct handles only */
	atomic_bool bursts;    /* batches go through it too (it has a token): what comes is a burst (kr_flush_burst) */
	uint32_t errors_seen;  /* [loop] failed flushes that this handle need not be told of any more */
	bool has_token;        /* batch.c's, guarded by its lock, as the next three */
	struct kr_batch_token token;
	struct kr_table_link by_token;
	struct kr_batch_ask *ask; /* of a batch file: what a read of it means; also batch.c's */
	struct kr_task release_task;
};

/* A handle of the file, whose reference it takes over; counted in file->open.handles.  Loop thread. */
struct kr_handle *kr_handle_new(struct kr_file *file);
/* The kernel has closed the handle, or never heard of it.  Loop thread. */
void kr_handle_release(struct kr_handle *handle);
/* The mount has ended without the RELEASEs of handles that were still open: frees them.  The loop has stopped. */
void kr_handles_abandon(struct kr_file *file);

/* A read, or a write through the kernel's pages, that waits for a lease. */
struct kr_parked_io {
	struct kr_link link; /* kr_file_pages.parked */
	uint64_t offset, length;
	bool page;    /* a read surely for the kernel's pages: they are locked, and hold nothing old */
	bool through; /* the dropping of pages may wait for it: it is served under the lease that goes */
};

#endif
