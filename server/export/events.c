#include "server/export/events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/export/export.h"
#include "server/export/export_priv.h"

enum { READS_MAX = 16, BUFFER = 64 * 1024 };
#define MASK_DATA (FAN_MODIFY | FAN_CLOSE_WRITE)
#define MASK_NAMES \
	(FAN_ATTRIB | FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO | FAN_DELETE_SELF | FAN_MOVE_SELF | \
		MASK_DATA) /* sizes and times are attributes */

/* The identity in the record behind an event's head; false: none of a known kind. */
static bool identity_of(const struct fanotify_event_metadata *event, const uint8_t *bytes,
	const struct kr_export *export, struct kr_fid *ret_fid)
{
	struct fanotify_event_info_fid info;
	struct file_handle head;
	size_t at = event->metadata_len;

	if (event->event_len < at + sizeof(info) + sizeof(head))
		return false;
	memcpy(&info, bytes + at, sizeof(info));
	memcpy(&head, bytes + at + sizeof(info), sizeof(head));
	at += sizeof(info) + sizeof(head);
	if (info.hdr.info_type != FAN_EVENT_INFO_TYPE_FID || head.handle_bytes > event->event_len - at)
		return false;
	return kr_export_identify_handle(export, head.handle_type, bytes + at, head.handle_bytes, ret_fid) == 0;
}

struct filter {
	const struct kr_events_sink *sink;
	pid_t pid; /* our own identity */
	bool own;  /* report our own events only: the probe */
};

static void take_event(const struct fanotify_event_metadata *event, const uint8_t *bytes,
	const struct kr_export *export, const struct filter *filter)
{
	struct kr_fid fid;

	if (event->mask & FAN_Q_OVERFLOW)
		filter->sink->lost(filter->sink->context);
	else if ((event->pid == filter->pid) == filter->own && identity_of(event, bytes, export, &fid))
		filter->sink->changed(filter->sink->context, &fid,
			(event->mask & FAN_MODIFY ? KR_EVENT_WROTE : 0) |
				(event->mask & FAN_CLOSE_WRITE ? KR_EVENT_CLOSED : 0) |
				(event->mask & MASK_NAMES ? KR_EVENT_NAMED : 0));
}

static int read_events(int fd, const struct kr_export *export, const struct filter *filter)
{
	static uint8_t buffer[BUFFER];

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t length = read(fd, buffer, sizeof(buffer));
		struct fanotify_event_metadata event;

		if (length < 0)
			return errno == EAGAIN || errno == EINTR ?
				0 :
				kr_fail_errno(-errno, "reading events of the export");
		for (size_t at = 0; at + sizeof(event) <= (size_t)length; at += event.event_len) {
			memcpy(&event, buffer + at, sizeof(event)); /* unaligned */
			if (event.vers != FANOTIFY_METADATA_VERSION)
				return kr_fail(-EPROTO, "the kernel's events have version %u", event.vers);
			if (event.event_len < sizeof(event) || event.event_len > (size_t)length - at)
				return kr_fail(-EPROTO, "an event of the kernel's is %u bytes long", event.event_len);
			take_event(&event, buffer + at, export, filter);
		}
	}
	return 0;
}

int kr_events_read(int fd, const struct kr_export *export, const struct kr_events_sink *sink)
{
	return read_events(fd, export, &(struct filter){.sink = sink, .pid = getpid()});
}

/* --- the probe -------------------------------------------------------------------------------- */

struct probe {
	struct kr_fid fid, directory;
	unsigned file, names; /* the events seen so far */
};

static void probe_changed(void *context, const struct kr_fid *fid, unsigned what)
{
	struct probe *probe = context;

	if (kr_fid_equal(fid, &probe->fid))
		probe->file |= what;
	else if (kr_fid_equal(fid, &probe->directory))
		probe->names |= what;
}

static void probe_lost(void *context)
{
	(void)context;
}

/* Whether our own changes arrive as events with our process id and the known file identities. */
static bool works(struct kr_export *export, int fd, enum kr_events_kind kind)
{
	struct probe probe = {0};
	const struct kr_events_sink sink = {probe_changed, probe_lost, &probe};
	const char *name = kind == KR_EVENTS_DATA ? "probe-events" : "probe-names";
	int file = openat(export->private_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool done;

	if (file < 0)
		return false;
	done = kr_entry_identify(export, file, NULL, name, &probe.fid) == 0 &&
		kr_entry_identify(export, export->private_fd, NULL, ".", &probe.directory) == 0 &&
		pwrite(file, "", 1, 0) == 1 && fchmod(file, 0400) == 0;
	close(file);
	unlinkat(export->private_fd, name, 0);
	if (!done || read_events(fd, export, &(struct filter){.sink = &sink, .pid = getpid(), .own = true}) < 0)
		return false;
	if (kind == KR_EVENTS_DATA)
		return probe.file & KR_EVENT_WROTE;
	return probe.file & KR_EVENT_NAMED && probe.names & KR_EVENT_NAMED;
}

int kr_events_open(struct kr_export *export, enum kr_events_kind kind)
{
	const uint64_t mask = kind == KR_EVENTS_DATA ? MASK_DATA : MASK_NAMES | FAN_ONDIR;
	int fd, err;

	if (!export->by_handle)
		return kr_fail(-EPERM, "files are not identified by handles");
	if (export->private_fd < 0)
		return kr_fail(-EROFS, "the export cannot be written, so that it cannot be tried");
	fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_LARGEFILE);
	if (fd < 0)
		return kr_fail_errno(-errno, "fanotify");
	if (fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, mask, export->root_fd, NULL) < 0) {
		err = kr_fail_errno(-errno, "fanotify on the export's filesystem");
		close(fd);
		return err;
	}
	if (works(export, fd, kind))
		return fd;
	close(fd);
	return kr_fail(-EOPNOTSUPP, "the kernel does not tell of changes on this filesystem in a way that can be used");
}
