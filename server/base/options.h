/* kairand's options. */
#ifndef KR_SERVER_OPTIONS_H
#define KR_SERVER_OPTIONS_H

#include "common/config/options.h"

enum kr_commit_mode { KR_COMMIT_SHARE, KR_COMMIT_NEVER };
enum kr_watch_mode { KR_WATCH_AUTO, KR_WATCH_SWEEP, KR_WATCH_NONE };
enum kr_squash { KR_SQUASH_NONE, KR_SQUASH_ROOT, KR_SQUASH_ALL };

struct kr_server_options {
	/* ADDR[:PORT]. Default: all addresses; loopback only without --key, --munge and --insecure */
	struct kr_strings listen;
	struct kr_strings key;
	struct kr_strings allow;     /* networks; none: all */
	char *state;                 /* NULL: see state.h */
	int security;                /* enum kr_security */
	int transport;               /* enum kr_transport */
	int squash;                  /* enum kr_squash */
	uint64_t anon_uid, anon_gid; /* the anonymous user */
	bool munge;
	char *munge_socket; /* NULL: munged's default */
	int commit;         /* enum kr_commit_mode */
	bool read_only, insecure, verbose;
	bool gateway, localflock;
	int watch;               /* enum kr_watch_mode */
	uint64_t lease;          /* milliseconds */
	uint64_t user_sessions;  /* of one user, from one address */
	bool give_up;            /* not in the table: give up privileges that kairand does not need */
	char *metrics;           /* ADDR:PORT; NULL: none */
	const char *export_path; /* the argument; borrowed */
};

extern const struct kr_options kr_server_options_set;

/* Checks beyond the table: exactly one export, no contradictions. 0 or -EINVAL with a reason. */
int kr_server_options_check(struct kr_server_options *options, const struct kr_arguments *arguments);

/* Whether HOST (a numeric address, perhaps with a %zone) is in one of NETWORKS (--allow). No networks: always. */
bool kr_server_allows(const struct kr_strings *networks, const char *host);

#endif
