/* kairand's options. */
#ifndef KR_SERVER_OPTIONS_H
#define KR_SERVER_OPTIONS_H

#include "common/config/options.h"

enum kr_squash { KR_SQUASH_NONE, KR_SQUASH_ROOT, KR_SQUASH_ALL };

struct kr_server_options {
	struct kr_strings listen; /* ADDR[:PORT]; none: every address, or, where no --key, --munge or --insecure says
				     who may, loopback, at the default port */
	struct kr_strings key;
	struct kr_strings allow;     /* networks; none: everybody */
	char *state;                 /* NULL: see state.h */
	int security;                /* enum kr_security */
	int squash;                  /* enum kr_squash */
	uint64_t anon_uid, anon_gid; /* whom squash makes of others */
	bool munge;
	char *munge_socket; /* NULL: where munged usually has it */
	bool read_only, insecure, verbose;
	int watch;              /* enum kr_watch_mode */
	uint64_t lease;         /* milliseconds */
	uint64_t user_sessions; /* of one user, from one address */
	bool give_up; /* not of the table: the process is kairand, and gives up the privileges that it does not need */
	const char *export_path; /* the argument; borrowed */
};

extern const struct kr_options kr_server_options_set;

/* What the table cannot say: exactly one export, nothing that is not built yet. 0 or -EINVAL with a reason. */
int kr_server_options_check(struct kr_server_options *options, const struct kr_arguments *arguments);

#endif
