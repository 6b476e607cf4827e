/* Staging one file on this node: which blocks are here, bringing those that are wanted, serving reads.
 *
 * A stage belongs to a kr_file.  It is LIVE while the node holds READ: between kr_stage_set and kr_stage_suspend.  A
 * live stage has joined the file's pipeline (JOIN, once it lacks something).  It pulls what is wanted from the upstream
 * that the server names, keeps the blocks in the cache, and feeds downstream nodes (downstream.c).  A suspended stage
 * still has its blocks, under their version, but fetches nothing.
 *
 * Threads: control functions in the loop thread only; kr_stage_pread and kr_stage_hint in any.  stage->lock guards the
 * blocks held in memory and what pread looks at; the rest is the loop's.  Lock order: file->lock before stage->lock;
 * stage->lock before the cache's locks. Any call may be made with or without file->lock.
 */
#ifndef KR_FUSE_STAGE_H
#define KR_FUSE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/extent_map.h"
#include "common/base/types.h"

struct kr_mount;
struct kr_file;
struct kr_stage;

/* What a stage tells the file that it belongs to.  Loop thread, or any where a function below says so; never with
 * stage->lock held. */
struct kr_stage_hooks {
	/* Blocks have come or failed: readers look again. */
	void (*changed)(struct kr_file *file);
	/* The server has another version of the file: its attributes must be asked again. */
	void (*outdated)(struct kr_file *file);
	/* Own flushed bytes are being patched in (BEGINS), or that has ended: FILE keeps the stage meanwhile. */
	void (*patching)(struct kr_file *file, bool begins);
};
/* A stage of FILE (borrowed until kr_stage_free) with nothing in it; HOOKS is borrowed for ever.  A file has one. */
struct kr_stage *kr_stage_new(
	struct kr_mount *mount, struct kr_file *file, const struct kr_fid *fid, const struct kr_stage_hooks *hooks);
/* Leaves the pipeline; waiting peers are told to ask elsewhere.  After this returns FILE is not touched any more. */
void kr_stage_free(struct kr_stage *stage);

/* READ is held, and under it the file has this version and size. The same again is cheap. Another version than before:
 * what was staged is given up. Version 0: under this lease only. */
void kr_stage_set(struct kr_stage *stage, uint64_t version, uint64_t size);
/* The file had this version and size at some moment, whatever lease is held: the stage keeps blocks of that version
 * from now on, and can patch own flushed bytes in. It fetches nothing. */
void kr_stage_learn(struct kr_stage *stage, uint64_t version, uint64_t size);
/* READ is about to be given up: fetches end, waiters (local ones through `changed`) must re-evaluate. Volatile
 * blocks go. Call when no reader is inside kr_stage_pread under the old lease any more, just before the RECALL is
 * answered. */
void kr_stage_suspend(struct kr_stage *stage);

/* The file is gone: its cached blocks go when no user of this node is left.  STAGE may be NULL. */
void kr_stage_abandon(struct kr_stage *stage);

/* Starts removing from the cache if need be. */
void kr_stage_evict(struct kr_mount *mount);

/* Reads staged bytes. 0; -ENODATA: not all blocks are here (ask kr_stage_want); -ESTALE: the stage has another version;
 * another errno: the server said that it can't read this (EIO...), valid for about a second, then it is asked again.
 * The range must lie within the file's staged size. Blocks on local disk only. */
int kr_stage_pread(struct kr_stage *stage, uint64_t version, uint64_t offset, void *buffer, size_t length);
/* The range is wanted: `changed` when blocks of it arrive or fail. Joins fetches on their way. 0: something is
 * on its way; 1: all is here already; -ENOTCONN: not live. */
int kr_stage_want(struct kr_stage *stage, uint64_t offset, size_t length);
/* All of the file shall come, as read-ahead does, and stay: what programs want comes first.  1: all is here; 0: it
 * comes, if this is called now and then (the stage forgets it when READ is given up); else why the next block cannot be
 * had, or why the disk keeps no more.  *RET_BYTES: how much is here. */
int kr_stage_all(struct kr_stage *stage, uint64_t *ret_bytes);
/* How many bytes of VERSION are here, in memory or in the cache; 0 if the stage has another version. */
uint64_t kr_stage_bytes(struct kr_stage *stage, uint64_t version);
/* Loop thread.  Whether blocks come from another node now, not from the server. */
bool kr_stage_pulls_from_node(const struct kr_stage *stage);
/* A program has read or wants to read this: feeds read-ahead. Any thread, cheap; call it for every read, also those
 * that the fast path served. */
void kr_stage_hint(struct kr_stage *stage, uint64_t offset, size_t length);

/* The whole file as it came with OPEN's reply, after kr_stage_set; -EBADMSG: checksum or length is wrong, nothing is
 * done. */
int kr_stage_put_inline(struct kr_stage *stage, struct kr_buf *data, uint64_t checksum);
/* Own bytes were flushed: the file is now VERSION, SIZE.  Where BASE_VERSION (not 0) is the staged version, the copy is
 * patched with the extents SENT; else the copy is given up.  The patch reads them from the journal, in which the stage
 * pins them meanwhile.  Readers under the new version find the new bytes as soon as this has returned, here or by
 * kr_stage_want. */
void kr_stage_flushed(struct kr_stage *stage, uint64_t base_version, uint64_t version, uint64_t size,
	const struct kr_extent_map *sent);

/* The pipeline changed: UPSTREAM from the server (registered by kr_stages_init with kr_rpc_on). */
int kr_stages_init(struct kr_mount *mount);
/* The session is a new one (not resumed): the server has forgotten pipelines; live stages join again. */
void kr_stages_rejoin(struct kr_mount *mount);

#endif
