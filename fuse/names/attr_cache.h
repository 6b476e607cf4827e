/* The attribute cache: names and attributes that this node may answer from without asking the server (msgs.def,
 * CACHEABLE REPLIES).
 *
 * Answers that may be cached come in through the rpc (kr_attr_cache_learn).  They go with INVALIDATE, which is answered
 * at once, with the connection, or by age.  Operations look here first, in any thread.  A cached answer is true when it
 * is looked up: a node that changes it waits until this node has invalidated it.  What a request of our own changes is
 * not answered from here until that request has ended.  A fenced mount answers nothing from here.
 *
 * What the kernel has got from here, with a timeout, goes with it (kernel_attrs.h).
 */
#ifndef KR_FUSE_ATTR_CACHE_H
#define KR_FUSE_ATTR_CACHE_H

#include <jansson.h>

#include "common/base/types.h"
#include "fuse/base/mount.h"

struct kr_attr_cache;
union kr_any_msg;

struct kr_attr_cache *kr_attr_cache_new(void);
void kr_attr_cache_free(struct kr_attr_cache *cache);
/* Listens to INVALIDATE. Loop thread. */
void kr_attr_cache_start(struct kr_mount *mount);
/* Now and then: frees what is too old to be used.  Any thread. */
void kr_attr_cache_forget_old(struct kr_mount *mount);
/* The connection has ended, and with it its INVALIDATEs: forgets all.  Loop thread. */
void kr_attr_cache_clear(struct kr_mount *mount);
/* The server has answered the request ASKED, of TYPE and submitted at ASKED_NS, with ERR and REPLY in a frame with
 * FLAGS, which was heard at HEARD_NS.  Loop thread. */
void kr_attr_cache_learn(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked, int err,
	const void *reply, uint16_t flags, uint64_t asked_ns, uint64_t heard_ns);

/* The request ASKED, of TYPE, is about to be sent: what it changes is unknown here until kr_attr_cache_change_end,
 * which takes over what is returned.  That follows when the request has been answered (and learnt from), or never will
 * be.  NULL: it changes nothing.  Loop thread. */
void *kr_attr_cache_change_begin(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked);
void kr_attr_cache_change_end(struct kr_mount *mount, void *change);

/* The server has opened the file for us, with the attributes NOW: programs see a new time of access at once. */
void kr_attr_cache_opened(struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr *now);

/* Each returns whether the answer is cached; *RET_ERR is the server's.  TRUE_NS is for kr_file_overlay_attr.  Any
 * thread. A lookup with CRED NULL finds what any caller may know; the caller's groups need not be found out for it. */
bool kr_attr_cache_lookup(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, int *ret_err, struct kr_fid *ret_fid, struct kr_attr *ret_attr, uint64_t *ret_true_ns);
/* The same of a name that exists; does not count as an answer. */
bool kr_attr_cache_find(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr);
/* Whether kr_attr_cache_lookup would answer; does not count as an answer. */
bool kr_attr_cache_has(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name);
/* Whether NAME in DIR is FID for every caller; does not count as an answer. */
bool kr_attr_cache_is_public(
	struct kr_mount *mount, const struct kr_fid *dir, const char *name, const struct kr_fid *fid);
bool kr_attr_cache_getattr(
	struct kr_mount *mount, const struct kr_fid *fid, struct kr_attr *ret_attr, uint64_t *ret_true_ns);
/* For how long GETATTR may be answered with just these attributes ATTR: 0, not at all.  Any thread. */
uint64_t kr_attr_cache_left_ns(
	struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr *attr, uint64_t *ret_true_ns);
bool kr_attr_cache_access(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mask, int *ret_err);
/* Whether CRED may surely open the file for reading; EXECUTE: to execute it. */
bool kr_attr_cache_may_open(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, bool execute);
/* TARGET has room for KR_PATH_MAX + 1 bytes. */
bool kr_attr_cache_readlink(struct kr_mount *mount, const struct kr_fid *fid, char *target);
/* Whether the file surely has no attribute NAME, or none at all (NULL), for any caller. */
bool kr_attr_cache_no_xattr(struct kr_mount *mount, const struct kr_fid *fid, const char *name);
/* Into BUFFER of SIZE; a longer value is not answered. */
bool kr_attr_cache_getxattr(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid,
	const char *name, int *ret_err, void *buffer, size_t size, size_t *ret_length);
bool kr_attr_cache_listxattr(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, void *buffer,
	size_t size, size_t *ret_length);
bool kr_attr_cache_readdir(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid,
	uint64_t cookie, void *buffer, size_t size, size_t *ret_length, bool *ret_end);

/* For status; owned by the caller. Any thread. */
json_t *kr_attr_cache_status(struct kr_mount *mount);

#endif
