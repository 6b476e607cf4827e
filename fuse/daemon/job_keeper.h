/* The keeper of a job's files: a process of the head (introduction.h) beside its mount.
 *
 * It runs a kairand that exports LOCAL/kairan-job/export to the job's members, and says to the site's kairand that it
 * does.  It has the rights that the mount gives up: to run a program, and to remove the files of all users.
 *
 * Nothing of the job outlives the head's mount, whatever is killed:
 *  - The keeper ends when its socket to the mount closes: the mount has ended, or was killed.  It kills kairand,
 *    removes LOCAL/kairan-job, and tells the site's kairand that the job has ended.
 *  - kairand dies with the keeper (PR_SET_PDEATHSIG).  Then the members, the head too, find that it is gone.  The next
 *    start in the same local directory, or the batch system's epilogue, removes what stays on the disk.
 *  - The keeper holds the local directory's lock until it has removed everything.
 * kairand never starts again: so members know that it is gone as soon as their connections are refused.
 */
#ifndef KR_FUSE_JOB_KEEPER_H
#define KR_FUSE_JOB_KEEPER_H

#include <sys/types.h>

#include "fuse/base/local_dir.h"
#include "fuse/daemon/introduction.h"

/* Below the local directory: all that a view=job has on the disk. */
#define KR_JOB_PLACE "kairan-job"

enum { KR_JOB_HEAD_TEXT = KR_JOB_NAME_MAX + 16 };

struct kr_mount_options;

struct kr_job_keeper {
	pid_t pid;  /* 0: there is none */
	int socket; /* closed: the keeper ends */
};

/* Starts the keeper.  Waits until its kairand serves and the site's kairand knows that, and fills in HEAD's node,
 * address and port.  LOCAL/kairan-job exists, with the file `key`.  REQUEST: that of the member that is head.  PARENT:
 * a socket at whose other end a process waits for this process; the keeper closes its copy.  -1: there is none.  The
 * process must have one thread.  -errno with a reason; then nothing runs. */
int kr_job_keeper_start(struct kr_job_keeper *keeper, const struct kr_mount_options *options,
	const struct kr_local *local, const struct kr_introduce_request *request, int parent, struct kr_job_head *head);
/* Ends the job, and waits for the keeper's end. */
void kr_job_keeper_stop(struct kr_job_keeper *keeper);

/* Removes LOCAL/kairan-job; 0 also if there is none.  Blocks for as long as the disk needs. */
int kr_job_remove(const struct kr_local *local);
/* Where HEAD serves, as "10.0.0.1:5000" or "[fd00::1]:5000", in TEXT. */
const char *kr_job_head_format(const struct kr_job_head *head, char text[KR_JOB_HEAD_TEXT]);
/* 0: a process listens there; -errno.  Blocks for a second at most. */
int kr_job_head_answers(const struct kr_job_head *head);

#endif
