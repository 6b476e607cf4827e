/* See shim.h.
 *
 * libfuse reads and writes /dev/fuse through functions of the shim (fuse_session_custom_io).
 *
 * libfuse before 3.15 writes replies that lack these bits of the kernel's interface:
 *   INIT           fuse_init_out.flags |= FUSE_PARALLEL_DIROPS | FUSE_INIT_EXT
 *                  fuse_init_out.flags2 |= FUSE_DIRECT_IO_ALLOW_MMAP
 *                  and if they are wanted (kr_shim_want_passthrough): flags |= FUSE_HANDLE_KILLPRIV_V2,
 *                  flags2 |= FUSE_PASSTHROUGH, max_stack_depth = 1
 *   OPEN, CREATE   fuse_open_out.open_flags |= FOPEN_PARALLEL_DIRECT_WRITES.
 * So the first read shows the INIT request and the kernel's offer, and the writer patches replies.  The thread that
 * calls fuse_reply_open also writes the reply to OPEN, so a thread-local mark says which reply to patch.
 */
#include "fuse/base/shim.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "fuse/base/lent.h"

#define KR_INIT_PARALLEL_DIROPS (UINT32_C(1) << 18)
#define KR_INIT_EXT (UINT32_C(1) << 30)
#define KR_INIT_HANDLE_KILLPRIV_V2 (UINT32_C(1) << 28)
#define KR_INIT2_DIRECT_IO_ALLOW_MMAP (UINT32_C(1) << 4)
#define KR_INIT2_PASSTHROUGH (UINT32_C(1) << 5)
#define KR_FOPEN_PARALLEL_DIRECT_WRITES (UINT32_C(1) << 6)

static atomic_bool direct_io_mmap, passthrough_wanted, passthrough;
static kr_shim_reply_fn reply_hook;

bool kr_shim_direct_io_mmap(void)
{
	return atomic_load(&direct_io_mmap);
}

uint64_t kr_kernel_page(void)
{
	static _Atomic uint64_t size;

	if (!size)
		size = (uint64_t)sysconf(_SC_PAGESIZE);
	return size;
}

void kr_shim_want_passthrough(void)
{
	atomic_store(&passthrough_wanted, true);
}

bool kr_shim_passthrough(void)
{
	return atomic_load(&passthrough);
}

static ssize_t write_device(int fd, const struct iovec *iov, int count)
{
	return kr_lent() ? kr_lent_writev(iov, count) : writev(fd, iov, count);
}

#ifdef KR_FUSE_SHIM

/* Offsets in the kernel's structs, fixed by its ABI (linux/fuse.h). */
enum {
	IN_OPCODE = 4,
	IN_UNIQUE = 8,
	IN_HEADER = 40,
	INIT_IN_FLAGS = IN_HEADER + 12,
	INIT_IN_FLAGS2 = IN_HEADER + 16,
	OUT_UNIQUE = 8,
	OUT_HEADER = 16,
	INIT_OUT_FLAGS = 12,
	INIT_OUT_FLAGS2 = 32,
	INIT_OUT_STACK_DEPTH = 36,
	INIT_OUT_SIZE = 64,
	OPEN_OUT_FLAGS = 8,
	OPEN_OUT_SIZE = 16,
	OPCODE_INIT = 26
};

static struct {
	uint64_t unique; /* of the INIT request; 0: not seen yet, or answered */
	uint32_t flags, flags2;
} init;
/* This thread is writing the reply of an OPEN or CREATE that wants parallel direct writes. */
static _Thread_local bool patch_open;

static uint32_t load32(const void *bytes, size_t offset)
{
	uint32_t value;

	memcpy(&value, (const uint8_t *)bytes + offset, sizeof(value));
	return value;
}

static void or32(void *bytes, size_t offset, uint32_t bits)
{
	uint32_t value = load32(bytes, offset) | bits;

	memcpy((uint8_t *)bytes + offset, &value, sizeof(value));
}

static void see_request(const void *buffer, ssize_t length)
{
	if (length > INIT_IN_FLAGS2 + 4 && load32(buffer, IN_OPCODE) == OPCODE_INIT) {
		memcpy(&init.unique, (const uint8_t *)buffer + IN_UNIQUE, sizeof(init.unique));
		init.flags = load32(buffer, INIT_IN_FLAGS);
		init.flags2 = init.flags & KR_INIT_EXT ? load32(buffer, INIT_IN_FLAGS2) : 0;
	}
}

static bool answers_init(const struct iovec *iov, int count)
{
	uint64_t unique;

	if (!init.unique || count != 2 || iov[0].iov_len != OUT_HEADER || iov[1].iov_len != INIT_OUT_SIZE)
		return false;
	memcpy(&unique, (uint8_t *)iov[0].iov_base + OUT_UNIQUE, sizeof(unique));
	return unique == init.unique;
}

static void patch_init(uint8_t *body)
{
	uint32_t flags = init.flags & KR_INIT_PARALLEL_DIROPS, flags2 = 0;

	if (!KR_FAULT("shim.old_kernel"))
		flags2 |= init.flags2 & KR_INIT2_DIRECT_IO_ALLOW_MMAP;
	if (atomic_load(&passthrough_wanted) && !KR_FAULT("shim.old_kernel")) {
		flags |= init.flags & KR_INIT_HANDLE_KILLPRIV_V2;
		flags2 |= init.flags2 & KR_INIT2_PASSTHROUGH;
	}
	or32(body, INIT_OUT_FLAGS, flags | (flags2 ? KR_INIT_EXT : 0));
	or32(body, INIT_OUT_FLAGS2, flags2);
	or32(body, INIT_OUT_STACK_DEPTH, flags2 & KR_INIT2_PASSTHROUGH ? 1 : 0);
	atomic_store(&direct_io_mmap, flags2 & KR_INIT2_DIRECT_IO_ALLOW_MMAP);
	atomic_store(&passthrough, flags2 & KR_INIT2_PASSTHROUGH);
}

static ssize_t write_reply(int fd, struct iovec *iov, int count)
{
	uint8_t body[256];
	struct iovec patched[2];
	size_t length = count == 2 ? iov[1].iov_len : 0;

	if (length < OPEN_OUT_SIZE || length > sizeof(body) || !(patch_open || answers_init(iov, count)))
		goto out;
	memcpy(body, iov[1].iov_base, length);
	if (patch_open) {
		or32(body, length - OPEN_OUT_SIZE + OPEN_OUT_FLAGS, KR_FOPEN_PARALLEL_DIRECT_WRITES);
	} else {
		patch_init(body);
		init.unique = 0;
	}
	patched[0] = iov[0];
	patched[1] = (struct iovec){.iov_base = body, .iov_len = length};
	iov = patched;
out:
	return write_device(fd, iov, count);
}

void kr_shim_want(struct fuse_conn_info *conn, uint32_t features)
{
	conn->want |= conn->capable & features;
}

void kr_shim_want_not(struct fuse_conn_info *conn, uint32_t features)
{
	conn->want &= ~features;
}

void kr_shim_init(struct fuse_conn_info *conn)
{
	(void)conn;
}

static void mark(bool parallel)
{
	patch_open = parallel;
}

#else

static void see_request(const void *buffer, ssize_t length)
{
	(void)buffer, (void)length;
}

static ssize_t write_reply(int fd, struct iovec *iov, int count)
{
	return write_device(fd, iov, count);
}

/* libfuse 3.17 has conn->want twice, and refuses INIT where both have changed (3.17.0 to 3.17.2 do).  So only these
 * functions change it. */
void kr_shim_want(struct fuse_conn_info *conn, uint32_t features)
{
	fuse_set_feature_flag(conn, conn->capable_ext & features);
}

void kr_shim_want_not(struct fuse_conn_info *conn, uint32_t features)
{
	fuse_unset_feature_flag(conn, features);
}

void kr_shim_init(struct fuse_conn_info *conn)
{
	kr_shim_want(conn, FUSE_CAP_PARALLEL_DIROPS);
	if (!KR_FAULT("shim.old_kernel") && fuse_set_feature_flag(conn, FUSE_CAP_DIRECT_IO_ALLOW_MMAP))
		atomic_store(&direct_io_mmap, true);
#ifdef FUSE_CAP_PASSTHROUGH
	if (atomic_load(&passthrough_wanted) && !KR_FAULT("shim.old_kernel")) {
		fuse_set_feature_flag(conn, FUSE_CAP_HANDLE_KILLPRIV_V2);
		atomic_store(&passthrough, fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH));
	}
#endif
}

static void mark(bool parallel)
{
	(void)parallel;
}

#endif

static ssize_t shim_read(int fd, void *buffer, size_t size, void *userdata)
{
	ssize_t length = kr_lent() ? kr_lent_read(buffer, size) : read(fd, buffer, size);

	(void)userdata;
	see_request(buffer, length);
	return length;
}

static ssize_t shim_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	if (reply_hook)
		reply_hook(userdata, iov, count);
	return write_reply(fd, iov, count);
}

/* Not used: splicing is off (kr_shim_init), but libfuse 3.14 requires the functions. */
static ssize_t shim_splice(
	int fd_in, off_t *offset_in, int fd_out, off_t *offset_out, size_t length, unsigned flags, void *userdata)
{
	(void)userdata;
	return splice(fd_in, offset_in, fd_out, offset_out, length, flags);
}

int kr_shim_install(struct fuse_session *fuse, kr_shim_reply_fn on_reply)
{
	static const struct fuse_custom_io io = {
		.writev = shim_writev, .read = shim_read, .splice_receive = shim_splice, .splice_send = shim_splice};
	int err;

	reply_hook = on_reply;
	err = fuse_session_custom_io(fuse, &io, fuse_session_fd(fuse));
	return err == 0 ? 0 : kr_fail(err < 0 ? err : -err, "libfuse refuses custom I/O");
}

/* Only FUSE_NOTIFY_STORE sets a size.  It stores bytes at the file's end, and the daemon has none to give.  The kernel
 * first takes over the new size, and then, when it has the page, fetches the bytes.  Their address is invalid, so that
 * fetch fails. */
int kr_shim_grow(struct fuse_session *fuse, uint64_t number, uint64_t size)
{
	struct {
		struct fuse_out_header head;
		struct fuse_notify_store_out store;
	} message = {.head = {.len = sizeof(message) + 1, .error = FUSE_NOTIFY_STORE},
		.store = {.nodeid = number, .offset = size - 1, .size = 1}};
	const struct iovec iov = {&message, sizeof(message)};

	static_assert(sizeof(message) == sizeof(message.head) + sizeof(message.store), "no padding");
	if (kr_lent())
		return kr_lent_writev(&iov, 1) >= 0 ? 0 : -errno;
	return kr_shim_notify(fuse_session_fd(fuse), &message, sizeof(message));
}

int kr_shim_notify(int fd, const void *message, size_t length)
{
	static _Atomic(void *) nothing;
	struct iovec iov[2] = {{(void *)(uintptr_t)message, length}};
	struct fuse_out_header head;

	memcpy(&head, message, sizeof(head));
	if (head.len > length && !nothing) {
		void *page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return -errno;
		nothing = page; /* two threads at once: this reserves one more page without memory */
	}
	iov[1] = (struct iovec){nothing, head.len > length ? head.len - length : 0};
	return writev(fd, iov, head.len > length ? 2 : 1) >= 0 || (errno == EFAULT && head.len > length) ? 0 : -errno;
}

int kr_shim_reply_open(fuse_req_t req, struct fuse_file_info *fi)
{
	int err;

#ifndef KR_FUSE_SHIM
	fi->parallel_direct_writes = true;
#endif
	mark(true);
	err = fuse_reply_open(req, fi);
	mark(false);
	return err;
}

int kr_shim_reply_create(fuse_req_t req, const struct fuse_entry_param *entry, struct fuse_file_info *fi)
{
	int err;

#ifndef KR_FUSE_SHIM
	fi->parallel_direct_writes = true;
#endif
	mark(true);
	err = fuse_reply_create(req, entry, fi);
	mark(false);
	return err;
}
