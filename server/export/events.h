/* Change events of a filesystem: fanotify with file handles, see fanotify(7).
 *
 * One mark covers the export's whole filesystem, so events of files outside the export arrive, too; no file identity
 * matches those. kr_events_open blocks; kr_events_read does not. */
#ifndef KR_SERVER_EVENTS_H
#define KR_SERVER_EVENTS_H

struct kr_export;
struct kr_fid;

enum { KR_EVENT_WROTE = 1, KR_EVENT_CLOSED = 2, KR_EVENT_NAMED = 4 };
/* The events of a descriptor. */
enum kr_events_kind {
	KR_EVENTS_DATA,  /* WROTE and CLOSED */
	KR_EVENTS_NAMES, /* NAMED: the attributes of FID, or, if it is a directory, the names in it */
};

struct kr_events_sink {
	/* WHAT another program did to FID (a file of this filesystem). It wrote, truncated or punched the file; closed
	 * it after having it open for writing; or changed its attributes or the names in it. */
	void (*changed)(void *context, const struct kr_fid *fid, unsigned what);
	/* The kernel lost events: anything may have changed. */
	void (*lost)(void *context);
	void *context;
};

/* A descriptor to poll, or -errno with a reason: kernel, filesystem or privileges do not allow it. The call has tested
 * it with a change of the server's own. */
int kr_events_open(struct kr_export *export, enum kr_events_kind kind);
/* Reads a few thousand events at most. 0, or -errno: no more events will come. */
int kr_events_read(int fd, const struct kr_export *export, const struct kr_events_sink *sink);

#endif
