/* What the command line of kairanfs says, checked.  Read-only after kr_mount_options_parse. */
#ifndef KR_FUSE_OPTIONS_H
#define KR_FUSE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct kr_mount_options {
	char *source;              /* as given: HOST[:PORT]:/[SUBDIR] */
	char *host, *subdir;       /* subdir without a leading '/', "" for the export itself */
	uint16_t port;
	char *mount_point;         /* absolute */
	char *local;               /* NULL: the default place */
	char *ring;                /* name of the ring (trust domain); NULL: the default one */
	char *node_name;           /* this node's name in ring order: host name unless node= */
	char *ring_listen;         /* address to listen on for peers; NULL: the control connection's own */
	char *fuse_options;        /* what libfuse and the kernel get, joined by commas; "" for none */
	bool foreground, debug, help, version;
	bool close_async;          /* close=async */
	bool relaxed;              /* coherence=relaxed */
	bool soft;
	bool read_only;
	bool non_empty;
	bool allow_other_set, default_permissions_off;
	uint32_t timeo_s;          /* for soft */
	uint32_t drain_timeout_s;
	uint64_t journal_max, cache_max; /* bytes; 0: from the free space */
	uint64_t flush_age_ms, flush_backlog;
	uint32_t threads;
};

/* Fills RET_OPTIONS (owned: kr_mount_options_fini). -EINVAL with the reason in kr_fail_reason. */
int kr_mount_options_parse(int argc, char **argv, struct kr_mount_options *ret_options);
void kr_mount_options_fini(struct kr_mount_options *options);
/* The options table as text, for --help. */
const char *kr_mount_options_help(void);
/* "16M", "2.5G", "4096", "1Ti": 0 or -EINVAL. */
int kr_parse_size(const char *text, uint64_t *ret_size);

#endif
