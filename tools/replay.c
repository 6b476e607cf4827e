/* See replay.h.  The mount's own code does the work (kr_serve_replay): recovery, RECLAIM, flushes, conflict files. */
#include "tools/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/units.h"

#ifdef KR_REPLAY
#include "fuse/base/local_dir.h"
#include "fuse/base/options.h"
#include "fuse/daemon/serve.h"

enum { IDENTITY_MAX = 8192 };

/* --- the report --- */

static const json_t *find_fid(const json_t *list, const char *fid)
{
	const json_t *each;
	size_t i;

	json_array_foreach(list, i, each)
	{
		if (strcmp(kr_text_of(each, "fid"), fid) == 0)
			return each;
	}
	return NULL;
}

static void print_file(const json_t *file, const json_t *after)
{
	const char *path = kr_text_of(file, "path"), *fid = kr_text_of(file, "fid");
	const json_t *left = find_fid(json_object_get(after, "files"), fid);
	const json_t *conflict = find_fid(json_object_get(after, "conflicts"), fid);
	json_int_t bytes = kr_number(file, NULL, "dirty") + kr_number(file, NULL, "unstable");

	printf("%s: ", *path ? path : fid);
	if (left)
		printf("%s NOT on the server%s%s\n",
			kr_bytes_text(kr_number(left, NULL, "dirty") + kr_number(left, NULL, "unstable")),
			*kr_text_of(left, "error") ? ": " : "", kr_text_of(left, "error"));
	else if (conflict)
		printf("others have changed or removed it since: %s are in %s\n",
			kr_bytes_text(kr_number(conflict, NULL, "bytes")), kr_text_of(conflict, "conflict_file"));
	else
		printf("%s applied in place\n", kr_bytes_text(bytes));
}

static void print_all(const json_t *before, const json_t *after)
{
	const json_t *each;
	size_t i;

	json_array_foreach(json_object_get(before, "files"), i, each) print_file(each, after);
	/* Conflict files that this replay began, and that are not on the server. */
	json_array_foreach(json_object_get(after, "files"), i, each)
	{
		if (!find_fid(json_object_get(before, "files"), kr_text_of(each, "fid")))
			print_file(each, after);
	}
	json_array_foreach(json_object_get(after, "damage"), i, each)
		printf("DAMAGED: %s\n", json_string_value(each) ? json_string_value(each) : "");
	if (json_array_size(json_object_get(before, "files")) == 0)
		printf("nothing is left in this journal\n");
}

static void print_printable(const json_t *before, const json_t *after)
{
	json_t *printable_before = kr_printable(before), *printable_after = kr_printable(after);

	print_all(printable_before, printable_after);
	json_decref(printable_before);
	json_decref(printable_after);
}

/* --- the owner of the journal --- */

struct owner {
	char *directory, *subdir, *node;
};

static void fini_owner(struct owner *owner)
{
	free(owner->directory);
	free(owner->subdir);
	free(owner->node);
}

/* The local directory of DIRECTORY, which is that or the journal in it; the local directory contains `identity`. */
static int find_directory(const char *directory, char **ret_directory)
{
	KR_AUTO_FREE char *real = realpath(directory, NULL), *identity = NULL;
	char *slash = real ? strrchr(real, '/') : NULL;

	if (!real)
		return kr_fail_errno(-errno, "%s", directory);
	if (slash && strcmp(slash, "/journal") == 0)
		*slash = '\0';
	if (asprintf(&identity, "%s/identity", real) < 0)
		return -ENOMEM;
	if (access(identity, F_OK) < 0)
		return kr_fail(
			-ENOENT, "%s is not the local directory of a mount: there is no %s", directory, identity);
	*ret_directory = kr_xstrdup(real);
	return 0;
}

static int read_owner(const char *directory, struct owner *ret_owner)
{
	KR_AUTO_FREE char *path = NULL, *text = NULL;
	const char *source, *below;
	json_t *identity;
	size_t length;
	int err = find_directory(directory, &ret_owner->directory);

	if (err)
		return err;
	if (asprintf(&path, "%s/identity", ret_owner->directory) < 0)
		return -ENOMEM;
	err = kr_read_file(AT_FDCWD, path, IDENTITY_MAX, &text, &length);
	if (err)
		return kr_fail_errno(err, "cannot read %s", path);
	identity = json_loads(text, 0, NULL);
	source = kr_text_of(identity, "source");
	below = strstr(source, ":/");
	ret_owner->subdir = kr_xstrdup(below ? below + 2 : "");
	ret_owner->node = *kr_text_of(identity, "node") ? kr_xstrdup(kr_text_of(identity, "node")) : NULL;
	json_decref(identity);
	return 0;
}

struct words {
	char *word[24];
	int count;
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
	char *word;
	va_list list;

	va_start(list, format);
	if (vasprintf(&word, format, list) < 0)
		abort();
	va_end(list);
	words->word[words->count++] = word; /* the array has room for all of make_options */
}

static void add_option(struct words *words, const char *name, const char *value)
{
	if (value) {
		add(words, "--%s", name);
		add(words, "%s", value);
	}
}

/* The options of the former mount, except the server. */
static int make_options(const struct kr_replay *replay, const struct owner *owner, struct kr_mount_options *ret_options)
{
	const struct kr_tool_proof *proof = &replay->proof;
	struct words words = {0};
	int err;

	add(&words, "kairan");
	add(&words, "%s:/%s", replay->server, owner->subdir);
	add(&words, "/");
	add_option(&words, "local", owner->directory);
	add(&words, "--drain_timeout");
	add(&words, "%lums", replay->timeout_ms ? replay->timeout_ms : KR_REPLAY_MAX_S * 1000UL);
	add_option(&words, "node", owner->node);
	/* Section "mount" of /etc/kairan/kairan.json holds, except for options given here; key and munge are one
	 * choice. */
	if (proof->key)
		add(&words, "--no-munge");
	add_option(&words, "key", proof->munge ? "" : proof->key);
	if (proof->munge)
		add(&words, "--munge");
	add_option(&words, "munge_socket", proof->munge_socket);
	if (proof->munge_uid) {
		add(&words, "--munge_uid");
		add(&words, "%u", proof->munge_uid);
	}
	add_option(&words, "security", replay->security);
	optind = 1;
	err = kr_mount_options_parse(words.count, words.word, ret_options);
	ret_options->replay = true;
	ret_options->ring_ports =
		(struct kr_port_range){0}; /* no node pulls from here, and a mount may want these ports */
	while (words.count > 0)
		free(words.word[--words.count]);
	return err;
}

static int run(const struct kr_mount_options *options)
{
	json_t *before = NULL, *after = NULL;
	struct kr_local *local;
	int result = kr_local_open(options, &local);

	if (result)
		return result;
	result = kr_serve_replay(options, local, &before, &after);
	if (result >= 0) {
		print_printable(before, after);
		if (json_array_size(json_object_get(after, "damage")))
			result = 1;
	}
	json_decref(before);
	json_decref(after);
	kr_local_free(local);
	return result;
}

int kr_replay(const struct kr_replay *replay)
{
	struct kr_mount_options options = {0};
	struct owner owner = {0};
	int result = read_owner(replay->directory, &owner);

	kr_log_init("kairan", KR_LOG_WARNING);
	if (!result)
		result = make_options(replay, &owner, &options);
	if (!result)
		result = run(&options);
	kr_mount_options_fini(&options);
	fini_owner(&owner);
	if (result < 0)
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
	return result < 0 ? 2 : result;
}
#else
int kr_replay(const struct kr_replay *replay)
{
	fprintf(stderr, "kairan: %s cannot be replayed: this program was built without libfuse3\n", replay->directory);
	return 2;
}
#endif
