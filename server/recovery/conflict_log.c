/* See conflict_log.h. */
#include "server/recovery/conflict_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "server/base/line_log.h"

static const char log_name[] = "conflicts";
enum { HEX_MAX = 2 * KR_FID_MAX + 1 };

static uint64_t hash(const uint8_t node_id[16], const struct kr_fid *file)
{
	return kr_hash_bytes(file->bytes, file->length) ^ kr_hash_bytes(node_id, 16);
}

static struct kr_conflict *find(
	const struct kr_conflicts *conflicts, const uint8_t node_id[16], const struct kr_fid *file)
{
	return KR_TABLE_FIND(struct kr_conflict, conflict, &conflicts->table, hash(node_id, file), link,
		memcmp(conflict->node_id, node_id, 16) == 0 && kr_fid_equal(&conflict->file, file));
}

/* For kr_conflicts_is_new. */
static bool is_kept_as_made(const struct kr_conflict *conflict)
{
	return !conflict->over && conflict->target.length && conflict->made.sec;
}

/* --- one -------------------------------------------------------------------------------------- */

struct kr_conflict *kr_conflict_new(const uint8_t node_id[16], const struct kr_key_owner *key, const char *node,
	const struct kr_fid *file, uint64_t first, uint64_t last)
{
	struct kr_conflict *conflict = kr_xcalloc(1, sizeof(*conflict));

	memcpy(conflict->node_id, node_id, 16);
	if (key && key->kind == KR_KEY_USER)
		conflict->key = *key;
	conflict->node = kr_xstrdup(node);
	conflict->file = *file;
	conflict->first = first;
	conflict->last = last;
	conflict->time = kr_clock_real_s();
	return conflict;
}

struct kr_conflict *kr_conflict_copy(const struct kr_conflict *conflict)
{
	struct kr_conflict *copy = kr_conflict_new(
		conflict->node_id, &conflict->key, conflict->node, &conflict->file, conflict->first, conflict->last);

	copy->time = conflict->time;
	copy->target = conflict->target;
	copy->made = conflict->made;
	copy->original = conflict->original ? kr_xstrdup(conflict->original) : NULL;
	copy->place = conflict->place ? kr_xstrdup(conflict->place) : NULL;
	return copy;
}

void kr_conflict_free(struct kr_conflict *conflict)
{
	if (!conflict)
		return;
	free(conflict->node);
	free(conflict->original);
	free(conflict->place);
	free(conflict);
}

/* --- the log ---------------------------------------------------------------------------------- */

static size_t take_hex(const json_t *value, uint8_t *bytes, size_t max)
{
	const char *hex = json_string_value(value);

	return hex ? kr_hex_parse(hex, bytes, max) : 0;
}

static void set_text(json_t *object, const char *name, const char *text)
{
	if (text)
		json_object_set_new(object, name, kr_text_json(text));
}

static void add_line(struct kr_writer *lines, const struct kr_conflict *conflict)
{
	char hex[HEX_MAX];
	json_t *object = json_object();
	char *text;

	set_text(object, "node_id", kr_hex_format(conflict->node_id, 16, hex));
	set_text(object, "node", conflict->node);
	if (conflict->key.kind == KR_KEY_USER)
		json_object_set_new(object, "uid", json_integer(conflict->key.uid));
	set_text(object, "file", kr_hex_format(conflict->file.bytes, conflict->file.length, hex));
	json_object_set_new(object, "first", json_integer((json_int_t)conflict->first));
	json_object_set_new(object, "last", json_integer((json_int_t)conflict->last));
	json_object_set_new(object, "time", json_integer(conflict->time));
	if (conflict->target.length)
		set_text(object, "target", kr_hex_format(conflict->target.bytes, conflict->target.length, hex));
	if (conflict->made.sec)
		json_object_set_new(object, "made",
			json_pack("[I,I]", (json_int_t)conflict->made.sec, (json_int_t)conflict->made.nsec));
	set_text(object, "original", conflict->original);
	set_text(object, "place", conflict->place);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (text)
		kr_line_log_add(lines, "%s", text);
	lines->failed |= !text;
	free(text);
}

/* NULL: not a record. */
static struct kr_conflict *from_line(const char *line)
{
	json_t *object = json_loads(line, 0, NULL);
	const char *node = json_string_value(json_object_get(object, "node"));
	const char *original = json_string_value(json_object_get(object, "original"));
	const char *place = json_string_value(json_object_get(object, "place"));
	json_int_t first = json_integer_value(json_object_get(object, "first")); /* 0: before they were kept, all */
	json_int_t last = json_integer_value(json_object_get(object, "last"));
	json_int_t made_sec, made_nsec;
	const json_t *uid = json_object_get(object, "uid");
	const struct kr_key_owner key = {.kind = KR_KEY_USER, .uid = (uint32_t)json_integer_value(uid)};
	struct kr_conflict *conflict = NULL;
	uint8_t node_id[16];
	struct kr_fid file;

	file.length = (uint8_t)take_hex(json_object_get(object, "file"), file.bytes, KR_FID_MAX);
	if (file.length && last > 0 && first >= 0 && take_hex(json_object_get(object, "node_id"), node_id, 16) == 16) {
		conflict = kr_conflict_new(
			node_id, uid ? &key : NULL, node ? node : "?", &file, (uint64_t)first, (uint64_t)last);
		conflict->time = json_integer_value(json_object_get(object, "time"));
		conflict->target.length =
			(uint8_t)take_hex(json_object_get(object, "target"), conflict->target.bytes, KR_FID_MAX);
		if (json_unpack(json_object_get(object, "made"), "[I,I]", &made_sec, &made_nsec) == 0)
			conflict->made = (struct kr_time){.sec = made_sec, .nsec = (uint32_t)made_nsec};
		conflict->original = original ? kr_xstrdup(original) : NULL;
		conflict->place = place ? kr_xstrdup(place) : NULL;
	}
	json_decref(object);
	return conflict;
}

static void read_line(void *conflicts, char *line)
{
	struct kr_conflict *conflict = from_line(line);

	if (conflict)
		kr_conflicts_put(conflicts, conflict);
}

/* Writes a new log of the conflicts that count. */
static int rewrite(const struct kr_conflicts *conflicts, int dir)
{
	const struct kr_conflict *conflict;
	struct kr_writer lines = {0};
	int err;

	KR_LIST_FOR_EACH(conflict, &conflicts->order, order)
		add_line(&lines, conflict);
	err = kr_line_log_write(&lines, dir, log_name);
	kr_writer_fini(&lines);
	return err;
}

int kr_conflicts_open(struct kr_conflicts *conflicts, int dir)
{
	int err;

	*conflicts = (struct kr_conflicts){.dir = dir, .fd = -1};
	pthread_mutex_init(&conflicts->lock, NULL);
	kr_list_init(&conflicts->owners);
	kr_table_init(&conflicts->table);
	kr_table_init(&conflicts->made);
	kr_list_init(&conflicts->order);
	err = kr_line_log_read(dir, log_name, read_line, conflicts, NULL);
	if (err)
		return err;
	err = rewrite(conflicts, dir);
	if (err)
		return kr_fail_errno(err, "cannot write %s of the state directory", log_name);
	conflicts->counted = conflicts->count;
	conflicts->fd = openat(dir, log_name, O_WRONLY | O_APPEND | O_CLOEXEC);
	return conflicts->fd < 0 ? kr_fail_errno(-errno, "cannot open %s of the state directory", log_name) : 0;
}

/* The log has all conflicts that nodes have heard of.  So the server reads it, and writes those that count as the new
 * log. */
static void shorten_log(struct kr_conflicts *conflicts)
{
	struct kr_conflicts fresh;
	int fd = conflicts->fd;

	if (kr_conflicts_open(&fresh, conflicts->dir)) {
		kr_log_error("%s", kr_fail_reason());
	} else {
		conflicts->fd = fresh.fd;
		fresh.fd = fd;
		conflicts->counted = fresh.count;
	}
	conflicts->lines = 0; /* if that failed it is tried again after as many lines */
	kr_conflicts_close(&fresh);
}

int kr_conflicts_log(struct kr_conflicts *conflicts, const struct kr_conflict *conflict)
{
	struct kr_writer lines = {0};
	int err;

	add_line(&lines, conflict);
	KR_SCOPED_LOCK(&conflicts->lock);
	if (++conflicts->lines > conflicts->counted + KR_CONFLICTS_SPARE)
		shorten_log(conflicts);
	err = kr_line_log_append(&lines, conflicts->fd);
	kr_writer_fini(&lines);
	return err ? kr_fail_errno(err, "cannot record a conflict in the state directory") : 0;
}

/* --- the table -------------------------------------------------------------------------------- */

static struct kr_conflict_owner *owner_of(struct kr_conflicts *conflicts, const struct kr_key_owner *key)
{
	struct kr_conflict_owner *owner;

	KR_LIST_FOR_EACH(owner, &conflicts->owners, link) {
		if (kr_key_owner_equal(&owner->key, key))
			return owner;
	}
	owner = kr_xcalloc(1, sizeof(*owner));
	owner->key = *key;
	kr_list_append(&conflicts->owners, &owner->link);
	return owner;
}

static void leave_owner(struct kr_conflict_owner *owner)
{
	if (--owner->count)
		return;
	kr_list_remove(&owner->link);
	free(owner);
}

static void drop(struct kr_conflicts *conflicts, struct kr_conflict *conflict)
{
	leave_owner(conflict->owner);
	if (is_kept_as_made(conflict))
		kr_table_remove(&conflicts->made, &conflict->made_link);
	if (!conflict->over)
		kr_table_remove(&conflicts->table, &conflict->link);
	kr_list_remove(&conflict->order);
	conflicts->count--;
	kr_conflict_free(conflict);
}

/* Drops the oldest conflict of the owner that has the most. */
static void drop_one(struct kr_conflicts *conflicts)
{
	const struct kr_conflict_owner *owner, *greatest = NULL;
	struct kr_conflict *conflict;

	KR_LIST_FOR_EACH(owner, &conflicts->owners, link) {
		if (!greatest || owner->count > greatest->count)
			greatest = owner;
	}
	KR_LIST_FOR_EACH(conflict, &conflicts->order, order) {
		if (conflict->owner == greatest) {
			drop(conflicts, conflict);
			return;
		}
	}
}

void kr_conflicts_close(struct kr_conflicts *conflicts)
{
	if (!conflicts->order.head.next) /* never opened */
		return;
	while (!kr_list_empty(&conflicts->order))
		drop(conflicts, KR_LIST_ENTRY(conflicts->order.head.next, struct kr_conflict, order));
	kr_table_fini(&conflicts->table);
	kr_table_fini(&conflicts->made);
	if (conflicts->fd >= 0)
		close(conflicts->fd);
	conflicts->fd = -1;
	pthread_mutex_destroy(&conflicts->lock);
}

struct kr_conflict *kr_conflicts_find(const struct kr_conflicts *conflicts, const uint8_t node_id[16],
	const struct kr_fid *file, uint64_t first, uint64_t last)
{
	struct kr_conflict *conflict = kr_conflicts_present(conflicts, node_id, file, first);

	return conflict && last >= conflict->first ? conflict : NULL;
}

struct kr_conflict *kr_conflicts_present(
	const struct kr_conflicts *conflicts, const uint8_t node_id[16], const struct kr_fid *file, uint64_t first)
{
	struct kr_conflict *conflict = find(conflicts, node_id, file);

	return conflict && first <= conflict->last ? conflict : NULL;
}

bool kr_conflicts_is_new(const struct kr_conflicts *conflicts, const uint8_t node_id[16], const struct kr_fid *file,
	struct kr_time ctime)
{
	const struct kr_conflict *conflict;

	KR_TABLE_FOR_EACH_OF(conflict, &conflicts->made, hash(node_id, file), made_link)
		if (memcmp(conflict->node_id, node_id, 16) == 0 && kr_fid_equal(&conflict->target, file))
			return kr_time_compare(conflict->made, ctime) == 0;
	return false;
}

void kr_conflicts_put(struct kr_conflicts *conflicts, struct kr_conflict *conflict)
{
	struct kr_conflict *old = find(conflicts, conflict->node_id, &conflict->file);

	if (old && old->target.length && !kr_fid_equal(&old->target, &conflict->target)) {
		if (is_kept_as_made(old))
			kr_table_remove(&conflicts->made, &old->made_link);
		kr_table_remove(&conflicts->table, &old->link);
		old->over = true;
	} else if (old) {
		drop(conflicts, old);
	}
	if (conflicts->count >= KR_CONFLICTS_MAX)
		drop_one(conflicts);
	conflict->owner = owner_of(conflicts, &conflict->key);
	conflict->owner->count++;
	kr_table_insert(&conflicts->table, &conflict->link, hash(conflict->node_id, &conflict->file));
	if (is_kept_as_made(conflict))
		kr_table_insert(&conflicts->made, &conflict->made_link, hash(conflict->node_id, &conflict->target));
	kr_list_append(&conflicts->order, &conflict->order);
	conflicts->count++;
}

size_t kr_conflicts_files(const struct kr_conflicts *conflicts)
{
	const struct kr_conflict *conflict;
	size_t files = 0;

	KR_LIST_FOR_EACH(conflict, &conflicts->order, order)
		files += conflict->target.length != 0;
	return files;
}

static size_t count_of(const struct kr_conflicts *conflicts, const struct kr_key_owner *key)
{
	const struct kr_conflict_owner *owner;

	KR_LIST_FOR_EACH(owner, &conflicts->owners, link) {
		if (kr_key_owner_equal(&owner->key, key))
			return owner->count;
	}
	return 0;
}

json_t *kr_conflicts_status(const struct kr_conflicts *conflicts, const struct kr_key_owner *owner)
{
	const size_t count = owner ? count_of(conflicts, owner) : conflicts->count;
	size_t skip = count > KR_CONFLICTS_SHOWN ? count - KR_CONFLICTS_SHOWN : 0;
	const struct kr_conflict *conflict;
	json_t *list = json_array();

	KR_LIST_FOR_EACH(conflict, &conflicts->order, order) {
		json_t *object;

		if ((owner && !kr_key_owner_equal(&conflict->key, owner)) || (skip && skip--))
			continue;
		object = json_object();
		set_text(object, "node", conflict->node);
		set_text(object, "path", conflict->original ? conflict->original : "?");
		set_text(object, "conflict_file", conflict->place ? conflict->place : "");
		json_object_set_new(object, "time", json_integer(conflict->time));
		json_array_append_new(list, object);
	}
	return list;
}
