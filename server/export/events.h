/* The kernel's word of changes in a filesystem: fanotify with file handles, see fanotify(7).
 *
 * One mark on the export's whole filesystem, so it also tells of files outside the export: their handles are nobody's.
 * kr_events_open and kr_events_close block; kr_events_read does not.
 */
#ifndef KR_SERVER_EVENTS_H
#define KR_SERVER_EVENTS_H

struct kr_export;
struct kr_fid;

enum { KR_EVENT_WROTE = 1, KR_EVENT_CLOSED = 2, KR_EVENT_NAMED = 4 };
/* What a descriptor tells of. */
enum kr_events_kind {
	KR_EVENTS_DATA,  /* WROTE and CLOSED */
	KR_EVENTS_NAMES, /* NAMED: the attributes of FID, or, if it is a directory, the names in it */
};

struct kr_events_sink {
	/* WHAT somebody else did to FID (a file of this filesystem): wrote, cut or punched it; closed it after having
	 * had it open for writing; changed its attributes or the names in it. */
	void (*changed)(void *context, const struct kr_fid *fid, unsigned what);
	/* Events have been lost: anything may have changed. */
	void (*lost)(void *context);
	void *context;
};

/* A descriptor to poll, or -errno with a reason: the kernel or the filesystem cannot, or we may not. What it tells has
 * been compared with a change of our own. */
int kr_events_open(struct kr_export *export, enum kr_events_kind kind);
/* Takes out what there is, at most a few thousand events. 0, or -errno: nothing more is to be expected. */
int kr_events_read(int fd, const struct kr_export *export, const struct kr_events_sink *sink);

#endif
