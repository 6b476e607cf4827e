/* See borrower_kernel.h.  Notifications may wait for a page that a reply fills, so libuv's pool writes them.
 *
 * What the kernel caches is right only as long as the lender's daemon can have it dropped.  So a borrower that is
 * fenced has the kernel drop all of it.
 */
#include "fuse/lend/borrower_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/shim.h"
#include "fuse/lend/requests.h"

enum { READS = 32 };

struct kr_borrower_kernel {
	struct kr_borrower *borrower;
	int fd; /* /dev/fuse */
	uv_poll_t poll;
	enum { READING, FULL, ENDED } state; /* FULL: until go_on; ENDED: unmounted, or stopped */
	bool fenced;                         /* the kernel was told to drop all */
	struct kr_lend_requests requests;
	uint8_t buffer[KR_LEND_DATA_MAX];
};

/* --- requests --------------------------------------------------------------------------------- */

static void stop_reading(struct kr_borrower_kernel *k, int state)
{
	uv_poll_stop(&k->poll);
	k->state = state;
}

static void pass_on(struct kr_borrower_kernel *k, const void *bytes, size_t length)
{
	static uint32_t groups[KR_GROUPS_MAX];
	struct kr_lend_message_request message = {.kind = KR_LEND_REQUEST};
	struct kr_buf *data = kr_buf_new(length);
	struct fuse_in_header header;

	if (!data)
		abort();
	memcpy(&header, bytes, sizeof(header));
	memcpy(data->data, bytes, length);
	data->length = length;
	message.caller = (struct kr_cred){.uid = header.uid, .gid = header.gid, .groups = groups};
	message.caller.group_count = kr_lend_requests_groups(&header, groups);
	if (!kr_borrower_send(k->borrower, &message, data) && k->state == READING)
		stop_reading(k, FULL);
	kr_buf_put(data);
}

static void on_requests(uv_poll_t *poll, int status, int events)
{
	struct kr_borrower_kernel *k = poll->data;

	(void)status, (void)events;
	for (int i = 0; i < READS && k->state == READING; i++) {
		ssize_t length = read(k->fd, k->buffer, sizeof(k->buffer));

		if (length >= (ssize_t)sizeof(struct fuse_in_header)) {
			if (kr_lend_requests_take(&k->requests, k->buffer, (size_t)length, kr_clock_ns()))
				pass_on(k, k->buffer, (size_t)length);
		} else if (length < 0 && (errno == ENODEV || errno == ECONNABORTED)) {
			stop_reading(k, ENDED);
			kr_borrower_part(k->borrower, KR_LEND_BYE);
		} else if (length < 0 && errno != ENOENT && errno != EINTR) {
			break;
		}
	}
}

void kr_borrower_kernel_go_on(struct kr_borrower_kernel *k)
{
	if (k->state != FULL)
		return;
	k->state = READING;
	uv_poll_start(&k->poll, UV_READABLE, on_requests);
}

/* --- notifications ---------------------------------------------------------------------------- */

struct notification {
	uv_work_t work;
	struct kr_borrower_kernel *kernel;
	struct kr_buf *data; /* the lender's; NULL: the borrower's own, which drops NUMBER */
	uint64_t id;         /* the lender waits for its result; 0: it does not */
	uint64_t number;
	int err;
};

/* The kernel drops the file's pages, attributes and ACLs. */
static int drop(int fd, uint64_t number)
{
	const struct {
		struct fuse_out_header head;
		struct fuse_notify_inval_inode_out inode;
	} message = {.head = {.len = sizeof(message), .error = FUSE_NOTIFY_INVAL_INODE}, .inode.ino = number};

	return kr_shim_notify(fd, &message, sizeof(message));
}

static void write_notification(uv_work_t *work)
{
	struct notification *notification = KR_CONTAINER_OF(work, struct notification, work);
	const struct kr_buf *data = notification->data;
	const int fd = notification->kernel->fd;

	notification->err = data ? kr_shim_notify(fd, data->data, data->length) : drop(fd, notification->number);
}

static void on_notified(uv_work_t *work, int status)
{
	struct notification *notification = KR_CONTAINER_OF(work, struct notification, work);
	struct kr_borrower_kernel *k = notification->kernel;
	const int err = status < 0 ? status : notification->err;
	const struct kr_lend_message_request message = {
		.kind = KR_LEND_NOTIFIED, .id = notification->id, .status = kr_status_from_errno(err)};

	if (notification->id)
		kr_borrower_send(k->borrower, &message, NULL);
	else if (!notification->data && err == 0 && k->fenced) /* else pages may have come since */
		kr_lend_requests_emptied(&k->requests, notification->number, true);
	kr_buf_put(notification->data);
	free(notification);
}

static void start_notification(struct kr_borrower_kernel *k, const struct notification *notification)
{
	struct notification *copy = kr_xcalloc(1, sizeof(*copy));

	*copy = *notification;
	copy->kernel = k;
	uv_queue_work(k->poll.loop, &copy->work, write_notification, on_notified);
}

static void start_drop(uint64_t number, void *context)
{
	start_notification(context, &(struct notification){.number = number});
}

/* The lender need not wait for pages that the borrower has dropped while it was cut off.  The kernel would wait for
 * programs that have begun to read since, and these for the daemon. */
static void take_notification(struct kr_borrower_kernel *k, uint64_t id, struct kr_buf *data)
{
	const struct kr_lend_message_request answer = {.kind = KR_LEND_NOTIFIED, .id = id};
	struct {
		struct fuse_out_header head;
		struct fuse_notify_inval_inode_out inode;
	} message = {0};
	bool dropped;

	memcpy(&message, data->data, KR_MIN(sizeof(message), data->length));
	dropped = message.head.error == FUSE_NOTIFY_INVAL_INODE && message.inode.off >= 0 &&
		kr_lend_requests_is_empty(&k->requests, message.inode.ino);
	if (dropped)
		kr_borrower_send(k->borrower, &answer, NULL);
	start_notification(k, &(struct notification){.data = kr_buf_get(data), .id = dropped ? 0 : id});
}

/* --- messages of the lender ------------------------------------------------------------------- */

static void write_reply(struct kr_borrower_kernel *k, struct kr_buf *data, uint64_t most_ns)
{
	if (!kr_lend_requests_answered(&k->requests, data->data, data->length, most_ns, kr_clock_ns()))
		return;
	if (write(k->fd, data->data, data->length) < 0 && errno != ENOENT && errno != ENODEV)
		kr_log_error("the kernel does not take an answer of %zu bytes: %s", data->length, strerror(errno));
}

bool kr_borrower_kernel_take(struct kr_borrower_kernel *k, const struct kr_lend_message_request *message,
	struct kr_buf *data, uint32_t lease_ms)
{
	if (!data || data->length < sizeof(struct fuse_out_header))
		return false;
	if (message->kind == KR_LEND_REPLY)
		write_reply(k, data, lease_ms * KR_NS_PER_MS / 2);
	else if (message->kind == KR_LEND_NOTIFY && message->id)
		take_notification(k, message->id, data);
	else if (message->kind == KR_LEND_NOTIFY)
		kr_shim_notify(k->fd, data->data, data->length);
	else
		return false;
	return true;
}

/* --- time and life ---------------------------------------------------------------------------- */

void kr_borrower_kernel_tick(struct kr_borrower_kernel *k, uint64_t now_ns, bool fenced)
{
	struct kr_lend_interrupt interrupt;

	if (fenced && !k->fenced)
		kr_lend_requests_each_held(&k->requests, start_drop, k);
	k->fenced = fenced;
	while (kr_lend_requests_interrupt(&k->requests, now_ns, &interrupt))
		pass_on(k, &interrupt, sizeof(interrupt));
}

struct kr_borrower_kernel *kr_borrower_kernel_new(uv_loop_t *loop, int fd, struct kr_borrower *borrower)
{
	struct kr_borrower_kernel *k = kr_xcalloc(1, sizeof(*k));

	k->borrower = borrower;
	k->fd = fd;
	kr_lend_requests_init(&k->requests);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	uv_poll_init(loop, &k->poll, fd);
	k->poll.data = k;
	uv_poll_start(&k->poll, UV_READABLE, on_requests);
	return k;
}

void kr_borrower_kernel_stop(struct kr_borrower_kernel *k)
{
	k->state = ENDED;
	uv_close((uv_handle_t *)&k->poll, NULL);
}

void kr_borrower_kernel_free(struct kr_borrower_kernel *k)
{
	if (!k)
		return;
	kr_lend_requests_fini(&k->requests);
	free(k);
}
