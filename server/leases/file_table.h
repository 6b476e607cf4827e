/* The table of files in use: per file its leases, opens, change counter and the flush room's state.
 *
 * A file is in the table while requests, sessions that have it open or leased, or flush rounds refer to it.  After
 * that it stays a while, so that its change counter goes on; or, if it is gone, for FLUSHes that are on their way.
 * Loop thread only.
 */
#ifndef KR_SERVER_FILE_TABLE_H
#define KR_SERVER_FILE_TABLE_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"
#include "server/leases/cover.h"
#include "server/leases/lease_table.h"
#include "server/base/last_stat.h"

struct kr_server;
struct kr_session;
struct kr_sfile;
struct kr_sfile_data;
struct kr_sfile_locks;

/* The higher rooms' part of files.  Each registers its own once, before the first file. */
struct kr_file_hooks {
	/* The flush room makes and frees kr_sfile.data. */
	void (*created)(struct kr_sfile *file);
	void (*destroyed)(struct kr_sfile *file);
	/* Whether NODE waits for the answer to a flush. */
	bool (*flush_asked)(const struct kr_sfile *file, uint32_t node);
	/* A session with uncommitted bytes ends; SUCCESSOR takes its place (NULL: none). */
	void (*writer_ended)(struct kr_sfile *file, struct kr_session *session, struct kr_session *successor);
	/* Such a successor has reclaimed all that it has. */
	void (*writer_reclaimed)(struct kr_sfile *file, struct kr_session *session);
	/* The session's node gives a lease back, and the server has refused unflushed bytes of it. */
	void (*writer_gave_up)(struct kr_sfile *file, struct kr_session *session);
	/* A node or an operation waits until other nodes have given their leases back and committed their bytes. */
	void (*awaited)(struct kr_sfile *file);
	/* The session has given READ back: its node leaves the file's pipeline. */
	void (*read_lost)(struct kr_sfile *file, struct kr_session *session);
	/* COUNT opens of the file (counted in file->opens) end: the export releases them in the background. */
	void (*release)(struct kr_sfile *file, uint64_t count);
};

/* Files without users. */
struct kr_unused_files {
	struct kr_list list; /* kr_sfile.idle, oldest first */
	size_t count, max;
};

/* All files in use. */
struct kr_file_table {
	struct kr_file_hooks hooks;
	struct kr_table by_fid;      /* kr_sfile.by_fid */
	struct kr_unused_files idle; /* kept for their change counters */
	struct kr_unused_files gone; /* kept for FLUSHes that are on their way */
	uint64_t epoch;            /* ascends with every start and end of a change of bytes, and with every new file */
	uint64_t forgotten_epoch;  /* the latest `changed_epoch` among files dropped from the table */
	uint64_t granted, recalls; /* leases granted to nodes that asked, RECALLs sent */
};

/* The version that nodes know the file's bytes by, for this count of the server's changes, ctime and size. */
struct kr_told_version {
	uint64_t changes, size, version;
	struct kr_time ctime;
};

struct kr_sfile {
	struct kr_server *server;
	struct kr_table_link by_fid;
	struct kr_link idle;
	struct kr_unused_files *unused; /* where `idle` is linked; NULL: the file has users */
	uint32_t references;
	struct kr_fid fid;
	uint64_t opens;             /* of all sessions */
	struct kr_list attachments; /* kr_attachment.of_file */
	struct kr_lease_table leases;
	struct kr_sfile_locks *locks; /* of locks.c; NULL: no lock is held or waited for */
	uint64_t changes;             /* ascends at the start and at the end of every change of the file's bytes */
	uint64_t ended;               /* ascends at the end of every change */
	uint32_t changing;            /* changes under way */
	uint64_t changed_epoch;       /* server->files->epoch of the latest start or end */
	uint64_t own_epoch;           /* changed_epoch after the latest flush, if one node alone was in it ... */
	uint64_t own_base;            /* ... and before that flush ... */
	struct kr_time own_ctime;     /* ... with the file's ctime then; INT64_MAX s: not known */
	uint8_t own_node[16];         /* ... and that node */
	uint64_t cuts;                /* ascends with every truncation */
	struct kr_list late;          /* kr_late_claim.link: unanswered RECLAIMs of late nodes that have bytes */
	bool orphan;                  /* it has no name: its last close removes it */
	bool vanished;                /* inside kr_leases_gone */
	bool gone;                    /* it has neither name nor open: its unflushed bytes are of no use */
	struct kr_told_version told;  /* the latest one */
	struct kr_last_stat seen;     /* this and the next ones are of watch.c */
	struct kr_carried carried;
	uint64_t entered_epoch; /* epoch at which the file entered the table */
	uint64_t told_epoch;    /* epoch of the last event; changes that began before are not carried */
	struct kr_link watched;
	uint64_t looked_ns;
	bool touching, touch_again;
	struct kr_sfile_data *data; /* rounds, syncs, pipelines */
};

/* The use of one file by one session: while it has the file open, holds or waits for a lease, or is uncommitted.  Holds
 * a reference to the file.  The session owns and ends it. */
struct kr_attachment {
	struct kr_session *session;
	struct kr_sfile *file;
	struct kr_link of_session, of_file;
	struct kr_link uncommitted; /* in kr_session.leases.uncommitted while the node has uncommitted bytes */
	uint32_t opens;             /* answered with success and not closed */
	uint32_t waiting;           /* leases asked for and not granted */
	bool has_copy;              /* under its READ the node has the bytes of a small file, or is getting them */
	uint8_t inherited;          /* of the leases held: taken over from the previous session, not reclaimed yet */
	uint64_t flushed_ns;        /* when the server last answered a FLUSH of the session; 0: never */
	struct kr_cover cover;      /* ... and what became of refused ones */
	uint64_t owed_lease_ns,
		owed_size_ns;  /* since when the node owes the answer to a RECALL or QUERY of its previous session; 0 */
	uint64_t left_size_ns; /* ... and what the session leaves to its successor */
};

/* Returns a reference to the file, which enters the table if it is not there yet. */
struct kr_sfile *kr_sfile_get(struct kr_server *server, const struct kr_fid *fid);
/* The file if it is in the table, borrowed; else NULL. */
struct kr_sfile *kr_sfile_find(struct kr_server *server, const struct kr_fid *fid);
struct kr_sfile *kr_sfile_ref(struct kr_sfile *file);
void kr_sfile_put(struct kr_sfile *file);

/* Around every job that changes the file's bytes or size, in the loop: before its start and after its end.  An
 * attribute version counts only if no change was under way during the stat (kr_sfile_version). */
void kr_sfile_changing(struct kr_sfile *file);
void kr_sfile_changed(struct kr_sfile *file);
/* SESSION's node has made the file, which has no bytes yet. */
void kr_sfile_made(struct kr_sfile *file, const struct kr_session *session);
void kr_sfile_truncated(struct kr_sfile *file); /* between the two: the file may have become shorter */
/* Sets ATTR->version for attributes that a job has read; CHANGES_BEFORE is file->changes at the start of the job.  0
 * if the bytes may have changed meanwhile.  Detects changes by local programs (watch.h). */
void kr_sfile_version(struct kr_sfile *file, uint64_t changes_before, struct kr_attr *attr);
/* The version that the bytes of FILE had with ATTR, when file->changes was CHANGES and no change was under way. */
uint64_t kr_sfile_version_at(struct kr_sfile *file, const struct kr_attr *attr, uint64_t changes);

struct kr_attachment *kr_attachment_find(const struct kr_sfile *file, const struct kr_session *session);
struct kr_attachment *kr_attachment_get(struct kr_sfile *file, struct kr_session *session);
enum { KR_SMALL_FILE = KR_INLINE_MAX / 16 }; /* comes with the answer to OPEN */
/* ATTACHMENT's node gets the bytes of a small file. */
void kr_attachment_note_copy(struct kr_attachment *attachment);
/* The latest node that got a copy which SESSION's node may take, if there are COUNT such nodes; else NULL.  None is
 * there of a file that has grown. */
struct kr_session *kr_sfile_copy_holder(const struct kr_sfile *file, const struct kr_session *session, size_t count);
/* Whether SESSION may use one more file, or open FILE (if not NULL) once more when it uses FILE already. */
bool kr_attachment_room(const struct kr_sfile *file, const struct kr_session *session);
enum { KR_ATTACHMENT_OPENS_MAX = 1 << 24 }; /* of one file */
/* Frees ATTACHMENT if it has no opens, leases and waits, no uncommitted bytes, and no refused ones to be judged. */
void kr_attachment_settle(struct kr_attachment *attachment);

void kr_files_init(struct kr_server *server);
void kr_files_fini(struct kr_server *server);

#endif
