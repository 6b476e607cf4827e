/* Extended attributes: the server's filesystem keeps them, and programs get its errors.
 *
 * The node itself answers for names that begin with user.kairan.: what it knows of a file.  They can be read by name
 * alone.  No list shows them, so that no program copies them (cp -a, rsync -X), and no program can set them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "fuse/base/options.h"
#include "fuse/file/file.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/names/kernel_names.h"
#include "fuse/ops/holders.h"
#include "fuse/ops/op.h"
#include "fuse/writeback/flush.h"

#define OWN_PREFIX "user.kairan."
#define ACL_PREFIX "system.posix_acl_"

enum { NAME_BYTES_MAX = 255, CACHED_MAX = 4096 };

struct xattr_op {
	struct kr_op op;
	size_t size; /* of the program's buffer; 0: the program asks for the length */
	/* Of an ACL, which the kernel itself asks for, and keeps (kernel_attrs.h). */
	const char *acl; /* NULL: it is none */
	bool granted;
	fuse_ino_t ino;
	struct kr_fid file;
	struct kr_cred cred;
};

static void reply_bytes(struct kr_op *op, uint32_t length, const struct kr_bytes *bytes)
{
	struct xattr_op *xattr = KR_CONTAINER_OF(op, struct xattr_op, op);

	if (!xattr->size) {
		fuse_reply_xattr(kr_op_finish(op), length);
		kr_op_free(op);
	} else if (bytes->length > xattr->size) {
		kr_op_reply_err(op, -ERANGE);
	} else {
		fuse_reply_buf(kr_op_finish(op), (const char *)bytes->bytes, bytes->length);
		kr_op_free(op);
	}
}

/* Whether the attribute cache can answer, by the way that kr_op_getxattr takes. */
static bool is_noted(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, const char *name)
{
	char value[CACHED_MAX];
	size_t length;
	int err;

	return kr_attr_cache_no_xattr(mount, fid, name) ||
		kr_attr_cache_getxattr(mount, cred, fid, name, &err, value, sizeof(value), &length);
}

/* A filesystem without ACLs has none for this file.  The kernel would take another answer for a failure of its check of
 * permissions. */
static int acl_error(const char *acl, int err)
{
	return acl && err == -EOPNOTSUPP ? -ENODATA : err;
}

static void on_getxattr(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct xattr_op *xattr = KR_CONTAINER_OF(op, struct xattr_op, op);
	const struct kr_getxattr_reply *reply = message;

	(void)data;
	if (xattr->acl && !(xattr->granted && is_noted(op->mount, &xattr->cred, &xattr->file, xattr->acl)))
		kr_kernel_attrs_keep_no_acl(op->mount, xattr->ino);
	if (err < 0)
		kr_op_reply_err(op, acl_error(xattr->acl, err));
	else
		reply_bytes(op, reply->length, &reply->value);
}

static void on_listxattr(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_listxattr_reply *reply = message;

	(void)data;
	if (err < 0)
		kr_op_reply_err(op, err);
	else
		reply_bytes(op, reply->length, &reply->names);
}

/* True if NAME is short enough; else REQ is answered. */
static bool name_fits(fuse_req_t req, const char *name)
{
	if (strlen(name) <= NAME_BYTES_MAX)
		return true;
	fuse_reply_err(req, ERANGE);
	return false;
}

static void ask(fuse_req_t req, const char *name, uint16_t type, const void *msg, unsigned flags, size_t size,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data))
{
	struct xattr_op *op = kr_op_ask(sizeof(*op), req, name, type, msg, flags, on_reply);

	if (!op)
		return;
	op->size = size;
	kr_op_post(&op->op);
}

/* SIZE: of the program's buffer. */
static void reply_cached(fuse_req_t req, int err, const char *bytes, size_t length, size_t size)
{
	if (err)
		fuse_reply_err(req, -err);
	else if (!size)
		fuse_reply_xattr(req, length);
	else if (length > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, bytes, length);
}

/* --- what the node itself knows ------------------------------------------------------------------ */

static bool is_own(const char *name)
{
	return strncmp(name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0;
}

/* The nodes of the file at the server: user.kairan.nodes. */
struct where_op {
	struct kr_op op;
	size_t size; /* as in struct xattr_op */
	bool json;
};

static void on_where(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct where_op *where = KR_CONTAINER_OF(op, struct where_op, op);
	const struct kr_where_reply *reply = message;
	KR_AUTO_FREE char *text = NULL;

	(void)data;
	if (err == 0) {
		text = where->json ? kr_holders_json(&reply->nodes, reply->size) :
				     kr_holders_text(&reply->nodes, reply->size);
		err = text ? 0 : -EBADMSG;
	}
	/* A server of a version that does not know WHERE answers -EPROTO. */
	reply_cached(kr_op_finish(op), err == -EPROTO ? -ENODATA : err, text, text ? strlen(text) : 0, where->size);
	kr_op_free(op);
}

static void get_nodes(fuse_req_t req, fuse_ino_t ino, bool json, size_t size)
{
	struct kr_where_request msg = {0};
	struct where_op *op;

	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	op = kr_op_ask(sizeof(*op), req, "getxattr", KR_MSG_WHERE, &msg, KR_RPC_READ_ONLY, on_where);
	if (!op)
		return;
	op->size = size;
	op->json = json;
	kr_op_post(&op->op);
}

struct unflushed_op {
	struct kr_op op;
	struct kr_fid fid;
	size_t size; /* as in struct xattr_op */
};

/* In the loop thread, which knows what is applied. */
static void step_unflushed(struct kr_op *op)
{
	struct unflushed_op *unflushed = KR_CONTAINER_OF(op, struct unflushed_op, op);
	struct kr_file *file = kr_file_find(op->mount, &unflushed->fid);
	const size_t size = unflushed->size;
	char text[24];
	int length = snprintf(text, sizeof(text), "%" PRIu64, file ? kr_flush_unflushed(file) : 0);

	kr_file_put(file);
	reply_cached(kr_op_finish(op), 0, text, (size_t)length, size);
	kr_op_free(op);
}

/* The kernel has checked that the caller may read the file: without default_permissions it does not. */
static void get_unflushed(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct unflushed_op *op;

	if (!mount->options->default_permissions) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	op = kr_op_new(sizeof(*op), mount, req, "getxattr", step_unflushed);
	if (!op)
		return;
	op->size = size;
	kr_inode_fid(mount->inodes, ino, &op->fid);
	kr_op_post(&op->op);
}

static void get_own(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	const char *what = name + strlen(OWN_PREFIX);

	if (ino == KR_INODE_BATCH_FILE)
		fuse_reply_err(req, ENODATA);
	else if (strcmp(what, "unflushed") == 0)
		get_unflushed(req, ino, size);
	else if (strcmp(what, "nodes") == 0 || strcmp(what, "nodes.json") == 0)
		get_nodes(req, ino, what[strlen("nodes")] != 0, size);
	else
		fuse_reply_err(req, ENODATA);
}

/* --- FUSE ---------------------------------------------------------------------------------------- */

/* True unless NAME is too long, or one of the node's own, or of the batch file; else REQ is answered. */
static bool may_change(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	const bool refused = is_own(name) || ino == KR_INODE_BATCH_FILE;

	if (!name_fits(req, name))
		return false;
	if (refused)
		fuse_reply_err(req, EPERM);
	return !refused;
}

void kr_op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	struct kr_setxattr_request msg = {.name = name,
		.flags = (uint32_t)flags,
		.value = {.bytes = (const uint8_t *)value, .length = (uint32_t)KR_MIN(size, (size_t)KR_XATTR_MAX)}};

	if (!may_change(req, ino, name))
		return;
	if (size > KR_XATTR_MAX) {
		fuse_reply_err(req, E2BIG);
		return;
	}
	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	if (strncmp(name, ACL_PREFIX, strlen(ACL_PREFIX)) == 0) /* the kernel asks nobody where it has a name on loan */
		kr_kernel_names_take_back(kr_op_mount(req), &msg.file);
	ask(req, "setxattr", KR_MSG_SETXATTR, &msg, 0, 0, kr_op_on_nothing);
}

/* NAME as a constant, if it is an ACL's and the kernel heeds ACLs; else NULL. */
static const char *acl_of(const struct kr_mount *mount, const char *name)
{
	static const char *const acls[] = {"system.posix_acl_access", "system.posix_acl_default"};

	if (!kr_mount_heeds_acls(mount->options))
		return NULL;
	for (size_t i = 0; i < KR_ARRAY_SIZE(acls); i++)
		if (strcmp(name, acls[i]) == 0)
			return acls[i];
	return NULL;
}

static void ask_for(fuse_req_t req, fuse_ino_t ino, const struct kr_getxattr_request *msg, size_t size, bool granted)
{
	struct xattr_op *op =
		kr_op_ask(sizeof(*op), req, "getxattr", KR_MSG_GETXATTR, msg, KR_RPC_READ_ONLY, on_getxattr);

	if (!op)
		return;
	op->size = size;
	op->acl = acl_of(op->op.mount, msg->name);
	op->granted = granted;
	op->ino = ino;
	op->file = msg->file;
	kr_op_keep_cred(&op->op, &op->cred);
	kr_op_post(&op->op);
}

void kr_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct kr_getxattr_request msg = {.name = name, .size = (uint32_t)KR_MIN(size, (size_t)KR_XATTR_MAX)};
	const char *acl = acl_of(mount, name);
	char cached[CACHED_MAX];
	bool granted, known;
	size_t length = 0;
	int err = -ENODATA;

	if (!name_fits(req, name))
		return;
	if (is_own(name)) {
		get_own(req, ino, name, size);
		return;
	}
	if (strcmp(name, "security.selinux") == 0) { /* a label belongs to one machine; ls asks for no other then */
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	if (ino == KR_INODE_BATCH_FILE) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	kr_inode_fid(mount->inodes, ino, &msg.file);
	granted = acl && kr_kernel_attrs_enter_acl(mount, ino, &msg.file);
	known = kr_attr_cache_no_xattr(mount, &msg.file, name);
	if (!known) {
		kr_op_cred(req, &msg.cred);
		known = kr_attr_cache_getxattr(
			mount, &msg.cred, &msg.file, name, &err, cached, sizeof(cached), &length);
	}
	if (!known) {
		ask_for(req, ino, &msg, size, granted);
		return;
	}
	if (acl && !granted)
		kr_kernel_attrs_keep_no_acl(mount, ino);
	reply_cached(req, acl_error(acl, err), cached, length, size);
}

void kr_op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct kr_listxattr_request msg = {.size = (uint32_t)KR_MIN(size, (size_t)KR_XATTR_MAX)};
	char cached[CACHED_MAX];
	size_t length = 0;

	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	if (ino == KR_INODE_BATCH_FILE || kr_attr_cache_no_xattr(kr_op_mount(req), &msg.file, NULL)) {
		reply_cached(req, 0, NULL, 0, size);
		return;
	}
	kr_op_cred(req, &msg.cred);
	if (kr_attr_cache_listxattr(kr_op_mount(req), &msg.cred, &msg.file, cached, sizeof(cached), &length)) {
		reply_cached(req, 0, cached, length, size);
		return;
	}
	ask(req, "listxattr", KR_MSG_LISTXATTR, &msg, KR_RPC_READ_ONLY, size, on_listxattr);
}

void kr_op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct kr_removexattr_request msg = {.name = name};

	if (!may_change(req, ino, name))
		return;
	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	ask(req, "removexattr", KR_MSG_REMOVEXATTR, &msg, 0, 0, kr_op_on_nothing);
}
