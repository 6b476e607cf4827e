/* See lent.h.  Whole frames are read under `reading` and written under `writing`.  The worker that reads the answer to
 * a notification wakes the thread that waits for it. */
#include "fuse/base/lent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/rpc/msg.h"

enum { PIECES_MAX = 300 };

struct waiter {
	struct kr_link link;
	uint64_t id;
	bool answered;
	int err;
};

static struct {
	int fd;
	pthread_mutex_t reading, writing;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	struct kr_list waiters;
	uint64_t notifications;
	uint32_t lease_ms;
	bool ready, ended;
} lent = {.fd = -1,
	.reading = PTHREAD_MUTEX_INITIALIZER,
	.writing = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER};

static _Thread_local struct {
	uint32_t groups[KR_GROUPS_MAX], count;
} caller;

static _Thread_local bool in_order;

void kr_lent_in_order(bool on)
{
	in_order = on;
}

int kr_lent_begin(void)
{
	const char *text = getenv(KR_LENT_ENVIRONMENT);
	uint64_t fd;

	if (!text)
		return 0;
	if (!kr_parse_number(text, 3, INT32_MAX, &fd) || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return kr_fail(-EBADF, KR_LENT_ENVIRONMENT "=%s is no descriptor (kairanfs --lend sets it)", text);
	unsetenv(KR_LENT_ENVIRONMENT);
	kr_list_init(&lent.waiters);
	lent.fd = (int)fd;
	return 0;
}

bool kr_lent(void)
{
	return lent.fd >= 0;
}

void kr_lent_mount_point(char *text, size_t size)
{
	snprintf(text, size, "/dev/fd/%d", lent.fd);
}

uint32_t kr_lent_groups(uint32_t *groups, uint32_t max)
{
	memcpy(groups, caller.groups, KR_MIN(caller.count, max) * sizeof(groups[0]));
	return caller.count;
}

static void mark_ended(void)
{
	KR_SCOPED_LOCK(&lent.lock);

	lent.ended = true;
	pthread_cond_broadcast(&lent.changed);
}

void kr_lent_end(void)
{
	shutdown(lent.fd, SHUT_RDWR);
	mark_ended();
}

/* --- writing ---------------------------------------------------------------------------------- */

static int write_all(struct iovec *iov, int count)
{
	KR_SCOPED_LOCK(&lent.writing);

	while (count > 0) {
		struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
		ssize_t sent = sendmsg(lent.fd, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			return -ENODEV;
		for (; count > 0 && sent >= (ssize_t)iov->iov_len; iov++, count--)
			sent -= (ssize_t)iov->iov_len;
		if (count > 0 && sent > 0) {
			iov->iov_base = (uint8_t *)iov->iov_base + sent;
			iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

/* A frame without a reply, with the data of IOV. */
static int write_frame(uint16_t type, const void *msg, const struct iovec *iov, int count)
{
	struct kr_frame_header header = {.type = type, .flags = KR_FRAME_ONEWAY};
	struct iovec pieces[PIECES_MAX];
	uint8_t bytes[KR_FRAME_HEADER];
	struct kr_writer fields;
	int err;

	if (count > PIECES_MAX - 2)
		return -E2BIG;
	kr_writer_init(&fields);
	err = kr_msg_encode(type, false, msg, &fields);
	header.fields_length = (uint32_t)fields.length;
	pieces[0] = (struct iovec){bytes, sizeof(bytes)};
	pieces[1] = (struct iovec){fields.bytes, fields.length};
	for (int i = 0; i < count; i++) {
		header.data_length += (uint32_t)iov[i].iov_len;
		pieces[2 + i] = iov[i];
	}
	kr_frame_header_encode(&header, bytes);
	if (!err)
		err = write_all(pieces, 2 + count);
	kr_writer_fini(&fields);
	return err;
}

void kr_lent_set_lease(uint32_t lease_ms)
{
	bool tell;

	pthread_mutex_lock(&lent.lock);
	tell = lent.ready && lent.lease_ms != lease_ms;
	lent.lease_ms = lease_ms;
	pthread_mutex_unlock(&lent.lock);
	if (tell)
		kr_lent_ready(0, "");
}

void kr_lent_ready(int err, const char *reason)
{
	struct kr_lend_ready_request ready = {.status = kr_status_from_errno(err), .reason = reason};

	pthread_mutex_lock(&lent.lock);
	lent.ready = err == 0;
	ready.lease_ms = lent.lease_ms;
	pthread_mutex_unlock(&lent.lock);
	write_frame(KR_MSG_LEND_READY, &ready, NULL, 0);
}

static int notify(const struct iovec *iov, int count)
{
	struct kr_lend_message_request message = {.kind = KR_LEND_NOTIFY};
	struct waiter waiter = {0};
	int err;

	if (in_order)
		return write_frame(KR_MSG_LEND_MESSAGE, &message, iov, count);
	pthread_mutex_lock(&lent.lock);
	waiter.id = message.id = ++lent.notifications;
	kr_list_append(&lent.waiters, &waiter.link);
	pthread_mutex_unlock(&lent.lock);
	err = write_frame(KR_MSG_LEND_MESSAGE, &message, iov, count);
	pthread_mutex_lock(&lent.lock);
	while (!err && !waiter.answered && !lent.ended)
		pthread_cond_wait(&lent.changed, &lent.lock);
	kr_list_remove(&waiter.link);
	pthread_mutex_unlock(&lent.lock);
	return err ? err : waiter.answered ? waiter.err : -ENODEV;
}

ssize_t kr_lent_writev(const struct iovec *iov, int count)
{
	const struct kr_lend_message_request message = {.kind = KR_LEND_REPLY};
	struct fuse_out_header head;
	int err;

	memcpy(&head, iov[0].iov_base, sizeof(head));
	err = head.unique ? write_frame(KR_MSG_LEND_MESSAGE, &message, iov, count) : notify(iov, count);
	errno = -err;
	return err < 0 ? -1 : (ssize_t)head.len;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int read_all(void *buffer, size_t size)
{
	uint8_t *at = buffer;

	while (size > 0) {
		ssize_t length = recv(lent.fd, at, size, MSG_WAITALL);

		if (length <= 0 && !(length < 0 && errno == EINTR))
			return -ENODEV;
		if (length > 0) {
			at += length;
			size -= (size_t)length;
		}
	}
	return 0;
}

static void settle(const struct kr_lend_message_request *answer)
{
	KR_SCOPED_LOCK(&lent.lock);
	struct waiter *waiter;

	KR_LIST_FOR_EACH(waiter, &lent.waiters, link) {
		if (waiter->id != answer->id)
			continue;
		waiter->answered = true;
		waiter->err = kr_status_to_errno(answer->status);
		pthread_cond_broadcast(&lent.changed);
	}
}

/* Takes a frame's fields.  Returns the length of the request that follows, or 0. */
static ssize_t take_message(const struct kr_frame_header *header, const uint8_t *fields, size_t size)
{
	struct kr_arena arena = {0};
	union kr_any_msg any;
	const struct kr_lend_message_request *message = &any.lend_message_request;
	ssize_t result = kr_msg_decode(header->type, false, fields, header->fields_length, &any, &arena);

	if (result == 0 && message->kind == KR_LEND_REQUEST && header->data_length <= size) {
		caller.count = message->caller.group_count;
		if (caller.count > 0)
			memcpy(caller.groups, message->caller.groups, caller.count * sizeof(caller.groups[0]));
		result = header->data_length;
	} else if (result == 0 && message->kind == KR_LEND_NOTIFIED && header->data_length == 0) {
		settle(message);
	} else {
		result = -EBADMSG;
	}
	kr_arena_fini(&arena);
	return result;
}

/* One frame.  The length of the request in BUFFER, 0 for another message, or -errno. */
static ssize_t read_frame(void *buffer, size_t size)
{
	struct kr_frame_header header;
	uint8_t bytes[KR_FRAME_HEADER], fields[KR_GROUPS_MAX * sizeof(uint32_t) + 128];
	KR_SCOPED_LOCK(&lent.reading);
	int err = read_all(bytes, sizeof(bytes));
	ssize_t length;

	if (!err)
		err = kr_frame_header_decode(bytes, &header);
	if (!err && (header.type != KR_MSG_LEND_MESSAGE || header.fields_length > sizeof(fields)))
		err = -EBADMSG;
	if (!err)
		err = read_all(fields, header.fields_length);
	if (err)
		return err;
	length = take_message(&header, fields, size);
	if (length > 0)
		err = read_all(buffer, (size_t)length);
	return err ? err : length;
}

ssize_t kr_lent_read(void *buffer, size_t size)
{
	ssize_t length;

	do
		length = read_frame(buffer, size);
	while (length == 0);
	if (length > 0)
		return length;
	if (length != -ENODEV)
		kr_log_error("the lender sends what no lender sends: the mount ends");
	mark_ended();
	errno = ENODEV;
	return -1;
}
