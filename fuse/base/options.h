/* The checked command line of kairanfs.  Read-only after kr_mount_options_parse. */
#ifndef KR_FUSE_OPTIONS_H
#define KR_FUSE_OPTIONS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/rpc/resolve.h"

enum { KR_FLUSH_AGE_MAX_MS = 3600000, KR_LEND_PORT = 7441 };
enum kr_close_mode { KR_CLOSE_SYNC, KR_CLOSE_ASYNC };
enum kr_view_kind { KR_VIEW_CACHE, KR_VIEW_NODE, KR_VIEW_JOB };
enum kr_coherence { KR_COHERENCE_STRICT, KR_COHERENCE_RELAXED, KR_COHERENCE_ORDERED };

/* Ports LOW to HIGH; 0 to 0: the kernel chooses. */
struct kr_port_range {
	uint16_t low, high;
};

struct kr_mount_options {
	/* From the arguments. */
	char *source;      /* HOST[:PORT]:/[SUBDIR] as given; "none" with view=node */
	char *subdir;      /* without a leading '/'; "" for the export itself */
	char *mount_point; /* absolute */
	struct kr_endpoint server;
	char *fuse_options; /* for libfuse and the kernel, joined by commas; NULL for none */
	bool read_only, noatime, strictatime, allow_other, allow_root, default_permissions, no_default_permissions;
	bool no_acls;
	bool remount;       /* change an existing mount */
	uint64_t given;     /* bits: the options of the table that the command line has set */
	bool kernels_words; /* words that stand in -o of a remount only */

	/* From the table (units: bytes, milliseconds). */
	int view;      /* enum kr_view_kind */
	char *job;     /* of view=job: its name */
	uint64_t size; /* of view=node and view=job; 0: no limit */
	char *local;   /* NULL: the default place; absolute */
	bool borrowed; /* journal and cache are at LENDER */
	struct kr_endpoint lender;
	char *lend, *listen; /* not a mount: lends this directory; where */
	char *key;
	bool munge;
	char *munge_socket;              /* NULL: munged's usual place */
	uint64_t munge_uid;              /* the server's user */
	int security;                    /* enum kr_security: the least that the user accepts */
	char *ring;                      /* the ring's name; NULL: the ring without a name */
	char *ring_port;                 /* NULL: the kernel's choice */
	struct kr_port_range ring_ports; /* ring_port, parsed */
	int transport;                   /* enum kr_transport: of file data on ring connections */
	uint64_t lanes;                  /* connections to one upstream at most */
	char *node;                      /* this node's name in ring order; NULL: the host name */
	int close;                       /* enum kr_close_mode */
	int coherence;                   /* enum kr_coherence */
	uint64_t journal_max, cache_max; /* 0: from the free space */
	uint64_t flush_age, flush_backlog;
	uint64_t stripe_size; /* for programs; 0: none */
	bool replay;          /* not an option: replays a journal without a mount */
	const char *head;     /* not an option: mounts what this head of a job serves ("node n1 (ADDR:PORT)"); NULL */
	bool ends_job;        /* not an option: the head's own mount; nothing unflushed is worth anything after it */
	uint64_t timeo, drain_timeout, connect_timeout;
	uint64_t threads;
	char *cpus;        /* NULL: as the parent */
	cpu_set_t cpu_set; /* cpus, parsed */
	char *metrics;     /* ADDR:PORT; NULL: none */
	bool soft, hard, nonempty, shared_mmap;
	bool over_dead; /* a dead mount is on the mount point, and goes just before this one comes */
	bool foreground, debug;
};

/* Whether the kernel checks permissions, and asks for ACLs to do so. */
static inline bool kr_mount_heeds_acls(const struct kr_mount_options *options)
{
	return options->default_permissions && !options->no_acls;
}

/* Fills RET_OPTIONS, zeroed before; call kr_mount_options_fini also after an error.  0; 1 when it has answered --help,
 * --version or --print-config; -EINVAL with the reason in kr_fail_reason. */
int kr_mount_options_parse(int argc, char **argv, struct kr_mount_options *ret_options);
void kr_mount_options_fini(struct kr_mount_options *options);

#endif
