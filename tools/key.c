/* `kairan key FILE`: makes a key, of a node or of one user, or shows one without its secret. */

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/auth/key.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/commands.h"

#define DAY_S INT64_C(86400)

static const char usage[] =
	"usage: kairan key [--user NAME] [--expires DAYS|TIME] FILE\n"
	"       kairan key --show FILE\n"
	"Makes a key and writes it to FILE, which only you can read. Give the same file to kairand (--key FILE) and "
	"to the mounts\n"
	"that shall use it (-o key=FILE).\n"
	"  --user NAME      a key that can act as this user only (NAME or number; without: a key of a node, which "
	"can act as anybody)\n"
	"  --expires WHEN   in so many days, or at a time as 2027-01-31T00:00:00Z (without: never)\n"
	"  --show           say whose key FILE is, without its secret\n"
	"Nothing is overwritten. Exit code: 0; 1 with a message; 64 wrong arguments.\n";

struct request {
	const char *user, *expires, *path;
	bool show;
};

/* The server's numbers count: a name is looked up on this machine, a number is taken as it is. */
static int find_owner(const char *user, struct kr_key_owner *ret_owner)
{
	const struct passwd *entry;
	uint64_t uid;

	*ret_owner = (struct kr_key_owner){.kind = user ? KR_KEY_USER : KR_KEY_NODE};
	if (!user)
		return 0;
	if (kr_parse_number(user, 0, UINT32_MAX - 1, &uid)) {
		ret_owner->uid = (uint32_t)uid;
		return 0;
	}
	errno = 0;
	entry = getpwnam(user);
	if (!entry)
		return kr_fail(-EINVAL,
			"--user %s: no such user on this machine (give the number of the user, or make the key "
			"elsewhere)",
			user);
	ret_owner->uid = entry->pw_uid;
	return 0;
}

static int find_expiry(const char *text, int64_t now, int64_t *ret_expires)
{
	uint64_t days;

	*ret_expires = 0;
	if (!text || kr_key_time_parse(text, ret_expires))
		return 0;
	if (!kr_parse_number(text, 1, 365 * 1000, &days))
		return kr_fail(-EINVAL,
			"--expires %s: not a number of days, nor a time (as 2027-01-31T00:00:00Z, in UTC)", text);
	*ret_expires = now + (int64_t)days * DAY_S;
	return 0;
}

static void describe(const struct kr_key *key, const char *path)
{
	char description[KR_KEY_DESCRIPTION], created[KR_KEY_TIME], expires[KR_KEY_TIME];

	printf("%s: %s, made %s, expires %s\n", path, kr_key_describe(key, description),
		kr_key_time_format(key->created, created), kr_key_time_format(key->expires, expires));
}

static int make(const struct request *request)
{
	int64_t now = kr_clock_real_s(), expires;
	struct kr_key_owner owner;
	struct kr_key *key;
	int err = find_owner(request->user, &owner);

	if (!err)
		err = find_expiry(request->expires, now, &expires);
	if (!err)
		err = kr_key_new(&owner, request->user ? request->user : "", now, expires, &key);
	if (err)
		return err;
	err = kr_key_save(key, request->path);
	if (!err) {
		describe(key, request->path);
		puts(owner.kind == KR_KEY_NODE ?
				"Who can read this file can act as any user on the export: copy it by a safe way "
				"(scp)." :
				"Who can read this file can act as this user on the export: copy it by a safe way "
				"(scp).");
	}
	kr_key_put(key);
	return err;
}

static int show(const char *path)
{
	struct kr_key *key;
	int err = kr_key_load(path, &key);

	if (err)
		return err;
	describe(key, path);
	kr_key_put(key);
	return 0;
}

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {
		{"user", required_argument, NULL, 'u'},
		{"expires", required_argument, NULL, 'e'},
		{"show", no_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	optind = 1;
	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
		if (option == 's')
			request->show = true;
		else
			*(option == 'u' ? &request->user : &request->expires) = optarg;
	}
	if (optind + 1 != argc || (request->show && (request->user || request->expires)))
		return kr_tool_usage(usage, false);
	request->path = argv[optind];
	return -1;
}

int kr_tool_key(int argc, char **argv)
{
	struct request request = {0};
	int code = parse_arguments(argc, argv, &request);

	if (code >= 0)
		return code;
	if (request.show ? show(request.path) : make(&request)) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
