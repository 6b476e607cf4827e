/* The table of files that somebody uses: per file its leases, opens, change counter and what the data path keeps.
 *
 * A file is in the table while somebody holds a reference: requests, sessions that have it open or leased, the data
 * side while it has rounds or syncs of it; after that a while longer, so that its change counter goes on.  Loop thread
 * only.
 */
#ifndef KR_SERVER_FILE_TABLE_H
#define KR_SERVER_FILE_TABLE_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"
#include "server/leases/cover.h"
#include "server/leases/lease_table.h"
#include "server/export/last_stat.h"

struct kr_server;
struct kr_session;
struct kr_sfile;
struct kr_sfile_data;
struct kr_sfile_locks;

/* What higher rooms do for files.  Each registers its part once, before the first file. */
struct kr_file_hooks {
	/* The flush room makes and frees kr_sfile.data. */
	void (*created)(struct kr_sfile *file);
	void (*destroyed)(struct kr_sfile *file);
	/* Whether NODE has asked for a flush that is not answered. */
	bool (*flush_asked)(const struct kr_sfile *file, uint32_t node);
	/* The session gave READ back or answered its recall: it leaves the file's pipeline. */
	void (*read_lost)(struct kr_sfile *file, struct kr_session *session);
	/* COUNT opens of the file (counted in file->opens) end: the export's holds go, in the background. */
	void (*release)(struct kr_sfile *file, uint64_t count);
};

/* All files in use. */
struct kr_file_table {
	struct kr_file_hooks hooks;
	struct kr_table by_fid;   /* kr_sfile.by_fid */
	struct kr_list idle;      /* kr_sfile.idle: unused, kept for their change counters, oldest first */
	size_t idle_count;        /* bounded */
	uint64_t epoch;           /* ascends with every start and end of a change of any file's bytes */
	uint64_t forgotten_epoch; /* the latest `changed_epoch` among files dropped from the table */
};

struct kr_sfile {
	struct kr_server *server;
	struct kr_table_link by_fid;
	struct kr_link idle;
	uint32_t references;
	struct kr_fid fid;
	uint64_t opens;             /* of all sessions */
	struct kr_list attachments; /* kr_attachment.of_file */
	struct kr_lease_table leases;
	struct kr_sfile_locks *locks; /* of locks.c; NULL: nobody holds or waits for any */
	uint64_t changes;             /* ascends at the start and at the end of every change of the file's bytes */
	uint64_t ended;               /* ascends at the end of every change */
	uint32_t changing;            /* changes under way */
	uint64_t changed_epoch;       /* server->files->epoch of the latest start or end */
	uint64_t own_epoch;           /* changed_epoch after the latest flush, if that was of one node alone ... */
	uint64_t own_base;            /* ... and before it ... */
	struct kr_time own_ctime;     /* ... and the file's ctime then; INT64_MAX s: not known */
	uint8_t own_node[16];         /* ... which is this one */
	uint64_t cuts;                /* ascends with every change that may shrink the file */
	struct kr_list late;          /* kr_late_claim.link: RECLAIMs of late nodes with bytes, not answered */
	bool orphan;                  /* it has no name: when its last open ends it is gone */
	bool vanished;                /* inside kr_leases_gone */
	bool gone;                    /* neither name nor open is left: bytes still flushed are of no use to anybody */
	struct kr_last_stat seen;     /* of watch.c, as are the next ones */
	struct kr_carried carried;
	uint64_t told_epoch; /* server->epoch when the kernel last told of somebody else; what we began before is not
				carried */
	struct kr_link watched;
	uint64_t looked_ns;
	bool touching, touch_again;
	struct kr_sfile_data *data; /* rounds, syncs, pipeline */
};

/* One session's use of one file: exists while it has the file open, or holds or waits for a lease. Holds a reference of
 * the file, not of the session, which ends it. */
struct kr_attachment {
	struct kr_session *session;
	struct kr_sfile *file;
	struct kr_link of_session, of_file;
	uint32_t opens;        /* answered with success and not closed */
	uint32_t waiting;      /* leases asked and not granted */
	uint8_t inherited;     /* of the leases held: from the session that this one replaced, and not reclaimed yet */
	uint64_t flushed_ns;   /* when a FLUSH of it was answered the last time; 0: never */
	struct kr_cover cover; /* ... and what became of those that were refused */
	uint64_t owed_lease_ns, owed_size_ns; /* since when its node has owed the answer to RECALL or QUERY, left by its
						 former session; 0 */
	uint64_t left_size_ns;                /* ... and what the session leaves when it ends */
	bool replays;   /* it has reclaimed rounds of a former boot when they were not collected any more, and may send
			   them, until one is refused */
	bool overtaken; /* what it replays was refused while replays were collected: later ones of others were there
			   (replayed.h) */
};

/* The file, entered into the table if it is not there yet. Returns a reference. */
struct kr_sfile *kr_sfile_get(struct kr_server *server, const struct kr_fid *fid);
/* The file if it is in the table; borrowed. NULL. */
struct kr_sfile *kr_sfile_find(struct kr_server *server, const struct kr_fid *fid);
struct kr_sfile *kr_sfile_ref(struct kr_sfile *file);
void kr_sfile_put(struct kr_sfile *file);

/* Around every job that changes the file's bytes or size, in the loop: before it starts and after it is done. An
 * attribute version counts only if no change was under way at any time during the stat (kr_sfile_version). */
void kr_sfile_changing(struct kr_sfile *file);
void kr_sfile_changed(struct kr_sfile *file);
void kr_sfile_truncated(struct kr_sfile *file); /* between the two, where the file may have become shorter */
/* Sets ATTR->version for attributes that a job got, given file->changes as they were when the job was started; 0 if the
 * bytes may have changed meanwhile. Notices by them what others changed (watch.h). */
void kr_sfile_version(struct kr_sfile *file, uint64_t changes_before, struct kr_attr *attr);
/* The version of the bytes that FILE had with ATTR, when file->changes was CHANGES and no change was under way. */
uint64_t kr_sfile_version_at(const struct kr_sfile *file, const struct kr_attr *attr, uint64_t changes);

struct kr_attachment *kr_attachment_find(const struct kr_sfile *file, const struct kr_session *session);
struct kr_attachment *kr_attachment_get(struct kr_sfile *file, struct kr_session *session);
/* Whether SESSION may use one file more, or open FILE (if not NULL) once more when it uses it already. */
bool kr_attachment_room(const struct kr_sfile *file, const struct kr_session *session);
enum { KR_ATTACHMENT_OPENS_MAX = 1 << 24 }; /* of one file */
/* The session gives a lease of the file back: before anybody else can have it. */
void kr_attachment_gives_up(struct kr_attachment *attachment);
/* Frees it if it has neither opens nor leases nor waits for one, nor bytes that were refused and have to be judged. */
void kr_attachment_settle(struct kr_attachment *attachment);

void kr_files_init(struct kr_server *server);
void kr_files_fini(struct kr_server *server);

#endif
