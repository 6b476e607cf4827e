/* kairan doctor: one mount of this machine.  Touches neither the mount nor its files: both may hang. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/auth/key.h"
#include "common/auth/munge.h"
#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "fuse/daemon/local_place.h"
#include "tools/base/client.h"
#include "tools/doctor/checks.h"
#include "tools/base/health.h"
#include "tools/base/units.h"

/* Less than the least journal_max, and with it a mount is of little use. */
enum { LEAST_FREE = 8 << 20, DAY_S = 86400, EXPIRES_SOON_S = 14 * DAY_S };

/* --- the local directory ---------------------------------------------------------------------- */

static void check_place(struct kr_findings *findings, const char *path, int fd)
{
	static const char *const advice = "name a directory on a local disk with -o local=DIR";
	char type[KR_PLACE_TYPE];

	switch (kr_place_of(fd, type)) {
	case KR_PLACE_MEMORY:
		kr_findings_add(findings, KR_FINDING_WARNING, "local directory", advice,
			"%s lies in memory (%s): what is not on the server yet is lost when this machine stops", path,
			type);
		break;
	case KR_PLACE_LAYER:
		kr_findings_add(findings, KR_FINDING_WARNING, "local directory",
			"give the container a directory of the host's disk for it, and name it with -o local=DIR",
			"%s lies on an overlay (a container's layer, often): what is not on the server yet is lost "
			"with it",
			path);
		break;
	case KR_PLACE_NETWORK:
	case KR_PLACE_KAIRAN:
		kr_findings_add(findings, KR_FINDING_PROBLEM, "local directory", advice,
			"%s lies on %s: journal and cache go over the network, and the mount hangs with that "
			"filesystem",
			path, type);
		break;
	case KR_PLACE_DISK:
		kr_findings_add(findings, KR_FINDING_OK, "local directory", NULL, "%s lies on %s", path,
			*type ? type : "a filesystem whose type the kernel does not tell");
	}
}

static void check_room(struct kr_findings *findings, const char *path, int fd, const json_t *status)
{
	json_int_t free_bytes, journal_room, cache_room;
	struct statvfs facts;

	if (fstatvfs(fd, &facts) < 0)
		return; /* the place has said so */
	free_bytes = (json_int_t)(facts.f_bavail * facts.f_frsize);
	journal_room = kr_number(status, "journal", "max") - kr_number(status, "journal", "used");
	cache_room = kr_number(status, "cache", "max_bytes") - kr_number(status, "cache", "bytes");
	if (free_bytes < LEAST_FREE)
		kr_findings_add(findings, KR_FINDING_PROBLEM, "room",
			"free space there, or name another disk with -o local=DIR",
			"%s are free below %s: writes wait for the server, and nothing is cached",
			kr_bytes_text(free_bytes), path);
	else if (free_bytes < journal_room)
		kr_findings_add(findings, KR_FINDING_WARNING, "room", "free space there, or lower journal_max",
			"%s are free below %s, and the journal may still grow by %s: before it reaches journal_max "
			"the disk is full, for all programs that use it",
			kr_bytes_text(free_bytes), path, kr_bytes_text(journal_room));
	else if (free_bytes < journal_room + cache_room)
		kr_findings_add(findings, KR_FINDING_WARNING, "room", "free space there, or lower cache_max",
			"%s are free below %s, and journal and cache may still grow by %s: they compete for the rest",
			kr_bytes_text(free_bytes), path, kr_bytes_text(journal_room + cache_room));
	else
		kr_findings_add(findings, KR_FINDING_OK, "room", NULL,
			"%s are free; journal and cache may still grow by %s", kr_bytes_text(free_bytes),
			kr_bytes_text(journal_room + cache_room));
}

static void check_local(struct kr_findings *findings, const json_t *status)
{
	const char *path = kr_text_of(status, "local");
	KR_AUTO_FD int fd = -1;

	if (json_object_get(status, "lender")) {
		kr_findings_add(findings, KR_FINDING_OK, "local directory", NULL, "%s is at node %s, and not looked at",
			path, kr_text_of(status, "lender"));
		return;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		kr_findings_add(findings, KR_FINDING_PROBLEM, "local directory",
			"bring it back and mount again; what its journal held is lost with it", "%s: %s", path,
			strerror(errno));
		return;
	}
	check_place(findings, path, fd);
	check_room(findings, path, fd, status);
}

/* --- credentials ------------------------------------------------------------------------------ */

static void check_key(struct kr_findings *findings, const char *path)
{
	char text[KR_KEY_DESCRIPTION], expires[KR_KEY_TIME];
	int64_t now = (int64_t)time(NULL);
	struct kr_key *key = NULL;

	if (kr_key_load(path, &key) < 0 || kr_key_check(key, now) < 0)
		kr_findings_add(findings, KR_FINDING_PROBLEM, "key",
			"put a good key in its place; the mount reads it again", "the mount cannot connect anew: %s",
			kr_fail_reason());
	else if (key->expires && key->expires - now < EXPIRES_SOON_S)
		kr_findings_add(findings, KR_FINDING_WARNING, "key",
			"make a new one with kairan key; kairand(8), KEYS, tells how keys change without downtime",
			"%s in %s expires at %s: all operations wait from then on", kr_key_describe(key, text), path,
			kr_key_time_format(key->expires, expires));
	else if (key->created == KR_KEY_OF_SECRET_CREATED)
		kr_findings_add(findings, KR_FINDING_OK, "key", NULL, "%s in %s, of this job alone",
			kr_key_describe(key, text), path);
	else
		kr_findings_add(findings, KR_FINDING_OK, "key", NULL, "%s in %s, %lld days old, expires: %s",
			kr_key_describe(key, text), path, (long long)KR_MAX((now - key->created) / DAY_S, 0),
			kr_key_time_format(key->expires, expires));
	kr_key_put(key);
}

static void check_munge(struct kr_findings *findings, const char *socket)
{
	static const uint8_t payload[KR_MUNGE_PAYLOAD];
	KR_AUTO_FREE char *credential = NULL;

	if (kr_munge_encode(socket && *socket ? socket : NULL, (uint32_t)geteuid(), payload, &credential) < 0)
		kr_findings_add(findings, KR_FINDING_PROBLEM, "munge", "start munged (systemctl start munge)",
			"nothing can connect anew: %s", kr_fail_reason());
	else
		kr_findings_add(findings, KR_FINDING_OK, "munge", NULL, "munged answers");
}

static void check_credentials(struct kr_findings *findings, const struct kr_tool_proof *proof)
{
	if (proof->key)
		check_key(findings, proof->key);
	else if (proof->munge)
		check_munge(findings, proof->munge_socket);
}

/* Whether the server takes the mount for a user's, which it keeps out of rings. */
static bool is_in_no_ring(const struct kr_tool_proof *proof)
{
	struct kr_key *key = NULL;
	bool users;

	if (!proof->key)
		return proof->munge && geteuid() != 0;
	users = kr_key_load(proof->key, &key) == 0 && key->owner.kind == KR_KEY_USER;
	kr_key_put(key);
	return users;
}

/* --- other mounts, other namespaces ----------------------------------------------------------- */

struct twins {
	const struct kr_mounted *mounted;
	char *path; /* of another mount of the same source, owned */
};

static void look_for_twin(const struct kr_mounted *mounted, void *context)
{
	struct twins *twins = context;
	bool same_device =
		mounted->dev_major == twins->mounted->dev_major && mounted->dev_minor == twins->mounted->dev_minor;

	if (!twins->path && !same_device && strcmp(mounted->source, twins->mounted->source) == 0)
		twins->path = kr_xstrdup(mounted->path);
}

static void check_twins(struct kr_findings *findings, const struct kr_mounted *mounted)
{
	struct twins twins = {.mounted = mounted};

	if (kr_mounted_for_each(look_for_twin, &twins) == 0 && twins.path)
		kr_findings_add(findings, KR_FINDING_WARNING, "other mounts",
			"mount it once, and bind-mount it where else it shall be seen (mount --bind)",
			"%s is mounted on %s, too: each mount is a node of its own, caches the same bytes, and waits "
			"for the other one's",
			mounted->source, twins.path);
	free(twins.path);
}

/* Whether the process's namespace has a copy of the mount that an unmount here does not take away: one that is no
 * slave of another mount, nor shares with one ("shared:N", "master:N"). */
static bool holds_copy(const char *pid, const struct kr_mounted *mounted)
{
	char path[300], device[32];
	char *line = NULL;
	size_t size = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/mountinfo", pid);
	snprintf(device, sizeof(device), " %u:%u ", mounted->dev_major, mounted->dev_minor);
	file = fopen(path, "re");
	while (file && !found && getline(&line, &size, file) > 0) {
		char *dash = strstr(line, " - ");

		if (dash)
			*dash = '\0';
		found = dash && strstr(line, device) && !strstr(line, " shared:") && !strstr(line, " master:");
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

static ino_t namespace_of(const char *pid)
{
	char path[300];
	struct stat facts;

	snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
	return stat(path, &facts) == 0 ? facts.st_ino : 0;
}

/* A process in another mount namespace that holds a copy, and its name; 0: none that this user may look at. */
static int find_copy(const struct kr_mounted *mounted, char *ret_name, size_t size)
{
	ino_t ours = namespace_of("self"), seen[64] = {0}, theirs;
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	size_t count = 0;
	int pid = 0;

	while (processes && !pid && (entry = readdir(processes))) {
		KR_AUTO_FREE char *comm = NULL;
		char path[300];
		size_t length, i = 0;

		theirs = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? namespace_of(entry->d_name) : 0;
		while (i < count && seen[i] != theirs)
			i++;
		if (!theirs || theirs == ours || i < count)
			continue;
		if (count < KR_ARRAY_SIZE(seen))
			seen[count++] = theirs;
		if (!holds_copy(entry->d_name, mounted))
			continue;
		pid = atoi(entry->d_name);
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (kr_read_file(AT_FDCWD, path, 64, &comm, &length) == 0)
			comm[strcspn(comm, "\n")] = '\0';
		snprintf(ret_name, size, "%s", comm ? comm : "?");
	}
	if (processes)
		closedir(processes);
	return pid;
}

static void check_copies(struct kr_findings *findings, const struct kr_mounted *mounted)
{
	char name[64];
	int pid = find_copy(mounted, name, sizeof(name));

	if (pid)
		kr_findings_add(findings, KR_FINDING_WARNING, "namespaces",
			"unmount it there as well (nsenter -t PID -m umount PATH), or with kairan umount here, which "
			"ends the daemon",
			"process %d (%s) is in another mount namespace with a copy of this mount: the daemon goes on "
			"after fusermount3 -u here",
			pid, name);
}

/* --- all -------------------------------------------------------------------------------------- */

static void check_ring_port(struct kr_findings *findings, const json_t *status)
{
	json_int_t port = kr_number(status, "ring", "port");

	if (!port)
		kr_findings_add(findings, KR_FINDING_WARNING, "ring port",
			"free a port of ring_port, or mount with others",
			"none: other nodes can pull nothing from here");
	else
		kr_findings_add(findings, KR_FINDING_OK, "ring port", NULL,
			"a firewall here must let other nodes connect to TCP port %" JSON_INTEGER_FORMAT
			"; kairan doctor on one of them sees whether it does",
			port);
}

static void check_health(struct kr_findings *findings, const struct kr_mounted *mounted, const json_t *status)
{
	if (kr_status_is_healthy(status))
		kr_findings_add(findings, KR_FINDING_OK, "daemon", NULL, "connected, nothing refused, late or damaged");
	else
		kr_findings_add(findings, KR_FINDING_PROBLEM, "daemon",
			"see what it says, and the table in docs/operations.md, When something breaks",
			"something waits, was refused or is damaged: kairan status %s", mounted->path);
}

/* A mount of view=node has no server. */
static void check_view(struct kr_findings *findings, const json_t *status)
{
	const char *path = kr_text_of(status, "local");
	json_int_t left = kr_number(status, "view", "size_bytes") - kr_number(status, "view", "used_bytes");
	KR_AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statvfs facts;

	kr_findings_add(findings, KR_FINDING_OK, "daemon", NULL, "it answers");
	if (fd < 0 || fstatvfs(fd, &facts) < 0)
		return; /* as another user than root */
	if ((json_int_t)(facts.f_bavail * facts.f_frsize) < left)
		kr_findings_add(findings, KR_FINDING_WARNING, "room", "free space there, or lower size",
			"%s are free below %s, and the view may still grow by %s: the disk is full before that",
			kr_bytes_text((json_int_t)(facts.f_bavail * facts.f_frsize)), path, kr_bytes_text(left));
}

/* The server's part of HOST[:PORT]:/[SUBDIR], as from here with the mount's own credentials. */
static void check_server(struct kr_findings *findings, const struct kr_mounted *mounted, const json_t *status,
	const struct kr_tool_proof *proof)
{
	const char *path = strstr(mounted->source, ":/");
	KR_AUTO_FREE char *host = path ? strndup(mounted->source, (size_t)(path - mounted->source)) : NULL;

	if (host)
		kr_doctor_server(findings, host, proof, kr_text_of(status, "node_name"));
}

void kr_doctor_mount(struct kr_findings *findings, const struct kr_mounted *mounted)
{
	struct kr_tool_proof proof = {0};
	const json_t *own;
	json_t *status;
	int err;

	kr_findings_begin(findings, mounted->path);
	err = kr_ask_mount(mounted, "status", "", &status);
	if (err == -EACCES || err == -EPERM) {
		kr_findings_add(findings, KR_FINDING_WARNING, "daemon", "run kairan doctor as that user, or as root",
			"not looked at: %s", kr_fail_reason());
		return;
	}
	if (err < 0) {
		kr_findings_add(
			findings, KR_FINDING_PROBLEM, "daemon", "do what the message says", "%s", kr_fail_reason());
		return;
	}
	if (json_object_get(status, "user") && !json_object_get(status, "view")) {
		kr_findings_add(findings, KR_FINDING_WARNING, "daemon", "run kairan doctor as that user, or as root",
			"not looked at but for the mount itself: only root and who has mounted it may know its local "
			"directory and its key");
		check_ring_port(findings, status);
		check_twins(findings, mounted);
		json_decref(status);
		return;
	}
	own = json_object_get(status, "proof");
	proof.key = *kr_text_of(own, "key") ? kr_text_of(own, "key") : NULL;
	proof.munge = json_is_true(json_object_get(own, "munge"));
	proof.munge_socket = *kr_text_of(own, "munge_socket") ? kr_text_of(own, "munge_socket") : NULL;
	proof.munge_uid = (uint32_t)json_integer_value(json_object_get(own, "munge_uid"));
	if (json_object_get(status, "view")) {
		check_view(findings, status);
		kr_doctor_cpus(findings, status);
		json_decref(status);
		return;
	}
	check_health(findings, mounted, status);
	check_local(findings, status);
	check_credentials(findings, &proof);
	if (!is_in_no_ring(&proof))
		check_ring_port(findings, status);
	check_twins(findings, mounted);
	check_copies(findings, mounted);
	kr_doctor_cpus(findings, status);
	check_server(findings, mounted, status, &proof);
	json_decref(status);
}
